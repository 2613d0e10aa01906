"""What is compared between windows of a stream: bounded numbers of every row under a reference.

For every column they are the residual, sum_k r_k (x - m_k) / s_k, which moves with the mean, and
its absolute value, which moves with the scale; further the log density, and the responsibilities,
whose means are weights. Residuals and log densities are measured from their median, in the unit of
their deviation as known by quantiles, and clipped: so heavy tails have no more influence than other
rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.backend import Backend
from mixfold.core.checks import check_array
from mixfold.core.errors import InvalidInputError
from mixfold.core.params import Params
from mixfold.core.rows import Array, Rows
from mixfold.core.value import value
from mixfold.models.mixture_model import MixtureModel

CLIPPED = 2.0  # deviations from the median beyond which a row counts no more
FAR = 5.0  # the same, of how far a column has moved
ONE_DEVIATION = (15.87, 50.0, 84.13)  # percentiles of a Gaussian variable
INNER = (2.5, 97.5)  # percentiles that rows are clipped to, where moments are computed
LEAST_WEIGHT = 8.0  # rows of a component from which its moments are known
LEAST_SHARE = 1e-3  # smallest deviation of a component, relative to that of all rows
MOST_SKEWNESS = 0.25  # of means of windows; larger ones are not as good as Gaussian


@value
class WindowFeatures:
    """Frozen parameters, and the moments of the components and of the residuals of a sample.

    `precision` is 1 / s_k, and `offset` m_k / s_k. `level` and `spread` are those of the residuals
    and, last, of the log density; `usual` are the means of residuals when nothing has changed, and
    `used` says which features have means that are about Gaussian.
    """

    params: Params
    precision: Array
    offset: Array
    level: Array
    spread: Array
    usual: Array
    used: Array

    def check(self, model: Any) -> None:
        """Raise an error for features that are not those of the model."""
        model.check_params(self.params)
        k, d, most = len(self.precision), model.d, np.finfo(float).max
        shape = (k, d if isinstance(model, MixtureModel) else 0)
        if isinstance(model, MixtureModel) and k not in (model.k, model.k + 1):  # with noise
            raise InvalidInputError(f"precision has {k} entries for {model.k} components")
        d = shape[1]
        check_array("precision", self.precision, shape, 0.0, most)
        check_array("offset", self.offset, shape, -most, most)
        check_array("level", self.level, (d + 1,), -most, most)
        check_array("spread", self.spread, (d + 1,), 0.0, most)
        check_array("usual", self.usual, (d,), -FAR, FAR)
        check_array("used", self.used, (2 * d + 1 + k,), 0.0, 1.0)

    def means(self, backend: Backend, rows: Rows) -> Array:
        """The means of the features that are used, of rows that are not of weight zero."""
        return self._all(backend, rows)[self.used > 0.0]

    def density(self, backend: Backend, rows: Rows) -> float:
        """The mean of clipped log densities."""
        _, density, _ = self._of_rows(backend, rows)
        return float(rows.weights() @ density / rows.total_weight())

    def _all(self, backend: Backend, rows: Rows) -> Array:
        clipped, density, responsibilities = self._of_rows(backend, rows)
        share = rows.weights() / rows.total_weight()
        weights = np.clip(share @ responsibilities, 0.0, 1.0)
        # means of responsibilities are skewed, angles less so
        return np.concatenate(
            [share @ clipped, share @ np.abs(clipped), [share @ density], np.arcsin(weights**0.5)]
        )

    def moved(self, backend: Backend, rows: Rows) -> Array:
        """How far every column has moved, in deviations within components."""
        _, responsibilities = _posterior(backend, self.params, rows)
        z = _residuals(rows, responsibilities, self.precision, self.offset)
        share = rows.weights() / rows.total_weight()
        return np.asarray(share @ self._standardised(z, FAR) - self.usual)

    def _of_rows(self, backend: Backend, rows: Rows) -> tuple[Array, Array, Array]:
        """Clipped residuals and log densities of rows, and their responsibilities."""
        log_density, responsibilities = _posterior(backend, self.params, rows)
        z = _residuals(rows, responsibilities, self.precision, self.offset)
        density = np.clip((log_density - self.level[-1]) / self.spread[-1], -CLIPPED, CLIPPED)
        return self._standardised(z, CLIPPED), density, responsibilities

    def _standardised(self, z: Array, most: float) -> Array:
        """Residuals in deviations from their medians, 0 where cells are missing."""
        there = np.clip((z - self.level[:-1]) / self.spread[:-1], -most, most)
        return np.where(np.isnan(there), 0.0, there)


def features_of(backend: Backend, params: Params, sample: Rows, window: int) -> WindowFeatures:
    """The features whose reference are these parameters and rows, for windows of so many rows."""
    log_density, responsibilities = _posterior(backend, params, sample)
    precision, offset = _moments(_columns(backend, sample), responsibilities)
    z = _residuals(sample, responsibilities, precision, offset)
    level, spread = _location(np.column_stack([z, log_density]))
    d, k = z.shape[1], responsibilities.shape[1]
    found = WindowFeatures(
        params, precision, offset, level, spread, np.zeros(d), np.ones(2 * d + 1 + k)
    )
    clipped, density, _ = found._of_rows(backend, sample)
    of_rows = np.column_stack([clipped, np.abs(clipped), density, responsibilities])
    far = found._standardised(z, FAR).mean(axis=0)
    used = _is_nearly_gaussian(of_rows, window).astype(np.float64)
    return WindowFeatures(params, precision, offset, level, spread, far, used)


def _columns(backend: Backend, rows: Rows) -> Array:
    """The columns of rows as numbers; none of models that are not mixtures."""
    x = np.asarray(rows.x, dtype=np.float64)
    return x if isinstance(backend.model, MixtureModel) else x[:, :0]


def _posterior(backend: Backend, params: Params, rows: Rows) -> tuple[Array, Array]:
    """Log densities and responsibilities; none of models that are not mixtures."""
    log_density, responsibilities = backend.posterior(params, rows, True)
    if not isinstance(backend.model, MixtureModel) or responsibilities is None:
        responsibilities = np.empty((len(rows), 0))
    return np.nan_to_num(log_density), responsibilities


def _residuals(rows: Rows, responsibilities: Array, precision: Array, offset: Array) -> Array:
    """sum_k r_k (x - m_k) / s_k of every column."""
    x = np.asarray(rows.x, dtype=np.float64)[:, : precision.shape[1]]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(x * (responsibilities @ precision) - responsibilities @ offset)


def _moments(x: Array, responsibilities: Array) -> tuple[Array, Array]:
    """1 / s_k and m_k / s_k of all components and columns, without the tails of the columns."""
    k, d = responsibilities.shape[1], x.shape[1]
    there = ~np.isnan(x)
    if not d or not there.any(axis=0).all():  # a column without any cell has no residual
        x, there = np.where(there.any(axis=0), x, 0.0), there | ~there.any(axis=0)
    if not d:
        return np.empty((k, 0)), np.empty((k, 0))
    x = np.clip(x, *np.nanpercentile(x, INNER, axis=0))
    centre = np.nanmean(x, axis=0)
    x = np.where(there, x - centre, 0.0)
    all_rows = np.square(x).sum(axis=0) / there.sum(axis=0)
    weight = responsibilities.T @ there
    mean, square = responsibilities.T @ x, responsibilities.T @ np.square(x)
    known = weight >= LEAST_WEIGHT
    weight = np.maximum(weight, LEAST_WEIGHT)
    mean = np.where(known, mean / weight, 0.0)
    variance = np.where(known, square / weight - np.square(mean), all_rows)
    variance = np.maximum(variance, LEAST_SHARE**2 * all_rows)
    precision = 1.0 / np.sqrt(np.where(variance > 0.0, variance, 1.0))
    return precision, precision * (mean + centre)


def _location(z: Array) -> tuple[Array, Array]:
    """Medians and deviations of columns, by quantiles where these differ."""
    z = np.where(np.isnan(z).all(axis=0), 0.0, z)
    low, level, high = np.nanpercentile(z, ONE_DEVIATION, axis=0)
    spread = 0.5 * (high - low)
    spread = np.where(spread > 0.0, spread, np.nanstd(z, axis=0))
    return level, np.where(spread > 0.0, spread, 1.0)


def _is_nearly_gaussian(features: Array, window: int) -> np.ndarray:
    """Of which features the means of windows vary, and are not too skewed."""
    off = features - features.mean(axis=0)
    deviation = np.sqrt(np.square(off).mean(axis=0))
    varies = deviation > 1e-9
    deviation = np.where(varies, deviation, 1.0)
    skewness = (off**3).mean(axis=0) / deviation**3
    return np.asarray(varies & (np.abs(skewness) <= MOST_SKEWNESS * window**0.5))
