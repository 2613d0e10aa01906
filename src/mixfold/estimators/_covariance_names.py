"""Which covariances a selection compares, and which of them are the same model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.family import Family
from mixfold.core.registry import name_of
from mixfold.core.value import replace
from mixfold.families.gaussian import Gaussian

ALL = "all"
# in the order of mclust, from the fewest parameters to the most
FOURTEEN = (
    ("EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE")
    + ("VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV")
)  # fmt: skip
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
    own = (
        {field.name for field in fields(family)} if hasattr(family, "__dataclass_fields__") else ()
    )
    if covariance == ALL:
        if "covariance" not in own:
            return {"": family}
        names: Sequence[str] = _known(family)
    else:
        names = [covariance] if isinstance(covariance, str) else covariance
    if "covariance" not in own:
        raise InvalidInputError(
            f"covariance is {covariance!r}, but a {name_of(family)} family has none to choose: "
            "leave covariance out, or use family='gaussian'"
        )
    for name in names:
        if name not in (*_known(family), *MCLUST_NAMES, family.covariance):  # type: ignore[attr-defined]
            raise unknown_name(f"covariance of {type(family).__name__}", name, _known(family))
    return {name: replace(family, covariance=name) for name in dict.fromkeys(names)}


def _known(family: Family) -> Sequence[str]:
    """All covariances of a family."""
    if isinstance(family, Gaussian):
        return FOURTEEN
    return list(dict.fromkeys(one.covariance for one in type(family).variants()))


def same_model(name: str, k: int, d: int) -> str:
    """The simplest of the names of mclust that stand for the same model of K components.

    A single component has no volume, shape or orientation to share, and a single column neither
    a shape nor an orientation.
    """
    name = MCLUST_NAMES.get(name, name)
    if name not in FOURTEEN:
        return name
    volume, shape, orientation = name
    if d == 1:
        shape = orientation = "I"
    if k > 1:
        return volume + shape + orientation
    return {"II": "EII", "I": "EEI"}.get((shape + orientation).lstrip("EV"), "EEE")
