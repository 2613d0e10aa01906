"""Steps of Newton's method from the parameters of a fit to those of other rows of the same kind.

The information of the fitted rows stands for that of the others, so that a step needs the sum of
their scores alone, which follows from the statistics of an E-step. Errors shrink with every step in
proportion to the difference of both informations, which falls with the square root of the number of
rows. Steps correct the information as in L-BFGS.

References
----------
Nocedal and Wright (2006), Numerical optimization, algorithm 7.4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.statistics import Statistics
from mixfold.families.scores import StatisticScores, has_steps
from mixfold.models.estimate_covariance import inverted
from mixfold.models.information import InformationSums, MixtureScores
from mixfold.models.mixture_model import MixtureParams


def can_step(scores: MixtureScores) -> bool:
    """Whether steps lead to the maximum: no parameter is at a limit, or one of too many."""
    shown = scores.local.shown()
    limited = any(bool(one.limited.any()) for one in shown)
    return scores.together and has_steps(scores.local) and not limited


class NewtonSteps:
    """theta + I^-1 s(theta), where I is the observed information of the fit and s the score."""

    def __init__(self, sums: InformationSums) -> None:
        self.scores, self.model = sums.scores, sums.scores.model
        (information,) = sums.observed()
        found = inverted(information, sums.complete())
        self._inverse, self.is_known = found.inverse, not found.null.shape[1]

    @property
    def _local(self) -> StatisticScores:
        assert has_steps(self.scores.local)
        return self.scores.local

    def score(self, params: MixtureParams, statistics: Statistics) -> Array:
        """The score (n_free,) at parameters, from the statistics of an E-step there."""
        local = self._local.totals(params.components, statistics.blocks)
        logits = statistics.weight - statistics.weight.sum() * params.weights
        found = self.scores.in_free_coordinates(local.reshape(1, -1), logits[None])
        return np.asarray(found[0])

    def change(self, score: Array, pairs: Sequence[tuple[Array, Array]]) -> Array:
        """The step (n_free,): I^-1 s, where I is corrected by the last steps.

        `pairs` are the last steps and by how much they have lowered the score; the two loops are
        those of L-BFGS.
        """
        known = [(step, fall, float(step @ fall)) for step, fall in pairs if step @ fall > 0.0]
        rest, parts = score.copy(), []
        for step, fall, product in reversed(known):
            parts.append(float(step @ rest) / product)
            rest -= parts[-1] * fall
        found = self._inverse @ rest
        for (step, fall, product), part in zip(known, reversed(parts), strict=True):
            found += (part - float(fall @ found) / product) * step
        return np.asarray(found)

    def moved(self, params: MixtureParams, change: Array) -> MixtureParams | None:
        """The parameters after a step, or None if they are not valid."""
        logits, local = self.scores.in_local_coordinates(change)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            odds = params.weights * np.exp(logits - logits.max())
            try:
                components = self._local.moved(params.components, local)
                found = MixtureParams(odds / odds.sum(), components)
                self.model.check_params(found)
            except (InvalidInputError, np.linalg.LinAlgError):
                return None
        return found
