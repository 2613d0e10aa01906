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
from mixfold.kernels._triton_diagonal import SHARE_ELEMENTS
from mixfold.kernels._triton_halves import UPPER_BITS, halves, product
from mixfold.kernels._triton_responsibilities import (
    block_of,
    joint_buffers,
    lanes,
    store_joint,
)
from mixfold.kernels._triton_sums import grouped
from mixfold.kernels.optional_torch import Tensor, torch

ROWS = 64
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
    responsibilities,
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
    """Squared distances of KB components over SPAN rows, and first moments in C columns."""
    span = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    column = part * C + tl.arange(0, C)
    real = column < D
    lane = tl.program_id(2) * KB + tl.arange(0, KB)
    centre = tl.load(origin + column, real, other=0.0)[:, None]
    ones = tl.zeros((C, KB), tl.float32)
    twos = tl.zeros((KB,), tl.float64)
    for start in range(0, SPAN, B):
        number = span * SPAN + start + tl.arange(0, B)
        inside = number < n
        at = responsibilities + number[:, None] + lane[None, :].to(tl.int64) * stride
        r = tl.load(at, inside[:, None], other=0.0)
        at = x + number[None, :] * D + column[:, None]
        delta = tl.load(at, inside[None, :] & real[:, None], other=0.0)
        delta = tl.where(real[:, None], delta - centre, 0.0)
        if part == 0:
            away = tl.load(distance + number, inside, other=0.0)
            twos += tl.sum(r * away[:, None], 0).to(tl.float64)
        # sums of products of few rows, so that no accumulator of float32 is rounded often
        ones += tl.dot(delta, r, input_precision="tf32x3")
    tl.store(first + (span * KP + lane[None, :]) * D + column[:, None], ones, real[:, None])
    if part == 0:
        tl.store(second + span * KP + lane, twos)


class Spherical:
    """Moments of models with one variance per component."""

    def __init__(self, k: int, d: int) -> None:
        self.k, self.d, self.kp = k, d, lanes(k)
        self.block = block_of(self.kp)
        self.columns = min(128, max(16, triton.next_power_of_2(d)))

    def moments(
        self, theta: Theta, x: Tensor, weight: Tensor | None, tile: int
    ) -> tuple[Tensor, ...]:
        """Of T tiles: log-likelihood and weights (T, 1 + KP), first moments (T, KP, D) and squared
        distances (T, KP) about the origin."""
        length = tile * max(1, SHARE_ELEMENTS // (tile * self.kp))
        return in_stretches(lambda a, w: self._some(theta, a, w, tile), x, weight, length)

    def _some(
        self, theta: Theta, x: Tensor, weight: Tensor | None, tile: int
    ) -> tuple[Tensor, ...]:
        n, distance = len(x), x.new_empty(len(x))
        squared_distances[(triton.cdiv(n, ROWS),)](x, theta.origin, distance, n, self.d, ROWS, 32)
        found = joint_buffers(x, self.kp, torch().float32)
        grid = triton.cdiv(n, ROWS), self.kp // self.block
        square, columns = theta.square[:, 0].contiguous(), min(32, self.columns)
        params = theta.origin, theta.constant, *halves(theta.linear), square
        sizes: Any = n, found.stride, self.d, self.k, self.block, UPPER_BITS, ROWS, columns
        spherical_joint[grid](x, distance, *params, *found, *sizes, num_warps=4, num_stages=3)
        responsibilities, sums = found.normalized(weight, n, tile)
        added = self._added(theta, x, distance, responsibilities)
        return sums, *(grouped(part, tile // SPAN) for part in added)

    def _added(
        self, theta: Theta, x: Tensor, distance: Tensor, responsibilities: Tensor
    ) -> tuple[Tensor, Tensor]:
        spans = triton.cdiv(len(x), SPAN)
        first = x.new_empty((spans, self.kp, self.d))
        second = x.new_empty((spans, self.kp), dtype=torch().float64)
        grid = spans, triton.cdiv(self.d, self.columns), self.kp // self.block
        sizes: Any = len(x), responsibilities.shape[1], self.d, self.kp, self.block, SPAN, 32
        given = x, distance, theta.origin, responsibilities
        add_spherical[grid](*given, first, second, *sizes, self.columns, num_warps=4, num_stages=3)
        return first, second
