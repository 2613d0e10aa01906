"""Weights of a truncated Dirichlet process: each component takes a part of what those before left.

w_k = v_k (1 - v_1) ... (1 - v_{k-1}), v_k ~ Beta(taken_k, left_k).

Reference: Blei and Jordan (2006), Variational inference for Dirichlet process mixtures.
"""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.value import value


@value
class Sticks:
    """The parameters of the beta distributions of the parts, (K,) each."""

    taken: Array
    left: Array

    @staticmethod
    def after(counts: Array, concentration: float) -> Sticks:
        """The posterior of the parts when each component has so many rows."""
        later = np.append(np.cumsum(counts[::-1])[-2::-1], 0.0)
        return Sticks(1.0 + counts, concentration + later)

    def mean_weights(self) -> Array:
        """The expected weights, scaled to sum to one."""
        part = self.taken / (self.taken + self.left)
        weights = part * np.append(1.0, np.cumprod(1.0 - part)[:-1])
        return np.asarray(weights / weights.sum())

    def expected_log_weights(self) -> Array:
        """E[log w_k], (K,)."""
        from scipy.special import digamma

        total = digamma(self.taken + self.left)
        rest = np.append(0.0, np.cumsum(digamma(self.left) - total)[:-1])
        return np.asarray(digamma(self.taken) - total + rest)

    def log_constant(self) -> float:
        """The sum of the logarithms of the normalising constants."""
        from scipy.special import betaln

        return -float(betaln(self.taken, self.left).sum())
