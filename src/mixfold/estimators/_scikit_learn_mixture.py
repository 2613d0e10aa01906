"""What the estimators with the interface of scikit-learn's mixtures have in common."""

from __future__ import annotations

import warnings
from dataclasses import replace
from time import monotonic
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mixfold.core.checks import check_kind
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.rows import Array as Floats
from mixfold.core.source import WholeArray
from mixfold.core.statistics import Statistics
from mixfold.estimators._density import Density
from mixfold.estimators._learned import Learned
from mixfold.estimators._mixture_settings import MixtureSettings
from mixfold.estimators._sklearn_initializers import Overrides, ScikitLearnParams
from mixfold.families.gaussian import Gaussian
from mixfold.fitting.fit import Fit
from mixfold.fitting.history import no_history
from mixfold.fitting.initialization import Sample
from mixfold.fitting.plan import InitialParams
from mixfold.fitting.progress import Progress, Silent
from mixfold.models.mixture_model import MixtureBackend, MixtureModel


class ScikitLearnMixture(Density):
    """A mixture of Gaussians with scikit-learn's parameters, attributes, warnings and output."""

    covariance_type: str
    reg_covar: float
    init_params: str
    max_iter: int
    warm_start: bool
    verbose_interval: int

    _least_rows = 2
    _ordered = False  # scikit-learn keeps the order of the initialisation
    _floor = 1e-14
    _shows = (*Learned.public, "lower_bounds_")
    _algorithm: ClassVar[type[Learner]]  # the learner whose fits are scikit-learn's

    def _check_parameters(self) -> None:
        self._validate_params()

    def _family(self) -> Family:
        return Gaussian(self.covariance_type, floor=self._floor, reg_covar=self.reg_covar)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, labels: Any = None) -> Self:
        """Fit the model, from the previous parameters if `warm_start` is set; see `Mixture.fit`."""
        super().fit(X, y, sample_weight, labels)
        if not self.converged_ and self.max_iter > 0:
            warnings.warn(
                "Best performing initialization did not converge. Try different init parameters, "
                "or increase max_iter, tol, or check for degenerate data.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _initial_params(
        self, settings: MixtureSettings, backend: MixtureBackend, sample: Sample, seed: int
    ) -> InitialParams:
        """Initial parameters as scikit-learn draws them for arrays, ours for everything else."""
        source = sample.source
        drawn = settings.learner.starts > 1 or settings.labels is not None
        if drawn or not isinstance(source, WholeArray):
            return super()._initial_params(settings, backend, sample, seed)
        if source.length < self.n_components:
            raise ValueError(
                f"Expected n_samples >= n_components but got n_components = {self.n_components}, "
                f"n_samples = {source.length}"
            )
        start = settings.initialization.start
        assert isinstance(start, Overrides)
        rng = check_random_state(seed if self.random_state is None else self.random_state)
        number = 1 if self._continues(settings.learner) else self.n_init
        return ScikitLearnParams(
            backend.model,
            source,
            start,
            self.init_params,
            rng,
            number,
            lambda statistics: self._first(settings, backend.model, start, statistics),
        )

    def _first(
        self,
        settings: MixtureSettings,
        model: MixtureModel,
        start: Overrides,
        statistics: Statistics,
    ) -> Any:
        """The parameters that scikit-learn's first M-step makes from statistics of all rows."""
        return start.applied(model, model.maximize(statistics)[0])

    def _continues(self, learner: Learner) -> bool:
        """Whether a fit begins where the one before it ended."""
        fitted = self.warm_start and self.__sklearn_is_fitted__()
        return bool(fitted) and isinstance(learner, self._algorithm)

    def _reached(self) -> Any:
        """The parameters from which a fit continues."""
        return self._now().params

    def _resumed(self, backend: MixtureBackend, learner: Learner, saved: Fit | None) -> Fit | None:
        if not self._continues(learner):
            return saved
        state = learner.init(backend, self._reached())
        return Fit(replace(state, before=self.lower_bound_), no_history(), origin=state)

    def _progress(self) -> Progress:
        return Iterations(self) if self.verbose else Silent()

    def _check_learned(self, learned: Learned) -> None:
        super()._check_learned(learned)
        check_kind("family", learned.model.family, Gaussian)

    def _attributes(self, learned: Learned) -> dict[str, Any]:
        shown = super()._attributes(learned) | learned.precisions()
        history = learned.history
        bounds = np.where(np.isnan(history.bound), history.log_likelihood, history.bound).tolist()
        return shown | {"lower_bounds_": bounds, "lower_bound_": bounds[-1] if bounds else -np.inf}

    def sample(self, n_samples: int = 1) -> tuple[Floats, np.ndarray]:
        """Rows grouped by component, and their components; the same as scikit-learn's."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': {self.n_components} . The sampling requires at "
                "least one sample."
            )
        learned = self._now()
        rng = check_random_state(self.random_state)
        counts = rng.multinomial(n_samples, learned.params.weights)
        family = learned.model.family
        shown = family.attributes(learned.params.components)
        means, spread = shown["means"], shown["covariances"]
        if family.form == "triangular":
            spread = np.broadcast_to(spread, (len(means), *spread.shape[-2:]))
            parts = [
                rng.multivariate_normal(mean, covariance, int(n))
                for mean, covariance, n in zip(means, spread, counts, strict=True)
            ]
        else:
            parts = [
                mean + rng.standard_normal((n, len(mean))) * np.sqrt(variance)
                for mean, variance, n in zip(means, spread, counts, strict=True)
            ]
        return np.vstack(parts), np.repeat(np.arange(len(counts)), counts)


class Iterations:
    """scikit-learn's verbose output."""

    def __init__(self, model: ScikitLearnMixture) -> None:
        self.model, self.start, self.before = model, 0, -np.inf
        self.began = self.last = monotonic()
        print("Initialization 0")

    def update(self, fit: Fit, length: int | None) -> None:
        """Print at the beginning and end of a start and every `verbose_interval` iterations."""
        if fit.row or fit.done:
            return
        if fit.start != self.start:
            self.start, self.before = fit.start, -np.inf
            self.began = self.last = monotonic()
            print(f"Initialization {fit.start}")
        if fit.passes:
            self._iteration(fit)

    def _iteration(self, fit: Fit) -> None:
        now, reached = monotonic(), fit.objective
        if fit.passes % self.model.verbose_interval == 0:
            change = reached - self.before
            more = f"\t time lapse {now - self.last:.5f}s\t ll change {change:.5f}"
            print(f"  Iteration {fit.passes}{more if self.model.verbose > 1 else ''}")
            self.last = now
        self.before = reached
        converged = getattr(fit.state, "converged", False)
        if converged or fit.passes >= self.model.max_iter:
            how = "converged" if converged else "did not converge"
            more = f" time lapse {now - self.began:.5f}s\t lower bound {reached:.5f}."
            print(f"Initialization {how}.{more if self.model.verbose > 1 else ''}")

    def close(self) -> None:
        return None
