"""Maximum-likelihood degrees of freedom of Wishart distributions, for many at once."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array
from mixfold.families._gamma_shapes import log_less_digamma, shape_slope

ITERATIONS = 10  # nine give all digits for matrices of up to 200 rows
LONGEST = 2.0  # step in the logarithm of the excess


def log_gaps(excess: Array, p: int) -> Array:
    """log |E[S]| - E[log |S|] of p x p matrices, with degrees of freedom of p - 1 + excess, (K,).

    It is p log(a) less the multivariate digamma function of a, half of the degrees of freedom. The
    logarithms are compared with digamma functions one by one, since the sums would cancel.
    """
    below, arguments = _arguments(excess, p)
    terms = log_less_digamma(arguments) + np.log1p(below / arguments)
    return np.asarray(terms.sum(axis=1))


def _arguments(excess: Array, p: int) -> tuple[Array, Array]:
    """0, 1/2, ..., (p - 1)/2, and by how much half of the degrees of freedom exceeds each."""
    steps = np.arange(p, dtype=np.float64)
    return 0.5 * steps, 0.5 * (excess[:, None] + steps[::-1])


def _slopes(excess: Array, p: int) -> Array:
    """The derivative of the gaps, of which all terms are negative."""
    below, arguments = _arguments(excess, p)
    terms = (shape_slope(arguments) - below / (below + arguments)) / arguments
    return np.asarray(0.5 * terms.sum(axis=1))


def excess_degrees(gaps: Array, p: int) -> Array:
    """The degrees of freedom above p - 1 with `log_gaps` of these, for gaps above zero, (K,).

    Newton's method in the logarithms of both, with steps of bounded length. Where there are many
    degrees of freedom, their number is about p (p + 1) / (2 gap), and where the excess is small, it
    is about 2 / gap; it begins there. The number of iterations is fixed, so that no component
    depends on the others.
    """
    excess = np.maximum(0.5 * p * (p + 1.0) / gaps - (p - 1.0), 1.0 / gaps)
    for _ in range(ITERATIONS):
        found = log_gaps(excess, p)
        step = np.log(gaps / found) * found / (excess * _slopes(excess, p))
        excess = excess * np.exp(step.clip(-LONGEST, LONGEST))
    return np.asarray(excess)
