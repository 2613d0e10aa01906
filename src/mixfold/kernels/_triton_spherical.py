"""Gaussians with one variance per component, in any number of columns, by products of matrices.

log w_k p(x | k) is linear in the columns and in the squared distance from a common origin, and so
are the moments that an M-step needs. Numbers are float32, which suffices if no component lies many
deviations from the origin.
"""

from __future__ import annotations

from typing import Any, no_type_check

import triton
import triton.language as tl

from mixfold.kernels._moments import in_stretches
from mixfold.kernels._triton_columns import Theta
from mixfold.kernels._triton_diagonal import MOST_AT_ONCE, SHARE_ELEMENTS
from mixfold.kernels._triton_halves import UPPER_BITS, halves, product
from mixfold.kernels._triton_responsibilities import (
    MOST_LANES,
    ROWS,
    Joint,
    Responsibilities,
    joint_buffers,
    lanes,
    responsibilities_at,
    store_joint,
)
from mixfold.kernels._triton_sums import grouped
from mixfold.kernels.optional_torch import Tensor, torch

SPAN = 1024


@triton.jit(do_not_specialize=["n"])
@no_type_check
def squared_distances(x, origin, distance, n, D, B: tl.constexpr, C: tl.constexpr):
    """|x - origin|^2 of B rows, C columns at a time."""
    number = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = number < n
    squares = tl.zeros((B, C), tl.float32)
    for start in range(0, D, C):
        column = start + tl.arange(0, C)
        real = column < D
        at = x + number[:, None] * D + column[None, :]
        row = tl.load(at, inside[:, None] & real[None, :], other=0.0)
        delta = tl.where(real[None, :], row - tl.load(origin + column, real, other=0.0)[None, :], 0)
        squares += delta * delta
    tl.store(distance + number, tl.sum(squares, 1), inside)


@triton.jit(do_not_specialize=["n"])
@no_type_check
def spherical_joint(
    x,
    distance,
    origin,
    constant,
    linear,
    linear_rest,
    square,
    joint,
    peaks,
    norms,
    n,
    stride,
    D,
    K,
    KB: tl.constexpr,
    UPPER_BITS: tl.constexpr,
    B: tl.constexpr,
    C: tl.constexpr,
):
    """Log joint densities of B rows and KB components, C columns at a time."""
    number = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = number < n
    block = tl.program_id(1)
    lane = block * KB + tl.arange(0, KB)
    found = tl.zeros((B, KB), tl.float32)
    for start in range(0, D, C):
        column = start + tl.arange(0, C)
        real = column < D
        at = x + number[:, None] * D + column[None, :]
        row = tl.load(at, inside[:, None] & real[None, :], other=0.0)
        delta = row - tl.load(origin + column, real, other=0.0)[None, :]
        at = column[:, None] + lane[None, :] * D
        high = tl.load(linear + at, real[:, None], other=0.0)
        low = tl.load(linear_rest + at, real[:, None], other=0.0)
        found = product(delta, high, low, found, UPPER_BITS)
    away = tl.load(distance + number, inside, other=0.0)
    found += tl.load(constant + lane)[None, :] + away[:, None] * tl.load(square + lane)[None, :]
    # a row too far for float32 is as far as that can say
    found = tl.where((lane < K)[None, :], tl.maximum(found, -1e38), float("-inf"))
    store_joint(found, number, inside, block, joint, peaks, norms, stride, KB)


@triton.jit(do_not_specialize=["n"])
@no_type_check
def add_spherical(
    x,
    distance,
    origin,
    joint,
    best,
    share,
    weights,
    first,
    second,
    n,
    stride,
    D,
    KP,
    KB: tl.constexpr,
    SPAN: tl.constexpr,
    B: tl.constexpr,
    C: tl.constexpr,
):
    """Weights and squared distances of KB components over SPAN rows, first moments in C columns."""
    span = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    column = part * C + tl.arange(0, C)
    real = column < D
    lane = tl.program_id(2) * KB + tl.arange(0, KB)
    centre = tl.load(origin + column, real, other=0.0)[:, None]
    total = tl.zeros((KB,), tl.float64)
    ones = tl.zeros((C, KB), tl.float32)
    twos = tl.zeros((KB,), tl.float64)
    for start in range(0, SPAN, B):
        number = span * SPAN + start + tl.arange(0, B)
        inside = number < n
        at = number[:, None] + lane[None, :].to(tl.int64) * stride
        r = responsibilities_at(at, joint, best, share, number[:, None], inside[:, None])
        at = x + number[None, :] * D + column[:, None]
        delta = tl.load(at, inside[None, :] & real[:, None], other=0.0)
        delta = tl.where(real[:, None], delta - centre, 0.0)
        if part == 0:
            total += tl.sum(r, 0).to(tl.float64)
            away = tl.load(distance + number, inside, other=0.0)
            twos += tl.sum(r * away[:, None], 0).to(tl.float64)
        # sums of products of few rows, so that no accumulator of float32 is rounded often
        ones += tl.dot(delta, r, input_precision="tf32x3")
    tl.store(first + (span * KP + lane[None, :]) * D + column[:, None], ones, real[:, None])
    if part == 0:
        tl.store(second + span * KP + lane, twos)
        tl.store(weights + span * KP + lane, total)


class Spherical:
    """Moments of models with one variance per component."""

    def __init__(self, k: int, d: int) -> None:
        self.k, self.d, self.kp = k, d, lanes(k)
        self.columns = min(MOST_AT_ONCE, max(16, triton.next_power_of_2(d)))

    def moments(
        self, theta: Theta, x: Tensor, weight: Tensor | None, tile: int
    ) -> tuple[Tensor, ...]:
        """Of T tiles: log-likelihood (T,), weights (T, KP), first moments (T, KP, D) and squared
        distances (T, KP) about the origin."""
        length = tile * max(1, SHARE_ELEMENTS // (tile * self.kp))
        return in_stretches(lambda a, w: self._some(theta, a, w, tile), x, weight, length)

    def _some(
        self, theta: Theta, x: Tensor, weight: Tensor | None, tile: int
    ) -> tuple[Tensor, ...]:
        distance = x.new_empty(len(x))
        sizes: Any = len(x), self.d, ROWS, 32
        squared_distances[(triton.cdiv(len(x), ROWS),)](x, theta.origin, distance, *sizes)
        joint = self._joint(theta, x, distance)
        found, log_likelihood = joint.combined(weight, len(x), tile)
        sums = self._added(theta, x, distance, found)
        return log_likelihood, *(grouped(part, tile // SPAN) for part in sums)

    def _joint(self, theta: Theta, x: Tensor, distance: Tensor) -> Joint:
        n, several = len(x), min(self.kp, MOST_LANES)
        found = joint_buffers(x, self.kp, torch().float32)
        grid = triton.cdiv(n, ROWS), self.kp // several
        square = theta.square[:, 0].contiguous()
        params = theta.origin, theta.constant, *halves(theta.linear), square
        sizes: Any = n, found.stride, self.d, self.k, several, UPPER_BITS, ROWS, self.columns
        spherical_joint[grid](x, distance, *params, *found, *sizes, num_warps=8, num_stages=2)
        return found

    def _added(
        self, theta: Theta, x: Tensor, distance: Tensor, found: Responsibilities
    ) -> tuple[Tensor, ...]:
        n, spans, several = len(x), triton.cdiv(len(x), SPAN), min(self.kp, MOST_LANES)
        wide = torch().float64
        weights, second = (x.new_empty((spans, self.kp), dtype=wide) for _ in range(2))
        first = x.new_empty((spans, self.kp, self.d))
        out = weights, first, second
        grid = spans, triton.cdiv(self.d, self.columns), self.kp // several
        sizes: Any = n, found.stride, self.d, self.kp, several, SPAN, 32, self.columns
        add_spherical[grid](
            x, distance, theta.origin, *found, *out, *sizes, num_warps=4, num_stages=3
        )
        return out
