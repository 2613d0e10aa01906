"""Products of von Mises distributions over columns."""

from __future__ import annotations

from math import log, pi

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import check_array, check_kind
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.expression import Expression, side_by_side
from mixfold.core.family import n_components_with
from mixfold.core.independent_columns import IndependentColumns
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.core.variance_floors import TOUCHING
from mixfold.families._von_mises_concentrations import (
    resultant_lengths,
    von_mises_concentrations,
)

LEAST, MOST = 1e-8, 1e8  # concentrations


@value
class VonMisesParams:
    """Mean directions from -pi to pi, and concentrations (K, d)."""

    directions: Array
    concentrations: Array


def _wrapped(angles: Array) -> Array:
    """The same directions, from -pi to pi."""
    return np.arctan2(np.sin(angles), np.cos(angles))


@value
class VonMises(IndependentColumns, ExponentialFamily[VonMisesParams]):
    """Angles in radians: t(x) = (cos x, sin x), eta = kappa (cos mu, sin mu), h = 1 / (2 pi).

    A = log I0(kappa), in each column, where mu is the mean direction, kappa the concentration, and
    I0 a modified Bessel function. Angles that differ by 2 pi are the same direction, so all finite
    values are accepted; the density is that of one turn. The maximum-likelihood direction is that
    of the mean of (cos x, sin x), and the concentration solves I1(kappa) / I0(kappa) = length of
    this mean, by Newton's method. It is at most 1e8, where angles vary by 1e-4; a component whose
    rows vary less is degenerate. `means_` are the mean directions, from -pi to pi.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.vonmises(-1.0, 5.0, 4000), rng.vonmises(3.0, 20.0, 4000)])[:, None]
    >>> model = Mixture("von-mises", 2, random_state=0).fit(x)
    >>> model.means_.round().tolist()
    [[-1.0], [3.0]]
    >>> model.concentrations_.round().tolist()
    [[5.0], [20.0]]

    References
    ----------
    Mardia and Jupp (2000), Directional statistics.
    """

    support = Support(low=-pi, high=pi)
    support_message = Support().message

    def out_of_support(self, x: Array) -> np.ndarray | None:
        return None  # the density is periodic

    def check_params(self, params: VonMisesParams, k: int, d: int) -> None:
        check_kind("components", params, VonMisesParams)
        check_array("directions", params.directions, (k, d), -2.0 * pi, 2.0 * pi)
        check_array("concentrations", params.concentrations, (k, d), 0.5 * LEAST, 2.0 * MOST)

    def example(self, k: int, d: int, rng: np.random.Generator) -> VonMisesParams:
        return VonMisesParams(
            rng.uniform(-2.5, 2.5, size=(k, d)), rng.uniform(1.0, 12.0, size=(k, d))
        )

    def n_statistics(self, d: int) -> int:
        return 2 * d

    def sufficient_statistics(self, x: Array) -> Array:
        return np.hstack([np.cos(x), np.sin(x)])

    def log_base_measure(self, x: Array) -> Array:
        return np.full(len(x), -x.shape[1] * log(2.0 * pi))

    def statistics_expression(self, x: Expression) -> Expression:
        return side_by_side((x + 0.5 * pi).sin(), x.sin())

    def base_measure_expression(self, x: Expression) -> Expression:
        return 0.0 * x - log(2.0 * pi)

    def to_natural(self, params: VonMisesParams) -> Array:
        lengths = np.tile(params.concentrations, 2)
        return np.asarray(lengths * self.sufficient_statistics(params.directions))

    def log_normalizer(self, eta: Array) -> Array:
        from scipy.special import i0e

        kappa = np.hypot(*np.hsplit(eta, 2))
        return np.asarray((kappa + np.log(i0e(kappa))).sum(axis=1))

    def mean(self, params: VonMisesParams) -> Array:
        lengths = np.tile(resultant_lengths(params.concentrations), 2)
        return np.asarray(lengths * self.sufficient_statistics(params.directions))

    def scipy_log_density(self, params: VonMisesParams, x: Array) -> Array:
        from scipy.stats import vonmises

        density = vonmises.logpdf(x[:, None], params.concentrations, loc=params.directions)
        return np.asarray(density.sum(axis=2))

    def maximize(self, blocks: Blocks) -> tuple[VonMisesParams, int]:
        (block,) = blocks
        cosines, sines = np.hsplit(block.mean, 2)
        lengths = np.hypot(cosines, sines)
        least, most = resultant_lengths(np.array([LEAST, MOST]))
        concentrations = von_mises_concentrations(lengths.clip(least, most))
        count_degenerate = n_components_with(lengths > most)
        return VonMisesParams(np.arctan2(sines, cosines), concentrations), count_degenerate

    def degenerate(self, params: VonMisesParams, weights: Array) -> NDArray[np.bool_]:
        """Where a concentration is at its upper limit."""
        return np.asarray(params.concentrations * TOUCHING >= MOST)

    def sample(self, params: VonMisesParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        drawn = rng.vonmises(params.directions[labels], params.concentrations[labels])
        return np.asarray(drawn)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """1 - cos(x - c), summed over columns."""
        products = self.sufficient_statistics(x) @ self.sufficient_statistics(centers).T
        return np.asarray(np.maximum(x.shape[1] - products, 0.0))

    def attributes(self, params: VonMisesParams) -> dict[str, Array]:
        return {"means": params.directions, "concentrations": params.concentrations}

    # capabilities

    def resultants(self, params: VonMisesParams) -> NDArray[np.complex128]:
        lengths = resultant_lengths(params.concentrations)
        return np.asarray(lengths * np.exp(1j * params.directions))

    def standard_deviations(self, params: VonMisesParams) -> Array:
        """Circular standard deviations, sqrt(-2 log R) for a resultant length R."""
        return np.asarray(np.sqrt(-2.0 * np.log(resultant_lengths(params.concentrations))))

    def unconstrained(self, params: VonMisesParams) -> Array:
        return np.hstack([params.directions, np.log(params.concentrations)])

    def constrained(self, coordinates: Array, like: VonMisesParams) -> VonMisesParams:
        angles, logs = np.hsplit(coordinates, 2)
        return VonMisesParams(_wrapped(angles), np.exp(logs.clip(*np.log([LEAST, MOST]))))

    def coordinate_scales(self, params: VonMisesParams) -> Array:
        deviations = 1.0 / np.sqrt(np.maximum(params.concentrations, 1.0))
        return np.hstack([deviations, np.ones_like(deviations)])
