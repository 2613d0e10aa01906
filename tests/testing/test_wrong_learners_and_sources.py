"""Laws fail for a learner that counts rows twice and for a source that numbers batches wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixfold.core.backend import Backend
from mixfold.core.learner import Info
from mixfold.core.rows import Rows
from mixfold.core.value import replace, value
from mixfold.families.poisson import Poisson
from mixfold.learners.em import EM, EMState
from mixfold.sources.parquet import Parquet
from mixfold.testing import families, learners, sources


@value
class CountsTwice(EM):
    """EM that keeps the sums of the pass before."""

    def end_pass(self, backend: Backend, state: EMState) -> tuple[EMState, list[Info]]:
        after, infos = super().end_pass(backend, state)
        return replace(after, gathered=state.gathered), infos


def test_rows_that_count_twice_are_noticed() -> None:
    rng = np.random.default_rng(0)
    model, params, x = families.example_mixture(Poisson(), 2, 2, 100, rng)
    law = learners.every_row_is_counted_once_a_pass
    law(model, params, EM(accelerate=False), Rows(x), [10])
    with pytest.raises(AssertionError, match="count 200 of them"):
        law(model, params, CountsTwice(accelerate=False), Rows(x), [10])


class WrongNumbers(Parquet):
    """Numbers batches as if each had one row."""

    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        for i, (_, batch) in enumerate(super().batches(0, length)):
            yield i, batch


def test_batches_with_wrong_numbers_are_noticed(tmp_path: Path) -> None:
    x = np.arange(240.0).reshape(120, 2)
    pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1]}), tmp_path / "x.parquet")
    sources.a_cursor_resumes_exactly(Parquet(tmp_path / "x.parquet"), x)
    with pytest.raises(AssertionError, match="number of its first row"):
        sources.a_cursor_resumes_exactly(WrongNumbers(tmp_path / "x.parquet"), x)
