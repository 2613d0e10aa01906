"""Scores of exponential families in their unconstrained coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.families._shown_parameters import (
    Scale,
    ShownParameter,
    StatisticScores,
    grid,
    numbered,
)

STEP = 1e-5  # of central differences, in units of the coordinates' natural lengths
LOGITS = ("probabilities",)
LOGS = ("rates", "shapes", "scales", "concentrations", "alphas", "betas", "sizes")


def derivatives(family: Any, params: Any, of: Callable[[Any], Array]) -> Array:
    """Derivatives (K, m, q) of arrays (K, ...) in the unconstrained coordinates.

    By central differences. A component's entries depend on its own coordinates alone, so that one
    coordinate of all components is moved at once.
    """
    here = family.unconstrained(params)
    steps = STEP * family.coordinate_scales(params)
    found = []
    for j in range(here.shape[1]):
        ends = []
        for sign in (1.0, -1.0):
            there = here.copy()
            there[:, j] += sign * steps[:, j]
            ends.append(of(family.constrained(there, params)).reshape(len(here), -1))
        with np.errstate(invalid="ignore"):  # some distributions have no finite mean
            found.append((ends[0] - ends[1]) / (2.0 * steps[:, j, None]))
    return np.stack(found, axis=2)


class NaturalScores(StatisticScores):
    """The score of coordinates theta is (t - E[t]) deta/dtheta, their information dE[t]/deta.

    Coordinates of columns in which a component is at a limit are fixed.
    """

    def __init__(self, family: Any, params: Any, limited: NDArray[np.bool_]) -> None:
        self._family, self._params, self._limited = family, params, limited
        self._mean = family.mean(params)
        self._slopes = derivatives(family, params, family.to_natural)
        q, d = self._slopes.shape[2], limited.shape[1]
        super().__init__(*numbered(~limited[:, np.arange(q) % d]))

    def scores(self, x: Array) -> Array:
        t = self._family.sufficient_statistics(x)
        away = t[None] - self._mean[:, None]
        return np.asarray(away @ self._slopes)

    def information(self) -> Array:
        moved = derivatives(self._family, self._params, self._family.mean)
        found = self._slopes.swapaxes(1, 2) @ moved
        return np.asarray(0.5 * (found + found.swapaxes(1, 2)))

    @property
    def has_steps(self) -> bool:
        """Blocks of the means of t; some families have moments about means."""
        blocks, mean = self._family.expected(self._params, np.ones(len(self.index))), self._mean
        return len(blocks) == 1 and np.array_equal(blocks[0].mean, mean)

    def totals(self, params: Any, blocks: Blocks) -> Array:
        """In the coordinates about the first parameters, which are zero at the same place."""
        (block,) = blocks
        away = block.weight[:, None] * (block.mean - self._family.mean(params))
        return np.asarray((away[:, None] @ self._slopes)[:, 0])

    def moved(self, params: Any, change: Array) -> Any:
        return self._family.constrained(self._family.unconstrained(params) + change, params)

    def shown(self) -> list[ShownParameter]:
        known = self._family.attributes(self._params)
        names = [n for n in known if n != "modes" and not (n == "means" and LOGITS[0] in known)]
        return [self._shown(name, known[name]) for name in names]

    def _shown(self, name: str, values: Array) -> ShownParameter:
        where, m = grid(*values.shape), values.size

        def slopes() -> Array:
            family = self._family
            found = derivatives(family, self._params, lambda there: family.attributes(there)[name])
            return found.reshape(m, -1)

        return ShownParameter(
            name,
            values.ravel(),
            where[:, 0],
            where[:, 1:2],
            np.full(m, -1),
            self._scale(name, values),
            slopes,
            self._limited[where[:, 0], where[:, 1]],
        )

    def _scale(self, name: str, values: Array) -> Scale:
        if name in LOGITS:
            return "logit"
        positive = self._family.support.low >= 0.0 and bool((values > 0.0).all())
        return "log" if name in LOGS or (name == "means" and positive) else "identity"
