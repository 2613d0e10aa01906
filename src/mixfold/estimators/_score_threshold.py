"""The level that a small fraction of the scores of a stream exceeds.

The score of a row, less a running level and in units of a running spread, goes to a digest. Of two
digests one has the latest scores and the other those of the window before, so that old ones are
forgotten. Probabilities that the data are too few for come from the generalised Pareto
distribution of the excesses over a high quantile. The level follows a stream that drifts within
some thousand rows, and the digests follow slower changes of the shape of the distribution. A block
most of whose scores are beyond nearly all before does not count, and after two of them in a row
everything begins anew.

Reference: Siffer et al. (2017), Anomaly detection in streams with extreme value theory (DSPOT).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import numpy as np

from mixfold.core.checks import check_above, check_array, check_count, check_whole
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.estimators._generalized_pareto import fit_excesses
from mixfold.estimators._score_digest import Bytes, ScoreDigest

FIRST_WINDOW = 1024  # scores; windows grow with the stream
BLOCKS_IN_LEVEL = 32  # about how many of the latest blocks make the level and the spread
SMALLEST_SPREAD = 1e-3  # nats
SMALLEST_EXCESS = 1e-9  # in units of the spread; equal scores differ by rounding
REFRESHED = 50  # times while the digests are filled once
MOST_EXCESSES = 500
EXTREME = 1000.0  # rows that are as many times less probable than alarms are extreme
EXTREME_AT_ONCE = 50.0
USUAL = (0.01, 0.99)  # quantiles between which the medians of blocks are
UNUSUAL_IN_A_ROW = 2  # blocks whose medians are not, from which on the scores before are forgotten


@value
class ThresholdState:
    """What a threshold has learned.

    `standard` are the level, the spread and four levels of standardised scores: those beyond which
    rows are alarms, and extreme, and those between which medians of blocks are usual. `allowed` is
    how many extreme rows may be left out now, and `n_unusual` how many of the latest blocks were
    unusual.
    """

    rate: float
    window: int
    leaves_out: bool
    standard: Array
    n_blocks: int
    n_scores: int
    refreshed: int
    n_unusual: int
    allowed: float
    recent: Bytes
    earlier: Bytes

    def check(self) -> None:
        """Raise an error for an invalid state."""
        check_above("rate", self.rate, 0.0, 1.0)
        check_whole("window", self.window)
        for name in ("n_blocks", "n_scores", "refreshed", "n_unusual"):
            check_count(name, getattr(self, name))
        check_array("standard", np.clip(self.standard, -1e300, 1e300), (6,), -1e300, 1e300)
        if not self.standard[1] > 0.0 or not 0.0 <= self.allowed <= EXTREME_AT_ONCE:
            raise InvalidInputError("the spread of scores, or the number allowed, is out of range")
        ScoreDigest.from_bytes(self.recent)
        ScoreDigest.from_bytes(self.earlier)


class ScoreThreshold:
    """The level that a fraction `rate` of the scores exceeds; high scores are unusual.

    With `leaves_out`, rows that are extreme are not to be learned, as long as they are not more
    frequent than the rate.
    """

    def __init__(self, rate: float, window: int, leaves_out: bool) -> None:
        self.rate, self.window, self.leaves_out = rate, window, leaves_out
        self._alarm, self._extreme = inf, inf
        self._allowed = EXTREME_AT_ONCE
        self._begin()
        self._place()

    def _begin(self) -> None:
        """Forget all scores."""
        self._level, self._spread, self._usual = 0.0, 1.0, (-inf, inf)
        self._n_blocks = self._n_scores = self._refreshed = self._n_unusual = 0
        self._recent, self._earlier = ScoreDigest(), ScoreDigest()

    def _place(self) -> None:
        """Compute both levels in units of scores."""
        self.level = self._level + self._spread * self._alarm
        self.extreme_level = self._level + self._spread * self._extreme

    def leave_out(self) -> bool:
        """Whether a row beyond `extreme_level` is left out; it counts as left out then."""
        if self._allowed < 1.0:
            return False
        self._allowed -= 1.0
        return True

    def update(self, scores: Array, n_rows: int) -> None:
        """Learn the scores of a block of a stream, whose rows are `n_rows` with those left out."""
        self._allowed = min(self._allowed + self.rate * n_rows, EXTREME_AT_ONCE)
        if not len(scores):
            return
        level, spread = level_and_spread(scores)
        standard = (level - self._level) / self._spread
        is_usual = self._usual[0] <= standard <= self._usual[1]
        self._n_unusual = 0 if is_usual else self._n_unusual + 1
        if self._n_unusual >= UNUSUAL_IN_A_ROW:
            self._begin()
        elif self._n_unusual:
            return
        if self._n_blocks == 0:
            self._level, self._spread = level, spread
        self._add(scores)
        self._n_blocks += 1
        gain = 1.0 / min(self._n_blocks, BLOCKS_IN_LEVEL)
        self._level += gain * (level - self._level)
        self._spread += gain * (spread - self._spread)
        known = len(self._recent) + len(self._earlier)
        if (self._n_scores - self._refreshed) * REFRESHED >= known:
            self._refresh()
        self._place()

    def learn_all(self, sample: Array, blocks: Iterable[Array]) -> None:
        """Learn the scores of all rows of a fit, of which `sample` gives level and spread."""
        self._level, self._spread = level_and_spread(sample)
        self._n_blocks = BLOCKS_IN_LEVEL
        for scores in blocks:
            self._recent.update((scores - self._level) / self._spread)
        self._n_scores = len(self._recent)
        self._refresh()
        self._place()

    def divide(self, scores: Array) -> None:
        """Place the threshold so that the fraction of these scores above it is exact."""
        ordered = np.sort(scores)
        count = len(scores) - round(self.rate * len(scores))
        middle = float(ordered[count - 1 : count + 1].mean())
        self._alarm = (middle - self._level) / self._spread
        self._place()

    def _add(self, scores: Array) -> None:
        """Add scores to the digests, the earlier of which is forgotten when the other is full."""
        full = min(max(self._n_scores // 2, FIRST_WINDOW), self.window)
        if len(self._recent) >= full:
            self._earlier, self._recent = self._recent, ScoreDigest()
        self._recent.update((scores - self._level) / self._spread)
        self._n_scores += len(scores)

    def _refresh(self) -> None:
        known = self._earlier.joined(self._recent)
        low, high = known.quantiles(np.array(USUAL)).tolist()
        self._usual = low, high
        self._alarm, extreme = exceeded_levels(known, [self.rate, self.rate / EXTREME])
        # twice the alarm's level, for tails that end
        self._extreme = max(extreme, 2.0 * self._alarm) if self.leaves_out else inf
        self._refreshed = self._n_scores

    def state(self) -> ThresholdState:
        """What was learned, as a value."""
        return ThresholdState(
            self.rate,
            self.window,
            self.leaves_out,
            np.array([self._level, self._spread, self._alarm, self._extreme, *self._usual]),
            self._n_blocks,
            self._n_scores,
            self._refreshed,
            self._n_unusual,
            self._allowed,
            self._recent.to_bytes(),
            self._earlier.to_bytes(),
        )

    @staticmethod
    def from_state(state: ThresholdState) -> ScoreThreshold:
        """The threshold that continues from a state."""
        found = ScoreThreshold(state.rate, state.window, state.leaves_out)
        found._level, found._spread, found._alarm, found._extreme = state.standard[:4].tolist()
        low, high = state.standard[4:].tolist()
        found._usual = low, high
        found._n_blocks, found._n_scores = state.n_blocks, state.n_scores
        found._refreshed, found._n_unusual = state.refreshed, state.n_unusual
        found._allowed = state.allowed
        found._recent = ScoreDigest.from_bytes(state.recent)
        found._earlier = ScoreDigest.from_bytes(state.earlier)
        found._place()
        return found


def level_and_spread(scores: Array) -> tuple[float, float]:
    """The median, and how far the high scores are above it.

    Where half of the scores are equal and the largest, low scores take the place of the median.
    """
    low, level, high = np.quantile(scores, (0.1, 0.5, 0.9)).tolist()
    if high - level <= SMALLEST_SPREAD:
        level = low
    return level, max(high - level, SMALLEST_SPREAD)


def exceeded_levels(digest: ScoreDigest, rates: list[float]) -> list[float]:
    """The levels that fractions of the numbers of a digest exceed, also beyond the data.

    The tail has the largest min(0.2 n, 3 sqrt(n)) numbers (Scarrott and MacDonald 2012).
    """
    n = len(digest)
    tail = max(min(0.2, 3.0 / n**0.5), 1.0 / n)
    start = digest.exceeded(tail)
    count = max(1, min(int(tail * n), MOST_EXCESSES))
    ranks = 1.0 - tail * (np.arange(count, 0, -1) - 0.5) / count
    excesses = digest.quantiles(ranks) - start
    excesses = excesses[excesses > SMALLEST_EXCESS]
    distribution, tail = fit_excesses(excesses), tail * len(excesses) / count
    return [
        digest.exceeded(rate)
        if distribution is None or rate >= tail / 2.0
        else start + distribution.level(rate / tail)
        for rate in rates
    ]
