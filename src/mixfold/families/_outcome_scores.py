"""Scores of multinomial distributions in logits."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array
from mixfold.families._probabilities import ProbabilityParams, at_least
from mixfold.families._shown_parameters import LocalScores, ShownParameter, grid, numbered


class OutcomeScores(LocalScores):
    """The score of the logit of an outcome is x_j - n p_j, where n is the sum of the row.

    The logit of the most probable outcome is fixed, since a common constant changes nothing, and so
    are those of outcomes with the smallest probability.
    """

    def __init__(self, params: ProbabilityParams) -> None:
        self._p = params.probabilities
        low = at_least(self._p)
        alone = (~low).sum(axis=1, keepdims=True) == 1  # a single outcome, of probability one
        self._limited = low | alone
        most = self._p.argmax(axis=1)[:, None] == np.arange(self._p.shape[1])
        super().__init__(*numbered(~(most | low)))

    def scores(self, x: Array) -> Array:
        expected = x.sum(axis=1)[:, None] * self._p[:, None]
        return np.asarray(x[None] - expected)

    def curvature(self, x: Array, weight: Array) -> Array:
        return np.asarray((x.sum(axis=1) @ weight)[:, None, None] * self._slopes())

    def _slopes(self) -> Array:
        """Derivatives (K, d, d) of probabilities in logits, the covariance of a single trial."""
        p = self._p
        return np.asarray(p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :]))

    def shown(self) -> list[ShownParameter]:
        k, d = self._p.shape
        where = grid(k, d)
        return [
            ShownParameter(
                "probabilities",
                self._p.ravel(),
                where[:, 0],
                where[:, 1:],
                np.full(k * d, -1),
                "logit",
                lambda: self._slopes().reshape(k * d, d),
                self._limited.ravel(),
            )
        ]
