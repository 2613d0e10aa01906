"""The density of a stream as a mixture of Gaussians."""

from __future__ import annotations

from math import exp, inf
from typing import Any

import numpy as np
from river.proba.base import MultivariateContinuousDistribution
from scipy.stats import multivariate_normal

from mixfold.core.errors import unknown_name
from mixfold.river._columns import Cells
from mixfold.river._stream_mixtures import fitted_rows, gaussian, row_blocks

SHAPES = ("full", "diag")
LARGEST_EXPONENT = 709.0  # exp of more is above the largest float64


class MixtureDensity(MultivariateContinuousDistribution):
    """The density of the rows of a stream, a mixture of Gaussians.

    Columns are the numbers among those of the first `grace_period` rows. Later columns are ignored,
    and those that a row lacks are integrated out. Rows are learned in blocks, an eighth of the rows
    before and at most 512. Before the model has initial parameters, densities are 0.

    Parameters
    ----------
    n_components : int, default=5
        The number of components K.
    covariance : {"full", "diag"}, default="full"
        The shape of the covariances.
    grace_period : int, default=200
        The number of rows to which the mixture is fitted first.
    seed : int, default=None
        Seed of the random numbers; an int makes densities and samples reproducible.

    Examples
    --------
    >>> from mixfold import datasets
    >>> from mixfold.river import MixtureDensity
    >>> from river import stream
    >>> density = MixtureDensity(n_components=2, seed=0)
    >>> for x, _ in stream.iter_array(datasets.load_faithful()):
    ...     density.update(x)
    >>> density({0: 4.5, 1: 80.0}) > density({0: 2.0, 1: 80.0})
    True
    >>> density.n_samples
    272
    """

    def __init__(
        self,
        n_components: int = 5,
        covariance: str = "full",
        grace_period: int = 200,
        seed: int | None = None,
    ) -> None:
        super().__init__(seed)
        if covariance not in SHAPES:
            raise unknown_name("covariance", covariance, SHAPES)
        self.n_components = n_components
        self.covariance = covariance
        self.grace_period = grace_period
        family = gaussian(covariance)
        self._member = fitted_rows(family, n_components, None, seed)
        self._rows = row_blocks(family, grace_period, self._member)

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return self._rows.n_rows

    def update(self, x: Cells) -> None:
        """Learn a row."""
        self._rows.learn_one(x)

    def revert(self, x: Cells) -> None:
        """Not possible: the mixture does not keep how a row was divided among its components."""
        raise NotImplementedError("a mixture cannot unlearn rows")

    def __call__(self, x: Cells) -> float:
        """The density of a row."""
        row = self._rows.row(x)
        if row is None:
            return 0.0
        found = self._member.mixture.score_one(row)
        return exp(found) if found < LARGEST_EXPONENT else inf

    def cdf(self, x: Cells) -> float:
        """The probability that no value is above that of the row in its column."""
        row = self._rows.row(x)
        if row is None:
            return 0.0
        mixture, known = self._member.mixture, np.flatnonzero(np.isfinite(row))
        if not len(known):
            return 1.0
        below = [
            multivariate_normal.cdf(row[known], mean[known], _covariance(shape, known))
            for mean, shape in zip(mixture.means_, mixture.covariances_, strict=True)
        ]
        return float(mixture.weights_ @ below)

    def sample(self) -> dict[Any, float]:
        """A random row; empty before the model has initial parameters."""
        if self._rows.columns is None:
            return {}
        mixture, rng = self._member.mixture, np.random.default_rng(self._rng.getrandbits(64))
        drawn, _ = mixture.model_.sample(mixture.params_, 1, rng)
        return dict(self._rows.columns.cells(drawn))

    @property
    def mode(self) -> dict[Any, float]:
        """The mean of the component where the density of the mixture is highest."""
        if self._rows.columns is None:
            return {}
        means = self._member.mixture.means_
        highest = self._member.mixture.score_samples(means).argmax()
        return dict(self._rows.columns.cells(means[highest : highest + 1]))

    def __repr__(self) -> str:
        return (
            f"MixtureDensity(n_components={self.n_components!r}, covariance={self.covariance!r}, "
            f"grace_period={self.grace_period!r}, seed={self.seed!r})"
        )


def _covariance(shape: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The covariance matrix of some columns, given the whole or its diagonal."""
    return np.diag(shape[known]) if shape.ndim == 1 else shape[np.ix_(known, known)]
