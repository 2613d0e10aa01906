"""Types of parameters, statistics and states, which families, models and learners declare.

Code that only passes parameters on takes them as `Params`, of which it can know nothing. What is
made for one kind of them is generic: `class Gaussian(Family[GaussianParams])`,
`class EM(Learner[EMState])`. `Family` or `Learner` alone is one of any kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

Params: TypeAlias = object  # a family's or a model's own frozen value, or its conjugate posterior


class LearnerState(Protocol):
    """What the state of any learner tells."""

    @property
    def params(self) -> Params:
        """Parameters being trained."""

    @property
    def n_degenerate(self) -> int:
        """How often a component was degenerate."""


class DetectorState(Protocol):
    """What the state of any detector tells."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last number has shown a change."""


if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    from mixfold.core.statistics import Additive

    ParamsT = DefaultTypeVar("ParamsT", default=Any)
    ParamsT_contra = DefaultTypeVar("ParamsT_contra", contravariant=True, default=Any)
    PosteriorT = DefaultTypeVar("PosteriorT", default=Any)
    StatisticsT = DefaultTypeVar("StatisticsT", bound=Additive, default=Any)
    AnnealedT = DefaultTypeVar("AnnealedT", default=Any)
    Rule_contra = DefaultTypeVar("Rule_contra", contravariant=True, default=Any)
    ModelT = DefaultTypeVar("ModelT", default=Any)
    StateT = DefaultTypeVar("StateT", bound=LearnerState, default=Any)
    DetectorStateT = DefaultTypeVar("DetectorStateT", bound=DetectorState, default=Any)
else:  # before Python 3.13 a TypeVar has no default
    ParamsT, PosteriorT = TypeVar("ParamsT"), TypeVar("PosteriorT")
    ParamsT_contra = TypeVar("ParamsT_contra", contravariant=True)
    AnnealedT, Rule_contra = TypeVar("AnnealedT"), TypeVar("Rule_contra", contravariant=True)
    StatisticsT, ModelT = TypeVar("StatisticsT"), TypeVar("ModelT")
    StateT, DetectorStateT = TypeVar("StateT"), TypeVar("DetectorStateT")
