"""What a learner sees: a model, and somewhere to run its expectations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import numpy as np

from mixfold.core.params import Params, ParamsT, StatisticsT
from mixfold.core.rows import Array, Rows
from mixfold.core.source import Source
from mixfold.core.value import value

C = TypeVar("C")
M = TypeVar("M", bound="Model")
T = TypeVar("T")


@value
class Assignment:
    """How a row's latent variable enters the statistics.

    As its "expected" value, its "mode" (k-MLE), or the mean of `draws` draws of it (SEM and Monte
    Carlo EM). Row number `first` and those after it have random numbers of their own.
    """

    kind: Literal["expected", "mode", "draw"] = "expected"
    draws: int = 1
    seed: int = 0
    first: int = 0


EXPECTED = Assignment()


@value
class RowOptions:
    """What one update per row does: see `learners/_stochastic.py` and `learners/_controlled.py`.

    `assign` and `control` are names of the enumerations `Assign` and `Control` of the compiled
    module. `narrow` keeps responsibilities as float32; `per_weight` is one over the weight of all
    rows.
    """

    assign: str = "expected"
    control: str = "none"
    recursive: bool = False
    narrow: bool = False
    per_weight: float = 0.0


class Model(Protocol[ParamsT, StatisticsT]):
    """A latent-variable model: expectations become statistics, statistics parameters.

    Sums are flat and additive, made in coordinates that `params` fixes; statistics do not depend
    on them. Both are linear in the expectations of a row's latent variables: the K responsibilities
    of a mixture, the first two moments of a random effect. Unless `statistics_depend_on_params`,
    the parameters matter through it alone. Checks refuse what is outside its domain.
    """

    @property
    def n_sums(self) -> int: ...
    @property
    def n_expectations(self) -> int: ...
    @property
    def d(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def has_labels(self) -> bool: ...
    @property
    def statistics_depend_on_params(self) -> bool: ...
    @property
    def has_coordinates(self) -> bool: ...
    @property
    def has_bounds(self) -> bool: ...
    def statistics(self, params: ParamsT, sums: Array) -> StatisticsT: ...
    def sums(self, params: ParamsT, statistics: StatisticsT) -> Array: ...
    def expected(self, params: ParamsT) -> StatisticsT: ...
    def maximize(self, statistics: StatisticsT) -> tuple[ParamsT, int]: ...
    def mode(self, expectations: Array) -> Array: ...
    def recursive(
        self, statistics: StatisticsT, batch: StatisticsT, gamma: float
    ) -> tuple[StatisticsT, int]: ...
    def unconstrained(self, params: ParamsT) -> Array: ...
    def constrained(self, coordinates: Array, like: ParamsT) -> ParamsT: ...
    def coordinate_scales(self, params: ParamsT) -> Array: ...
    def blend(self, a: ParamsT, b: ParamsT, t: float) -> ParamsT: ...
    def truncation_excess(self, params: ParamsT, bounds: tuple[float, float, float]) -> float: ...
    def check_params(self, params: ParamsT) -> None: ...
    def check_statistics(self, statistics: StatisticsT) -> None: ...
    def check_rows(self, rows: Rows) -> None: ...


if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    Model_co = DefaultTypeVar("Model_co", covariant=True, default=Model)
else:
    Model_co = TypeVar("Model_co", covariant=True)


class Backend(Protocol[Model_co]):
    """A model bound to a backend: where its expectations are computed.

    Sums are made tile by tile, and a tile's length depends on the number of columns alone. What
    only some learners need is a capability: see `core/backend_capabilities.py`.
    """

    @property
    def model(self) -> Model_co: ...
    @property
    def tile(self) -> int: ...
    def with_model(self, model: M) -> Backend[M]:
        """Another model, bound to the same place."""
        ...

    def block_length(self, source: Source) -> int | None:
        """Rows of a source it wants at once; None leaves that to the source."""
        ...

    def fold(
        self, params: Params, rows: Rows, sums: Array, assignment: Assignment = EXPECTED
    ) -> Array:
        """Add the sums of rows, tile by tile."""
        ...

    def posterior(
        self, params: Params, rows: Rows, expectations: bool = True
    ) -> tuple[Array, np.ndarray | None]:
        """log p(x) of every row and, if wanted, its expectations."""
        ...

    def moments(self, params: Params, rows: Rows, expectations: Array, sums: Array) -> Array:
        """Add the sums of rows under given expectations, tile by tile, without likelihood."""
        ...

    def capability(self, kind: type[C]) -> C | None:
        """What offers a protocol of `core/backend_capabilities.py`; None where nothing does."""
        ...

    def run_resident(self, work: Callable[[Source], T], source: Source) -> T:
        """Do work with rows that lie where they are computed with, if there is memory for them."""
        ...

    def forget(self) -> None:
        """Let go of what is kept for the next call."""
        ...
