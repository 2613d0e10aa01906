"""The likelihood-ratio test of K components against K + 1, by the parametric bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mixfold.core.checks import check_above, check_kind, check_whole
from mixfold.core.errors import InvalidInputError
from mixfold.core.missing_cells import has_missing
from mixfold.core.registry import is_called
from mixfold.core.rows import Array
from mixfold.estimators._candidate_starts import InMemory, Starts, read_in_memory
from mixfold.estimators._candidates import Candidate
from mixfold.estimators._cells import frame_of
from mixfold.estimators._component_numbers import check_distinct
from mixfold.estimators._edge import open_data, seed_from
from mixfold.estimators._mixture_settings import MixtureSettings
from mixfold.estimators.mixture import Mixture
from mixfold.fitting.component_order import component_order, reorder
from mixfold.learners.auto import Auto
from mixfold.learners.neighbouring_starts import UNTIL_CONVERGED
from mixfold.sources.array_source import ArraySource

SAME = 4.0 * UNTIL_CONVERGED.tol  # differences of the statistic that convergence leaves
MOST_FAILURES = 10  # of fits to a replicate, which is then drawn anew

Progress = Callable[[int, int], object]


@dataclass
class BootstrapTest:
    """Likelihood-ratio tests of K components against K + 1, for one or several K.

    Attributes
    ----------
    components : list of int
        The numbers K that were tested.
    statistics : list of float
        Twice the difference of the maximal log-likelihoods, for each K.
    p_values : list of float
        The part of the bootstrap statistics, the observed one among them, that is not smaller.
    replicates : list of arrays
        The bootstrap statistics for each K.
    level : float
        The level at which a number of components is rejected.
    """

    level: float
    components: list[int] = field(default_factory=list)
    statistics: list[float] = field(default_factory=list)
    p_values: list[float] = field(default_factory=list)
    replicates: list[Array] = field(default_factory=list)

    @property
    def n_components(self) -> int:
        """The first number that was not rejected, or one more than the last if all were."""
        return self.components[-1] + self.rejected

    @property
    def rejected(self) -> bool:
        """Whether the last number of components was rejected."""
        return self.p_values[-1] <= self.level

    def table(self) -> Any:
        """A row for each K: a pandas frame, or an Arrow table if there is no pandas."""
        return frame_of(
            {
                "n_components": self.components,
                "against": [k + 1 for k in self.components],
                "statistic": self.statistics,
                "p_value": self.p_values,
            }
        )

    def add(self, k: int, statistic: float, replicates: Array) -> None:
        """Add the test of K components."""
        reached = int((replicates >= statistic - SAME).sum())
        self.components.append(k)
        self.statistics.append(statistic)
        self.p_values.append((1 + reached) / (1 + len(replicates)))
        self.replicates.append(replicates)


def bootstrap_test(
    mixture: Mixture,
    X: Any,
    n_components: int | None = None,
    *,
    most: int = 8,
    n_replicates: int = 199,
    level: float = 0.05,
    random_state: Any = None,
    progress: Progress | None = None,
) -> BootstrapTest:
    """Test K components against K + 1 by likelihood-ratio tests with a parametric bootstrap.

    The likelihood ratio of mixtures has no known distribution. So rows are drawn from the fit with
    K components, both numbers of components are fitted to them, and the observed ratio is compared
    with theirs. Fits to drawn rows are searched for as thoroughly as those to the data: by the
    learner's initialisations, splits and merges of components, and EM until it converges.

    Parameters
    ----------
    mixture : Mixture
        Its family, noise, `n_init`, learner and missing cells are those of the fits; its
        `n_components` does not matter, and it is not fitted. "auto" is `Auto(prior_strength=0)`.
    X : array, table, path or blocks
        The rows, which are kept in memory. Cells that are missing in X are so in drawn rows.
    n_components : int, default=None
        K; None tests 1, 2, 3, ... components until a number is not rejected.
    most : int, default=8
        The largest number that is tested by `n_components=None`.
    n_replicates : int, default=199
        Bootstrap replicates of each test. (n_replicates + 1) * level should be a whole number.
    level : float, default=0.05
        A number of components is rejected if its p-value is at most `level`.
    random_state : int, RandomState or Generator, default=None
        The seed of the replicates; None is that of the mixture.
    progress : callable, default=None
        Called after every replicate with K and how many replicates are done.

    Returns
    -------
    BootstrapTest
        `n_components` is the first number that was not rejected, `table()` has all tests.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture, bootstrap_test
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.poisson(np.repeat([3.0, 12.0], 60))[:, None]
    >>> tests = bootstrap_test(Mixture("poisson", random_state=0), counts, n_replicates=19)
    >>> tests.components, tests.p_values[0], tests.n_components
    ([1, 2], 0.05, 2)

    References
    ----------
    McLachlan (1987), On bootstrapping the likelihood ratio test statistic for the number of
    components in a normal mixture, Applied Statistics 36, 318-324.
    """
    check_kind("mixture", mixture, Mixture)
    for name, number in (("most", most), ("n_replicates", n_replicates)):
        check_whole(name, number)
    if n_components is not None:
        check_whole("n_components", n_components)
    check_above("level", level, 0.0, 1.0)
    seed = seed_from(mixture.random_state if random_state is None else random_state)
    rows, found = _Rows(mixture, X, seed), BootstrapTest(float(level))
    for k in [n_components] if n_components is not None else range(1, most + 1):
        check_distinct([k + 1], rows.memory)
        null, statistic = rows.ratio(rows.memory, k)
        drawn = []
        for one in rows.replicates(null, k, n_replicates):
            drawn.append(one)
            if progress is not None:
                progress(k, len(drawn))
        found.add(k, statistic, np.array(drawn))
        if not found.rejected:
            break
    return found


class _Rows:
    """The rows of a test, and how mixtures are fitted to them."""

    def __init__(self, mixture: Mixture, X: Any, seed: int) -> None:
        maximal = Auto(prior_strength=0.0)
        learner = maximal if is_called(mixture.learner, "auto") else mixture.learner
        self.mixture = Mixture(**mixture.get_params(deep=False)).set_params(learner=learner)
        self.seed = seed
        self.mixture._check_parameters()
        family = self.mixture._family_for(X, None)
        columns, cells = self.mixture._table_columns(), self.mixture._settings(family).cells
        source = open_data(self.mixture, X, None, columns, reset=True, cells=cells)
        self.memory = read_in_memory(source, seed)
        if not self.memory.whole:
            raise InvalidInputError(
                f"the {self.memory.length:,} rows of X do not fit into memory, as the bootstrap "
                "needs: give a sample of them"
            )
        self.x = np.asarray(self.memory.rows.whole().x, dtype=np.float64)
        self.family = family
        settings = self._settings(1).with_noise(mixture.noise, self.memory.rows)
        self.box = settings.box

    def _settings(self, k: int) -> MixtureSettings:
        self.mixture.n_components = k
        settings = self.mixture._settings(self.family).bound(self.memory.rows)
        return settings.for_missing() if has_missing(self.x) else settings

    def ratio(self, memory: InMemory, k: int) -> tuple[Candidate, float]:
        """The fit with K components, and twice the logarithm of the likelihood ratio."""
        pair = [
            Candidate("", number, self.family, replace(self._settings(number), box=self.box))
            for number in (k, k + 1)
        ]
        Starts(memory, None, "bic", False, self.mixture.n_init, self.seed).find(pair)
        for one in pair:
            if one.error is not None:
                raise one.error
        null, other = (one.start for one in pair)
        assert null is not None
        assert other is not None
        return pair[0], max(2.0 * memory.weight * (other.score - null.score), 0.0)

    def replicates(self, null: Candidate, k: int, number: int) -> Iterator[float]:
        """The statistics of rows drawn from a fit."""
        assert null.start is not None
        assert null.backend is not None
        model = null.backend.model
        params = reorder(null.start.params, component_order(model, null.start.params))
        for replicate in range(number):
            yield self._replicate(model, params, [self.seed, k, replicate])

    def _replicate(self, model: Any, params: Any, seed: list[int]) -> float:
        """The statistic of one replicate, which is drawn anew if a fit fails."""
        rng = np.random.default_rng(seed)
        for attempt in range(MOST_FAILURES):
            x = np.where(np.isnan(self.x), np.nan, model.sample(params, len(self.x), rng)[0])
            memory = InMemory(ArraySource(x, None, self.memory.rows.columns), len(x))
            try:
                return self.ratio(memory, seed[1])[1]
            except (np.linalg.LinAlgError, ArithmeticError, InvalidInputError):
                if attempt == MOST_FAILURES - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")
