"""Protocols of models, and of the backends that compute their expectations."""

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
    """How the latent variable of a row enters the statistics.

    By its "expected" value, its "mode" (k-MLE), or the mean of `draws` draws (SEM and Monte Carlo
    EM). The random numbers of a row depend on its number; `first` is that of the first row.
    """

    kind: Literal["expected", "mode", "draw"] = "expected"
    draws: int = 1
    seed: int = 0
    first: int = 0


EXPECTED = Assignment()


@value
class RowOptions:
    """Options of updates after every row: see `learners/_stochastic.py` and `_controlled.py`.

    `assign` and `control` are names of the enumerations `Assign` and `Control` of the compiled
    module. `narrow` stores responsibilities as float32; `per_weight` is one over the weight of all
    rows.
    """

    assign: str = "expected"
    control: str = "none"
    recursive: bool = False
    narrow: bool = False
    per_weight: float = 0.0


class Model(Protocol[ParamsT, StatisticsT]):
    """A latent-variable model: an E-step gives statistics, an M-step gives parameters.

    Sums are flat, additive vectors, in coordinates that depend on `params`; statistics are in the
    coordinates of the data. Both are linear in the expectations of a row's latent variables: the K
    responsibilities of a mixture, the first two moments of a random effect. Unless
    `statistics_depend_on_params`, statistics depend on the parameters through these expectations
    alone. The `check_` methods raise an error for values outside their domain.
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
    """A model bound to a backend, which computes its expectations.

    Sums are computed tile by tile, and the length of a tile depends on the number of columns alone.
    Methods that only some learners need are capabilities: see `core/backend_capabilities.py`.
    """

    @property
    def model(self) -> Model_co: ...
    @property
    def tile(self) -> int: ...
    def with_model(self, model: M) -> Backend[M]:
        """The same backend, bound to another model."""
        ...

    def block_length(self, source: Source) -> int | None:
        """The number of rows per block; None leaves it to the source."""
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
        """The object that implements a protocol of `core/backend_capabilities.py`, or None."""
        ...

    def run_resident(self, work: Callable[[Source], T], source: Source) -> T:
        """Call `work` with rows that are kept on the device, if there is memory for them."""
        ...

    def forget(self) -> None:
        """Free everything that is cached for the next call."""
        ...
