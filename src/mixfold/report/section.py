"""The base class of sections of the report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from mixfold.report._blocks import Block
from mixfold.report._survey import Survey


class Section(ABC):
    """A section of the report: a class in a file of its own in `report/sections/`.

    Sections stand in the order of `order`, under their `title`.
    """

    title: ClassVar[str]
    order: ClassVar[int]

    @abstractmethod
    def blocks(self, survey: Survey) -> Sequence[Block]:
        """What stands in the section; nothing, if it has nothing to say about the model."""
