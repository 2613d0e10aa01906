"""Conjugate priors: posteriors of the parameters of K components in batched arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, Literal

import numpy as np

from mixfold.core.checks import check_above
from mixfold.core.errors import InvalidInputError
from mixfold.core.params import ParamsT, PosteriorT
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.value import value

REACH = 1e-20  # below this responsibility a row does not change the posterior of a component


@value
class Prior:
    """The prior distribution of the parameters of a mixture.

    `alpha` is the Dirichlet parameter of every weight. `means`, (d,) or (K, d), count for `kappa`
    rows, and `covariance`, (d, d) or (K, d, d), or (d,) or (K, d) if diagonal, has `nu` degrees of
    freedom, more than d + 1. None is the value of the initial parameters, or `nu` = d + 3.

    Products of families have means of all columns, NaN where they are left open, and a covariance
    matrix, of which every factor takes the part of its columns; d is then that of the factor in
    the limit of `nu` and its default.

    Examples
    --------
    >>> from mixfold import Mixture, MomentMatching, Prior, datasets
    >>> learner = MomentMatching(prior=Prior(kappa=0.1))
    >>> model = Mixture(n_components=2, learner=learner, random_state=0)
    >>> model.fit(datasets.load_faithful()).weights_.round(1)
    array([0.4, 0.6])
    """

    alpha: float = 1.0
    kappa: float = 1.0
    nu: float | None = None
    means: object = None
    covariance: object = None

    def __post_init__(self) -> None:
        check_above("alpha", self.alpha, 0.0)
        check_above("kappa", self.kappa, 0.0)
        if self.nu is not None:
            check_above("nu", self.nu, 0.0)

    def given(self, name: str, shape: tuple[int, ...]) -> Array | None:
        """A field as an array for all components, (K, ...)."""
        field = getattr(self, name)
        if field is None:
            return None
        array = np.asarray(field, dtype=np.float64)
        if array.shape not in (shape, shape[1:]) or not np.isfinite(array).all():
            raise InvalidInputError(
                f"{name} of the prior has shape {array.shape}: finite numbers of shape {shape[1:]} "
                f"or {shape} are needed"
            )
        return np.array(np.broadcast_to(array, shape))


def retained_fraction(before: Array, parts: Sequence[Array]) -> Array:
    """The fraction of the earlier pseudo-counts that all parts retain; rows can lower them."""
    return np.asarray(np.min([np.minimum(part / before, 1.0) for part in parts], axis=0))


def joined(before: Array, parts: Sequence[Array], share: Array) -> Array:
    """The sum of natural parameters, in which the fraction `share` of those before counts once."""
    return np.asarray(sum(parts) - (len(parts) - 1) * share * before)


class Conjugate(ABC, Generic[ParamsT, PosteriorT]):
    """Conjugate posteriors of the parameters of K components.

    `responsibilities` (K,) are the probabilities that a row belongs to each component. `weights`
    (K,) are the mean weights of the components, since limits of parameters may depend on all rows.
    """

    compiled: ClassVar[Literal["normal", "poisson", "exponential"] | None] = None
    """Which compiled kernel matches moments row by row, where there is one."""

    @abstractmethod
    def prior(self, params: ParamsT, prior: Prior) -> PosteriorT:
        """The prior; what it leaves open is centred at the initial parameters."""

    @abstractmethod
    def check(self, posterior: PosteriorT, k: int, d: int) -> None:
        """Refuse a posterior outside its domain, or of other than K components in d columns."""

    @abstractmethod
    def log_evidence(self, posterior: PosteriorT, x: Array, weight: Array) -> Array:
        """Predictive log density (n, K) of rows with weights (n,)."""

    @abstractmethod
    def match(
        self, posterior: PosteriorT, x: Array, weight: float, responsibilities: Array
    ) -> tuple[PosteriorT, int]:
        """Match the moments of r p(theta | row) + (1 - r) p(theta); count degenerate components."""

    @abstractmethod
    def absorb(self, posterior: PosteriorT, blocks: Blocks) -> PosteriorT:
        """The posterior after rows whose statistics are in the blocks."""

    @abstractmethod
    def combine(self, before: PosteriorT, parts: Sequence[PosteriorT]) -> PosteriorT:
        """Combine posteriors that were learned from different rows: before + sum(part - before).

        The sum is over natural parameters. Only the fraction of `before` that all parts retain is
        counted, since a part may have lower pseudo-counts than `before`.
        """

    @abstractmethod
    def expected(self, posterior: PosteriorT, weights: Array) -> ParamsT:
        """The posterior mean of the parameters, within the family's limits."""

    @abstractmethod
    def expected_log_params(self, posterior: PosteriorT, weights: Array) -> tuple[ParamsT, Array]:
        """Parameters and constants (K,): log density + constant is E[log p(x | k)].

        The parameters are within the family's limits.
        """

    def row_counts(self, posterior: PosteriorT) -> Mapping[str, float]:
        """For how many rows the posterior counts, by the names of its intervals.

        Parameters that are not named count for as many as the weights of the components.
        """
        return {}

    @abstractmethod
    def intervals(
        self, posterior: PosteriorT, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        """Equal-tailed credible intervals of means and covariances by name."""
