"""Products of categorical distributions over columns."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import KernelTerm
from mixfold.core.checks import check_array, check_kind, check_whole
from mixfold.core.conjugate import Conjugate
from mixfold.core.errors import InvalidInputError
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.expression import Expression, total
from mixfold.core.family import n_components_with
from mixfold.core.independent_columns import IndependentColumns, one_by_one
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.families._dirichlet_posteriors import DirichletPosterior, DirichletProbabilities
from mixfold.families._probabilities import (
    LOWEST,
    ProbabilityParams,
    at_least,
    check_sums,
    halfway_to_mean,
    normalized,
    softmax,
    weighted_mean,
)

__all__ = ["Categorical", "ProbabilityParams"]

MOST_LEVELS = 2**16


@value
class Categorical(IndependentColumns, ExponentialFamily[ProbabilityParams]):
    """Columns of levels coded 0 to L - 1, where p[k, j, l] is the probability of level l.

    t(x) has a one for the level of every column and zeros for the others, eta = log(p),
    A = sum over columns of log(sum over levels of exp(eta)), h = 1. Columns are independent within
    a component: latent class analysis. Probabilities are at least 1e-8; components with a level at
    this limit are counted as degenerate. Components are sorted by the probability of the last
    level of the first column.

    Parameters
    ----------
    levels : int, default=2
        The number L of levels of all columns. In a column with fewer, the others have the smallest
        probability.

    Examples
    --------
    >>> from mixfold import Categorical, Mixture
    >>> rows = [[0, 1], [0, 1], [2, 2], [2, 0]]
    >>> model = Mixture(Categorical(levels=3), 2, random_state=0).fit(rows)
    >>> model.modes_[:, 0]
    array([0., 2.])
    >>> model.probabilities_[0].round(2)
    array([[1., 0., 0.],
           [0., 1., 0.]])

    References
    ----------
    Goodman (1974), Exploratory latent structure analysis using both identifiable and
    unidentifiable models, Biometrika 61.
    """

    has_categories = True

    levels: int = 2

    def __post_init__(self) -> None:
        check_whole("levels", self.levels, 2)
        if self.levels > MOST_LEVELS:
            raise InvalidInputError(f"levels is {self.levels!r}: at most {MOST_LEVELS} are allowed")

    @classmethod
    def variants(cls) -> list[Self]:
        return [cls(levels=4)]

    @property
    def support(self) -> Support:
        return Support(0.0, self.levels - 1.0, whole=True)

    def check_params(self, params: ProbabilityParams, k: int, d: int) -> None:
        check_kind("components", params, ProbabilityParams)
        check_array("probabilities", params.probabilities, (k, d, self.levels), LOWEST, 1.0)
        check_sums(params.probabilities)

    def example(self, k: int, d: int, rng: np.random.Generator) -> ProbabilityParams:
        return ProbabilityParams(rng.dirichlet(np.full(self.levels, 2.0), size=(k, d)))

    def n_statistics(self, d: int) -> int:
        return d * self.levels

    def sufficient_statistics(self, x: Array) -> Array:
        found = x[:, :, None] == np.arange(self.levels)
        return np.asarray(found.reshape(len(x), self.n_statistics(x.shape[1])), dtype=np.float64)

    def columns_of_statistics(self, d: int) -> NDArray[np.intp]:
        """All levels of a column follow one another."""
        return one_by_one(d, self.levels)

    def log_base_measure(self, x: Array) -> Array:
        return np.zeros(len(x))

    def to_natural(self, params: ProbabilityParams) -> Array:
        return np.log(self.mean(params))

    def log_normalizer(self, eta: Array) -> Array:
        from scipy.special import logsumexp

        return np.asarray(logsumexp(self._by_level(eta), axis=2).sum(axis=1))

    def mean(self, params: ProbabilityParams) -> Array:
        return params.probabilities.reshape(len(params.probabilities), -1)

    def maximize(self, blocks: Blocks) -> tuple[ProbabilityParams, int]:
        (block,) = blocks
        p, low = normalized(self._by_level(block.mean))
        return ProbabilityParams(p), n_components_with(low)

    def degenerate(self, params: ProbabilityParams, weights: Array) -> NDArray[np.bool_]:
        """Where a level of a column has the smallest probability."""
        return np.asarray(at_least(params.probabilities).any(axis=2))

    def density_expression(
        self, params: ProbabilityParams, x: Expression, marginalize: bool
    ) -> Expression:
        """By a table of log p, with rows for cells that are missing and for codes of no level."""
        k, d, levels = params.probabilities.shape
        table = np.full((d, levels + 2, k), np.nan)
        table[:, :levels] = np.log(params.probabilities).transpose(1, 2, 0)
        if marginalize:
            table[:, levels] = 0.0
        wrong = total(
            x.below(0.0).as_numbers(), Expression("Greater", x, levels - 1.0).as_numbers()
        )
        code = x.is_missing().choose(levels, wrong.equals(0.0).choose(x, levels + 1.0))
        places = (code + (levels + 2.0) * np.arange(d)).converted(np.int64)
        return Expression("Gather", table.reshape(-1, k), places, axis=0).sum(1)

    def scipy_log_density(self, params: ProbabilityParams, x: Array) -> Array:
        from scipy.stats import multinomial

        one_hot = self._by_level(self.sufficient_statistics(x))
        found = multinomial.logpmf(one_hot[:, None], 1, params.probabilities)
        return np.asarray(found.sum(axis=2))

    def sample(
        self, params: ProbabilityParams, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        reached = params.probabilities.cumsum(axis=2)[labels]
        u = rng.random((*reached.shape[:2], 1)) * reached[:, :, -1:]
        return np.asarray((u >= reached).sum(axis=2), dtype=np.float64)

    def n_parameters(self, k: int, d: int) -> int:
        return k * d * (self.levels - 1)

    def attributes(self, params: ProbabilityParams) -> dict[str, Array]:
        """The means of the codes, probabilities, and the most probable level of every column."""
        p = params.probabilities
        modes = p.argmax(axis=2).astype(np.float64)
        return {"means": p @ np.arange(self.levels), "probabilities": p, "modes": modes}

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """KL(p, q) of rows and centres, both moved half of the way to the mean of all rows.

        Centres that are means of codes are rounded to levels.
        """
        from scipy.special import rel_entr

        t = self.sufficient_statistics(x)
        c = self.sufficient_statistics(centers.round().clip(0.0, self.levels - 1.0))
        mean = weighted_mean(t, weight)
        p, q = halfway_to_mean(t, mean), halfway_to_mean(c, mean)
        return np.stack([rel_entr(p, one).sum(axis=1) for one in q], axis=1)

    def _by_level(self, flat: Array) -> Array:
        """(n, d * levels) as (n, d, levels)."""
        return flat.reshape(len(flat), -1, self.levels)

    def level_probabilities(self, params: ProbabilityParams) -> Array:
        return params.probabilities

    # capabilities; coordinates begin with those of the last level, one per column

    @property
    def conjugate(self) -> Conjugate:
        return LevelProbabilities(self, self.levels)

    def unconstrained(self, params: ProbabilityParams) -> Array:
        logs = np.log(params.probabilities[:, :, ::-1])
        return logs.transpose(0, 2, 1).reshape(len(logs), -1)

    def constrained(self, coordinates: Array, like: ProbabilityParams) -> ProbabilityParams:
        k, d, levels = like.probabilities.shape
        logs = coordinates.reshape(k, levels, d).transpose(0, 2, 1)
        return ProbabilityParams(softmax(logs[:, :, ::-1]))

    def coordinate_scales(self, params: ProbabilityParams) -> Array:
        return np.ones_like(self.mean(params))

    def kernel_term(self, params: ProbabilityParams) -> KernelTerm | None:
        if params.probabilities.shape[1] != 1:
            return None
        p = self.mean(params)
        return KernelTerm("levels", np.log(p / p.sum(axis=1, keepdims=True)))

    def parameter_bounds(self, params: ProbabilityParams) -> tuple[float, float, float]:
        p = params.probabilities
        return float(p.max()), float(p.min()), float(p.max())


class LevelProbabilities(DirichletProbabilities):
    """Posteriors of the probabilities of levels, of which a column has one in every row."""

    def __init__(self, family: Categorical, levels: int) -> None:
        super().__init__(family, 1)
        self.levels = levels

    def shape(self, k: int, d: int) -> tuple[int, ...]:
        return (k, d, self.levels)

    def outcomes(self, t: Array) -> Array:
        return t.reshape(len(t), -1, self.levels)

    def expected_log_params(
        self, posterior: DirichletPosterior, weights: Array
    ) -> tuple[ProbabilityParams, Array]:
        from scipy.special import logsumexp

        logs = self.expected_logs(posterior)
        totals = logsumexp(logs, axis=2, keepdims=True)
        return ProbabilityParams(np.exp(logs - totals)), totals.sum(axis=(1, 2))

    def intervals(
        self, posterior: DirichletPosterior, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        return {"probabilities": self.probabilities(posterior, level)}
