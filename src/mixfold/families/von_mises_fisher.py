"""Von Mises-Fisher distributions: directions, as unit vectors."""

from __future__ import annotations

from math import pi

import numpy as np
from numpy.typing import NDArray

from mixfold.core.chart import Chart
from mixfold.core.checks import ROUNDING, check_array, check_kind
from mixfold.core.errors import InvalidInputError
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.expression import Expression
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.core.variance_floors import TOUCHING
from mixfold.families._bessel_ratios import concentrations, log_normalizers, resultant_lengths

LEAST, MOST = 1e-8, 1e8  # concentrations
TOLERANCE = 1e-5  # by which a squared length may differ from one, as in float32


@value
class VonMisesFisherParams:
    """Mean directions (K, d), which are unit vectors, and concentrations (K,)."""

    directions: Array
    concentrations: Array


def _unit(x: Array) -> Array:
    """Vectors (n, d) divided by their lengths; vectors of zeros become the first axis."""
    size = np.abs(x).max(axis=1, keepdims=True)
    x = np.where(size > 0.0, x, np.eye(1, x.shape[1])) / np.where(size > 0.0, size, 1.0)
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


@value
class VonMisesFisher(ExponentialFamily[VonMisesFisherParams]):
    """Unit vectors in d >= 2 dimensions: t(x) = x, eta = kappa mu, h = 1.

    A = log of (2 pi)^(d/2) I_{d/2-1}(kappa) / kappa^(d/2-1), where mu is the mean direction, kappa
    the concentration, and I a modified Bessel function; the density is that of the surface of the
    sphere. The maximum-likelihood direction is that of the mean of x, and the concentration solves
    I_{d/2}(kappa) / I_{d/2-1}(kappa) = length of this mean, by Newton's method. It is at most 1e8,
    where directions vary by 1e-4; a component whose rows vary less is degenerate. `means_` are the
    mean directions. For clusters of texts or embeddings by their angles, divide rows by their
    lengths. For single angles use `VonMises`.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(8000, 3)) + np.repeat([[0, 0, 5], [9, 0, 0]], 4000, axis=0)
    >>> x /= np.linalg.norm(x, axis=1, keepdims=True)
    >>> model = Mixture("von-mises-fisher", 2, random_state=0).fit(x)
    >>> abs(model.means_).round(1).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    >>> bool(model.concentrations_[1] > model.concentrations_[0])
    True

    References
    ----------
    Banerjee, Dhillon, Ghosh and Sra (2005), Clustering on the unit hypersphere using von
    Mises-Fisher distributions. Sra (2012), A short note on parameter approximation for von
    Mises-Fisher distributions.
    """

    dependence = "a row is a vector of length one"
    support = Support(low=-1.0, high=1.0)
    support_message = "rows must be vectors of length 1: divide them by their lengths,"

    def out_of_support(self, x: Array) -> np.ndarray | None:
        # values beyond 2 are limited to it, as their squares could overflow
        squares = (x.clip(-2.0, 2.0) ** 2).sum(axis=1, keepdims=True)
        found: np.ndarray = (abs(squares - 1.0) > TOLERANCE) | (abs(x) > 2.0)
        return found

    def into_support(self, x: Array) -> Array:
        return np.asarray(_unit(x.astype(np.float64)).astype(x.dtype))

    def chart(self, d: int) -> Chart:
        """Spherical coordinates: d - 2 angles from 0 to pi, and the last from -pi to pi."""
        angles = (Support(0.0, pi),) * (d - 2)
        return Chart((*angles, Support(-pi, pi)), _angles, _rows_of_angles)

    def check_columns(self, d: int) -> None:
        if d < 2:
            raise InvalidInputError("a mixture of directions needs at least 2 columns")

    def check_params(self, params: VonMisesFisherParams, k: int, d: int) -> None:
        check_kind("components", params, VonMisesFisherParams)
        check_array("directions", params.directions, (k, d), -2.0, 2.0)
        check_array("concentrations", params.concentrations, (k,), 0.5 * LEAST, 2.0 * MOST)
        lengths = np.linalg.norm(params.directions, axis=1)
        wrong = np.abs(lengths - 1.0) > ROUNDING
        if wrong.any():
            raise InvalidInputError(f"directions have length {lengths[wrong][0]}: it must be 1")

    def example(self, k: int, d: int, rng: np.random.Generator) -> VonMisesFisherParams:
        directions = _unit(rng.normal(size=(k, d)))
        return VonMisesFisherParams(directions, rng.uniform(2.0, 12.0, size=k) * np.sqrt(d))

    def n_statistics(self, d: int) -> int:
        return d

    def sufficient_statistics(self, x: Array) -> Array:
        """Rows, without the rounding of their lengths, which large concentrations would magnify."""
        return _unit(x)

    def log_base_measure(self, x: Array) -> Array:
        return np.zeros(len(x))

    def statistics_expression(self, x: Expression) -> Expression:
        return x / x.square().sum(1, keepdims=True).sqrt()

    def base_measure_expression(self, x: Expression) -> Expression:
        return 0.0 * x.sum(1, keepdims=True)

    def to_natural(self, params: VonMisesFisherParams) -> Array:
        return np.asarray(params.concentrations[:, None] * params.directions)

    def log_normalizer(self, eta: Array) -> Array:
        return log_normalizers(eta.shape[1], np.linalg.norm(eta, axis=1))

    def mean(self, params: VonMisesFisherParams) -> Array:
        lengths = resultant_lengths(params.directions.shape[1], params.concentrations)
        return np.asarray(lengths[:, None] * params.directions)

    def scipy_log_density(self, params: VonMisesFisherParams, x: Array) -> Array:
        from scipy.stats import vonmises_fisher

        pairs = zip(params.directions, params.concentrations, strict=True)
        return np.stack([vonmises_fisher(mu, kappa).logpdf(x) for mu, kappa in pairs], axis=1)

    def maximize(self, blocks: Blocks) -> tuple[VonMisesFisherParams, int]:
        (block,) = blocks
        d = block.mean.shape[1]
        lengths = np.linalg.norm(block.mean, axis=1)
        least, most = resultant_lengths(d, np.array([LEAST, MOST]))
        found = concentrations(d, lengths.clip(least, most)).clip(LEAST, MOST)
        return VonMisesFisherParams(_unit(block.mean), found), int((lengths > most).sum())

    def degenerate(self, params: VonMisesFisherParams, weights: Array) -> NDArray[np.bool_]:
        """Where a concentration is at its upper limit, for all columns alike."""
        high = params.concentrations[:, None] * TOUCHING >= MOST
        return np.broadcast_to(high, params.directions.shape)

    def sample(
        self, params: VonMisesFisherParams, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        directions = params.directions[labels]
        rest = _drawn_rest(directions.shape[1], params.concentrations[labels], rng)[:, None]
        across = rng.normal(size=directions.shape)
        across -= (across * directions).sum(axis=1, keepdims=True) * directions
        return _unit((1.0 - rest) * directions + np.sqrt(rest * (2.0 - rest)) * _unit(across))

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """1 - cosine of the angle between rows and centres."""
        return np.asarray(np.maximum(1.0 - _unit(x) @ _unit(centers).T, 0.0))

    def attributes(self, params: VonMisesFisherParams) -> dict[str, Array]:
        return {"means": params.directions, "concentrations": params.concentrations}

    # capabilities

    def unconstrained(self, params: VonMisesFisherParams) -> Array:
        """Directions, multiplied by concentrations: any vector is of this form."""
        return self.to_natural(params)

    def constrained(self, coordinates: Array, like: VonMisesFisherParams) -> VonMisesFisherParams:
        lengths = np.linalg.norm(coordinates.clip(-MOST, MOST), axis=1)
        return VonMisesFisherParams(_unit(coordinates), lengths.clip(LEAST, MOST))

    def coordinate_scales(self, params: VonMisesFisherParams) -> Array:
        deviations = np.sqrt(np.maximum(params.concentrations, 1.0))[:, None]
        return np.broadcast_to(deviations, params.directions.shape).copy()


def _drawn_rest(d: int, kappa: Array, rng: np.random.Generator) -> Array:
    """1 - cosine of the angle to the mean direction, for every concentration, by rejection.

    References
    ----------
    Wood (1994), Simulation of the von Mises Fisher distribution.
    """
    m = d - 1.0
    b = m / (2.0 * kappa + np.sqrt(4.0 * np.square(kappa) + m * m))
    rest, pending = np.empty(len(kappa)), np.arange(len(kappa))
    while len(pending):
        own, at = b[pending], kappa[pending]
        z = rng.beta(0.5 * m, 0.5 * m, size=len(pending))
        drawn = 2.0 * own * z / (1.0 - (1.0 - own) * z)
        # all relative to the point of the envelope's maximum, where 1 - cosine is 2 b / (1 + b)
        best = 2.0 * own / (1.0 + own)
        gain = m * np.log((best + drawn * (1.0 - best)) / (best * (2.0 - best)))
        accepted = at * (best - drawn) + gain >= -rng.exponential(size=len(pending))
        rest[pending[accepted]] = drawn[accepted]
        pending = pending[~accepted]
    return rest


def _angles(x: Array) -> Array:
    """Spherical coordinates of unit vectors."""
    left = np.sqrt(np.square(x[:, ::-1]).cumsum(axis=1)[:, ::-1])
    return np.hstack([np.arctan2(left[:, 1:-1], x[:, :-2]), np.arctan2(x[:, -1:], x[:, -2:-1])])


def _rows_of_angles(angles: Array) -> tuple[Array, Array]:
    """The inverse of `_angles`, and the surface per unit of the angles."""
    n, m = angles.shape
    sines, ones = np.sin(angles), np.ones((n, 1))
    x = np.hstack([ones, sines.cumprod(axis=1)]) * np.hstack([np.cos(angles), ones])
    return x, np.prod(np.abs(sines) ** np.arange(m - 1, -1, -1), axis=1)
