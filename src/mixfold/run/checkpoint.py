"""Keeping a fit on disk while it runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from mixfold.core.errors import ModelFileError
from mixfold.core.value import value
from mixfold.run.files import read, write
from mixfold.run.fit import Fit
from mixfold.run.identity import Identity, check_same, stored


@value
class Saved:
    """A fit and what it is a fit of."""

    identity: Any
    fit: Fit


class Checkpoint:
    """Writes a fit at most every `seconds`; `identity` guards against resuming another.

    With `force` it may be resumed with other data of the same shape.
    """

    def __init__(
        self, path: str | Path, identity: Identity, seconds: float, force: bool = False
    ) -> None:
        self.path, self.identity, self.seconds = Path(path), identity, seconds
        self.force = force
        self._last = time.monotonic()

    def keep(self, fit: Fit) -> None:
        """Write if it is time, if the fit is done, or if the next pass overwrites a file."""
        turned = fit.row == 0 and getattr(fit.state, "on_file", False)
        if fit.done or turned or time.monotonic() - self._last >= self.seconds:
            self.write(fit)

    def write(self, fit: Fit) -> None:
        """Write now."""
        write(self.path, "checkpoint", Saved(stored(self.identity), fit))
        self._last = time.monotonic()

    def read(self) -> Fit | None:
        """The fit to go on with, or None if there is no file yet."""
        if not self.path.exists():
            return None
        saved = read(self.path, "checkpoint")
        if not isinstance(saved, Saved) or not isinstance(saved.fit, Fit):
            raise ModelFileError(f"{self.path} is damaged: it holds no fit")
        check_same(self.path, saved.identity, self.identity, self.force)
        return saved.fit
