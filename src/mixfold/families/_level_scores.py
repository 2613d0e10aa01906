"""Scores of categorical distributions in logits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.families._probabilities import ProbabilityParams, at_least, normalized
from mixfold.families._shown_parameters import ShownParameter, StatisticScores, grid, numbered, wide
from mixfold.families.categorical import Categorical


class LevelScores(StatisticScores):
    """The score of the logit of a level is t - p.

    The logit of the most probable level of each column is fixed, since a common constant changes
    nothing, and so are those of levels with the smallest probability.
    """

    def __init__(self, family: Categorical, params: ProbabilityParams) -> None:
        self.family, self.params, self._p = family, params, params.probabilities
        most = self._p.argmax(axis=2)[:, :, None] == np.arange(family.levels)
        low = at_least(self._p)
        alone = (~low).sum(axis=2, keepdims=True) == 1  # a single level, of probability one
        self._limited = low | alone
        free = ~(most | low)
        super().__init__(*numbered(free.reshape(len(free), -1)))

    def scores(self, x: Array) -> Array:
        t = self.family.sufficient_statistics(x)
        return np.asarray(t[None] - self._p.reshape(len(self._p), 1, -1))

    @property
    def columns(self) -> NDArray[np.intp]:
        return np.repeat(np.arange(self._p.shape[1]), self._p.shape[2])

    def information(self) -> Array:
        k, d, levels = self._p.shape
        found = np.zeros((k, d, levels, d, levels))
        each = np.arange(d)
        own = self._p[:, :, :, None] * (np.eye(levels) - self._p[:, :, None, :])
        found[:, each, :, each] = own.swapaxes(0, 1)
        return found.reshape(k, d * levels, d * levels)

    def totals(self, params: ProbabilityParams, blocks: Blocks) -> Array:
        (block,) = blocks
        away = block.mean - params.probabilities.reshape(block.mean.shape)
        return np.asarray(wide(block.weight) * away)

    def moved(self, params: ProbabilityParams, change: Array) -> ProbabilityParams:
        p = params.probabilities
        return ProbabilityParams(normalized(p * np.exp(change).reshape(p.shape))[0])

    def shown(self) -> list[ShownParameter]:
        k, d, levels = self._p.shape
        where = grid(k, d, levels)
        return [
            ShownParameter(
                "probabilities",
                self._p.ravel(),
                where[:, 0],
                where[:, 1:2],
                where[:, 2],
                "logit",
                lambda: self.information().reshape(k * d * levels, -1),  # dp/dlogit = Cov(t)
                self._limited.ravel(),
            )
        ]
