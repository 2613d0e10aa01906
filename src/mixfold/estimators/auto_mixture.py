"""The choice of the number of components and of their covariance."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.core.checks import check_above, check_whole
from mixfold.core.errors import (
    InvalidInputError,
    LearningWarning,
    MissingValueError,
    unknown_name,
)
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.missing_cells import has_missing
from mixfold.core.registry import is_called
from mixfold.core.rows import Rows
from mixfold.core.source import Source
from mixfold.estimators._best_estimator import BestEstimator
from mixfold.estimators._candidate_starts import InMemory, Starts, read_in_memory
from mixfold.estimators._candidates import CRITERIA, HELD_OUT, Candidate
from mixfold.estimators._cells import frame_of
from mixfold.estimators._component_numbers import check_distinct, numbers
from mixfold.estimators._covariance_names import (
    ALL,
    check_covariance,
    families_by_covariance,
    same_model,
)
from mixfold.estimators._edge import open_data, seed_from
from mixfold.estimators._evaluation import MARGINALIZE
from mixfold.estimators._held_out_rows import OF_HELD_OUT, RandomPart
from mixfold.estimators._selection import Progress, Selection
from mixfold.estimators.mixture import Mixture
from mixfold.learners.auto import Auto
from mixfold.models.noise_mixture import Box

LABELS = {
    "bic": "BIC (smaller is better)",
    "icl": "ICL (smaller is better)",
    "aic": "AIC (smaller is better)",
    HELD_OUT: "held-out log-density per row (larger is better)",
}


class AutoMixture(BestEstimator):
    """The mixture with the best number of components and covariance, by a criterion.

    Every number of components is fitted with every covariance. `results_` has a row for each of
    these candidates, and `best_estimator_` is the best, whose methods and fitted attributes this
    estimator has too: `predict`, `score`, `sample`, `save`, `weights_`, `means_` and others. To
    learn more rows afterwards, use `best_estimator_.partial_fit`.

    Parameters
    ----------
    n_components : int or sequence of int, default=1, 2, ..., 9
        The numbers of components, such as `range(1, 10)`.
    covariance : "all", str or list of str, default="all"
        Covariances of the components: "all" is mclust's fourteen (EII, VII, ..., VVV) for
        Gaussians, and whatever a family has to choose from otherwise.
    family : str or family object, default="gaussian"
        The distribution of the components, as of `Mixture`.
    criterion : {"bic", "icl", "aic", "held-out"}, default="bic"
        BIC is p log n - 2 log L, with p free parameters and n rows (the sum of their weights). AIC
        is 2 p - 2 log L. ICL is BIC plus twice the entropy of the responsibilities, which prefers
        clusters that do not overlap. Of these the smallest is best, as in scikit-learn; mclust
        shows 2 log L - p log n, of which the largest is best. "held-out" is the mean log-density of
        rows that are not learned from, of which the largest is best.
    held_out_fraction : float, default=0.1
        The fraction of rows that "held-out" does not learn from; it is drawn by `random_state`.
    drop : bool, default=True
        Whether candidates that can hardly win any more are dropped: before the search for initial
        parameters, or before or during the passes over the data. The column `dropped` of
        `results_` says so, and their criteria are then those reached until there.
    learner : str or learner object, default="auto"
        The algorithm. "auto" is `Auto(prior_strength=0)`, as the criteria are defined for maximum
        likelihood.
    n_init : int, default=2
        Number of searches for initial parameters for each candidate. With one, fits take about half
        as long, and more often end in another maximum than the highest.
    max_iter, noise, missing, overrides, unseen, columns, random_state, n_threads :
        As of `Mixture`.
    verbose : int, default=0
        If above 0, every candidate is printed on stderr.

    Attributes
    ----------
    results_ : table
        A row for each candidate: `n_components`, `covariance`, `log_likelihood` of all rows
        learned, `n_parameters`, `bic`, `icl`, `aic`, `held_out` if that is the criterion,
        `n_degenerate`, `converged`, `dropped` (why it was not fitted until the end, or cannot be
        chosen; else empty), `seconds`, `n_init` (how many searches for initial parameters were
        made), `restarts` (from how many splits and merges of other candidates EM was started) and
        `start` (which was best: "search", "split" or "merge"). A pandas frame, or an Arrow table if
        there is no pandas.
    best_estimator_ : Mixture
        The best candidate.

    Notes
    -----
    Besides the search that `Mixture` makes, initial parameters come from the candidates with one
    component fewer, of which one is split, and one more, of which two are merged or one is left
    out; the best is kept. Candidates with degenerate components on few rows, whose likelihood is
    not bounded, are chosen only if there are no others. Covariances that are the same model, as all
    orientations of a single component, are fitted once.

    Data of up to 64 MiB are read once, and kept in memory. Of larger ones a sample of 64 MiB is
    drawn in one pass, and all candidates are then fitted in the same passes, so that a file is read
    as often as the candidate that needs most passes requires. One more pass computes the criteria,
    and "held-out" needs three more.

    Examples
    --------
    >>> from mixfold import AutoMixture, datasets
    >>> auto = AutoMixture(range(1, 4), ["EEE", "VVV"], random_state=0)
    >>> auto = auto.fit(datasets.load_faithful())
    >>> auto.best_estimator_.n_components, auto.best_estimator_.family.covariance
    (3, 'EEE')

    References
    ----------
    Schwarz (1978), Estimating the dimension of a model; Biernacki, Celeux and Govaert (2000),
    Assessing a mixture model for clustering with the integrated completed likelihood; Scrucca, Fop,
    Murphy and Raftery (2016), mclust 5.
    """

    progress: Progress | None = None  # set by front ends that display progress

    def __init__(
        self,
        n_components: int | Sequence[int] = tuple(range(1, 10)),
        covariance: str | Sequence[str] = ALL,
        family: str | Family = "gaussian",
        criterion: str = "bic",
        *,
        held_out_fraction: float = 0.1,
        drop: bool = True,
        learner: str | Learner = "auto",
        n_init: int = 2,
        max_iter: int | None = None,
        noise: Any = None,
        missing: str = MARGINALIZE,
        overrides: Any = None,
        unseen: str = "error",
        columns: Sequence[str] | None = None,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.covariance = covariance
        self.family = family
        self.criterion = criterion
        self.held_out_fraction = held_out_fraction
        self.drop = drop
        self.learner = learner
        self.n_init = n_init
        self.max_iter = max_iter
        self.noise = noise
        self.missing = missing
        self.overrides = overrides
        self.unseen = unseen
        self.columns = columns
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit all candidates, and keep the best.

        Parameters
        ----------
        X : array, table, path, list of paths, glob, address, `CsvFiles`, lazy frame, or blocks
            Rows to learn from.
        y : ignored
        sample_weight : array of n weights, or for tables and files the name of a column
        """
        with self._learning() as model:
            model._check_parameters()
            model._select(X, sample_weight)
        self.best_estimator_._warn_of_degenerate()
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit all candidates, and return the most probable component of the best for each row."""
        return self.fit(X, y, sample_weight).predict(X)

    # checks

    def _check_parameters(self) -> None:
        numbers(self.n_components)
        check_covariance(self.covariance)
        if self.criterion not in CRITERIA:
            raise unknown_name("criterion", self.criterion, CRITERIA)
        check_above("held_out_fraction", self.held_out_fraction, 0.0, 0.9)
        check_whole("n_init", self.n_init)
        self._mixture(1, self.family)._check_parameters()

    def _mixture(self, k: int, family: Any) -> Mixture:
        """A mixture with the settings of this estimator."""
        learner = Auto(prior_strength=0.0) if is_called(self.learner, "auto") else self.learner
        return Mixture(
            family,
            k,
            learner=learner,
            n_init=self.n_init,
            max_iter=self.max_iter,
            noise=self.noise,
            missing=self.missing,
            overrides=self.overrides if is_called(family, "auto") else None,
            unseen=self.unseen,
            columns=self.columns,
            random_state=self.random_state,
            n_threads=self.n_threads,
            verbose=self.verbose,
        )

    # the selection

    def _select(self, X: Any, sample_weight: Any) -> None:
        """Choose the best candidate and remember it."""
        base = self._mixture(1, self.family)
        family = base._family_for(X, sample_weight)
        cells = base._settings(family).cells
        source = open_data(self, X, sample_weight, base._table_columns(), reset=True, cells=cells)
        if source.engine is not None:
            raise InvalidInputError(
                "X is a collection of a cluster, on which candidates cannot be compared: give "
                "files, or a sample of the rows in memory"
            )
        families = families_by_covariance(family, self.covariance)
        seed = seed_from(self.random_state)
        memory = read_in_memory(source, seed)
        check_distinct(numbers(self.n_components), memory)
        source = memory.rows if memory.whole else source
        box = base._settings(family).bound(source).with_noise(self.noise, source).box
        selected = self._compared(families, source, memory, seed, box)
        self._remember(*selected, base)

    def _compared(
        self,
        families: dict[str, Family],
        source: Source,
        memory: InMemory,
        seed: int,
        box: Box | None,
    ) -> tuple[Candidate, list[Candidate]]:
        """The best candidate and all of them; rows with missing cells may be found on the way."""
        held_out: Source | None = None
        aside: Rows | None = None
        if self.criterion == HELD_OUT:
            whole, fraction = source, float(self.held_out_fraction)
            source = RandomPart(whole, fraction, seed, held_out=False)
            held_out = RandomPart(whole, fraction, seed, held_out=True)
            if next(held_out.blocks(), None) is None or next(source.blocks(), None) is None:
                raise InvalidInputError(
                    f"held_out_fraction is {fraction!r}, which leaves no row of {memory.length:,} "
                    "to learn from or to hold out: give more rows, or use another criterion"
                )
            memory = read_in_memory(source, seed)
            check_distinct(numbers(self.n_components), memory)
            aside = held_out.sample(memory.rows.length, np.random.default_rng([seed, OF_HELD_OUT]))
            source = memory.rows if memory.whole else source
        starts = Starts(memory, aside, self.criterion, bool(self.drop), self.n_init, seed)
        selection = Selection(source, held_out, starts, self.max_iter, self.verbose, self.progress)
        missing = has_missing(memory.rows.x)
        with warnings.catch_warnings():  # of candidates; those of the best are shown at the end
            warnings.simplefilter("ignore", LearningWarning)
            try:
                candidates = self._candidates(families, source, missing, box)
                return selection.run(candidates), candidates
            except MissingValueError:
                if missing or self.missing != MARGINALIZE:
                    raise
                candidates = self._candidates(families, source, True, box)
                return selection.run(candidates), candidates

    def _candidates(
        self, families: dict[str, Family], source: Source, missing: bool, box: Box | None
    ) -> list[Candidate]:
        """All candidates, covariance by covariance."""
        found: dict[tuple[int, str], Candidate] = {}
        made = []
        for name, family in families.items():
            for k in numbers(self.n_components):
                settings = self._mixture(k, family)._settings(family).bound(source)
                settings = replace(settings, box=box)
                one = Candidate(name, k, family, settings.for_missing() if missing else settings)
                one.same = found.setdefault((k, same_model(name, k, source.d)), one)
                if one.same is one:
                    one.same = None
                else:
                    one.dropped = f"the same model as {one.same.covariance}"
                made.append(one)
        return made

    def _remember(self, best: Candidate, candidates: list[Candidate], base: Mixture) -> None:
        """Store the results; `base` knows how the families of columns were chosen."""
        assert best.member is not None
        mixture = self._mixture(best.k, self.family if base._typed else best.family)
        mixture._notes = base._notes
        mixture.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            mixture.feature_names_in_ = self.feature_names_in_
        mixture._remember_fit(best.member.plan, best.member.fit)
        records = [one.record(self.criterion == HELD_OUT) for one in candidates]
        self.results_ = frame_of({name: [row[name] for row in records] for name in records[0]})
        self.best_estimator_ = mixture

    def plot_selection(self, ax: Any = None) -> Any:
        """Draw the criterion against the number of components, a line for each covariance.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None is the current axes of pyplot.

        Returns
        -------
        The axes.
        """
        from mixfold.plots.lines import draw_selection

        check_is_fitted(self)
        column = self.criterion.replace("-", "_")
        curves: dict[str, tuple[list[int], list[float]]] = {}
        for cells in zip(
            *(self.results_[name] for name in ("covariance", "n_components", column)), strict=True
        ):
            name, k, reached = map(_plain, cells)
            numbers, values = curves.setdefault(name, ([], []))
            numbers.append(k)
            values.append(reached)
        best = self.best_estimator_.n_components_
        return draw_selection(curves, LABELS[self.criterion], ax, chosen=best)

    def __sklearn_is_fitted__(self) -> bool:
        return "best_estimator_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == MARGINALIZE
        return tags


def _plain(cell: Any) -> Any:
    """A cell of a table as a Python value."""
    return cell.as_py() if hasattr(cell, "as_py") else cell
