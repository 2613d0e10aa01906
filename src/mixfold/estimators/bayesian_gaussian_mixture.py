"""scikit-learn's BayesianGaussianMixture, with weights, files and threads."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.mixture import BayesianGaussianMixture as Original
from sklearn.utils._param_validation import Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array

from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.rows import Array as Floats
from mixfold.core.source import Source
from mixfold.core.statistics import Statistics, unpack
from mixfold.estimators._learned import Learned
from mixfold.estimators._mixture_settings import MixtureSettings
from mixfold.estimators._scikit_learn_mixture import ScikitLearnMixture
from mixfold.estimators._sklearn_initializers import Overrides, check_shape
from mixfold.families.gaussian import Gaussian
from mixfold.fitting.initialization import initializer_for
from mixfold.fitting.placement import Placement
from mixfold.learners.variational_learning import VariationalEM
from mixfold.models.assignment import statistics_of
from mixfold.models.mixture_model import MixtureModel
from mixfold.models.variational_gaussian import VariationalPosterior, VariationalPrior, updated

PROCESS = "dirichlet_process"


def _never(estimator: Any) -> bool:
    return False


class BayesianGaussianMixture(ScikitLearnMixture):
    """A drop-in for `sklearn.mixture.BayesianGaussianMixture`: change the import only.

    It has the same parameters, attributes, defaults and warnings, and gives the same fits for the
    same `random_state`. It adds `sample_weight`, files as X, `engine` for GPUs, `n_threads` and
    `save`. `score`, `score_samples` and `predict` use the expectations of the log densities, as
    scikit-learn's do. Components that are not needed get weights near zero.

    Examples
    --------
    >>> from mixfold import BayesianGaussianMixture, datasets
    >>> model = BayesianGaussianMixture(n_components=10, max_iter=1000, random_state=0)
    >>> weights = model.fit(datasets.load_faithful()).weights_
    >>> int((weights > 0.01).sum())
    2

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, chapter 10; Blei and Jordan (2006),
    Variational inference for Dirichlet process mixtures.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Original._parameter_constraints,
        "engine": [str, None],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
    }
    _own_learner = "variational-learning"
    _algorithm = VariationalEM

    def __init__(
        self,
        *,
        n_components: int = 1,
        covariance_type: str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: str = "kmeans",
        weight_concentration_prior_type: str = "dirichlet_process",
        weight_concentration_prior: float | None = None,
        mean_precision_prior: float | None = None,
        mean_prior: Any = None,
        degrees_of_freedom_prior: float | None = None,
        covariance_prior: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        engine: str | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weight_concentration_prior_type = weight_concentration_prior_type
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_precision_prior = mean_precision_prior
        self.mean_prior = mean_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.engine = engine
        self.n_threads = n_threads

    partial_fit = available_if(_never)(ScikitLearnMixture.partial_fit)
    learn_many = available_if(_never)(ScikitLearnMixture.learn_many)
    learn_one = available_if(_never)(ScikitLearnMixture.learn_one)

    def _why_absent(self, name: str) -> str:
        if name in ("partial_fit", "learn_many", "learn_one"):
            return ": it reads all rows in every pass; for streams use Mixture(learner=OnlineVB())"
        return super()._why_absent(name)

    def _learner(self) -> VariationalEM:
        return VariationalEM(tol=self.tol, max_iter=self.max_iter)

    def _start(self, family: Family, learner: Learner) -> Overrides:
        return Overrides(initializer_for(self.init_params, family), None, None, None)

    def _learn(
        self, settings: MixtureSettings, source: Source, place: Placement, resume: bool | str
    ) -> None:
        if source.rereadable:  # the learner refuses others
            learner = replace(self._learner(), prior=self._prior(settings, source))
            settings = replace(settings, learner=learner)
        super()._learn(settings, source, place, resume)

    def _first(
        self,
        settings: MixtureSettings,
        model: MixtureModel,
        start: Overrides,
        statistics: Statistics,
    ) -> VariationalPosterior:
        assert isinstance(settings.learner, VariationalEM)
        assert isinstance(model.family, Gaussian)
        assert settings.learner.prior is not None
        return updated(model.family, settings.learner.prior, statistics)

    def _reached(self) -> VariationalPosterior:
        found: VariationalPosterior = self._now().stream.state.params
        return found

    # the prior

    def _prior(self, settings: MixtureSettings, source: Source) -> VariationalPrior:
        """The prior as given, and otherwise as scikit-learn takes it from the rows."""
        d, given = source.d, self.weight_concentration_prior
        freedom = d if self.degrees_of_freedom_prior is None else self.degrees_of_freedom_prior
        if not freedom > d - 1.0:
            raise ValueError(
                "The parameter 'degrees_of_freedom_prior' should be greater than "
                f"{d - 1}, but got {freedom:.3f}."
            )
        mean = self._given("mean_prior", "means", (d,))
        covariance = self._covariance_prior(d)
        if mean is None or covariance is None:
            found_mean, found_covariance = _moments(settings.family, self.covariance_type, source)
            mean = found_mean if mean is None else mean
            covariance = found_covariance if covariance is None else covariance
        return VariationalPrior(
            self.weight_concentration_prior_type == PROCESS,
            1.0 / self.n_components if given is None else float(given),
            1.0 if self.mean_precision_prior is None else float(self.mean_precision_prior),
            mean,
            float(freedom),
            covariance,
        )

    def _given(self, name: str, noun: str, shape: tuple[int, ...]) -> Floats | None:
        if getattr(self, name) is None:
            return None
        found: Floats = check_array(getattr(self, name), dtype=np.float64, ensure_2d=False)
        check_shape(noun, found, shape)
        return found

    def _covariance_prior(self, d: int) -> Floats | None:
        kind = self.covariance_type
        if self.covariance_prior is None:
            return None
        if kind == "spherical":
            return np.array([self.covariance_prior], dtype=np.float64)
        matrix = kind in ("full", "tied")
        shape = (d, d) if matrix else (d,)
        found = self._given("covariance_prior", f"{kind} covariance_prior", shape)
        assert found is not None
        if not matrix and not (found > 0.0).all():
            raise ValueError(f"'{kind} precision' should be positive")
        if matrix and not (np.allclose(found, found.T) and (np.linalg.eigvalsh(found) > 0.0).all()):
            raise ValueError(f"'{kind} precision' should be symmetric, positive-definite")
        return found

    # what has been learned

    def _evaluated(self, learned: Learned) -> Any:
        return learned.stream.state.params.expected_log_params

    def _attributes(self, learned: Learned) -> dict[str, Any]:
        found, prior = learned.stream.state.params, learned.learner.prior
        tied, spherical = self.covariance_type == "tied", self.covariance_type == "spherical"
        freedom, taken = found.degrees_of_freedom, found.concentration
        return super()._attributes(learned) | {
            "weight_concentration_": taken if found.left is None else (taken, found.left),
            "mean_precision_": found.mean_precision,
            "degrees_of_freedom_": freedom[0] if tied else freedom,
            "weight_concentration_prior_": prior.concentration,
            "mean_precision_prior_": prior.mean_precision,
            "mean_prior_": prior.mean,
            "degrees_of_freedom_prior_": prior.degrees_of_freedom,
            "covariance_prior_": prior.covariance[0] if spherical else prior.covariance,
        }


def _moments(family: Family, covariance: str, source: Source) -> tuple[Floats, Floats]:
    """The mean of the rows and their covariance, in the shape of the prior."""
    matrix, total = covariance in ("full", "tied"), None
    plain = MixtureModel(Gaussian("full" if matrix else "diag"), 1, source.d)
    for rows in source.blocks():
        part = statistics_of(plain, rows.on_host(), np.ones((len(rows), 1)))
        total = part if total is None else total + part
    assert total is not None
    (block,) = total.blocks
    n = float(total.count)
    scatter = block.scatter[0] * (n / (n - 1.0) if n > 1.0 else 1.0)
    if matrix:
        scatter = unpack(scatter, source.d)
    return block.mean[0], scatter.mean(keepdims=True) if covariance == "spherical" else scatter
