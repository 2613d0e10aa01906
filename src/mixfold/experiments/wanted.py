"""The options of a run of a study."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Wanted:
    """Repetitions and rows, the data folder, the output folder, and where progress is reported."""

    out: Path
    report: Callable[[str], None]
    reps: int | None = None
    n: int | None = None
    data: Path | None = None
    began: float = field(default_factory=time.monotonic)

    def folder(self) -> Path:
        """The output folder, which is created if it does not exist."""
        self.out.mkdir(parents=True, exist_ok=True)
        return self.out

    def tell(self, done: str) -> None:
        """Report what is done, and how long it took so far."""
        self.report(f"{done}, {time.monotonic() - self.began:.0f} s")
