"""The convergence criterion of all learners that make several passes over the same rows.

`"remaining"` estimates how much of the total log-likelihood is left to gain. Near a maximum every
step of EM gains a constant fraction of the gain before, so that after a gain g with the ratio r
there is g r / (1 - r) left (Aitken's extrapolation). The log-likelihood of an estimate z standard
errors from the maximum is z^2 / 2 below it, so that with less than `tol` left no estimate is
farther from the maximum than `sqrt(2 tol)` standard errors. `"step"` is scikit-learn's criterion:
the gain of a step per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

Criterion = Literal["remaining", "step"]
CRITERIA = ("remaining", "step")

TOL = 0.005  # sqrt(2 tol) = 0.1 standard errors
WINDOW = 7  # number of gains from which the slowest ratio is taken
LEAST_RATE, MOST_RATE = 0.99, 0.9999
ROUNDING = 2.0**-48  # relative to the log-likelihood: smaller gains count as zero
MOST_ROUNDING = 2.0**-20  # the same if rows are evaluated in float32


def with_gain(gains: Sequence[float], gain: float) -> list[float]:
    """The gains of the last steps, in nats of all rows; the first step has none to compare with."""
    return [*gains[-WINDOW:], gain] if abs(gain) < float("inf") else []


def remaining(gains: Sequence[float], total: float) -> float:
    """The estimated nats of log-likelihood left to gain after steps with these gains.

    The likelihood decreases only by rounding, so gains no larger than a decrease are rounding too.
    """
    if not gains:
        return float("inf")
    falls = [-gain for gain in gains if -gain < MOST_ROUNDING * abs(total)]
    noise = max([ROUNDING * abs(total), *falls])
    last = abs(gains[-1])
    if last <= noise:
        return 0.0
    rates = [b / a for a, b in pairwise(gains) if a > noise]
    rate = min(max([LEAST_RATE, *rates]), MOST_RATE)
    return last * rate / (1.0 - rate)


def has_converged(
    gains: Sequence[float], total: float, n: float, tol: float, criterion: Criterion
) -> bool:
    """Whether less than `tol` is left, twice in a row, or was the last gain per row.

    `total` is the log-likelihood of all rows, `n` their number.
    """
    if not gains:
        return False
    if criterion == "step":
        return abs(gains[-1]) / n < tol
    return all(remaining(some, total) < tol for some in (gains[1:], gains[:-1]))
