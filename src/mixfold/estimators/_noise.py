"""The box in which noise is distributed, as users give it or as the rows have it."""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import Any

import numpy as np

from mixfold.core.arrays import on_host
from mixfold.core.checks import check_above
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.registry import name_of
from mixfold.core.rows import Array
from mixfold.core.source import Source
from mixfold.estimators._edge import check_finite
from mixfold.models.mixture_model import MixtureModel
from mixfold.models.noise_mixture import Box


def wants_noise(noise: Any) -> bool:
    """Whether there is a component of noise."""
    return noise is not None and noise is not False


def is_volume(noise: Any) -> bool:
    """Whether noise is given by the volume of its box."""
    return isinstance(noise, Real | np.number) and not isinstance(noise, bool)


def check_noise(noise: Any) -> None:
    """Refuse what is neither True, a volume, nor the ends of a box."""
    if not wants_noise(noise) or noise is True:
        return
    if is_volume(noise):
        check_above("noise", noise, 0.0)
    else:
        _ends(noise)


def _ends(noise: Any) -> tuple[Array, Array]:
    """The lower and the upper ends of the sides."""
    try:
        low, high = (np.asarray(each, dtype=np.float64).reshape(-1) for each in noise)
    except (TypeError, ValueError):
        low, high = np.empty(0), np.empty(0)
    good = len(low) == len(high) > 0 and np.isfinite([low, high]).all() and (low <= high).all()
    if not good:
        raise InvalidInputError(
            f"noise is {noise!r}: give True, a volume above 0, or a pair (low, high) of lists with "
            "a finite number for each column, low below high"
        )
    return low, high


def box_of(noise: Any, family: Family, source: Source, reads: bool) -> Box:
    """The box of noise for the rows of a source, which are read if they determine it."""
    d = source.d
    if family.chart(d) is not None:
        raise InvalidInputError(
            f"noise is {noise!r}, but the values of a row depend on one another in a "
            f"{name_of(family)} mixture, whose rows do not fill a box: leave noise out"
        )
    whole = np.array([support.whole for support in family.supports(d)], dtype=bool)
    if noise is True or is_volume(noise):
        if not (reads and source.rereadable):
            raise InvalidInputError(
                f"noise is {noise!r}, which needs the range of all rows, but these are read only "
                "once: give noise=(low, high), two lists with a number for each column"
            )
        low, high = _range(source)
    else:
        low, high = _ends(noise)
        if len(low) != d:
            raise InvalidInputError(
                f"noise has the ends of {len(low)} columns, but there are {d}: give one for each"
            )
    box = Box(low, high, whole)
    box.check(d)
    return box.scaled(float(noise)) if is_volume(noise) else box


def _range(source: Source) -> tuple[Array, Array]:
    """The smallest and the largest value of each column among rows with a weight."""
    low, high, first = np.full(source.d, inf), np.full(source.d, -inf), 0
    for rows in source.blocks():
        check_finite(source.columns, rows.observed(), range(first, first + len(rows)))
        first += len(rows)
        x = on_host(rows.x)[rows.weights() > 0.0]
        low = np.fmin(low, np.fmin.reduce(x, axis=0, initial=inf))
        high = np.fmax(high, np.fmax.reduce(x, axis=0, initial=-inf))
    seen = low <= high
    return np.where(seen, low, 0.0), np.where(seen, high, 0.0)


def check_no_noise(model: MixtureModel, what: str) -> None:
    """Refuse mixtures with noise where a method is for components alone."""
    if model.has_noise:
        raise InvalidInputError(
            f"{what} is not defined for a mixture with noise, which has no parameters but its "
            "volume: fit with noise=None, for example to the rows that are not noise"
        )
