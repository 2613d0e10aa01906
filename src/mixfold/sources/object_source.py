"""Sources of objects of other libraries, such as lazy frames and datasets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from mixfold.core.registry import find, names
from mixfold.core.source import Source
from mixfold.sources.table import Codes


class ObjectSource(Source):
    """A source that declares which objects it reads, so that all methods accept them."""

    @classmethod
    @abstractmethod
    def reads(cls, data: Any) -> bool:
        """Whether `data` is an object for this source, without importing its library."""

    @classmethod
    @abstractmethod
    def over(
        cls, data: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None
    ) -> Source:
        """The source of an object that it reads."""


@cache
def _object_sources(names: tuple[str, ...]) -> tuple[type[ObjectSource], ...]:
    kinds = (find("sources", name) for name in names)
    return tuple(kind for kind in kinds if issubclass(kind, ObjectSource))


def source_for(data: Any) -> type[ObjectSource] | None:
    """The source that reads an object; None for arrays, frames, tables and all else."""
    if isinstance(data, np.ndarray):
        return None
    return next((kind for kind in _object_sources(names("sources")) if kind.reads(data)), None)
