"""Progress of a fit."""

from __future__ import annotations

import sys
import time
from typing import Protocol

from mixfold.fitting.fit import Fit


class Progress(Protocol):
    """Receives the progress of a fit."""

    def update(self, fit: Fit, length: int | None) -> None: ...
    def close(self) -> None: ...


class Silent:
    """Shows nothing."""

    def update(self, fit: Fit, length: int | None) -> None:
        return None

    def close(self) -> None:
        return None


class Lines:
    """A line on stderr, at most one per second: rows, passes, log-likelihood, time left."""

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()
        self.pass_began, self.passes = self.began, 0

    def update(self, fit: Fit, length: int | None) -> None:
        passes, row = fit.passes, fit.row
        now = time.monotonic()
        if passes != self.passes:
            self.pass_began, self.passes = now, passes
        if now - self.last < 1.0:
            return
        self.last = now
        left = ""
        if length and row < length:
            seconds = (now - self.pass_began) * (length / max(row, 1) - 1.0)
            left = f", {seconds:.0f} s left in this pass" if row and seconds >= 1.0 else ""
        of = f" of {length:,}" if length else ""
        reached = f"log-likelihood {fit.log_likelihood:.6g}"
        print(f"mixfold: pass {passes + 1}, row {row:,}{of}, {reached}{left}", file=sys.stderr)

    def close(self) -> None:
        return None
