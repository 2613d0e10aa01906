"""scikit-learn's GaussianMixture, with streams, weights and files."""

from __future__ import annotations

import warnings
from numbers import Integral
from time import monotonic
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Original
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, check_is_fitted

from mixfold.core.checks import check_kind
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.registry import is_called
from mixfold.core.rows import Array as Floats
from mixfold.core.source import WholeArray
from mixfold.estimators._density import Density
from mixfold.estimators._edge import learner_from
from mixfold.estimators._learned import Learned
from mixfold.estimators._mixture_settings import MixtureSettings
from mixfold.estimators._sklearn_initializers import Overrides, ScikitLearnParams
from mixfold.families.gaussian import Gaussian
from mixfold.fitting.fit import Fit
from mixfold.fitting.history import no_history
from mixfold.fitting.initialization import Sample, initializer_for
from mixfold.fitting.plan import InitialParams
from mixfold.fitting.progress import Progress, Silent
from mixfold.fitting.stream import Stream
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams


class GaussianMixture(Density):
    """A drop-in for `sklearn.mixture.GaussianMixture`: change the import, keep the program.

    It has the same parameters, attributes, defaults and warnings, and gives the same fits for the
    same `random_state`. It adds `partial_fit`, `sample_weight`, files and streams as X, `learner`
    (the default "em" is scikit-learn's algorithm), `n_threads` and `save`. Where scikit-learn
    raises on ill-conditioned data, variances are kept above a floor instead.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import GaussianMixture
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> gm = GaussianMixture(n_components=2, random_state=0).fit(X)
    >>> gm.means_
    array([[10.,  2.],
           [ 1.,  2.]])
    >>> gm.predict([[0, 0], [12, 3]])
    array([1, 0])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Original._parameter_constraints,
        "learner": [str, Learner],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
    }
    _least_rows = 2
    _ordered = False  # scikit-learn keeps the order of the initialisation
    _shows = (*Learned.public, "lower_bounds_")
    _own_learner = "em"
    _floor = 1e-14

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: str = "kmeans",
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        learner: str | Learner = "em",
        n_threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.learner = learner
        self.n_threads = n_threads

    def _check_parameters(self) -> None:
        self._validate_params()

    def _family(self) -> Family:
        return Gaussian(self.covariance_type, floor=self._floor, reg_covar=self.reg_covar)

    def _learner(self) -> Learner:
        if is_called(self.learner, self._own_learner):
            return EM(tol=self.tol, max_iter=self.max_iter, criterion="step")
        return learner_from(self.learner)

    def _start(self, family: Family, learner: Learner) -> Overrides:
        return Overrides(
            initializer_for(self.init_params, family),
            self._given("weights_init"),
            self._given("means_init"),
            self._given("precisions_init"),
        )

    def _given(self, name: str) -> Floats | None:
        given = getattr(self, name)
        if given is None:
            return None
        cubes = name == "precisions_init" and self.covariance_type == "full"
        checked: Floats = check_array(given, dtype=np.float64, ensure_2d=False, allow_nd=cubes)
        return checked

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
        return ScikitLearnParams(backend.model, source, start, self.init_params, rng, self.n_init)

    def _resumed(self, backend: MixtureBackend, learner: Learner, saved: Fit | None) -> Fit | None:
        if not (self.warm_start and self.__sklearn_is_fitted__() and isinstance(learner, EM)):
            return saved
        from dataclasses import replace

        state = learner.init(backend, self._now().params)
        return Fit(replace(state, before=self.lower_bound_), no_history(), origin=state)

    def _progress(self) -> Progress:
        return Iterations(self) if self.verbose else Silent()

    def _check_learned(self, learned: Learned) -> None:
        super()._check_learned(learned)
        check_kind("family", learned.model.family, Gaussian)

    def _attributes(self, learned: Learned) -> dict[str, Any]:
        shown = super()._attributes(learned) | learned.precisions()
        bounds = [float(bound) for bound in learned.history.log_likelihood]
        return shown | {
            "lower_bounds_": bounds,
            "lower_bound_": bounds[-1] if bounds else -np.inf,
            "_shown": (shown["weights_"], shown["means_"], shown["precisions_cholesky_"]),
        }

    def __sklearn_is_fitted__(self) -> bool:
        return super().__sklearn_is_fitted__() or "precisions_cholesky_" in self.__dict__

    def _now(self) -> Learned:
        model = self._twin()  # a consistent copy of the assigned and the learned attributes
        if "_learned" in model.__dict__ and not model._by_hand():
            return super(GaussianMixture, model)._now()
        return model._adopt()

    def _by_hand(self) -> bool:
        """Whether the user has assigned fitted attributes, as scikit-learn allows."""
        if self._live is not None:
            return False
        now = (self.weights_, self.means_, self.precisions_cholesky_)
        pairs = zip(now, self._shown, strict=True)
        # joblib may copy an array, so a different object can still hold the same values
        return any(a is not b and not np.array_equal(a, b) for a, b in pairs)

    def _adopt(self) -> Learned:
        """Use the attributes that the user has assigned."""
        family = Gaussian(self.covariance_type, floor=self._floor, reg_covar=self.reg_covar)
        means = np.asarray(self.means_, dtype=np.float64)
        root = np.asarray(self.precisions_cholesky_, dtype=np.float64)
        params = MixtureParams(
            np.asarray(self.weights_, dtype=np.float64),
            family.from_precision_roots(means, root),
        )
        model = MixtureModel(family, *means.shape)
        learner = self._learner().resolve(None, model.d, True)
        stream, seed = Stream(None, None, []), self._seed()
        return Learned(
            model, learner, stream, params, 0, 0, 0, no_history(), False, 0, seed, streaming=False
        )

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

    def __init__(self, model: GaussianMixture) -> None:
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
        now, reached = monotonic(), fit.log_likelihood
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
