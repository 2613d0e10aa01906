"""Volumes of components that have one shape in common, by Newton's method.

With u the logarithms of volumes, f(u) = sum_k pi_k u_k + log det(sum_k pi_k S_k exp(-u_k)) / d is
minus twice the largest log-likelihood per row and column. It is convex, and stays where the same
number is added to all u_k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mixfold.core.rows import Array

MOST_STEPS, MOST_HALVES = 100, 5
LONGEST = 4.0  # change of the logarithm of a volume in one step
SHORT = 1e-6  # steps of this length leave an error of about its square, and are the last
ROUNDING = 1e-15  # by which f may rise, relative to its size


class AtVolumes(NamedTuple):
    """With R_k = C^-1 S_k / lambda_k: log det C / d, tr R_k / d (K,), and tr R_k R_l / d (K, K)."""

    log_determinant: float
    traces: Array
    products: Array


def log_volumes(proportions: Array, start: Array, evaluate: Callable[[Array], AtVolumes]) -> Array:
    """The logarithms of volumes u at which f is smallest."""
    u, at = start, evaluate(start)
    for _ in range(MOST_STEPS):
        step = _newton_step(proportions, at)
        if not (np.abs(step) > SHORT).any():
            return np.asarray(u + step)
        after = _decreased(proportions, u, at, step, evaluate)
        if after is None:
            break
        u, at = after
    return u


def _newton_step(proportions: Array, at: AtVolumes) -> Array:
    """The step of Newton's method that leaves sum_k pi_k u_k as it is, not longer than allowed."""
    matrix = np.diag(at.traces) - at.products * proportions + proportions
    try:
        step = np.linalg.solve(matrix, at.traces - 1.0)
    except np.linalg.LinAlgError:
        step = np.log(at.traces)
    return np.asarray(np.clip(np.nan_to_num(step), -LONGEST, LONGEST))


def _decreased(
    proportions: Array, u: Array, at: AtVolumes, step: Array, evaluate: Callable[[Array], AtVolumes]
) -> tuple[Array, AtVolumes] | None:
    """Where f is smaller: after the step, a part of it, or volumes given the present matrix."""
    value = proportions @ u + at.log_determinant
    most = value + ROUNDING * (1.0 + abs(value))
    tried = (*(0.5**i * step for i in range(MOST_HALVES)), np.log(at.traces))
    for each in tried:
        there = evaluate(u + each)
        if proportions @ (u + each) + there.log_determinant <= most:
            return u + each, there
    return None
