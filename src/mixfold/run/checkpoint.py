"""Keeping a fit on disk while it runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from mixfold.core.errors import InvalidInputError, ModelFileError
from mixfold.core.value import equal, value
from mixfold.run.files import write
from mixfold.run.fit import Fit
from mixfold.run.reading import read


@value
class Saved:
    """A fit and what it is a fit of."""

    identity: Any
    fit: Fit


class Checkpoint:
    """Writes a fit at most every `seconds`; `identity` guards against resuming another.

    It is a list that begins with the model and the learner.
    """

    def __init__(self, path: str | Path, identity: Any, seconds: float) -> None:
        self.path, self.identity, self.seconds = Path(path), identity, seconds
        self._last = time.monotonic()

    def keep(self, fit: Fit) -> None:
        """Write if it is time, if the fit is done, or if the next pass overwrites a file."""
        turned = fit.row == 0 and getattr(fit.state, "on_file", False)
        if fit.done or turned or time.monotonic() - self._last >= self.seconds:
            self.write(fit)

    def write(self, fit: Fit) -> None:
        """Write now."""
        write(self.path, "checkpoint", Saved(self.identity, fit))
        self._last = time.monotonic()

    def read(self) -> Fit | None:
        """The fit to go on with, or None if there is no file yet."""
        if not self.path.exists():
            return None
        saved = read(self.path, "checkpoint")
        if not isinstance(saved, Saved) or not isinstance(saved.fit, Fit):
            raise ModelFileError(f"{self.path} is damaged: it holds no fit")
        if not equal(_plain(saved.identity), _plain(self.identity)):
            raise ModelFileError(
                f"{self.path} is the checkpoint of another fit: resume with the same data, family, "
                "learner, n_components and seed, or remove the file"
            )
        model, learner = self.identity[:2]
        try:
            saved.fit.check(learner, model)
        except InvalidInputError as error:
            raise ModelFileError(f"{self.path} is damaged: {error}") from None
        return saved.fit


def _plain(thing: Any) -> Any:
    return [_plain(item) for item in thing] if isinstance(thing, list | tuple) else thing
