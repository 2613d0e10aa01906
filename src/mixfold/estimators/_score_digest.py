"""Quantiles of a stream of numbers in bounded memory, by the t-digest of Apache DataSketches.

A t-digest keeps the numbers in the tails nearly one by one, so that small probabilities have small
relative errors, and depends on nothing but the numbers (Dunning 2021).
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.errors import InvalidInputError, MissingExtraError
from mixfold.core.rows import Array

SIZE = 500  # about half the largest number of centroids
ROUNDING = 1e-9  # by which equal numbers differ
Bytes = NDArray[np.uint8]


def _digest_class() -> Any:
    try:
        from datasketches import tdigest_double
    except ImportError:
        raise MissingExtraError("datasketches", "alarms", "alarms of streams") from None
    return tdigest_double


class ScoreDigest:
    """A summary of numbers, from which quantiles are read."""

    def __init__(self) -> None:
        self._digest = _digest_class()(SIZE)

    def __len__(self) -> int:
        return int(self._digest.get_total_weight())

    def update(self, numbers: Array) -> None:
        """Add numbers; the result depends on which of them are added at once."""
        self._digest.update(np.ascontiguousarray(numbers))
        self._digest.compress()  # at the same rows, whether the digest is saved or not

    def joined(self, other: ScoreDigest) -> ScoreDigest:
        """The digest of the numbers of both."""
        found = ScoreDigest.from_bytes(self.to_bytes())
        found._digest.merge(other._digest)
        return found

    def exceeded(self, probability: float) -> float:
        """The level that a fraction of the numbers exceeds; equal numbers differ by rounding.

        If many more numbers are equal to the level, none of them exceeds it.
        """
        found = self._digest.get_quantile(min(1.0 - probability + 1e-12, 1.0))
        reached = 1.0 - self._digest.get_rank(found - ROUNDING)
        if reached > 2.0 * probability + 1.0 / len(self):
            return float(found + ROUNDING)
        # of few numbers the result is one of them, and is to be exceeded by itself
        return float(np.nextafter(found, -np.inf))

    def quantiles(self, ranks: Array) -> Array:
        """The quantiles at ranks between 0 and 1."""
        return np.array([self._digest.get_quantile(rank) for rank in ranks.tolist()])

    def to_bytes(self) -> Bytes:
        """The digest in the library's format."""
        return np.frombuffer(self._digest.serialize(), dtype=np.uint8).copy()

    @staticmethod
    def from_bytes(content: Bytes) -> ScoreDigest:
        """The digest that `to_bytes` has written; other bytes are refused."""
        found = ScoreDigest()
        try:
            found._digest = _digest_class().deserialize(content.tobytes())
        except (IndexError, ValueError, RuntimeError, MemoryError) as error:
            raise InvalidInputError(f"the digest of scores is damaged: {error}") from None
        digest = found._digest
        if digest.k != SIZE:
            raise InvalidInputError(f"the digest of scores has size {digest.k}: it is {SIZE}")
        if len(found):
            ends = digest.get_min_value(), digest.get_max_value()
            if not (all(map(isfinite, ends)) and ends[0] <= ends[1]):
                raise InvalidInputError(f"the scores of a digest lie from {ends[0]} to {ends[1]}")
        return found
