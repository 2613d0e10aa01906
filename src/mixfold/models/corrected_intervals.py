"""Credible intervals that are as wide as the estimates of a learner vary."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mixfold.core.rows import Array
from mixfold.families.scores import ShownParameter
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.models.score_information import Path, ScoreInformation, WhitenedScores, spread

Intervals = dict[str, tuple[Array, Array]]


def corrected(
    intervals: Intervals,
    model: MixtureModel,
    params: MixtureParams,
    information: ScoreInformation,
    path: Path,
    gains: Mapping[str, float],
) -> Intervals:
    """Intervals whose widths allow for what overlapping components leave unknown.

    Variances of the posterior are `gains` times those for known components, by the name of a
    parameter; parameters that are not named have the gain of weights.
    """
    information = information.closed(model, params)
    if not information.weight > 0.0:
        return intervals
    shares, vectors = information.shares()
    variances = spread(shares, path)
    scores = WhitenedScores(model, params)
    wider = dict(intervals)

    def factors(name: str, directions: Array) -> Array:
        ratios = np.maximum(variances / gains.get(name, gains["weights"]), 1.0)
        along, total = directions @ vectors, np.square(directions).sum(axis=1)
        known = np.where(total > 0.0, total, 1.0)
        return np.where(total > 0.0, np.sqrt(np.square(along) @ ratios / known), 1.0)

    if model.k > 1:
        wider["weights"] = _stretched(
            intervals["weights"], factors("weights", scores.directions_of_weights()), "logit"
        )
    for shown in scores.local.shown():
        name = _name(shown, intervals)
        if name is None:
            continue
        before, (low, high) = wider[name], (end.copy() for end in wider[name])
        factor = factors(name, scores.directions(shown))
        for where in _places(shown, low):
            ends = _stretched((before[0][where], before[1][where]), factor, shown.scale)
            low[where], high[where] = ends
        wider[name] = low, high
    return wider


def _name(shown: ShownParameter, intervals: Intervals) -> str | None:
    """The name of the intervals of a parameter; in products they are named by their columns."""
    if shown.name in intervals and (shown.factor is None or shown.name == "means"):
        return shown.name
    return None


def _places(shown: ShownParameter, ends: Array) -> list[tuple[Array, ...]]:
    """Where the entries of a parameter are in the array of the ends; twice for covariances."""
    columns = [*shown.columns.T]
    more = [shown.levels] if (shown.levels >= 0).any() else []
    found = [(shown.components, *columns, *more)]
    if len(columns) == 2:
        found.append((shown.components, columns[1], columns[0]))
    return [where for where in found if len(where) == ends.ndim]


def _stretched(ends: tuple[Array, Array], factor: Array, scale: str) -> tuple[Array, Array]:
    """Intervals with longer halves, on the scale on which their estimates are nearly normal."""
    low, high = ends
    if scale == "log" and (low > 0.0).all():
        low, high = _longer(np.log(low), np.log(high), factor)
        return np.exp(low), np.exp(high)
    if scale == "logit" and (low > 0.0).all() and (high < 1.0).all():
        low, high = _longer(np.log(low / (1.0 - low)), np.log(high / (1.0 - high)), factor)
        return 1.0 / (1.0 + np.exp(-low)), 1.0 / (1.0 + np.exp(-high))
    return _longer(low, high, factor)


def _longer(low: Array, high: Array, factor: Array) -> tuple[Array, Array]:
    middle, half = 0.5 * (low + high), 0.5 * (high - low) * factor
    return middle - half, middle + half
