"""How threads share work: the results are in order, and an error stops all of them."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from mixfold.backends.threads import Threads, pool
from mixfold.core.rows import Rows
from mixfold.families.poisson import Poisson
from mixfold.models.mixture_model import MixtureModel, MixtureParams


def threads(n_threads: int, k: int = 2) -> Threads:
    return Threads(MixtureModel(Poisson(), k, 1), n_threads)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_results_come_in_the_order_of_the_parts(n_threads: int, n: int) -> None:
    def work(part: int) -> int:
        time.sleep(0.001 * (part % 3))
        return part * part

    found = threads(n_threads).map(work, list(range(n)))

    assert list(found) == [part * part for part in range(n)]


def test_large_results_are_made_a_few_at_a_time() -> None:
    backend = threads(2)
    backend._most_tiles = 4
    made: list[int] = []

    found = iter(backend.map(made.append, list(range(12))))
    next(found)

    assert sorted(made) == [0, 1, 2, 3]
    assert len(list(found)) == 11
    assert sorted(made) == list(range(12))


def test_the_calling_thread_works_while_all_others_are_busy() -> None:
    backend, go_on = threads(2), threading.Event()

    busy = [pool(2).submit(go_on.wait) for _ in range(2)]
    try:
        assert list(backend.map(abs, [-1, 2, -3])) == [1, 2, 3]
    finally:
        go_on.set()
    assert all(one.result() for one in busy)


@pytest.mark.parametrize("bad", [0, 30])
def test_an_error_in_any_thread_is_raised_and_stops_the_others(bad: int) -> None:
    begun: list[int] = []

    def work(part: int) -> None:
        begun.append(part)
        if part == bad:
            raise ValueError(f"part {part}")
        time.sleep(0.002)

    with pytest.raises(ValueError, match=f"part {bad}"):
        list(threads(3).map(work, list(range(60))))

    time.sleep(0.01)
    assert len(begun) <= bad + 20


def test_given_sums_are_not_changed() -> None:
    backend = threads(2)
    params = backend.model.family.example(2, 1, np.random.default_rng(0))

    given = np.ones(backend.model.n_sums)
    rows = Rows(np.arange(6.0)[:, None])

    backend.fold(MixtureParams(np.full(2, 0.5), params), rows, given)

    assert (given == 1.0).all()


def test_short_work_stays_in_the_calling_thread() -> None:
    backend, names = threads(2), set[str]()

    def work(cut: slice) -> int:
        names.add(threading.current_thread().name)
        return int(cut.stop - cut.start)

    n = backend.tile - 1
    backend._seconds_per_row = 1e-12
    assert sum(backend._map_rows(work, n)) == n
    assert names == {threading.current_thread().name}


def test_how_long_rows_take_changes_no_bit() -> None:
    rows = Rows(np.random.default_rng(0).poisson(3.0, size=(20_000, 1)).astype(float))
    params = MixtureParams(np.array([0.4, 0.6]), Poisson().example(2, 1, np.random.default_rng(1)))
    sums = []
    for pace in (0.0, np.inf):
        backend = threads(2)
        backend._seconds_per_row = pace
        sums.append(backend.fold(params, rows, np.zeros(backend.model.n_sums)))
        assert 0.0 < backend._seconds_per_row < np.inf
    np.testing.assert_array_equal(sums[0], sums[1])
