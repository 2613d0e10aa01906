"""The E-step of mixtures with noise, by any kernel of their components.

With responsibilities r_k of the components alone and the responsibility q of noise, those of the
mixture are (1 - q) r_k. So the sums of rows are those of the components' own kernel for rows whose
weights are multiplied by 1 - q.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixfold.core.backend import Assignment
from mixfold.core.rows import Array, Rows, rows_at_a_time
from mixfold.kernels.reference import NEGLIGIBLE, simulate
from mixfold.models.mixture_model import MixtureParams
from mixfold.models.noise_mixture import NoiseMixture

IN_CACHE = 8192  # rows whose temporary arrays stay in the cache


class WithNoise(NamedTuple):
    """Prepared parameters of the components, and the logarithm of both parts' weights."""

    components: Any
    log_rest: float
    log_noise: float


class Parts(NamedTuple):
    """log p(x), the responsibilities of all components together and of noise, and within those."""

    log_density: Array
    rest: Array
    noise: Array
    responsibilities: Array | None


class NoiseMixtureKernel:
    """log p(x) = log((1 - w_0) f(x) + w_0 / V), with f by the kernel of the components."""

    def __init__(self, model: NoiseMixture, components: Any) -> None:
        self.model, self.components = model, components

    def prepare(self, params: MixtureParams) -> WithNoise:
        """Convert parameters for the other methods, once for many blocks."""
        known = self.model.initial(params)
        prepared = self.components.prepare(known.of_components)
        return WithNoise(prepared, float(np.log1p(-known.noise)), float(np.log(known.noise)))

    def _parts(self, prepared: WithNoise, x: Array, responsibilities: bool) -> Parts:
        log_density, r = self.components.posterior(prepared.components, x, responsibilities)
        inside = prepared.log_rest + log_density
        outside = prepared.log_noise + self.model.box.log_density(x)
        odds = np.exp(-np.abs(inside - outside))  # of the less probable part
        likely, unlikely = 1.0 / (1.0 + odds), odds / (1.0 + odds)
        inner = inside > outside
        rest, noise = np.where(inner, likely, unlikely), np.where(inner, unlikely, likely)
        rest[rest < NEGLIGIBLE] = 0.0
        return Parts(np.maximum(inside, outside) + np.log1p(odds), rest, noise, r)

    def expect(self, prepared: WithNoise, rows: Rows) -> Array:
        """The sums of one block of rows."""
        sums = np.zeros(self.model.n_sums)
        for some in rows_at_a_time(rows, IN_CACHE):
            sums += self._sums(prepared, some)
        return sums

    def _sums(self, prepared: WithNoise, rows: Rows) -> Array:
        log_density, rest, noise, _ = self._parts(prepared, rows.x, False)
        weight = rows.weights()
        sums = self.components.expect(prepared.components, Rows(rows.x, weight * rest))
        sums[0] = weight @ log_density
        return np.append(sums, weight @ noise)

    def posterior(
        self, prepared: WithNoise, x: Array, responsibilities: bool = True
    ) -> tuple[Array, Array | None]:
        """log p(x) of every row and, if wanted, its responsibilities, those of noise last."""
        log_density, rest, noise, r = self._parts(prepared, x, responsibilities)
        return log_density, None if r is None else np.column_stack([r * rest[:, None], noise])

    def moments(self, prepared: WithNoise, rows: Rows, responsibilities: Array) -> Array:
        """The sums of a block under given responsibilities, of any sign, without likelihood."""
        own = np.ascontiguousarray(responsibilities[:, :-1])
        sums = self.components.moments(prepared.components, rows, own)
        return np.append(sums, rows.weights() @ responsibilities[:, -1])

    def simulate(
        self, prepared: WithNoise, rows: Rows, assignment: Assignment
    ) -> tuple[Array, Array]:
        """log p(x) of every row and the mean of draws of its label."""
        return simulate(self, prepared, rows, assignment)
