"""What a user fixes in a mixture, or lets components share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import IdentityKernel
from mixfold.core.checks import ROUNDING
from mixfold.core.components import put_components, take_components
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.limits import LARGEST
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.families.gaussian import Gaussian
from mixfold.models.constrained_mixture import ConstrainedMixture, family_of_params
from mixfold.models.constraints import Constraints, Groups
from mixfold.models.labelled import without_label_column
from mixfold.models.mixture_model import MixtureModel, MixtureParams

EQUAL = "equal"


@value
class Fixed:
    """Parameters of a mixture that are known, or that components share; all others are learned.

    The M-step is the highest likelihood under these constraints, so that EM never lowers the
    likelihood, and `bic` and `aic` count the free parameters alone.

    Parameters
    ----------
    weights : array of K weights or "equal", default=None
        Weights, NaN where they are free; free ones share what the others leave.
    means : array (K, d), default=None
        Means, with rows of NaN where they are free, of Gaussians, Poisson, exponential, Bernoulli,
        binomial and geometric components. Single cells may be NaN if columns are independent.
    covariances : array, default=None
        Covariances of Gaussians in scikit-learn's shape, NaN for components that are free.
    components : dict, default=None
        Whole components by number: fitted mixtures of one component, or their `params_`.
    equal_means, equal_covariances : lists of groups of components, default=None
        Components that share a mean or, of Gaussians, a covariance, such as [(0, 1), (2, 3)].

    Examples
    --------
    >>> from mixfold import Fixed, Mixture, datasets
    >>> fixed = Fixed(weights="equal", means=[[2.0, 55.0], [float("nan")] * 2])
    >>> model = Mixture(n_components=2, fixed=fixed, random_state=0)
    >>> model.fit(datasets.load_faithful()).weights_
    array([0.5, 0.5])
    >>> model.means_.round(1)
    array([[ 2. , 55. ],
           [ 4.3, 80. ]])

    References
    ----------
    McLachlan and Krishnan (2008), The EM algorithm and extensions, section 5.2; Meng and Rubin
    (1993), Maximum likelihood estimation via the ECM algorithm, for shared means of components with
    different covariances.
    """

    weights: Any = None
    means: Any = None
    covariances: Any = None
    components: Any = None
    equal_means: Any = None
    equal_covariances: Any = None

    def __post_init__(self) -> None:
        known = self.components
        if isinstance(known, Mapping):  # as a model file holds it
            pairs = [[k, _params_of(k, one)] for k, one in known.items()]
            object.__setattr__(self, "components", pairs)
        elif known is not None and not _are_pairs(known):
            raise InvalidInputError(
                f"components of Fixed is {known!r}: a dict of numbers of components and fitted "
                "mixtures of one component is needed"
            )
        for name in ("weights", "means", "covariances"):
            given = getattr(self, name)
            if given is not None and not (name == "weights" and isinstance(given, str)):
                object.__setattr__(self, name, _numbers(name, given))
        for name in ("equal_means", "equal_covariances"):
            groups = getattr(self, name)
            if groups is not None:
                object.__setattr__(self, name, [list(group) for group in _groups(name, groups)])

    def applied(self, model: MixtureModel) -> ConstrainedMixture:
        """The mixture with these constraints."""
        like, d = family_of_params(model.family), without_label_column(model).d
        chosen, components = self._components(like, model.k, d)
        constraints = Constraints(
            weights=self._weights(model.k),
            means=self._means(like, model.k, d),
            scale=self._scale(like, model.k, d),
            components=components,
            fixed=chosen,
            equal_means=_labels("equal_means", self.equal_means, model.k),
            equal_scales=_labels("equal_covariances", self.equal_covariances, model.k),
        )
        _check_together(constraints, like)
        return ConstrainedMixture(model.family, model.k, model.d, constraints)

    def _weights(self, k: int) -> Array | None:
        if self.weights is None:
            return None
        if isinstance(self.weights, str):
            if self.weights != EQUAL:
                raise InvalidInputError(
                    f"weights of Fixed is {self.weights!r}: 'equal', or an array of {k} weights"
                )
            return np.full(k, 1.0 / k)
        weights = self.weights
        _check_shape("weights", weights, (k,))
        known = weights[~np.isnan(weights)]
        if (known <= 0.0).any() or known.sum() > 1.0 + ROUNDING:
            raise InvalidInputError(
                f"weights of Fixed are {weights.tolist()}: they must be above 0 and sum to at most "
                "1; NaN is a weight that is learned"
            )
        total = known.sum()
        if len(known) == k and abs(total - 1.0) > ROUNDING:
            raise InvalidInputError(f"weights of Fixed sum to {total:g}: they must sum to 1")
        if len(known) < k and not total < 1.0 - ROUNDING:
            raise InvalidInputError(
                f"weights of Fixed sum to {total:g}, which leaves nothing to the other components"
            )
        return np.asarray(weights)

    def _means(self, like: Family, k: int, d: int) -> Array | None:
        if self.means is None:
            if self.equal_means is not None:
                _check_has_means("equal_means", like)
            return None
        _check_has_means("means", like)
        means = self.means
        _check_shape("means", means, (k, d))
        known = ~np.isnan(means)
        if not (np.abs(means[known]) < LARGEST).all():
            raise InvalidInputError(f"means of Fixed are {means.tolist()}: finite ones are needed")
        dependent = isinstance(like, Gaussian) and like.scatter == "full"
        if dependent and (known.any(axis=1) != known.all(axis=1)).any():
            raise InvalidInputError(
                f"means of Fixed are {means.tolist()}: with covariances between columns, the mean "
                "of a component is fixed in all columns or none; use Gaussian('diag')"
            )
        filled = np.where(known, means, 1.0)
        outside = None if isinstance(like, Gaussian) else _outside_of_means(like, filled)
        if outside is not None and outside.any():
            raise InvalidInputError(
                f"means of Fixed are {means.tolist()}, and {like!r} cannot have some of them: "
                f"{like.support_message}"
            )
        return np.asarray(means)

    def _scale(self, like: Family, k: int, d: int) -> Array | None:
        given = self.covariances
        if given is None and self.equal_covariances is None:
            return None
        if not isinstance(like, Gaussian) or like.structure_name is None:
            raise InvalidInputError(
                f"covariances of Fixed need Gaussians with full, tied, diagonal or spherical "
                f"covariances, and the family is {like!r}"
            )
        if given is None:
            return None
        structure = like.structure
        _check_shape("covariances", given, structure.covariance_shape(k, d))
        if len(structure.scale_shape(k, d)) and structure.scale_shape(k, d)[0] == 1:
            return self._root(like, given)
        free = np.isnan(given).reshape(k, -1)
        if (free.any(axis=1) != free.all(axis=1)).any():
            raise InvalidInputError(
                "covariances of Fixed are partly NaN: that of a component is fixed as a whole, or "
                "all of it is NaN"
            )
        known = ~free.any(axis=1)
        example = np.broadcast_to(_unit(given), given.shape)
        wide = known.reshape(-1, *(1,) * (given.ndim - 1))
        scale = self._root(like, np.where(wide, given, example))
        scale[~known] = np.nan
        return scale

    def _root(self, like: Gaussian, covariances: Array) -> Array:
        try:
            with np.errstate(invalid="ignore"):
                scale = np.asarray(like.structure.from_covariances(covariances), dtype=np.float64)
        except np.linalg.LinAlgError:
            scale = np.full(1, np.nan)
        symmetric = (
            covariances.ndim < 2
            or like.scatter == "diag"
            or np.allclose(covariances, covariances.swapaxes(-1, -2))
        )
        if not (np.isfinite(scale).all() and symmetric):
            raise InvalidInputError(
                f"covariances of Fixed are {covariances.tolist()}: symmetric matrices that are "
                "positive definite are needed, or positive variances"
            )
        return scale.copy()

    def _components(self, like: Family, k: int, d: int) -> tuple[NDArray[np.bool_], Any]:
        chosen = np.zeros(k, dtype=bool)
        if not self.components:
            return chosen, None
        if like.n_parameters(2, d) != 2 * like.n_parameters(1, d):
            raise InvalidInputError(
                f"components of Fixed need a family whose components share no parameters, "
                f"and {like!r} shares some"
            )
        found = like.example(k, d, np.random.default_rng(0))
        for number, params in self.components:
            if isinstance(number, bool) or not isinstance(number, int | np.integer):
                raise InvalidInputError(f"components of Fixed has {number!r}: numbers are needed")
            if not 0 <= number < k:
                raise InvalidInputError(
                    f"components of Fixed has {number}: the components are 0 to {k - 1}"
                )
            one = params.components if isinstance(params, MixtureParams) else params
            try:
                like.check_params(one, 1, d)
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"component {number} of Fixed is not one component of {like!r} in {d} columns: "
                    f"{error}"
                ) from None
            chosen[number] = True
            repeated = take_components(one, np.zeros(k, dtype=np.intp), 1)
            found = put_components(found, repeated, np.arange(k) == number)
        return chosen, found


def _params_of(number: Any, one: Any) -> Any:
    """The parameters of a fitted mixture, or parameters as they are."""
    if hasattr(one, "get_params") and not hasattr(one, "params_"):
        raise InvalidInputError(
            f"component {number} of Fixed is {one!r}, which is not fitted: call its fit first"
        )
    return getattr(one, "params_", one)


def _are_pairs(known: Any) -> bool:
    """Whether components are as `Fixed` keeps them."""
    return isinstance(known, list) and all(
        isinstance(one, list | tuple) and len(one) == 2 for one in known
    )


def _check_together(constraints: Constraints, like: Family) -> None:
    """Refuse constraints that contradict one another."""
    c = constraints
    means = np.zeros(c.k, dtype=bool) if c.means is None else (~np.isnan(c.means)).any(axis=1)
    scales = np.zeros(c.k, dtype=bool)
    if c.scale is not None:
        scales |= ~np.isnan(c.scale).reshape(len(c.scale), -1).any(axis=1)
    for name, known, groups in (
        ("means", means, c.equal_means),
        ("covariances", scales, c.equal_scales),
    ):
        shared = np.zeros(c.k, dtype=bool) if groups is None else np.bincount(groups)[groups] > 1
        for both, what in (
            (c.fixed & known, f"fixed as a whole, and their {name} are fixed too"),
            (c.fixed & shared, f"fixed as a whole, and share {name} with others"),
            (known & shared, f"in a group of equal {name}, and their {name} are fixed"),
        ):
            if both.any():
                raise InvalidInputError(
                    f"components {np.flatnonzero(both).tolist()} of Fixed are {what}: leave out "
                    "one of the two"
                )
    varies = isinstance(like, Gaussian) and like.structure_name in ("full", "diag", "spherical")
    if c.equal_scales is not None and not varies:
        raise InvalidInputError(
            f"equal_covariances of Fixed need covariances that differ otherwise, and the family is "
            f"{like!r}: use Gaussian('full'), Gaussian('diag') or Gaussian('spherical')"
        )


def _numbers(name: str, given: Any) -> Array:
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{name} of Fixed is {given!r}: an array of numbers is needed, NaN where free"
        ) from None


def _check_shape(name: str, given: Array, shape: tuple[int, ...]) -> None:
    if given.shape != shape:
        raise InvalidInputError(
            f"{name} of Fixed has shape {given.shape}: {shape} is needed, with NaN where it is free"
        )


def _check_has_means(name: str, like: Family) -> None:
    if not isinstance(like, Gaussian | IdentityKernel):
        raise InvalidInputError(
            f"{name} of Fixed needs Gaussians, or families whose only parameters are means, such "
            f"as Poisson, and the family is {like!r}: fix whole components"
        )


def _outside_of_means(like: Family, means: Array) -> NDArray[np.bool_]:
    low, high = np.array([[s.low, s.high] for s in like.supports(means.shape[1])]).T
    return np.asarray((means < low) | (means > high))


def _unit(given: Array) -> Array:
    """A valid covariance in the shape of one component."""
    return np.eye(given.shape[-1]) if given.ndim == 3 else np.ones(given.shape[1:])


def _groups(name: str, groups: Any) -> Iterable[Any]:
    good = isinstance(groups, list | tuple) and all(
        isinstance(group, list | tuple) and len(group) > 1 for group in groups
    )
    if not good:
        raise InvalidInputError(
            f"{name} of Fixed is {groups!r}: groups of numbers of components are needed, such as "
            "[(0, 1)]"
        )
    return list(groups)


def _labels(name: str, groups: Any, k: int) -> Groups | None:
    """The number of the group of each component."""
    if groups is None:
        return None
    labels = np.arange(k)
    known: list[int] = []
    for group in groups:
        for number in group:
            if isinstance(number, bool) or number not in range(k):
                raise InvalidInputError(
                    f"{name} of Fixed has component {number!r}: the components are 0 to {k - 1}"
                )
            if number in known:
                raise InvalidInputError(f"{name} of Fixed has component {number} twice")
            known.append(int(number))
        labels[list(group)] = min(group)
    return labels.astype(np.int64)


def constrained(model: MixtureModel, fixed: Fixed | None) -> MixtureModel:
    """The mixture with what a user has fixed."""
    return model if fixed is None else fixed.applied(model)
