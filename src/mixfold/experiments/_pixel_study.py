"""What the tables of the annealed-gradient paper have in common: set after set of pictures."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from mixfold.experiments._annealing import Result
from mixfold.experiments._pixels import Pictures, pictures
from mixfold.experiments._writing import write_csv


class PixelStudy(ABC):
    """Results of every set of pictures in the data folder, written as they come."""

    name: ClassVar[str]
    sets: ClassVar[Sequence[str]]
    reps: ClassVar[int]

    @abstractmethod
    def replicate(self, found: Pictures, reps: int, out: Path) -> list[Result]:
        """All replications on one set; pictures go to `out`."""

    @abstractmethod
    def summarize(self, path: Path, results: list[Result]) -> None:
        """The table."""

    def run(
        self,
        *,
        reps: int | None = None,
        n: int | None = None,
        out: Path,
        data: Path | None = None,
        report: Callable[[str], None],
    ) -> None:
        """All sets of the data folder, at most `n` rows of each part; results go to `out`."""
        results, began = list[Result](), time.monotonic()
        out.mkdir(parents=True, exist_ok=True)
        for found in pictures(data, n, tuple(self.sets)):
            results += self.replicate(found, reps or self.reps, out)
            write_csv(out / f"{self.name}.csv", results)
            report(f"{self.name}: {found.name} done, {time.monotonic() - began:.0f} s")
        self.summarize(out / f"{self.name}.md", results)
