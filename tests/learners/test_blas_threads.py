"""Products of small matrices are computed on one thread, and others as before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from mixfold import Mixture
from mixfold.initializers.sphered_k_means import SpheredKMeans
from mixfold.learners._blas_threads import MOST_COLUMNS, one_blas_thread


def most_threads() -> int:
    return max(int(each["num_threads"]) for each in threadpool_info() if each["user_api"] == "blas")


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    with threadpool_limits(2, "blas"):
        if most_threads() != 2:
            pytest.skip("the linear algebra of this machine has one thread")
        yield


def test_the_limit_ends_with_the_last_of_several_calls() -> None:
    first, second = ExitStack(), ExitStack()
    first.enter_context(one_blas_thread(3))
    second.enter_context(one_blas_thread(3))
    assert most_threads() == 1
    first.close()
    assert most_threads() == 1
    second.close()
    assert most_threads() == 2


def test_the_limit_ends_with_an_error() -> None:
    with pytest.raises(ZeroDivisionError), one_blas_thread(3):
        _ = 1 / 0
    assert most_threads() == 2


def test_wide_rows_have_no_limit() -> None:
    with one_blas_thread(MOST_COLUMNS + 1):
        assert most_threads() == 2


def test_the_search_for_a_start_has_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    draw = SpheredKMeans.draw

    def noted(self: SpheredKMeans, *given: object) -> object:
        seen.append(most_threads())
        return draw(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(SpheredKMeans, "draw", noted)
    x = np.random.default_rng(0).normal(size=(300, 3))
    Mixture("gaussian", 2, random_state=0).fit(x)
    assert set(seen) == {1}
    assert most_threads() == 2
