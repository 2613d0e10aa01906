"""Keeping a fit on disk while it runs."""

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
from mixfold.fitting.identity import LEARNER, MODEL, Identity, check_same, stored
from mixfold.fitting.reading import read


@value
class Saved:
    """A fit and what it is a fit of."""

    identity: Any
    fit: Fit


def check_checkpoint(path: str | Path) -> None:
    """Refuse a path where a fit cannot be kept, or where another file would be lost."""
    path = Path(path)
    check_output(path, special=False)
    if not may_replace(path, "checkpoint"):
        kind = kind_of(path)
        what = "damaged or not a checkpoint" if kind is None else f"a {kind} file"
        raise ModelFileError(f"{path} is {what}: keep the checkpoint elsewhere, or remove the file")


class Checkpoint:
    """Writes a fit at most every `seconds`; `identity` guards against resuming another.

    With `force` it may be resumed with other data of the same shape. Where it cannot be written,
    the fit goes on with a warning for each reason.
    """

    def __init__(
        self, path: str | Path, identity: Identity, seconds: float, force: bool = False
    ) -> None:
        self.path, self.identity, self.seconds = Path(path), identity, seconds
        self.force = force
        check_savable(path, stored(identity))
        self._last = time.monotonic()
        self.failed = False
        self._told: set[str] = set()

    def keep(self, fit: Fit) -> None:
        """Write if it is time, if the fit is done, or if the next pass overwrites a file."""
        next_phase = fit.row == 0 and getattr(fit.state, "on_file", False)
        if fit.done or next_phase or time.monotonic() - self._last >= self.seconds:
            self.write(fit)
            if next_phase and self.failed and not fit.done:
                with suppress(OSError):  # an older checkpoint needs what is overwritten
                    self.path.resolve().unlink()

    def write(self, fit: Fit) -> None:
        """Write now; `failed` says whether that was not possible."""
        self._last = time.monotonic()
        try:
            write(self.path, "checkpoint", Saved(stored(self.identity), fit))
            self.failed = False
        except OutputError as error:
            self.failed = True
            self._warn(str(error))

    def _warn(self, reason: str) -> None:
        if reason not in self._told:
            self._told.add(reason)
            warn(f"the checkpoint is not up to date, and the fit goes on: {reason}")

    def read(self) -> Fit | None:
        """The fit to go on with, or None if there is no file yet."""
        if not self.path.exists():
            return None
        saved = read(self.path, "checkpoint")
        if not isinstance(saved, Saved) or not isinstance(saved.fit, Fit):
            raise ModelFileError(f"{self.path} is damaged: it holds no fit")
        check_same(self.path, saved.identity, self.identity, self.force)
        try:
            saved.fit.check(self.identity[LEARNER], self.identity[MODEL])
        except InvalidInputError as error:
            raise ModelFileError(f"{self.path} is damaged: {error}") from None
        return saved.fit
