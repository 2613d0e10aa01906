"""What the tables of the annealed-gradient paper have in common: set after set of pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from mixfold.experiments._writing import write_csv
from mixfold.experiments.annealing import Result
from mixfold.experiments.pixels import Pictures, pictures
from mixfold.experiments.wanted import Wanted


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

    def run(self, wanted: Wanted) -> None:
        """All sets of the data folder, at most `n` rows of each part; results go to `out`."""
        results = list[Result]()
        out = wanted.folder()
        for found in pictures(wanted.data, wanted.n, tuple(self.sets)):
            results += self.replicate(found, wanted.reps or self.reps, out)
            write_csv(out / f"{self.name}.csv", results)
            wanted.tell(f"{self.name}: {found.name} done")
        self.summarize(out / f"{self.name}.md", results)
