"""Checkpoints, which save a fit while it runs."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from mixfold.core.errors import InvalidInputError, ModelFileError, OutputError, warn
from mixfold.core.value import value
from mixfold.fitting.atomic_files import check_output
from mixfold.fitting.files import check_savable, kind_of, may_replace, write
from mixfold.fitting.fit import Fit
from mixfold.fitting.identity import LEARNER, MODEL, Identity, check_same, model_in, stored
from mixfold.fitting.reading import read


@value
class Saved:
    """A fit, and the data and settings it belongs to."""

    identity: Any
    fit: Fit


def check_checkpoint(path: str | Path) -> None:
    """Raise an error if the path cannot be written, or holds another kind of file."""
    path = Path(path)
    check_output(path, special=False)
    if not may_replace(path, "checkpoint"):
        kind = kind_of(path)
        what = "damaged or not a checkpoint" if kind is None else f"a {kind} file"
        raise ModelFileError(f"{path} is {what}: keep the checkpoint elsewhere, or remove the file")


def model_of_checkpoint(path: str | Path) -> Any:
    """The model of the fit in a checkpoint; None if there is no file."""
    if not Path(path).exists():
        return None
    return model_in(Path(path), _saved(Path(path)).identity)


def _saved(path: Path) -> Saved:
    """The content of a checkpoint."""
    saved = read(path, "checkpoint")
    if not isinstance(saved, Saved) or not isinstance(saved.fit, Fit):
        raise ModelFileError(f"{path} is damaged: it holds no fit")
    return saved


class Checkpoint:
    """Writes a fit at most every `seconds`; `identity` guards against resuming another.

    With `force` it may be resumed with other data of the same shape. If it cannot be written, the
    fit continues, with one warning for each reason.
    """

    def __init__(
        self, path: str | Path, identity: Identity, seconds: float, force: bool = False
    ) -> None:
        self.path, self.identity, self.seconds = Path(path), identity, seconds
        self.force = force
        check_savable(path, stored(identity))
        self._last = time.monotonic()
        self.failed = False
        self._warned: set[str] = set()

    def keep(self, fit: Fit) -> None:
        """Write if enough time has passed, the fit is done, or the next pass overwrites a file."""
        next_phase = fit.row == 0 and getattr(fit.state, "on_file", False)
        if fit.done or next_phase or time.monotonic() - self._last >= self.seconds:
            self.write(fit)
            if next_phase and self.failed and not fit.done:
                with suppress(OSError):  # an older checkpoint needs the file that is overwritten
                    self.path.resolve().unlink()

    def write(self, fit: Fit) -> None:
        """Write now; `failed` is true if that was not possible."""
        self._last = time.monotonic()
        try:
            write(self.path, "checkpoint", Saved(stored(self.identity), fit))
            self.failed = False
        except OutputError as error:
            self.failed = True
            self._warn(str(error))

    def _warn(self, reason: str) -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            warn(f"the checkpoint could not be written, and the fit continues: {reason}")

    def read(self) -> Fit | None:
        """The fit to resume, or None if there is no file."""
        if not self.path.exists():
            return None
        saved = _saved(self.path)
        check_same(self.path, saved.identity, self.identity, self.force)
        try:
            saved.fit.check(self.identity[LEARNER], self.identity[MODEL])
        except InvalidInputError as error:
            raise ModelFileError(f"{self.path} is damaged: {error}") from None
        return saved.fit
