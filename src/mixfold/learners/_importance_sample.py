"""Weighted samples with more of the rows that are rare or that a fit explains badly."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Rows, rows_at_a_time
from mixfold.learners._em_in_memory import responsibilities_of
from mixfold.models.mixture_model import MixtureBackend, MixtureParams

TOGETHER = 2**22  # responsibilities that are in memory at a time
TYPICAL = 0.9  # quantile of log densities below which a row is the farther, the lower its density

LOWEST = -1e30  # log density of rows that have none


def importance_sample(
    backend: MixtureBackend,
    params: MixtureParams,
    rows: Rows,
    size: int,
    rng: np.random.Generator,
) -> Rows:
    """About `size` rows whose weighted sums estimate those of all rows without bias.

    A third of them are drawn uniformly, a third in equal numbers for every component of `params`,
    so that light components have as many as heavy ones, and a third in proportion to how far the
    log density is below a high one. A row that is drawn with probability p has its weight divided
    by p.

    Reference: Lucic, Faulkner, Krause and Feldman (2018), Training Gaussian mixture models at scale
    via coresets, Journal of Machine Learning Research 18(160), 1-25.
    """
    weight = rows.weights()
    parts = list(rows_at_a_time(rows, max(1, TOGETHER // backend.model.k)))
    measured = [_measured(backend, params, part, weight.sum()) for part in parts]
    log_density, rare = (np.concatenate(each) for each in zip(*measured, strict=True))
    far = np.maximum(np.quantile(log_density, TYPICAL) - log_density, 0.0)
    kinds = [_normalised(weight * each) for each in (np.ones(len(rows)), rare, far)]
    probability = np.minimum(size * np.mean(kinds, axis=0), 1.0)
    drawn = rng.random(len(rows)) < probability
    return Rows(rows.x[drawn], weight[drawn] / probability[drawn])


def _measured(
    backend: MixtureBackend, params: MixtureParams, rows: Rows, total: float
) -> tuple[np.ndarray, np.ndarray]:
    """The log density of every row, and its responsibilities over the weights of components.

    A component has at least the weight of one row.
    """
    responsibilities, log_density = responsibilities_of(backend, params, rows)
    lightest = 1.0 / max(total, 1.0)
    rare = responsibilities @ (1.0 / np.maximum(params.weights, lightest))
    finite = np.nan_to_num(log_density, nan=LOWEST, neginf=LOWEST)
    return finite, rare


def _normalised(numbers: np.ndarray) -> np.ndarray:
    """Numbers divided by their sum, if that is positive."""
    total = numbers.sum()
    return numbers / total if total > 0.0 else numbers
