"""How much of the information about its parameters a mixture gets from rows without components.

In coordinates in which the complete-data information of a row is the identity, the information that
is missing since components are not known is the mean M of the covariances of the complete-data
score given the row, and I - M is what is left (Louis 1982). The errors of maximum likelihood are
(I - M)^-1 instead of the identity; linear response gives the same for variational Bayes (Giordano,
Broderick and Jordan 2015). A learner that reads rows once has another spread: see `spread`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mixfold.core.backend import Model
from mixfold.core.checks import HIGHEST, check_array, check_count, check_kind, check_least
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array, Rows, join, no_rows
from mixfold.core.value import replace, value
from mixfold.families.scores import (
    ShownParameter,
    StatisticScores,
    has_information,
    local_scores,
)
from mixfold.models.mixture_model import MixtureModel, MixtureParams

MOST = 256  # coordinates whose missing are summed
TILE = 256  # rows whose scores are computed together
ALL_TILES = 16  # the first tiles are all used, and then fewer and fewer
LEAST_SHARE = 1e-3  # of the information, below which more rows would be needed to know it
MOST_LEVELS = 400  # numbers of steps between which lengths are taken for equal


@dataclass(frozen=True)
class Path:
    """How a learner came to its estimate: `steps` steps of lengths `length(number)`.

    The start was that of `start` rows, and the posterior counts for `rows` rows.
    """

    start: float
    steps: int
    rows_per_step: float
    length: Callable[[float], float]
    rows: float


@value
class ScoreInformation:
    """The sum of the missing information of some rows, and those that wait for a full tile.

    The initial parameters came from `start` rows. After the first `ALL_TILES` tiles, `skip` rows
    are left out before the next one, which counts for these too, so that time and memory hardly
    grow with the rows.
    """

    start: int
    missing: Array
    rows: int
    weight: float
    tiles: int
    skip: int
    waiting: Rows

    def check(self, model: Model) -> None:
        """Raise an error for sums of another mixture."""
        check_kind("the information", self, ScoreInformation)
        p = len(self.missing)
        if p > MOST:
            raise InvalidInputError(f"the information has {p} coordinates: at most {MOST}")
        check_array("missing", self.missing, (p, p), -1e60, 1e60)
        check_count("start", self.start)
        check_count("rows", self.rows)
        check_least("weight", self.weight, 0.0, HIGHEST)
        check_count("tiles", self.tiles)
        check_count("skip", self.skip)
        model.check_rows(self.waiting)

    @staticmethod
    def nothing(model: MixtureModel, params: MixtureParams, start: int) -> ScoreInformation | None:
        """No rows yet; None where scores are not known, or there are too many."""
        p = _n_coordinates(model, params)
        if p is None or p > MOST:
            return None
        return ScoreInformation(start, np.zeros((p, p)), 0, 0.0, 0, 0, no_rows(model.d))

    @property
    def rows_until_full(self) -> int:
        """How many rows can be learned before the next tile is full."""
        return self.skip + TILE - len(self.waiting)

    def after(
        self, model: MixtureModel, params: Callable[[], MixtureParams], rows: Rows
    ) -> ScoreInformation:
        """The sums after at most `rows_until_full` rows, with scores under `params()`."""
        rows = rows.on_host()
        left_out = min(self.skip, len(rows))
        rows = rows.cut(left_out, len(rows))
        waiting = join([self.waiting, rows]) if len(self.waiting) else rows.copy()
        here = replace(self, skip=self.skip - left_out, waiting=waiting)
        return here.closed(model, params()) if len(waiting) == TILE else here

    def closed(self, model: MixtureModel, params: MixtureParams) -> ScoreInformation:
        """The sums with the rows that wait."""
        tiles = self.tiles + 1
        skip = self._skip_before(tiles)
        found = replace(self, tiles=tiles, skip=skip, waiting=no_rows(model.d))
        rows = self.waiting.where(~np.isnan(self.waiting.x).any(axis=1))
        if not len(rows):
            return found
        x, weight = rows.x.astype(np.float64, copy=False), rows.weights()
        times = self._skip_before(self.tiles) // TILE + 1  # for rows that were left out
        missing = self.missing + times * WhitenedScores(model, params).missing(x, weight)
        if not np.isfinite(missing).all():  # rows so far away that squares overflow
            return found
        return replace(
            found,
            missing=missing,
            rows=self.rows + times * len(weight),
            weight=self.weight + times * float(weight.sum()),
        )

    @staticmethod
    def _skip_before(tiles: int) -> int:
        """How many rows are left out before the next tile."""
        return TILE * max(0, tiles - ALL_TILES)

    def reordered(self, order: np.ndarray) -> ScoreInformation:
        """The sums with components in another order."""
        k = len(order)
        inside = np.arange(k, len(self.missing)).reshape(k, -1)[order]
        places = np.concatenate([order, inside.ravel()])
        return replace(self, missing=np.ascontiguousarray(self.missing[np.ix_(places, places)]))

    def merged(self, states: Sequence[ScoreInformation]) -> ScoreInformation:
        """The sums of all states, each of which began with these; rows that wait are left out."""
        missing = self.missing + sum(s.missing - self.missing for s in states)
        weight = self.weight + sum(s.weight - self.weight for s in states)
        tiles = self.tiles + sum(s.tiles - self.tiles for s in states)
        rows = self.rows + sum(s.rows - self.rows for s in states)
        waiting = no_rows(self.waiting.x.shape[1])
        return ScoreInformation(
            self.start, missing, rows, weight, tiles, max(s.skip for s in states), waiting
        )

    @property
    def mean_weight(self) -> float:
        """The mean weight of a row."""
        return self.weight / self.rows if self.rows else 1.0

    def shares(self) -> tuple[Array, Array]:
        """Eigenvalues of I - M, the fractions of information that are left, and eigenvectors."""
        found, vectors = np.linalg.eigh(self.missing / self.weight)
        return np.clip(1.0 - found, LEAST_SHARE, 1.0), vectors


class WhitenedScores:
    """Scores in coordinates in which the complete-data information of a row is the identity.

    First come the K weights, in which the direction sqrt(w) is fixed, then q coordinates of every
    component.
    """

    def __init__(self, model: MixtureModel, params: MixtureParams) -> None:
        self.model = replace(model, family=model.family.for_complete_rows())
        self.params = params
        local = local_scores(self.model.family, params.components, params.weights, model.d)
        assert has_information(local)
        self.local = local
        self.roots = np.sqrt(params.weights)
        self.whiten = _inverse_roots(self.local)

    def missing(self, x: Array, weight: Array) -> Array:
        """The covariances of the complete-data scores given the rows, summed with weights."""
        log_joint = self.model.log_joint(self.params, x)
        r = np.exp(log_joint - np.logaddexp.reduce(log_joint, axis=1)[:, None])
        local = self.local.scores(x) @ self.whiten / self.roots[:, None, None]  # (K, n, q)
        k, n, q = local.shape
        scores, found = np.zeros((n, k + k * q)), np.zeros((k + k * q, k + k * q))
        for j, own in enumerate(local):
            of_weights = (np.eye(k)[j] - self.params.weights) / self.roots
            complete = np.hstack([np.broadcast_to(of_weights, (n, k)), own])
            places = np.append(np.arange(k), np.arange(k + j * q, k + (j + 1) * q))
            weighted = complete * r[:, j, None]
            scores[:, places] += weighted
            found[np.ix_(places, places)] += (weighted * weight[:, None]).T @ complete
        return found - (scores * weight[:, None]).T @ scores

    def directions_of_weights(self) -> Array:
        """Derivatives of the weights, (K, K + K q)."""
        k, q = self.local.index.shape
        found = np.zeros((k, k + k * q))
        found[:, :k] = np.diag(self.roots) - np.outer(self.params.weights, self.roots)
        return found

    def directions(self, shown: ShownParameter) -> Array:
        """Derivatives of the entries of a parameter, (m, K + K q)."""
        k, q = self.local.index.shape
        slopes = np.zeros((len(shown.values), q))
        jacobian = shown.jacobian()
        slopes[:, shown.first : shown.first + jacobian.shape[1]] = jacobian
        found = np.zeros((len(slopes), k, q))
        for i, component in enumerate(shown.components):
            found[i, component] = slopes[i] @ self.whiten[component] / self.roots[component]
        return np.hstack([np.zeros((len(slopes), k)), found.reshape(len(slopes), -1)])


def _n_coordinates(model: MixtureModel, params: MixtureParams) -> int | None:
    try:
        family = model.family.for_complete_rows()
        found = local_scores(family, params.components, params.weights, model.d)
    except InvalidInputError:
        return None
    k, q = found.index.shape
    return int(k + k * q) if has_information(found) else None


def _inverse_roots(local: StatisticScores) -> Array:
    """Symmetric C^-1/2 of the information C (K, q, q); fixed coordinates are left out."""
    free = local.index >= 0
    information = local.information() * (free[:, :, None] & free[:, None, :])
    found, vectors = np.linalg.eigh(information)
    known = found > 1e-12 * found.max(axis=1, keepdims=True)
    scale = np.where(known, 1.0 / np.sqrt(np.where(known, found, 1.0)), 0.0)
    return np.asarray((vectors * scale[:, None, :]) @ vectors.swapaxes(1, 2))


def spread(shares: Array, path: Path) -> Array:
    """The variance of estimates along eigenvectors of I - M, times rows; 1 if M is zero.

    With a share R of the information, a step of length g towards what its rows would give if
    components were known changes the variance P to (1 - g R)^2 P + g^2 R / rows (Polyak and
    Juditsky 1992). The rows of the start are drawn from all rows and learned again, so that what is
    left of its error goes with that of the steps. Estimates vary no less than those of maximum
    likelihood, 1 / R.
    """
    variance, left_of_start = 1.0 / (shares * path.start), np.ones_like(shares)
    edges = np.unique(np.geomspace(1.0, path.steps + 1.0, MOST_LEVELS).astype(np.int64))
    for first, after in pairwise(edges.tolist()):
        length = path.length(0.5 * (first + after - 1))
        left = 1.0 - np.minimum(length * shares, 1.0)
        left_of_start *= left ** (after - first)
        kept = left ** (2 * (after - first))
        fresh = np.square(length) * shares / path.rows_per_step
        variance = kept * variance + fresh * (1.0 - kept) / (1.0 - np.square(left))
    learned_again = 2.0 * left_of_start * (1.0 - left_of_start) / shares
    return np.maximum(variance * path.rows + learned_again, 1.0 / shares)


def merged_information(
    before: ScoreInformation | None, parts: Sequence[ScoreInformation | None]
) -> ScoreInformation | None:
    """The sums of several states, if they have any."""
    known = [part for part in parts if part is not None]
    return None if before is None or len(known) < len(parts) else before.merged(known)
