"""Expectations over random effects by adaptive Gauss-Hermite quadrature."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from mixfold.core.rows import Array
from mixfold.kernels._metropolis import joint, shape_at_mode
from mixfold.models.random_effects import Conditional

MODE_ENOUGH = 1e-12  # the gain of a Newton step below which a mode has converged


class Nodes(NamedTuple):
    """Points (m, n, q) of every subject, their posterior weights (m, n), and log p(y) (n,)."""

    z: Array
    weight: Array
    log_density: Array


def quadrature(target: Conditional, n_points: int) -> Nodes:
    """`n_points` points per effect, centred at each subject's mode and scaled by the curvature
    there.

    References
    ----------
    Pinheiro and Bates (1995), Approximations to the log-likelihood function in the nonlinear
    mixed-effects model.
    """
    shape = shape_at_mode(target, MODE_ENOUGH)
    grid, log_weight = _grid(n_points, shape.center.shape[-1])
    z = shape.at(grid[:, None])
    scale = -np.log(np.diagonal(shape.root, axis1=-2, axis2=-1)).sum(axis=-1)
    # over a contiguous axis, so that the order of the sum is the same for one subject
    terms = np.ascontiguousarray((joint(target, z) + log_weight[:, None]).T)
    total = logsumexp(terms, axis=1)
    share = np.ascontiguousarray(np.exp(terms - total[:, None]).T)
    return Nodes(z, share, total + scale)


@cache
def _grid(n_points: int, q: int) -> tuple[Array, Array]:
    """Points (m, q) of the product rule, and their log weights."""
    points, weights = np.polynomial.hermite_e.hermegauss(n_points)
    one = np.log(weights) + 0.5 * np.square(points)
    grid = np.array(list(product(points, repeat=q)))
    log_weight = np.array([sum(each) for each in product(one, repeat=q)])
    for array in (grid, log_weight):
        array.setflags(write=False)
    return grid, log_weight
