"""M-steps of diagonal Gaussians, and the input of their next E-step.

Parameters of all components are one list, float64: weights (K), means (K, D), standard deviations
(K, D).
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import triton
import triton.language as tl

from mixfold.core.limits import LEAST_VARIANCE
from mixfold.families.gaussian import LOG_2PI
from mixfold.kernels._moments import FAR, LARGEST
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.models.mixture_model import SMALLEST_WEIGHT

COLUMNS = 16


@triton.jit
@no_type_check
def arrange(
    slot,
    origin,
    linear,
    square,
    parts,
    far,
    D,
    K,
    LOG_2PI: tl.constexpr,
    FAR: tl.constexpr,
    LARGEST: tl.constexpr,
    KP: tl.constexpr,
    C: tl.constexpr,
):
    """log w_k p(x | k) = constant + linear x + square x^2 about the mean of the means; `parts` are
    what columns add to the constant, `far` whether float32 products would lose digits."""
    column = tl.program_id(0) * C + tl.arange(0, C)
    lane = tl.arange(0, KP)
    real = (lane < K)[:, None] & (column < D)[None, :]
    at = lane[:, None] * D + column[None, :]
    mean = tl.load(slot + K + at, real, other=0.0)
    std = tl.load(slot + K + K * D + at, real, other=1.0)
    centre = (tl.sum(mean, 0) / K).to(tl.float32)
    centred = tl.where(real, mean - centre.to(tl.float64)[None, :], 0.0)
    whiten = 1.0 / std
    precision = tl.where(real, whiten * whiten, 0.0)
    slope = precision * centred
    kind = linear.dtype.element_ty
    tl.store(origin + column, centre, column < D)
    tl.store(linear + at, slope.to(kind), (column < D)[None, :])
    tl.store(square + at, (-0.5 * precision).to(kind), (column < D)[None, :])
    part = tl.sum(tl.where(real, -0.5 * (slope * centred + LOG_2PI) - tl.log(std), 0.0), 1)
    tl.store(parts + tl.program_id(0) * KP + lane, part)
    outside = (tl.abs(centred) * whiten > FAR) | (whiten >= LARGEST) | (whiten * LARGEST <= 1.0)
    tl.store(far + tl.program_id(0), tl.max(tl.max(outside.to(tl.int32), 1), 0))


@triton.jit
@no_type_check
def add_parts(slot, parts, constant, blocks, K, TINY: tl.constexpr, KP: tl.constexpr):
    """The constants, from what columns add to them."""
    lane = tl.arange(0, KP)
    total = tl.zeros((KP,), tl.float64)
    for first in range(0, blocks, 32):
        block = first + tl.arange(0, 32)
        at = parts + block[:, None] * KP + lane[None, :]
        total += tl.sum(tl.load(at, (block < blocks)[:, None], other=0.0), 0)
    weight = tl.load(slot + lane, lane < K, other=1.0)
    total += tl.log(tl.maximum(weight, TINY))
    tl.store(constant + lane, total.to(constant.dtype.element_ty))


@triton.jit
@no_type_check
def weigh(sums, tiles, lane, KP: tl.constexpr):
    """The weight of every component in all tiles."""
    total = tl.zeros((KP,), tl.float64)
    for tile in range(tiles):
        total += tl.load(sums + tile * (1 + KP) + 1 + lane)
    return total


@triton.jit
@no_type_check
def maximize_columns(
    sums,
    moments,
    origin,
    limits,
    after,
    good,
    tiles,
    D,
    K,
    TINY: tl.constexpr,
    KP: tl.constexpr,
    C: tl.constexpr,
):
    """Means and scales, and whether none is degenerate."""
    column = tl.program_id(0) * C + tl.arange(0, C)
    lane = tl.arange(0, KP)
    real = (lane < K)[:, None] & (column < D)[None, :]
    weight = weigh(sums, tiles, lane, KP)
    first = tl.zeros((KP, C), tl.float64)
    second = tl.zeros((KP, C), tl.float64)
    for tile in range(tiles):
        at = moments + (tile * KP + lane[:, None].to(tl.int64)) * 2 * D + column[None, :]
        first += tl.load(at, real, other=0.0)
        second += tl.load(at + D, real, other=0.0)
    proportion = (weight / tl.sum(weight, 0))[:, None]
    some = tl.where(weight > 0.0, weight, 1.0)[:, None]
    centred = first / some
    variance = second / some - centred * centred
    middle = tl.sum(proportion * centred, 0)
    gap = centred - middle[None, :]
    spread = tl.sum(proportion * (variance + gap * gap), 0)
    centre = tl.load(origin + column, column < D, other=0.0).to(tl.float64)
    mean = centre + middle
    lowest = tl.load(limits + 3 + column, column < D, other=TINY)
    lowest = tl.maximum(tl.load(limits + 2) * mean * mean, lowest)
    floor = tl.maximum(tl.load(limits) * spread, lowest)
    pivot = variance + tl.load(limits + 1)
    enough = (pivot > floor[None, :]) | ~real
    at = after + K + lane[:, None] * D + column[None, :]
    tl.store(at, centre[None, :] + centred, real)
    tl.store(at + K * D, tl.sqrt(tl.maximum(pivot, TINY)), real)
    tl.store(good + tl.program_id(0), tl.min(tl.min(enough.to(tl.int32), 1), 0))


@triton.jit
@no_type_check
def close(
    sums,
    far,
    good,
    after,
    log_likelihood,
    healthy,
    tiles,
    blocks,
    K,
    WIDE: tl.constexpr,
    KP: tl.constexpr,
):
    """Weights, the mean log-likelihood, and whether the pass is healthy."""
    lane = tl.arange(0, KP)
    weight = weigh(sums, tiles, lane, KP)
    count = tl.sum(weight, 0)
    tl.store(after + lane, weight / count, lane < K)
    total_log_likelihood = count * 0.0
    for tile in range(tiles):
        total_log_likelihood += tl.load(sums + tile * (1 + KP))
    tl.store(log_likelihood, total_log_likelihood / count)
    fit = tl.min(((weight > 0.0) | (lane >= K)).to(tl.int32), 0)
    for first in range(0, blocks, 32):
        block = first + tl.arange(0, 32)
        fit = tl.minimum(fit, tl.min(tl.load(good + block, block < blocks, other=1), 0))
        if not WIDE:
            fit = tl.minimum(fit, 1 - tl.max(tl.load(far + block, block < blocks, other=0), 0))
    tl.store(healthy, fit)


class Theta(NamedTuple):
    """What E-steps read: (D,), (KP,), (KP, D) and (KP, D); all but the first are float64 if
    products must be."""

    origin: Tensor
    constant: Tensor
    linear: Tensor
    square: Tensor

    @property
    def wide(self) -> bool:
        """Whether products are made in float64."""
        return bool(self.linear.dtype == torch().float64)


class Columns:
    """Both steps, with buffers at fixed addresses."""

    def __init__(self, k: int, d: int, kp: int, limits: Tensor) -> None:
        self.k, self.d, self.kp, self.limits = k, d, kp, limits
        self.blocks = triton.cdiv(d, COLUMNS)
        self._parts = limits.new_empty((self.blocks, kp))
        self._far, self._good = (
            limits.new_empty(self.blocks, dtype=torch().int32) for _ in range(2)
        )
        narrow, wide = torch().float32, torch().float64
        self._origin = limits.new_empty(d, dtype=narrow)
        self._theta = {kind == wide: self._room(kind) for kind in (narrow, wide)}

    def _room(self, kind: Any) -> Theta:
        sizes = (self.kp,), (self.kp, self.d), (self.kp, self.d)
        return Theta(self._origin, *(self.limits.new_empty(s, dtype=kind) for s in sizes))

    def theta(self, slot: Tensor, wide: bool) -> Theta:
        """The input of an E-step, from the parameters in a slot."""
        made = self._theta[wide]
        sizes: Any = self.d, self.k, LOG_2PI, FAR, LARGEST, self.kp, COLUMNS
        out = made.origin, made.linear, made.square, self._parts, self._far
        arrange[(self.blocks,)](slot, *out, *sizes)
        rest: Any = self.blocks, self.k, SMALLEST_WEIGHT, self.kp
        add_parts[(1,)](slot, self._parts, made.constant, *rest)
        return made

    def maximize(
        self, theta: Theta, sums: Tensor, moments: Tensor, after: Tensor, *found: Tensor
    ) -> None:
        """The slot after, the mean log-likelihood, and whether all is healthy, from weights and
        log-likelihood (T, 1 + KP) and moments (T, KP, 2, D) of tiles under `theta`."""
        given = sums, moments, theta.origin, self.limits, after, self._good
        sizes: Any = len(sums), self.d, self.k, LEAST_VARIANCE, self.kp, COLUMNS
        maximize_columns[(self.blocks,)](*given, *sizes)
        rest: Any = len(sums), self.blocks, self.k, theta.wide, self.kp
        close[(1,)](sums, self._far, self._good, after, *found, *rest)
