"""scikit-learn's GaussianMixture, with streams, weights and files."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.mixture import GaussianMixture as Original
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array

from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.registry import is_called
from mixfold.core.rows import Array as Floats
from mixfold.estimators._edge import learner_from
from mixfold.estimators._learned import Learned
from mixfold.estimators._scikit_learn_mixture import ScikitLearnMixture
from mixfold.estimators._sklearn_initializers import Overrides
from mixfold.families.gaussian import Gaussian
from mixfold.fitting.history import no_history
from mixfold.fitting.initialization import initializer_for
from mixfold.fitting.stream import Stream
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureModel, MixtureParams

ASSIGNED = ("weights_", "means_", "precisions_cholesky_")  # what evaluation uses


class GaussianMixture(ScikitLearnMixture):
    """A drop-in for `sklearn.mixture.GaussianMixture`: change the import, keep the program.

    It has the same parameters, attributes, defaults and warnings, and gives the same fits for the
    same `random_state`. It adds `partial_fit`, `sample_weight`, files and streams as X, `learner`
    (the default "em" is scikit-learn's algorithm), `engine` for GPUs, `n_threads` and `save`. Where
    scikit-learn raises on ill-conditioned data, variances are kept above a floor instead.

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
        "engine": [str, None],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
    }
    _own_learner = "em"
    _algorithm = EM

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
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.learner = learner
        self.engine = engine
        self.n_threads = n_threads

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

    def _attributes(self, learned: Learned) -> dict[str, Any]:
        shown = super()._attributes(learned)
        return shown | {"_shown": [(name, shown[name]) for name in ASSIGNED]}

    def __sklearn_is_fitted__(self) -> bool:
        return super().__sklearn_is_fitted__() or "precisions_cholesky_" in self.__dict__

    def _now(self) -> Learned:
        here = self.__dict__  # read once: another thread may replace it
        if "_learned" in here and not _by_hand(here):
            return super()._now()
        return self._twin()._adopt()

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


def _by_hand(state: dict[str, Any]) -> bool:
    """Whether the user has assigned fitted attributes, as scikit-learn allows."""
    if state.get("_live") is not None:
        return False
    # joblib may copy an array, so a different object can still hold the same values
    return any(
        state[name] is not shown and not np.array_equal(state[name], shown)
        for name, shown in state["_shown"]
    )
