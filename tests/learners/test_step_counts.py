"""Counting of rows behind steps, and the steps, against loops that do one row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.learners._steps import (
    EXACT_TERMS,
    InParallel,
    RowCounts,
    batch_step,
    positive_weights,
    relative_weights,
    retained,
    row_steps,
    rows_of_window,
    rows_to_step,
    weighted_step,
    weights_or_number,
)
from mixfold.schedules.constant import Constant
from mixfold.schedules.power import Power

SCHEDULES: list[Any] = [Power(0.6), Power(1.0, 1.0), Constant(0.03)]
WEIGHTS = np.array([0.5, 2.0, 1.0, 0.25, 3.0, 1.0, 1.5])


def stands_for(thresholds: np.ndarray, rows: float) -> int:
    """A row stands for one row more from each threshold on."""
    return 1 + sum(1 for threshold in thresholds if rows >= threshold)


@pytest.mark.parametrize("rows", [0, 3, 4, 5, 9, 10, 30, 100])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("prior", [0.0, 2.5])
def test_multiples_of_rows_in_parallel(rows: int, n: int, prior: float) -> None:
    thresholds = np.array([4.0, 10.0, 10.0, 31.5])
    expected, now = [], prior + rows
    for _ in range(n):
        expected.append(stands_for(thresholds, now))
        now += expected[-1]
    counts = InParallel(thresholds, rows, float(rows), 1)
    assert counts.multiples(prior, n).tolist() == expected
    assert counts.next_batch(prior).multiple == stands_for(thresholds, prior + rows)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("after_fit", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize(("rows", "weight"), [(0, 0.0), (6, 6.0), (6, 9.0)])
def test_steps_of_rows(
    parallel: bool, after_fit: bool, schedule: Any, rows: int, weight: float
) -> None:
    prior, thresholds = 3.0, np.array([8.0, 14.0])
    counts = RowCounts(prior, rows, weight, after_fit)
    if parallel:
        counts = counts.in_parallel(thresholds)
    n, total, expected, plain_rows, plain_weight = float(rows), weight, [], rows, weight
    for one in WEIGHTS:
        multiple = stands_for(thresholds, prior + n) if parallel else 1
        n, total = n + multiple, total + multiple * one
        plain_rows, plain_weight = plain_rows + 1, plain_weight + one
        share = multiple * one / (total / n)
        number = max(0.0, prior + n - share) + 1.0
        gamma = float(schedule(np.array([number]))[0])
        if after_fit:
            least = float(schedule(np.array([np.inf]))[0])
            gamma = min(gamma, max(1.0 / number, least))
        odds = share * gamma / (1.0 - gamma) if gamma < 1.0 else np.inf
        expected.append(1.0 if odds == np.inf else odds / (1.0 + odds))
    np.testing.assert_allclose(row_steps(schedule, counts, WEIGHTS), expected, rtol=1e-12)
    after = counts.after(WEIGHTS)
    assert (after.rows, after.prior_count, after.after_fit) == (plain_rows, prior, after_fit)
    assert after.weight == pytest.approx(plain_weight, rel=1e-14)
    assert after.behind == pytest.approx((n, total), rel=1e-14)
    assert after.mean_weight == pytest.approx(total / n, rel=1e-14)
    if parallel:
        assert after.multiple == stands_for(thresholds, prior + n)


@pytest.mark.parametrize("parallel", [False, True])
def test_rows_without_weights_weigh_one(parallel: bool) -> None:
    for counts in (RowCounts(2.0, 5, 5.0), RowCounts(2.0, 5, 7.0), RowCounts(0.0)):
        one = counts.in_parallel(np.array([6.0])) if parallel else counts
        for schedule in SCHEDULES:
            np.testing.assert_allclose(
                row_steps(schedule, one, 4), row_steps(schedule, one, np.ones(4)), rtol=1e-12
            )
        assert equal(one.after(4), one.after(np.ones(4)))
        assert one.after(4).rows == counts.rows + 4
        assert one.after(4).weight == counts.weight + 4.0


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("size", [7, 10])
def test_step_of_a_batch(parallel: bool, schedule: Any, size: int) -> None:
    before = RowCounts(20.0, 30, 40.0)
    if parallel:
        before = before.in_parallel(np.array([50.0, 60.0]))
    multiple = 2 if parallel else 1
    assert before.multiple == multiple
    weights = np.append(WEIGHTS, 0.0)  # the last does not count
    waiting = before.with_rows(Rows(np.zeros((8, 1)), weights))
    assert (waiting.rows, waiting.weight) == (37, 40.0)
    n, total = 30 + multiple * 7, 40.0 + multiple * WEIGHTS.sum()
    share = multiple * WEIGHTS.sum() / (total / n)
    gamma = float(schedule(np.array([(20.0 + n - share) / size + 1.0]))[0])
    odds = share / size * gamma / (1.0 - gamma)
    found = batch_step(schedule, waiting, float(WEIGHTS.sum()), size)
    assert found == pytest.approx(odds / (1.0 + odds), rel=1e-12)
    after = waiting.with_weight(float(WEIGHTS.sum()))
    assert after.behind == pytest.approx((n, total), rel=1e-14)
    assert after.weight == pytest.approx(40.0 + WEIGHTS.sum(), rel=1e-14)
    if parallel:
        assert after.multiple == stands_for(np.array([50.0, 60.0]), 20.0 + n)
    unweighted = before.with_rows(Rows(np.zeros((8, 1))))
    assert (unweighted.rows, unweighted.behind[0]) == (38, 30 + 8 * multiple)


def test_small_things_of_steps() -> None:
    assert weighted_step(0.25, 1.0) == 0.25
    assert weighted_step(1.0, 3.0) == 1.0
    assert weighted_step(0.5, 3.0) == pytest.approx(0.75)  # three rows as heavy as all before
    assert rows_of_window(3, 4) == 75
    rows = Rows(np.zeros((3, 1)), np.array([0.0, 2.0, 3.0]))
    assert positive_weights(rows).tolist() == [2.0, 3.0]
    found = weights_or_number(rows)
    assert not isinstance(found, int)
    assert found.tolist() == [2.0, 3.0]
    assert weights_or_number(Rows(np.zeros((3, 1)))) == 3
    assert RowCounts(5.0).mean_weight == 1.0
    np.testing.assert_allclose(
        relative_weights(RowCounts(9.0, 2, 6.0), np.array([3.0, 4.0])),
        [3.0 / (9.0 / 3.0), 4.0 / (13.0 / 4.0)],
    )


def test_rows_to_step_is_the_first_update_of_a_grid_with_a_short_step() -> None:
    """Numbers of updates are 0 and floor(2^(i / 8))."""
    grid = [0] + [int(2.0 ** (i / 8)) for i in range(320)]
    for exponent, size, step in ((0.6, 1, 0.05), (1.0, 4, 0.3), (0.6, 3, 1.0), (1.0, 1, 0.5)):
        schedule = Power(exponent, 1.0)
        first = next(i for i in grid if (i + 1.0) ** -exponent <= step)
        assert rows_to_step(schedule, size, step) == first * size
    assert rows_to_step(Constant(0.1), 2, 0.1) == 0.0
    assert rows_to_step(Constant(0.1), 2, 0.09) == np.inf


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("n", [0, 1, 8, 17, 18])
def test_what_is_retained(schedule: Any, size: int, n: int) -> None:
    """The product of 1 - step over batches of mean weight; what is left over is a smaller batch."""
    before = RowCounts(12.0, 10, 20.0)
    after = before.after(np.full(n, 2.0))
    expected, number = 1.0, 22.0 / size
    for _ in range(n // size):
        expected *= 1.0 - float(schedule(np.array([number + 1.0]))[0])
        number += 1.0
    part = (n % size) / size
    gamma = float(schedule(np.array([number + 1.0]))[0])
    expected *= 1.0 - part * gamma / (1.0 + (part - 1.0) * gamma)
    assert retained(schedule, before, after, size) == pytest.approx(expected, rel=1e-10)


def test_what_is_retained_of_very_many() -> None:
    """Steps 1/n retain exactly first / last, also where terms are taken together."""
    before, n = RowCounts(1000.0), 5 * EXACT_TERMS
    after = RowCounts(1000.0, n, float(n))
    found = retained(Power(1.0, 1.0), before, after, 1)
    assert found == pytest.approx(1000.0 / (1000.0 + n), rel=1e-7)


@pytest.mark.parametrize(
    ("counts", "name"),
    [
        (RowCounts(-1.0), "prior_count is -1"),
        (RowCounts(0.0, -1), "rows is -1"),
        (RowCounts(0.0, 0, -1.0), "weight is -1"),
        (RowCounts(0.0, 0, np.inf), "weight is inf"),
        (RowCounts(0.0, parallel=InParallel(np.array([-1.0]), 0, 0.0, 1)), "thresholds"),
        (RowCounts(0.0, parallel=InParallel(np.array([1.0]), -1, 0.0, 1)), "rows is -1"),
        (RowCounts(0.0, parallel=InParallel(np.array([1.0]), 0, -1.0, 1)), "weight is -1"),
        (RowCounts(0.0, parallel=InParallel(np.array([1.0]), 0, 0.0, 0)), "multiple is 0"),
    ],
)
def test_counts_that_no_rows_have_led_to(counts: RowCounts, name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        counts.check()
    RowCounts(0.0, 0, 0.0, parallel=InParallel(np.array([0.0, np.inf]), 0, 0.0, 1)).check()
