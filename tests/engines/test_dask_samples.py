"""Samples of Dask collections, which are drawn where their partitions are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from scipy.stats import chisquare

from mixfold import Mixture
from mixfold.engines import _dask_collection
from mixfold.engines._dask_collection import open_collection

LENGTHS = (4000, 0, 1, 900, 0, 100, 2999)
N = sum(LENGTHS)
NUMBERS = np.arange(float(N))


def array() -> Any:
    """Rows whose first column is their number, in partitions of very different lengths."""
    x = np.column_stack([NUMBERS, NUMBERS % 7])
    return da.from_array(x, chunks=(LENGTHS, 2))


def frame() -> Any:
    """The same rows, whose number Dask does not know."""
    ends = np.cumsum((0, *LENGTHS))
    x = pd.DataFrame({"number": NUMBERS, "rest": NUMBERS % 7})
    pieces = [x[a:b] for a, b in pairwise(ends)]
    return dd.from_map(lambda i: pieces[i], range(len(pieces)), meta=x[:0])


COLLECTIONS: dict[str, Callable[[], Any]] = {"array": array, "frame": frame}


@pytest.fixture
def client(cluster: LocalCluster) -> Any:
    with Client(cluster, set_as_default=False) as made:
        yield made


def sample(data: Any, n: int, seed: int) -> np.ndarray:
    rows = open_collection(data).sample(n, np.random.default_rng(seed))
    return np.asarray(rows.x[:, 0])


@pytest.mark.parametrize("form", COLLECTIONS)
def test_every_row_is_drawn_as_often(form: str) -> None:
    data, found = COLLECTIONS[form](), np.zeros(N)
    for seed in range(40):
        drawn = sample(data, 400, seed).astype(int)
        assert len(drawn) == 400
        assert (np.diff(drawn) > 0).all()
        found[drawn] += 1
    # twenty stretches of equal lengths, whatever the partitions are
    assert chisquare(found.reshape(20, -1).sum(axis=1)).pvalue > 1e-3


@pytest.mark.parametrize("form", COLLECTIONS)
def test_a_cluster_draws_the_same_rows(client: Client, form: str) -> None:
    data = COLLECTIONS[form]()
    here = [sample(data, n, 3) for n in (10, 5000)]
    with client.as_current():
        there = [sample(data, n, 3) for n in (10, 5000)]
    for ours, theirs in zip(here, there, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("form", COLLECTIONS)
def test_all_rows_in_their_order(form: str) -> None:
    for n in (N, N + 1, 10 * N):
        np.testing.assert_array_equal(sample(COLLECTIONS[form](), n, 0), NUMBERS)


@pytest.mark.parametrize("form", COLLECTIONS)
def test_a_second_sample_has_enough_rows_too(form: str) -> None:
    """The number of rows is then known, and partitions return fewer."""
    source = open_collection(COLLECTIONS[form]())
    for n in (300, 1500, N - 1):
        rows = source.sample(n, np.random.default_rng(n)).x[:, 0]
        assert len(rows) == len(np.unique(rows)) == n


def test_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of them are computed, and all if those have too few rows."""
    monkeypatch.setattr(_dask_collection, "SAMPLED_PARTS", 3)
    some = sample(array(), 500, 0)  # of partitions 0, 3 and 6
    assert not ((some >= 4901) & (some < 5001)).any()
    assert sample(array(), 7950, 0).shape == (7950,)


def test_partitions_that_are_sorted(client: Client) -> None:
    """A component at the end of the last partition is found as well as the others."""
    rng = np.random.default_rng(0)
    means = [-40.0, -20.0, 0.0, 20.0]
    sizes = [15_000, 15_000, 10_000, 1000]
    x = np.vstack([rng.normal(m, 1.0, (n, 2)) for m, n in zip(means, sizes, strict=True)])
    data = dd.from_pandas(pd.DataFrame(x, columns=["a", "b"]), npartitions=3)
    with client.as_current():
        model = Mixture("gaussian", 4, random_state=0).fit(data)
    np.testing.assert_allclose(np.sort(model.means_[:, 0]), means, atol=0.2)
    drawn = open_collection(data).sample(4000, np.random.default_rng(0)).x[:, 0]
    assert 60 < (drawn > 10.0).sum() < 140
