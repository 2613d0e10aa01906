"""Methods of fitted mixtures: evaluation, sampling, saving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from mixfold.core.arrays import concatenated, largest_log_joint, on_host
from mixfold.core.backend import Backend
from mixfold.core.checks import check_above
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.missing_cells import has_missing
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows
from mixfold.core.source import Source
from mixfold.core.value import replace
from mixfold.estimators._cells import Cells, cells_of
from mixfold.estimators._edge import check_rows, open_data, seed_from
from mixfold.estimators._guarded import Guarded
from mixfold.estimators._learned import Learned
from mixfold.estimators._placing import evaluated
from mixfold.estimators._table_notes import TableNotes
from mixfold.estimators.on_workers import by_workers, noise_last
from mixfold.families.incomplete_rows import with_missing
from mixfold.fitting.loop import check_some
from mixfold.fitting.placement import Placement, placement_for
from mixfold.fitting.plan import check_served
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.corrected_intervals import corrected as corrected_intervals
from mixfold.models.mixture_model import MixtureModel

MARGINALIZE = "marginalize"


class Evaluation(DensityMixin, Guarded):  # type: ignore[misc]
    """The methods of a fitted mixture."""

    n_threads: int | None
    random_state: Any
    engine: str | None = None
    missing: str = "error"
    _notes: TableNotes | None = None  # about the table of the fit

    @property
    def _allows_missing(self) -> bool:
        """Whether missing cells are integrated out."""
        return self.missing == MARGINALIZE

    def _cells_of(self, family: Family, missing: bool) -> Cells:
        """How cells are read: dates where the table of the fit had them."""
        return cells_of(family, missing, None if self._notes is None else self._notes.dates)

    def _now(self) -> Learned:
        raise AssertionError("every estimator says what it has learned")

    def _current(self) -> Learned:
        """The parameters and the model learned so far; the state may lack the latest rows."""
        return self._now()

    def _seed(self) -> int:
        return seed_from(self.random_state)

    def _source(
        self, X: Any, learned: Learned, device: Any = None, sample_weight: Any = None
    ) -> Source:
        """The rows to evaluate, with missing cells where they are integrated out."""
        family = learned.model.family
        cells = self._cells_of(family, self._allows_missing or family.accepts_missing)
        return open_data(self, X, sample_weight, None, reset=False, device=device, cells=cells)

    def _checked(self, source: Source, learned: Learned) -> Iterator[Rows]:
        """Checked blocks of a source."""
        family, first = learned.model.family, 0
        missing = self._allows_missing or family.accepts_missing
        for rows in source.blocks():
            if missing and has_missing(rows.x):
                family = with_missing(family)
            check_rows(family, source.columns, rows, range(first, first + len(rows)))
            first += len(rows)
            yield rows
        check_some(first, first)

    def _rows(self, X: Any, learned: Learned, device: Any = None) -> Iterator[Rows]:
        """Checked blocks of rows to evaluate."""
        return self._checked(self._source(X, learned, device), learned)

    def open_rows(self, X: Any) -> Source:
        """The rows of data as the model reads them: its columns, with numbers for categories."""
        check_is_fitted(self)
        model = self._twin()
        cells = self._cells_of(model._current().model.family, self._allows_missing)
        return open_data(model, X, None, None, reset=False, cells=cells)

    def _posteriors(self, X: Any, responsibilities: bool) -> Iterator[tuple[Any, Any]]:
        check_is_fitted(self)
        model, place = self._twin(), placement_for(self.engine, X)
        learned = model._current()
        backend = place.backend(learned.model, self.n_threads)
        for rows in model._rows(X, learned, place.tensor_device):
            backend = model._serving(backend, rows, place)
            yield from evaluated(backend, self._evaluated(learned), rows, responsibilities, X)

    def _for_workers(self) -> Self:
        """A copy with which workers evaluate rows, each with one thread."""
        raise AssertionError("every estimator says what workers need")

    def _evaluated(self, learned: Learned) -> Any:
        """The parameters under which rows are evaluated."""
        return learned.params

    def _serving(
        self, backend: Backend[MixtureModel], rows: Rows, place: Placement
    ) -> Backend[MixtureModel]:
        """The backend, or one for rows with missing cells if these have any."""
        family = backend.model.family
        if not has_missing(rows.x) or family.accepts_missing:
            return backend
        incomplete = replace(backend.model, family=with_missing(family))
        return place.backend(incomplete, self.n_threads)

    def iter_posteriors(self, X: Any) -> Iterator[tuple[Any, Any]]:
        """Iterate over log p(x) and responsibilities (n, K), block by block.

        For data that do not fit in memory; the source determines the blocks.
        """
        return self._posteriors(X, True)

    @by_workers
    def score_samples(self, X: Any) -> Any:
        """Log-density of every row; a tensor if X is one on a device."""
        return concatenated([part[0] for part in self._posteriors(X, False)])

    @by_workers
    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of rows."""
        parts = [(float(p[0].sum()), len(p[0])) for p in self._posteriors(X, False)]
        return sum(p[0] for p in parts) / sum(p[1] for p in parts)

    def score_bound(self, X: Any) -> float:
        """Mean over rows of max_k log w_k p(x | k): `score` with hard assignments.

        It is never above `score`, nor more than log K below it.
        """
        parts = [largest_log_joint(*part) for part in self._posteriors(X, True)]
        return sum(float(p.sum()) for p in parts) / sum(len(p) for p in parts)

    @by_workers
    def predict_proba(self, X: Any) -> Any:
        """Responsibilities (n, K), with noise (n, K + 1); a tensor if X is one on a device."""
        return concatenated([part[1] for part in self._posteriors(X, True)])

    @by_workers
    def predict(self, X: Any) -> Any:
        """The most probable component of each row; a tensor if X is one on a device.

        It is -1 where noise is more probable than every component.
        """
        check_is_fitted(self)
        model = self._twin()
        labels = concatenated([part[1].argmax(axis=1) for part in model._posteriors(X, True)])
        return noise_last(labels, model._current().model)

    # methods for Bayesian learners

    def _posterior(self, learned: Learned) -> tuple[BayesianMixture, MixturePosterior]:
        if learned.posterior is None:
            raise InvalidInputError(
                f"{type(learned.learner).__name__} learns parameters, not their posterior: use "
                "learner='moment-matching' or 'online-vb'"
            )
        return BayesianMixture(learned.model), learned.posterior

    def posterior_predictive(self, X: Any) -> Floats:
        """Posterior predictive log-density of every row, averaged over the parameters.

        For Gaussians this is the density of a mixture of t distributions.
        """
        check_is_fitted(self)
        model = self._twin()
        learned = model._now()
        mixture, posterior = self._posterior(learned)
        found = []
        for rows in model._rows(X, learned):
            if has_missing(rows.x) and not mixture.model.family.accepts_missing:
                incomplete = replace(learned.model, family=with_missing(learned.model.family))
                check_served(learned.learner, incomplete)
                mixture = BayesianMixture(incomplete)
            found.append(mixture.predictive(posterior, rows.x))
        return np.concatenate(found)

    def expected_parameters(self) -> Any:
        """The posterior means of the parameters, as a `MixtureParams`."""
        check_is_fitted(self)
        mixture, posterior = self._posterior(self._now())
        return mixture.expected(posterior)

    def credible_intervals(
        self, level: float = 0.95, corrected: bool = True
    ) -> dict[str, tuple[Floats, Floats]]:
        """Lower and upper ends of credible intervals of probability `level`.

        They are named "weights", "means" and, for Gaussians, "covariances". Intervals of
        covariances between columns come from draws, all others are exact. In a product, means are
        those of all columns, NaN where there are none, and the others are named by their columns,
        such as "covariances of age".

        The posterior that is learned takes the components of rows for independent of its
        parameters, so that its intervals are too narrow where components overlap. They are widened
        by the information that the scores of rows have, unless `corrected` is False. Not widened
        are those of products, except means, and of models with more than 256 parameters.
        """
        check_above("level", level, 0.0, 1.0)
        check_is_fitted(self)
        learned = self._now()
        mixture, posterior = self._posterior(learned)
        found, state = mixture.intervals(posterior, float(level)), learned.stream.state
        if not corrected or state.information is None:
            return found
        params = mixture.expected(posterior)
        path, gains = learned.learner.path(state, mixture.row_counts(posterior))
        return corrected_intervals(found, mixture.model, params, state.information, path, gains)

    def _criterion(self, X: Any, penalty: Callable[[int, int, float], float]) -> float:
        total, n, entropy = 0.0, 0, 0.0
        check_is_fitted(self)
        model = self._twin()
        for log_density, responsibilities in model._posteriors(X, True):
            r = on_host(responsibilities)
            total += float(log_density.sum())
            n += len(log_density)
            entropy -= float((r * np.log(np.maximum(r, 1e-300))).sum())
        return -2.0 * total + penalty(model._now().model.n_parameters(), n, entropy)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on X; lower is better."""
        return self._criterion(X, lambda free, n, entropy: free * log(n))

    def aic(self, X: Any) -> float:
        """Akaike information criterion on X; lower is better."""
        return self._criterion(X, lambda free, n, entropy: 2.0 * free)

    def icl(self, X: Any) -> float:
        """Integrated completed likelihood on X: BIC plus twice the labels' entropy."""
        return self._criterion(X, lambda free, n, entropy: free * log(n) + 2.0 * entropy)

    def sample(self, n_samples: int = 1) -> tuple[Floats, np.ndarray]:
        """Rows drawn from the mixture, and their components."""
        check_is_fitted(self)
        if n_samples < 1:
            raise InvalidInputError(f"n_samples is {n_samples!r}: at least 1 is needed")
        rng, learned = np.random.default_rng(self._seed()), self._now()
        drawn: tuple[Floats, np.ndarray] = learned.model.sample(learned.params, n_samples, rng)
        return drawn

    def save(self, path: str | Path) -> None:
        """Write a model file that `mixfold.load` reads."""
        from mixfold.estimators.saving import save

        check_is_fitted(self)
        save(self, path)
