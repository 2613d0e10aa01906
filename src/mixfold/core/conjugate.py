"""What a conjugate prior is: posteriors of K components in batched arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, Literal

import numpy as np

from mixfold.core.checks import check_above
from mixfold.core.errors import InvalidInputError
from mixfold.core.params import ParamsT, PosteriorT
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.value import value

REACH = 1e-20  # a row that is less probably a component's leaves its posterior as it is


@value
class Prior:
    """What is believed before any row, where it is not taken from the start.

    `alpha` is the Dirichlet parameter of every weight. `means`, (d,) or (K, d), are worth `kappa`
    rows, and `covariance`, (d, d) or (K, d, d), or (d,) or (K, d) if diagonal, has `nu` degrees of
    freedom, more than d + 1. None leaves it to the start, or to `nu` = d + 3.

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
    """The fraction of the pseudo-counts before that every part retains: rows can lower them."""
    return np.asarray(np.min([np.minimum(part / before, 1.0) for part in parts], axis=0))


def joined(before: Array, parts: Sequence[Array], share: Array) -> Array:
    """The sum of natural parameters, `share` of those before being counted once."""
    return np.asarray(sum(parts) - (len(parts) - 1) * share * before)


class Conjugate(ABC, Generic[ParamsT, PosteriorT]):
    """Posteriors of the parameters of K components that Bayes' rule keeps in their family.

    `responsibilities` (K,) are the probabilities that a row belongs to each component, `weights`
    (K,) the mean weights of the components: limits of parameters may depend on all rows. Posteriors
    are values.
    """

    compiled: ClassVar[Literal["normal", "poisson", "exponential"] | None] = None
    """Which compiled kernel matches moments row by row, where there is one."""

    @abstractmethod
    def prior(self, params: ParamsT, prior: Prior) -> PosteriorT:
        """The prior, about initial parameters."""

    @abstractmethod
    def check(self, posterior: PosteriorT, k: int, d: int) -> None:
        """Refuse a posterior outside its domain, or of other than K components in d columns."""

    @abstractmethod
    def log_evidence(self, posterior: PosteriorT, x: Array, weight: Array) -> Array:
        """Predictive log density of rows of these weights (n,), (n, K)."""

    @abstractmethod
    def match(
        self, posterior: PosteriorT, x: Array, weight: float, responsibilities: Array
    ) -> tuple[PosteriorT, int]:
        """With the moments of r (posterior and row) + (1 - r) posterior; degenerate ones."""

    @abstractmethod
    def absorb(self, posterior: PosteriorT, blocks: Blocks) -> PosteriorT:
        """The posterior after rows that are known to belong where the blocks say."""

    @abstractmethod
    def combine(self, before: PosteriorT, parts: Sequence[PosteriorT]) -> PosteriorT:
        """The posterior after all rows, from those after some of them: before + sum(part - before).

        The sum is over natural parameters. Of `before` counts what all parts still hold: if one
        has come to doubt it, the rest would otherwise be weighed with negative knowledge.
        """

    @abstractmethod
    def expected(self, posterior: PosteriorT, weights: Array) -> ParamsT:
        """The family's parameters on average, within the family's limits."""

    @abstractmethod
    def expected_log_params(self, posterior: PosteriorT, weights: Array) -> tuple[ParamsT, Array]:
        """Parameters and constants (K,): log density + constant is E[log p(x | k)].

        The parameters are within the family's limits.
        """

    @abstractmethod
    def intervals(
        self, posterior: PosteriorT, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        """Equal-tailed credible intervals of means and covariances by name."""
