"""Optional protocols of families that only some learners and kernels need.

A family has a capability if it has the methods; there is nothing to register. Learners and kernels
test `isinstance(family, Capability)`, and their errors name an alternative if it is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capability import Capability
from mixfold.core.conjugate import Conjugate
from mixfold.core.family import Family
from mixfold.core.params import Params, ParamsT, ParamsT_contra
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks


@runtime_checkable
class UnconstrainedCoordinates(Capability, Protocol[ParamsT]):
    """Coordinates in which every vector is a valid parameter, for acceleration and sorting."""

    def unconstrained(self, params: ParamsT) -> Array:
        """Coordinates (K, q); the first d are those of location, one per column."""

    def constrained(self, coordinates: Array, like: ParamsT) -> ParamsT:
        """The inverse of `unconstrained`; `like` gives the shape."""

    def coordinate_scales(self, params: ParamsT) -> Array:
        """The natural length of each coordinate, (K, q)."""


def has_coordinates(family: Family) -> bool:
    """Whether parameters have unconstrained coordinates; those of a product, if all factors do."""
    return isinstance(family, UnconstrainedCoordinates) and family.has_coordinates


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
        """The conjugate prior; None if this form of the family has none."""


def conjugate_of(family: Family) -> Conjugate | None:
    """The conjugate prior of a family's components, or None."""
    return family.conjugate if isinstance(family, HasConjugate) else None


@runtime_checkable
class WeakPrior(Capability, Protocol[ParamsT]):
    """A weak prior that depends on the distribution of all rows.

    It is worth some rows in every component, whose distribution is given by `prior_params`. The
    logarithm of its density is minus their number times the Kullback-Leibler divergence of a
    component from that distribution, both at the same mean if it is one of scales.
    """

    def prior_rows(self, k: int, d: int, n: float) -> float:
        """The number of rows that the prior is worth in each of K components, of n rows."""

    def prior_params(self, blocks: Blocks) -> ParamsT:
        """Components of the distribution of the prior's rows."""

    def shrunk(self, blocks: Blocks, prior: ParamsT, rows: float) -> Blocks:
        """Blocks that include `rows` rows of the prior."""

    def prior_divergence(self, prior: ParamsT, params: ParamsT) -> Array:
        """Kullback-Leibler divergence of each component from the prior's distribution, (K,)."""


@runtime_checkable
class ShrinksToData(WeakPrior[ParamsT], Protocol[ParamsT]):
    """A weak prior of the components' scales, of which the data choose a fraction.

    Its rows have the component's own mean, and a scale in proportion to that of all rows.
    """

    @property
    def prior_share(self) -> float:
        """The fraction of the prior's strength that suits the data."""

    def with_prior_share(self, share: float) -> Family:
        """The family with another fraction."""


@runtime_checkable
class LatentFactors(Capability, Protocol):
    """Latent factors, which are determined up to a rotation."""

    @property
    def n_factors(self) -> int:
        """The number of factors."""

    def rotated(self, blocks: Blocks, like: Blocks) -> Blocks:
        """Blocks with factors rotated to be as close as possible to those of other blocks."""


@runtime_checkable
class StandardDeviations(Capability, Protocol[ParamsT_contra]):
    """Families with standard deviations."""

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


# values of columns, for predictions and for missing cells


@runtime_checkable
class ColumnMeans(Capability, Protocol[ParamsT_contra]):
    """Families whose values are numbers with means."""

    def column_means(self, params: ParamsT_contra) -> Array:
        """E[x], (K, d); infinite where a distribution has none."""


@runtime_checkable
class LevelProbabilities(Capability, Protocol[ParamsT_contra]):
    """Families whose values are codes of categories, of which means say nothing."""

    def level_probabilities(self, params: ParamsT_contra) -> Array:
        """The probability of every level, (K, d, L)."""


@runtime_checkable
class MeanResultants(Capability, Protocol[ParamsT_contra]):
    """Families whose values are angles, which have a mean direction."""

    def resultants(self, params: ParamsT_contra) -> NDArray[np.complex128]:
        """E[exp(ix)], (K, d), whose argument is the mean direction."""


@runtime_checkable
class ConditionalCells(Capability, Protocol[ParamsT_contra]):
    """Families of rows with missing cells, whose distribution given the observed ones is known."""

    def of_columns(self, chosen: Sequence[int]) -> Family:
        """The family of some of the columns, in this order."""

    def take_columns(self, params: ParamsT_contra, chosen: Sequence[int]) -> Params:
        """The parameters of the marginal distributions of some of the columns."""

    def given_cells(self, params: ParamsT_contra, row: Array) -> tuple[Family, Params]:
        """The distributions of the missing columns of a row (d,), given its observed cells."""

    def expected_cells(self, params: ParamsT_contra, x: Array, responsibilities: Array) -> Array:
        """Rows (n, d) whose missing cells hold their means given the observed ones.

        Means are those of the mixture with these responsibilities, (n, K). Categories have no
        mean, and get the most probable level; angles get the mean direction.
        """

    def sample_cells(
        self, params: ParamsT_contra, x: Array, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        """Rows (n, d) whose missing cells are drawn from component labels[i], given the others."""


# initialisers


@runtime_checkable
class CommonSpread(Capability, Protocol):
    """Families whose components can be initialised with any centres and a common scale."""

    def around(self, centers: Array, x: Array, weight: Array) -> Params:
        """Components with these centres (K, d) and the standard deviations of the rows."""

    def deviations_of(self, x: Array, weight: Array) -> Array:
        """Standard deviations of columns (d,); 1 for constant columns."""


@runtime_checkable
class CappedPrecision(Capability, Protocol[ParamsT]):
    """Families whose precisions can be bounded."""

    cap: float | None

    def capped(self, cap: float) -> Family:
        """The family with no precision above `cap`."""

    def at_cap(self, params: ParamsT) -> ParamsT:
        """The components with precision `cap` in every direction, if the family has a cap."""


@runtime_checkable
class PrecisionRoots(CappedPrecision[ParamsT], Protocol[ParamsT]):
    """Families whose precisions have roots, in which annealed gradients take steps."""

    def root_shape(self, d: int) -> tuple[int, ...] | None:
        """The shape (d,) or (d, d) of a component's root; None if gradients are not supported."""


# kernels


class Whitened(NamedTuple):
    """K Gaussians: means (K, d), inverse scales W (K, d, d) or (K, d), -log det W (K,)."""

    means: Array
    whiten: Array
    log_determinant: Array


@runtime_checkable
class WhitenedKernel(Capability, Protocol[ParamsT_contra]):
    """Gaussians with covariance matrices, as the compiled and the GPU kernels need them.

    The kernels sum W(x - mu) and its products, where W is an inverse scale.
    """

    @property
    def form(self) -> Literal["triangular", "diagonal"]:
        """Whether scales are triangular matrices or vectors."""

    def whitened(self, params: ParamsT_contra) -> Whitened:
        """The parameters in the form that the kernels need."""


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
    """Gaussians with latent factors, as the kernel of factor analysers needs them.

    The kernel sums centred rows, expected factors, and their products.
    """

    def low_rank(self, params: Params) -> LowRank:
        """The parameters in the form that the kernel needs."""


@runtime_checkable
class IdentityKernel(Capability, Protocol):
    """Families with t(x) = x, as the compiled and the GPU kernels need them."""

    base_measure: ClassVar[Literal["one", "factorial"]]
    """log h(x) is zero, or minus the sum of log x!."""


class KernelTerm(NamedTuple):
    """What a factor of a product adds to log densities, in a form that the compiled kernel has.

    The kinds are those of y, the columns of the rows, or functions of them if `transformed`, with
    parameters (K, q):

    - normal: c - ((y - m) s)^2 / 2, of c, m and s; y is one column
    - linear: c + <eta, y>, of c and eta
    - levels: log p_y, of log p of every level; y is one column of codes

    The base measure besides is one, one over y!, or the family's `log_base_measure`.
    """

    kind: Literal["normal", "linear", "levels"]
    parameters: Array
    transformed: bool = False
    base_measure: Literal["one", "factorial", "own"] = "one"


@runtime_checkable
class HasKernelTerm(Capability, Protocol[ParamsT_contra]):
    """Families that can be factors in the compiled kernel of products.

    Their tables of sums are the total responsibility, and then: of a normal term, the sums of
    z = (y - m) s and of z^2; of a linear one, those of y; of levels, the weights of all levels.
    """

    def kernel_term(self, params: ParamsT_contra) -> KernelTerm | None:
        """The term; None if this form of the family has none."""

    def kernel_values(self, x: Array) -> Array:
        """y, (n, c), if it is not x itself."""

    def log_base_measure(self, x: Array) -> Array:
        """log h(x), (n,)."""


class RowUpdates(NamedTuple):
    """Constants of a family for the compiled updates of single rows."""

    kind: str
    floor: float
    reg_covar: float = 0.0
    least_variance: float = 0.0
    rounding: float = 0.0
    lowest: Array | None = None  # of every column; None is `core.limits.SMALLEST`


@runtime_checkable
class CompiledRowUpdates(Capability, Protocol[ParamsT]):
    """Families for which updates after every row are compiled."""

    @property
    def row_updates(self) -> RowUpdates | None:
        """The constants; None if this form of the family is not supported."""

    def to_arrays(self, params: ParamsT) -> tuple[Array, Array]:
        """Means (K, d), and scales or an empty array."""

    def from_arrays(self, means: Array, factor: Array) -> ParamsT:
        """The inverse of `to_arrays`."""


class DevicePasses(NamedTuple):
    """Constants of a family for M-steps on a device.

    `structure` of the covariances is "full", "diag" or "spherical".
    """

    structure: str
    floor: float
    reg_covar: float
    lowest_variances: Callable[[int], Array]


@runtime_checkable
class MaximizedOnDevice(Capability, Protocol[ParamsT]):
    """Families whose M-steps can run on a device, so that whole passes stay there."""

    @property
    def device_passes(self) -> DevicePasses | None:
        """The constants; None if this form of the family is not supported."""

    def to_arrays(self, params: ParamsT) -> tuple[Array, Array]:
        """Means (K, d), and scales."""

    def from_arrays(self, means: Array, factor: Array) -> ParamsT:
        """The inverse of `to_arrays`."""
