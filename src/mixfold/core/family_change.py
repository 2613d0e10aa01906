"""Another family in place of one, during learning."""

from __future__ import annotations

from typing import Any, Protocol

from mixfold.core.family import Family
from mixfold.core.statistics import Blocks


class FamilyChange(Protocol):
    """How the parameters and statistics of another family follow from those of a first one."""

    def family(self, family: Family, /) -> Family:
        """The other family."""

    def components(self, family: Family, params: Any, /) -> Any:
        """The parameters of the other family, from those of `family`."""

    def blocks(self, family: Family, blocks: Blocks, d: int, /) -> Blocks:
        """The blocks of the other family, from those of `family` in d columns."""
