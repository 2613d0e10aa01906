"""Mixtures of factor analysers on a device, by products of float64 matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixfold.core.capabilities import LowRank
from mixfold.core.rows import Array
from mixfold.families.factor_analysis import posterior
from mixfold.families.gaussian import LOG_2PI
from mixfold.kernels.optional_torch import Tensor, torch


class CentredFactors(NamedTuple):
    """Rows about the mean of each component, (K, n, d), and their expected factors, (K, n, q)."""

    centred: Tensor
    factors: Tensor


class Factors(NamedTuple):
    """log p = const - (c'Pc - |Wc|^2) / 2 with c = x - mu, and E[z | x] = B c."""

    means: Tensor  # (K, 1, d)
    precision: Tensor  # P, (K, d)
    reach: Tensor  # W, (K, q, d)
    beta: Tensor  # B, (K, q, d)
    offset: Tensor  # (K, 1)

    def local(self, x: Tensor) -> CentredFactors:
        """Centred rows, and their expected factors."""
        centred = x - self.means
        return CentredFactors(centred, centred @ self.beta.transpose(1, 2))

    def log_joint(self, x: Tensor, local: CentredFactors) -> Tensor:
        """log w_k p(x | k), (K, n)."""
        square = (local.centred.square() @ self.precision[:, :, None])[:, :, 0]
        reached = (local.centred @ self.reach.transpose(1, 2)).square().sum(dim=2)
        return self.offset - 0.5 * (square - reached)

    def table(self, r: Tensor, local: CentredFactors) -> Tensor:
        """Sums in the order of `kernels/factor.py`, (K, s)."""
        centred, factors = local
        squares = (r[:, None] @ centred.square())[:, 0]
        weighted = torch().cat([r[:, :, None], r[:, :, None] * factors], dim=2).transpose(1, 2)
        products, of_factors = weighted @ centred, weighted @ factors
        parts = [r.sum(dim=1)[:, None], products[:, 0], of_factors[:, 0], squares]
        for h in range(factors.shape[2]):
            parts += [products[:, 1 + h], of_factors[:, 1 + h, : h + 1]]
        return torch().cat(parts, dim=1)


def factors_on(device: Any, components: LowRank, logs: Array) -> Factors:
    """Parameters of components with these logarithms of weights on the device."""
    known = posterior(components)
    d = known.precision.shape[1]
    offset = logs - 0.5 * d * LOG_2PI - known.half_log_determinant
    arrays = components.means[:, None], known.precision, known.reach, known.beta, offset[:, None]
    return Factors(*(torch().tensor(np.asarray(a), device=device) for a in arrays))
