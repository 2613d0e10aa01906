"""Types of parameters, statistics and states, which families, models and learners declare.

Code that only passes parameters on declares them as `Params`. Classes for one type of parameters
are generic: `class Gaussian(Family[GaussianParams])`, `class EM(Learner[EMState])`. `Family` or
`Learner` alone stands for any type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

# a frozen value defined by a family or a model, or its conjugate posterior
Params: TypeAlias = object


class LearnerState(Protocol):
    """The fields that the states of all learners have."""

    @property
    def params(self) -> Params:
        """The current parameters."""

    @property
    def n_degenerate(self) -> int:
        """The number of degenerate components."""


class DetectorState(Protocol):
    """The fields that the states of all detectors have."""

    @property
    def drift_detected(self) -> bool:
        """Whether a change was detected at the last number."""


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
