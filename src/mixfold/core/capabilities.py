"""What some learners and kernels need of a family beyond its mathematics.

A family has a capability if it has the methods: there is nothing to register. Learners and kernels
ask with `isinstance(family, Capability)`, and say what else can be used where it is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from mixfold.core.capability import Capability
from mixfold.core.conjugate import Conjugate
from mixfold.core.family import Family
from mixfold.core.params import Params, ParamsT, ParamsT_contra
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks


@runtime_checkable
class UnconstrainedCoordinates(Capability, Protocol[ParamsT]):
    """Coordinates in which every vector is a valid parameter, for acceleration and for order."""

    def unconstrained(self, params: ParamsT) -> Array:
        """Coordinates, (K, q); those of location come first, one for each column."""

    def constrained(self, coordinates: Array, like: ParamsT) -> ParamsT:
        """The inverse of `unconstrained`; `like` gives the shape."""

    def coordinate_scales(self, params: ParamsT) -> Array:
        """The natural length of each coordinate, (K, q)."""


@runtime_checkable
class BoundedParameters(Capability, Protocol[ParamsT_contra]):
    """Parameters whose size can be measured, for truncation."""

    def parameter_bounds(self, params: ParamsT_contra) -> tuple[float, float, float]:
        """Largest location, smallest and largest scale."""


@runtime_checkable
class HasConjugate(Capability, Protocol):
    """A conjugate prior of the components' parameters."""

    @property
    def conjugate(self) -> Conjugate | None:
        """The prior, where this form of the family has one."""


def conjugate_of(family: Family) -> Conjugate | None:
    """The conjugate prior of a family's components, where it has one."""
    return family.conjugate if isinstance(family, HasConjugate) else None


@runtime_checkable
class LatentFactors(Capability, Protocol):
    """Factors that can be rotated: statistics of two models are comparable after a rotation."""

    @property
    def n_factors(self) -> int:
        """How many there are."""

    def rotated(self, blocks: Blocks, like: Blocks) -> Blocks:
        """With factors as near as can be to those of other blocks."""


@runtime_checkable
class StandardDeviations(Capability, Protocol[ParamsT_contra]):
    """A spread of its own in every column."""

    def standard_deviations(self, params: ParamsT_contra) -> Array:
        """(K, d)."""


@runtime_checkable
class CovarianceMatrices(Capability, Protocol[ParamsT_contra]):
    """Covariances, and their inverses, in scikit-learn's shapes."""

    @property
    def form(self) -> Literal["triangular", "diagonal"]:
        """Whether they are matrices or vectors."""

    def precision_roots(self, params: ParamsT_contra) -> Array:
        """scikit-learn's `precisions_cholesky_`."""


# initialisers


@runtime_checkable
class CommonSpread(Capability, Protocol):
    """Components that can begin with any centres, and with one spread for all."""

    def around(self, centers: Array, x: Array, weight: Array) -> Params:
        """Components at these centres (K, d), all of the spread of rows of that weight."""

    def deviations_of(self, x: Array, weight: Array) -> Array:
        """Standard deviations of columns, (d,); one where a column does not vary."""


@runtime_checkable
class CappedPrecision(Capability, Protocol[ParamsT]):
    """Precisions that can be bounded."""

    cap: float | None

    def capped(self, cap: float) -> Family:
        """The family with no precision above `cap`."""

    def at_cap(self, params: ParamsT) -> ParamsT:
        """Components whose precision is the cap in every direction, if the family has one."""


@runtime_checkable
class PrecisionRoots(CappedPrecision[ParamsT], Protocol[ParamsT]):
    """Precisions by their roots, which annealed gradients move."""

    def root_shape(self, d: int) -> tuple[int, ...] | None:
        """(d,) or (d, d) for each component; None where there are no gradients of this form."""


# kernels


class Whitened(NamedTuple):
    """K Gaussians: means (K, d), inverse scales W (K, d, d) or (K, d), -log det W (K,)."""

    means: Array
    whiten: Array
    log_determinant: Array


@runtime_checkable
class WhitenedKernel(Capability, Protocol[ParamsT_contra]):
    """Gaussians with covariance matrices: the compiled kernels and those of GPUs take these.

    Sums are made of W(x - mu) and its products, where W is an inverse scale.
    """

    @property
    def form(self) -> Literal["triangular", "diagonal"]:
        """Whether scales are triangular matrices or vectors."""

    def whitened(self, params: ParamsT_contra) -> Whitened:
        """What the kernels need of parameters."""


class LowRank(Protocol):
    """K Gaussians of covariance L'L + diag(psi), with factors z ~ N(0, I)."""

    @property
    def means(self) -> Array:
        """(K, d)."""

    @property
    def loadings(self) -> Array:
        """L, (K, q, d)."""

    @property
    def noise_variance(self) -> Array:
        """psi, (K, d)."""


@runtime_checkable
class LowRankKernel(Capability, Protocol):
    """Gaussians with factors: the kernel of factor models takes these.

    Sums are those of rows about means, of factors as they are expected, and of their products.
    """

    def low_rank(self, params: Params) -> LowRank:
        """What the kernel needs of parameters."""


@runtime_checkable
class IdentityKernel(Capability, Protocol):
    """t(x) = x: the compiled linear kernels and those of GPUs take these."""

    base_measure: ClassVar[Literal["one", "factorial"]]
    """log h(x) is zero, or minus the sum of log x!."""


class RowUpdates(NamedTuple):
    """What the compiled updates of single rows need to know of a family."""

    kind: str
    floor: float
    reg_covar: float = 0.0
    least_variance: float = 0.0
    rounding: float = 0.0
    lowest: Array | None = None  # of every column; None is `core.limits.SMALLEST`


@runtime_checkable
class CompiledRowUpdates(Capability, Protocol[ParamsT]):
    """One update per row is compiled for the family."""

    @property
    def row_updates(self) -> RowUpdates | None:
        """What they need to know; None where this form of the family has none."""

    def to_arrays(self, params: ParamsT) -> tuple[Array, Array]:
        """Means (K, d), and scales or an empty array."""

    def from_arrays(self, means: Array, factor: Array) -> ParamsT:
        """The inverse of `to_arrays`."""


class DevicePasses(NamedTuple):
    """What M-steps on a device need to know of a family."""

    floor: float
    reg_covar: float
    lowest_variances: Callable[[int], Array]


@runtime_checkable
class MaximizedOnDevice(Capability, Protocol[ParamsT]):
    """M-steps of the family can be made on a device, so that whole passes stay there."""

    @property
    def device_passes(self) -> DevicePasses | None:
        """What they need to know; None where this form of the family has none."""

    def to_arrays(self, params: ParamsT) -> tuple[Array, Array]:
        """Means (K, d), and scales."""

    def from_arrays(self, means: Array, factor: Array) -> ParamsT:
        """The inverse of `to_arrays`."""
