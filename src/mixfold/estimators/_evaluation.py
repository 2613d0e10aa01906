"""Methods of fitted mixtures: evaluation, sampling, saving."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from mixfold.core.arrays import concatenated, largest_log_joint, on_host
from mixfold.core.backend import Backend
from mixfold.core.checks import check_above
from mixfold.core.engine import RowResult
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.learner_capabilities import row_keeping
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
from mixfold.estimators._shaped import Result, in_form_of_x, is_lazy, summed
from mixfold.estimators._table_notes import TableNotes
from mixfold.families.incomplete_rows import with_missing
from mixfold.fitting.atomic_files import check_output, replacing
from mixfold.fitting.history import no_history
from mixfold.fitting.loop import check_some
from mixfold.fitting.placement import Placement, placement_for
from mixfold.fitting.plan import check_served
from mixfold.fitting.stream import Stream
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.corrected_intervals import corrected as corrected_intervals
from mixfold.models.mixture_model import MixtureModel

MARGINALIZE = "marginalize"
# what an estimator that is sent to a worker does without
ALONE = {"n_threads": 1, "cluster": None, "checkpoint": None, "progress": None, "verbose": 0}


def number(name: str, dtype: Any) -> Result:
    """One number for every row."""
    return lambda model: RowResult(name, dtype)


def responsibilities_of(model: Any) -> RowResult:
    """A number for every component and, if there is any, for noise."""
    learned = model._current().model
    names = [f"responsibility_{k}" for k in range(learned.k + int(learned.has_noise))]
    return RowResult("responsibility", np.float64, names)


def log_density_sums(log_density: Any, _: Any) -> Floats:
    """The sum of log-densities, and the number of rows."""
    return np.array([float(log_density.sum()), len(log_density)])


def bound_sums(log_density: Any, responsibilities: Any) -> Floats:
    """The sum of the log-densities of the most probable components, and the number of rows."""
    best = largest_log_joint(log_density, responsibilities)
    return np.array([float(best.sum()), len(best)])


def criterion_sums(log_density: Any, responsibilities: Any) -> Floats:
    """The sum of log-densities, the number of rows, and the entropy of their components."""
    r = on_host(responsibilities)
    entropy = -float((r * np.log(np.maximum(r, 1e-300))).sum())
    return np.array([float(log_density.sum()), len(log_density), entropy])


@dataclass(frozen=True)
class PosteriorSums:
    """Sums over the rows of each block, for `summed`."""

    model: Evaluation
    sums: Callable[[Any, Any], Floats]
    responsibilities: bool

    def __call__(self, X: Any) -> Iterator[Floats]:
        for part in self.model._posteriors(X, self.responsibilities):
            yield self.sums(*part)


def noise_last(labels: Any, model: MixtureModel) -> Any:
    """Labels with -1 in place of the number of noise, which comes after the K components."""
    return labels - (model.k + 1) * (labels == model.k) if model.has_noise else labels


class Evaluation(DensityMixin, Guarded):  # type: ignore[misc]
    """The methods of a fitted mixture."""

    n_threads: int | None
    random_state: Any
    engine: str | None = None
    cluster: Any = None
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
        cells = self._evaluated_cells(learned)
        return open_data(self, X, sample_weight, None, reset=False, device=device, cells=cells)

    def _evaluated_cells(self, learned: Learned) -> Cells:
        """How the cells of rows to evaluate are read."""
        family = learned.model.family
        return self._cells_of(family, self._allows_missing or family.accepts_missing)

    def for_evaluation(self) -> Self:
        """A small copy, without rows and what only learning needs, for workers of a cluster."""
        model = self._twin()
        learned = model._current()
        state = learned.stream.state
        if state is not None:
            state = row_keeping(learned.learner).without_rows(state)
        light = replace(learned, stream=Stream(None, state, []), history=no_history())
        model.__dict__ |= {"_learned": light, "_live": None, "_copies": deque(), **ALONE}
        return model

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

    @in_form_of_x(number("log_density", np.float64))
    def score_samples(self, X: Any) -> Any:
        """Log-density of every row, in the form of X: a tensor, a Dask array and so on."""
        return concatenated([part[0] for part in self._posteriors(X, False)])

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of rows."""
        total, n = self._summed(X, log_density_sums, False)
        return float(total / n)

    def score_bound(self, X: Any) -> float:
        """Mean over rows of max_k log w_k p(x | k): `score` with hard assignments.

        It is never above `score`, nor more than log K below it.
        """
        total, n = self._summed(X, bound_sums, True)
        return float(total / n)

    def _summed(self, X: Any, sums: Callable[[Any, Any], Floats], responsibilities: bool) -> Any:
        """Sums over all rows; those of a Dask collection are computed where it is."""
        check_is_fitted(self)
        if not is_lazy(X):
            return sum(PosteriorSums(self, sums, responsibilities)(X))
        model = self.for_evaluation()
        found = summed(model, PosteriorSums(model, sums, responsibilities), X, self.cluster)
        n = int(np.ndim(found) and found[1])
        check_some(n, n)
        return found

    @in_form_of_x(responsibilities_of)
    def predict_proba(self, X: Any) -> Any:
        """Responsibilities (n, K), with noise (n, K + 1), in the form of X."""
        return concatenated([part[1] for part in self._posteriors(X, True)])

    @in_form_of_x(number("label", np.int64))
    def predict(self, X: Any) -> Any:
        """The most probable component of each row, in the form of X.

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
        total, n, entropy = self._summed(X, criterion_sums, True)
        free = self._twin()._now().model.n_parameters()
        return float(-2.0 * total + penalty(free, int(n), float(entropy)))

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

    def to_onnx(self, path: str | Path | None = None, *, dtype: str = "float32") -> Any:
        """The mixture as an `onnx.ModelProto`, which other programs evaluate without mixfold.

        Results are `label`, `probabilities` and `score_samples`: those of `predict`,
        `predict_proba` and `score_samples`. Numbers are computed in float64. Rows are a matrix `X`
        or, if the families of a mixture were chosen for the named columns of a table, one input
        (n, 1) for each column: text for categories that are text, with "" for a missing one,
        days since 1970 in float64 for dates, and numbers for all others.

        With `missing="marginalize"`, missing cells (NaN) are integrated out of independent columns,
        and of joint distributions of up to 16 Gaussian columns if the fit had missing cells too.
        Results of rows with other missing cells, or with unknown categories, are NaN, and their
        label is -1. The support of families is not checked.

        Parameters
        ----------
        path : path, default=None
            A file to which the model is written too.
        dtype : {"float32", "float64"}, default="float32"
            The type of the inputs of numbers, and of the results except labels.
        """
        from mixfold.estimators.onnx_model import onnx_model

        check_is_fitted(self)
        if path is not None:
            check_output(Path(path))
        model = self._twin()
        learned = model._current()
        family = learned.model.family
        missing = model._allows_missing or family.accepts_missing
        names, cells = getattr(model, "feature_names_in_", None), model._cells_of(family, missing)
        params = model._evaluated(learned)
        made = onnx_model(learned.model, params, dtype, missing, names, cells)
        if path is not None:
            with replacing(Path(path)) as file:
                file.write(made.SerializeToString())
        return made

    def save(self, path: str | Path) -> None:
        """Write a model file that `mixfold.load` reads."""
        from mixfold.estimators.saving import save

        check_is_fitted(self)
        save(self, path)
