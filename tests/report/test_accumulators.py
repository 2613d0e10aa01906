"""What is summed over blocks of rows is what the whole gives, however rows are divided."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from mixfold.report._columns import Column
from mixfold.report._component_moments import ComponentMoments
from mixfold.report._row_bins import MOST, RowBins
from mixfold.report._smallest_keys import SmallestKeys

LENGTHS = [1, 7, 64, 5000]


def blocks(n: int, length: int) -> Iterator[slice]:
    return (slice(first, first + length) for first in range(0, n, length))


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_with_the_smallest_keys_are_kept_in_their_order(length: int) -> None:
    keys = np.random.default_rng(0).integers(50, size=1000).astype(np.float64)  # with many ties
    kept = SmallestKeys(30)
    for part in blocks(1000, length):
        kept.update(keys[part], np.arange(1000)[part])
    found, numbers = kept.found()
    expected = np.sort(np.argsort(keys, kind="stable")[:30])
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(found, keys[expected])


def test_fewer_rows_than_are_wanted_are_all_kept() -> None:
    kept = SmallestKeys(30)
    kept.update(np.arange(5.0), np.arange(5))
    assert kept.found()[1].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("n", [1, 63, 64, 65, 3000])
@pytest.mark.parametrize("length", LENGTHS)
def test_stretches_are_of_equal_length_and_sum_to_the_whole(n: int, length: int) -> None:
    x = np.random.default_rng(0).normal(size=(n, 2))
    bins = RowBins(2)
    for part in blocks(n, length):
        bins.update(x[part])
    counts, sums = bins.found(least=4)
    assert counts.sum() == n
    assert len(counts) <= MOST
    assert (counts[:-1] == counts[0]).all()
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(int)
    np.testing.assert_allclose(sums, np.add.reduceat(x, starts, axis=0), atol=1e-9)


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_moments_of_components_are_weighted_ones(length: int) -> None:
    rng, n = np.random.default_rng(1), 2000
    x = np.column_stack(
        [
            1e6 + rng.normal(size=n),
            rng.integers(2, size=n),
            rng.integers(4, size=n),
            rng.vonmises(3.0, 5.0, size=n),
        ]
    )
    x[rng.random(x.shape) < 0.1] = np.nan
    r = rng.dirichlet([1.0, 2.0, 0.5], size=n)
    columns = [
        Column("a", "number"),
        Column("b", "level", ("no", "yes")),
        Column("c", "level", ("p", "q", "r", "s")),
        Column("d", "angle"),
    ]
    moments = ComponentMoments(columns, 3)
    for part in blocks(n, length):
        moments.update(x[part], r[part])
    found = moments.found()
    for k in range(3):
        seen = ~np.isnan(x[:, 0])
        mean = np.average(x[seen, 0], weights=r[seen, k])
        spread = np.sqrt(np.average((x[seen, 0] - mean) ** 2, weights=r[seen, k]))
        other = np.average(x[seen, 0], weights=1.0 - r[seen, k])
        np.testing.assert_allclose(found.means[k, 0], mean, rtol=1e-12)
        np.testing.assert_allclose(found.deviations[k, 0], spread, rtol=1e-7)
        np.testing.assert_allclose(found.other_means[k, 0], other, rtol=1e-12)
        for j in (1, 2):
            there = ~np.isnan(x[:, j])
            for level in range(len(columns[j].levels)):
                proportion = np.average(x[there, j] == level, weights=r[there, k])
                np.testing.assert_allclose(found.levels[j][k, level], proportion, atol=1e-9)
        turned = ~np.isnan(x[:, 3])
        wave = np.average(np.exp(1j * x[turned, 3]), weights=r[turned, k])
        np.testing.assert_allclose(found.means[k, 3], np.angle(wave), rtol=1e-9)


def test_effects_are_differences_in_standard_deviations() -> None:
    rng = np.random.default_rng(2)
    label = rng.integers(2, size=50_000)
    x = np.column_stack([rng.normal(size=50_000) + 3.0 * label, rng.normal(size=50_000)])
    moments = ComponentMoments([Column("a", "number"), Column("b", "number")], 2)
    moments.update(x, np.eye(2)[label])
    np.testing.assert_allclose(moments.found().effects, [[-3.0, 0.0], [3.0, 0.0]], atol=0.05)
