"""What a conjugate prior is: beliefs about K components in batched arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfold.core.checks import check_above
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.statistics import Statistics
from mixfold.core.value import value

REACH = 1e-20  # a row that is less probably a component's leaves its beliefs as they are


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
    means: Any = None
    covariance: Any = None

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


def held(before: Array, parts: Sequence[Array]) -> Array:
    """How much of what was known before all parts still know: rows may raise doubts."""
    return np.asarray(np.min([np.minimum(part / before, 1.0) for part in parts], axis=0))


def joined(before: Array, parts: Sequence[Array], share: Array) -> Array:
    """The sum of natural parameters, `share` of those before counted once."""
    return np.asarray(sum(parts) - (len(parts) - 1) * share * before)


class Conjugate(ABC):
    """Beliefs about the parameters of K components that Bayes' rule keeps in their family.

    `c` are the probabilities (K,) that a row belongs to each component. Beliefs are values.
    """

    @abstractmethod
    def prior(self, params: Any, prior: Prior) -> Any:
        """Beliefs before any row, around the parameters of a start."""

    @abstractmethod
    def check(self, beliefs: Any, k: int, d: int) -> None:
        """Refuse beliefs outside their domain, or of other than K components in d columns."""

    @abstractmethod
    def log_evidence(self, beliefs: Any, x: Array, weight: Array) -> Array:
        """log of the density of rows as weighty as `weight` (n,) says, under beliefs, (n, K)."""

    @abstractmethod
    def match(self, beliefs: Any, x: Array, weight: float, c: Array) -> tuple[Any, int]:
        """Beliefs with the moments of c (beliefs and the row) + (1 - c) beliefs; repairs made."""

    @abstractmethod
    def absorb(self, beliefs: Any, statistics: Statistics) -> Any:
        """Beliefs after rows that are known to belong where the statistics say."""

    @abstractmethod
    def combine(self, before: Any, parts: Sequence[Any]) -> Any:
        """Beliefs after all rows, from those after some of them each: before + sum(part - before).

        The sum is over natural parameters. Of `before` counts what all parts still hold: if one
        has come to doubt it, the rest would otherwise be weighed with negative knowledge.
        """

    @abstractmethod
    def expected(self, beliefs: Any) -> Any:
        """The family's parameters on average."""

    @abstractmethod
    def surrogate(self, beliefs: Any) -> tuple[Any, Array]:
        """Parameters and constants (K,): log density + constant is E[log p(x | k)]."""

    @abstractmethod
    def intervals(self, beliefs: Any, level: float) -> dict[str, tuple[Array, Array]]:
        """Equal-tailed credible intervals of means and covariances by name."""
