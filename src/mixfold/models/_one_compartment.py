"""Concentrations in one compartment with first-order absorption, and their derivatives."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array

APART = 1e-5  # rates closer than this are moved apart before dividing by their difference
FARTHEST = 100.0  # exp of twice this does not overflow


class OneCompartment:
    """C(t) = sum over doses of D ka / (V (ka - k)) (exp(-k u) - exp(-ka u)), k = CL / V.

    u is the time since the dose, less the lag, and at least 0. `parameters` are the logarithms
    (..., n, 3 or 4) of ka, V, CL and the lag; times are (n, m), doses (n, number of doses).
    """

    def __init__(self, time: Array, dose_time: Array, amount: Array) -> None:
        self.time, self.dose_time, self.amount = time, dose_time, amount

    def since_dose(self) -> Array:
        """Time since the latest dose, (n, m); infinite before the first."""
        latest = np.full(self.time.shape, -np.inf)
        for start, amount in zip(self.dose_time.T, self.amount.T, strict=True):
            begun = (amount > 0)[:, None] & (start[:, None] < self.time)
            latest = np.where(begun, np.maximum(latest, start[:, None]), latest)
        return np.asarray(self.time - latest)

    def concentration(self, parameters: Array) -> Array:
        """C at every time, (..., n, m)."""
        ka, volume, k, lag = _rates(parameters)
        total = np.zeros(np.broadcast_shapes(ka.shape, self.time.shape))
        slow, apart = np.minimum(ka, k), np.abs(ka - k)
        for start, amount in zip(self.dose_time.T, self.amount.T, strict=True):
            u = np.maximum(self.time - start[:, None] - lag, 0.0)
            # symmetric in both rates and smooth where they are equal, without cancellation
            total += (amount[:, None] * ka / volume) * u * np.exp(-slow * u) * _shrink(apart * u)
        return total

    def slopes(self, parameters: Array) -> Array:
        """The derivatives of C in the logarithms, (n, m, q)."""
        ka, volume, k, lag = _rates(parameters)
        near = np.abs(ka - k) < APART * k
        ka = np.where(near, k * (1.0 + APART), ka)
        found = np.zeros((*self.time.shape, 4))
        for start, amount in zip(self.dose_time.T, self.amount.T, strict=True):
            since = self.time - start[:, None] - lag
            u = np.maximum(since, 0.0)
            scale = amount[:, None] * ka / volume
            slow, fast = np.exp(-k * u), np.exp(-ka * u)
            rise = (slow - fast) / (ka - k)
            by_ka = ka * (u * fast - rise) / (ka - k)
            by_k = k * (rise - u * slow) / (ka - k)
            by_lag = -lag * (since > 0) * (ka * fast - k * slow) / (ka - k)
            found += scale[..., None] * np.stack([rise + by_ka, -rise - by_k, by_k, by_lag], -1)
        return found[..., : parameters.shape[-1]]


def _rates(parameters: Array) -> tuple[Array, Array, Array, Array]:
    """ka, V, k and the lag, each with an axis for times."""
    natural = np.exp(np.clip(parameters, -FARTHEST, FARTHEST))[..., None]
    ka, volume, clearance = natural[..., 0, :], natural[..., 1, :], natural[..., 2, :]
    lag = natural[..., 3, :] if parameters.shape[-1] == 4 else np.zeros_like(ka)
    return ka, volume, clearance / volume, lag


def _shrink(x: Array) -> Array:
    """(1 - exp(-x)) / x for x >= 0, which is 1 at 0."""
    return np.divide(-np.expm1(-x), x, out=np.ones_like(x), where=x > 0)
