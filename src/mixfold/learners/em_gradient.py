"""EM for models whose M-step is one Newton step."""

from __future__ import annotations

from dataclasses import field
from typing import Protocol, runtime_checkable

from mixfold.core.backend import Backend, Model
from mixfold.core.checks import check_kind
from mixfold.core.learner import Info
from mixfold.core.params import Params, ParamsT
from mixfold.core.value import replace, value
from mixfold.learners._gathering import nothing
from mixfold.learners.em import COMBINED, EM, EXTRAPOLATED, PLAIN, EMState


@runtime_checkable
class NewtonMaximizer(Protocol[ParamsT]):
    """A model whose `maximize` is one Newton step, which may overshoot."""

    def halfway(self, start: ParamsT, end: ParamsT) -> ParamsT:
        """Parameters between two points."""


@value
class EMGradientState(EMState):
    """The state of EM, and in `origin` the parameters from which an M-step led to `params`."""

    origin: list[Params] = field(default_factory=list)

    def check(self, model: Model) -> None:
        """Raise an error for a state that is not valid for the model."""
        super().check(model)
        for params in self.origin:
            model.check_params(params)


@value
class EMGradient(EM):
    """EM whose M-step is one Newton step of the expected complete log-likelihood.

    Such a step is nearly as good as an exact M-step near the maximum, but may lower the likelihood
    elsewhere. Then it is halved, until the likelihood has not decreased. Use it for models whose
    M-step has no closed form, such as logistic mixed models with one or two random effects, where
    it is the default.

    Parameters
    ----------
    tol : float, default=0.005
        Learning has converged when less than so many nats of the log-likelihood of all rows are
        left to gain, as estimated from the gains of the last steps. Estimates are then within
        sqrt(2 tol) = 0.1 standard errors of the maximum, however many rows there are. 0 is never.
    max_iter : int, default=1000
        The largest number of passes over the data.
    accelerate : bool, default=False
        Whether to take longer steps.
    criterion : {"remaining", "step"}, default="remaining"
        The criterion that `tol` refers to, as in `EM`.
    prior_strength : float, default=0.0
        How many times a weak prior of the covariances counts, as in `EM`; 0 is none.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import LogisticMixedModel
    >>> from mixfold.learners.em_gradient import EMGradient
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(100), 10)
    >>> y = rng.random(1000) < 1 / (1 + np.exp(-rng.normal(size=100)[groups]))
    >>> x = rng.normal(size=(1000, 1))
    >>> model = LogisticMixedModel(learner=EMGradient(max_iter=20)).fit(x, y, groups)
    >>> bool((np.diff(model.history_.log_likelihood) > -1e-12).all())
    True

    References
    ----------
    Lange (1995), A gradient algorithm locally equivalent to the EM algorithm.
    """

    def why_unsupported(self, model: Model) -> str | None:
        if isinstance(model, NewtonMaximizer):
            return None
        return (
            "EMGradient is for models whose M-step is a Newton step, and the M-step of this model "
            "is exact: use learner='em'"
        )

    def init(
        self, backend: Backend, params: Params, seen: int = 0, seed: int = 0
    ) -> EMGradientState:
        began = super().init(backend, params, seen, seed)
        return EMGradientState(**vars(began), origin=[])

    def check_state(self, model: Model, state: EMState) -> None:
        check_kind("state", state, EMGradientState)
        state.check(model)

    def end_pass(self, backend: Backend, state: EMState) -> tuple[EMState, list[Info]]:
        state = self.flushed(backend, state)
        assert isinstance(state, EMGradientState)
        statistics = backend.model.statistics(state.params, state.gathered.sums)
        if not statistics.count > 0:
            return super().end_pass(backend, state)
        now = statistics.log_likelihood / statistics.count
        judged = state.phase in (EXTRAPOLATED, COMBINED)
        if state.origin and not judged and state.before - now > self.tol:
            return self._halve(backend, state), [Info(state.gathered.n, now, 1.0)]
        after, infos = super().end_pass(backend, state)
        if judged and now < state.before:  # back to the M-step before the extrapolation
            return after, infos
        assert isinstance(after, EMGradientState)
        return replace(after, origin=[state.params]), infos

    def _halve(self, backend: Backend, state: EMGradientState) -> EMGradientState:
        model = backend.model
        assert isinstance(model, NewtonMaximizer)
        return replace(
            state,
            params=model.halfway(state.origin[0], state.params),
            gathered=nothing(backend),
            passes=state.passes + 1,
            phase=PLAIN,
            trail=[],
        )
