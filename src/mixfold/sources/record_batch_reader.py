"""Streams of Arrow record batches, for example from databases and Flight."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from mixfold.sources.block_source import BlockSource
from mixfold.sources.object_source import ObjectSource
from mixfold.sources.opening import block_rows
from mixfold.sources.table import Codes


class RecordBatchReader(BlockSource, ObjectSource):
    """A `pyarrow.RecordBatchReader`, which can be read once: one batch is in memory at a time."""

    @classmethod
    def reads(cls, data: Any) -> bool:
        arrow = sys.modules.get("pyarrow")
        return arrow is not None and isinstance(data, arrow.RecordBatchReader)

    @classmethod
    def over(
        cls, data: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None
    ) -> RecordBatchReader:
        return cls(data, lambda block, names: block_rows(block, names or columns, weight, codes))
