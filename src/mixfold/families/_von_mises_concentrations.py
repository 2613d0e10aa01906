"""Maximum-likelihood concentrations of von Mises distributions, for many at once."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array

LARGE = 500.0  # above it the asymptotic series are exact
ITERATIONS = 5  # four give all digits in all of the domain


def resultant_lengths(concentrations: Array) -> Array:
    """E[cos(x - mean direction)] = I1(kappa) / I0(kappa)."""
    from scipy.special import i0e, i1e

    small, r = np.minimum(concentrations, LARGE), 1.0 / np.maximum(concentrations, LARGE)
    lack = r * (1 / 2 + r * (1 / 8 + r * (1 / 8 + r * (25 / 128 + r * 13 / 32))))
    return np.where(concentrations > LARGE, 1.0 - lack, i1e(small) / i0e(small))


def _slopes(concentrations: Array, lengths: Array) -> Array:
    """The derivative of the resultant lengths, which have been computed: 1 - R^2 - R / kappa."""
    small, r = np.minimum(concentrations, LARGE), 1.0 / np.maximum(concentrations, LARGE)
    series = np.square(r) * (1 / 2 + r * (1 / 4 + r * (3 / 8 + r * 25 / 32)))
    return np.where(concentrations > LARGE, series, 1.0 - np.square(lengths) - lengths / small)


def von_mises_concentrations(lengths: Array) -> Array:
    """The concentrations with I1(kappa) / I0(kappa) = R, for R above 0 and below 1.

    Newton's method, from the approximation of Banerjee et al. The number of iterations is fixed,
    so that no concentration depends on the others.

    References
    ----------
    Banerjee, Dhillon, Ghosh and Sra (2005), Clustering on the unit hypersphere using von
    Mises-Fisher distributions.
    """
    squares = np.square(lengths)
    kappa = lengths * (2.0 - squares) / ((1.0 - lengths) * (1.0 + lengths))
    for _ in range(ITERATIONS):
        found = resultant_lengths(kappa)
        kappa = kappa - (found - lengths) / _slopes(kappa, found)
    return np.asarray(kappa)
