"""Which covariances a selection compares, and which of them are the same model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.family import Family
from mixfold.core.registry import name_of
from mixfold.core.value import replace
from mixfold.families.gaussian import Gaussian

ALL = "all"
# mclust's names, in its order
SPHERES, DIAGONALS = ("EII", "VII"), ("EEI", "VEI", "EVI", "VVI")
ELLIPSES = ("EEE", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV")
FOURTEEN = (*SPHERES, *DIAGONALS, *ELLIPSES)
MCLUST_NAMES = {"spherical": "VII", "diag": "VVI", "tied": "EEE", "full": "VVV"}


def check_covariance(covariance: Any) -> None:
    """Refuse what is neither a name nor a list of names."""
    names = [covariance] if isinstance(covariance, str) else covariance
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(
            f"covariance is {covariance!r}: give 'all', or a list of names such as ['VVV', 'EEE']"
        )
    if not names:
        raise InvalidInputError(
            f"covariance is {covariance!r}, which is empty: give 'all', or at least one name"
        )


def families_by_covariance(family: Family, covariance: str | Sequence[str]) -> dict[str, Family]:
    """The family with each of the covariances; one without a name if it has none to choose."""
    known, own = _known(family), getattr(family, "covariance", None)
    if not known:
        if covariance == ALL:
            return {"": family}
        raise InvalidInputError(
            f"covariance is {covariance!r}, but a {name_of(family)} family has none to choose: "
            "leave covariance out, or use family='gaussian'"
        )
    if covariance == ALL:
        names: Sequence[str] = known
    else:
        names = [covariance] if isinstance(covariance, str) else covariance
    found: dict[str, Family] = {}
    for name in names:
        if name not in (*known, *MCLUST_NAMES, own):
            raise unknown_name(f"covariance of {type(family).__name__}", name, known)
        found[name] = replace(family, covariance=name)
    return found


def _known(family: Family) -> Sequence[str]:
    """All covariances of a family; none if it has nothing to choose."""
    if isinstance(family, Gaussian):
        return FOURTEEN
    variants = [getattr(one, "covariance", None) for one in type(family).variants()]
    return list(dict.fromkeys(name for name in variants if isinstance(name, str)))


def same_model(name: str, k: int, d: int) -> str:
    """The simplest of the names of mclust that stand for the same model of K components.

    A single component has no volume, shape or orientation to share, and a single column neither
    a shape nor an orientation.
    """
    name = MCLUST_NAMES.get(name, name)
    if name not in FOURTEEN:
        return name
    volume, shape, orientation = name[0], name[1], name[2]
    if d == 1:
        shape = orientation = "I"
    if k > 1:
        return volume + shape + orientation
    return {"II": "EII", "I": "EEI"}.get((shape + orientation).lstrip("EV"), "EEE")
