"""Gaussians with diagonal matrices in any number of columns, by products of matrices.

log w_k p(x | k) is linear in the columns and their squares, and so are the moments in the
responsibilities. About a common origin that loses digits when components lie many deviations from
it: then products are made in float64, else as three products of halves of float32 numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import triton
import triton.language as tl

from mixfold.kernels._moments import FAR, LARGEST, in_stretches, of_form
from mixfold.kernels._products import Whitened
from mixfold.kernels._triton_columns import Theta
from mixfold.kernels._triton_responsibilities import (
    MOST_LANES,
    Joint,
    Responsibilities,
    joint_buffers,
    lanes,
    responsibilities_at,
    store_joint,
)
from mixfold.kernels._triton_sums import grouped
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.models.mixture_model import MixtureModel

MOST_COMPONENTS = 2**14
MOST_COLUMNS = 2**15
MOST_AT_ONCE = 64
ROWS = 128
SPAN = 1024
SHARE_ELEMENTS = 2**28  # responsibilities of the rows that are taken at once


@triton.jit
@no_type_check
def polynomials(
    x, number, inside, origin, linear, square, lane, D, WIDE: tl.constexpr, C: tl.constexpr
):
    """linear x + square x^2 of rows and components, C columns at a time."""
    kind: tl.constexpr = tl.float64 if WIDE else tl.float32
    joint = tl.zeros((number.shape[0], lane.shape[0]), kind)
    for start in range(0, D, C):
        column = start + tl.arange(0, C)
        real = column < D
        at = x + number[:, None] * D + column[None, :]
        row = tl.load(at, inside[:, None] & real[None, :], other=0.0).to(kind)
        delta = row - tl.load(origin + column, real, other=0.0).to(kind)[None, :]
        at = column[:, None] + lane[None, :] * D
        a = tl.load(linear + at, real[:, None], other=0.0)
        b = tl.load(square + at, real[:, None], other=0.0)
        if WIDE:
            joint = tl.dot(delta, a, joint, out_dtype=tl.float64)
            joint = tl.dot(delta * delta, b, joint, out_dtype=tl.float64)
        else:
            joint = tl.dot(delta, a, joint, input_precision="tf32x3")
            joint = tl.dot(delta * delta, b, joint, input_precision="tf32x3")
    return joint


@triton.jit(do_not_specialize=["n"])
@no_type_check
def diagonal_joint(
    x,
    origin,
    constant,
    linear,
    square,
    joint,
    peaks,
    norms,
    n,
    stride,
    D,
    K,
    KB: tl.constexpr,
    WIDE: tl.constexpr,
    B: tl.constexpr,
    C: tl.constexpr,
):
    """Log joint densities of B rows and KB components, C columns at a time."""
    number = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = number < n
    block = tl.program_id(1)
    lane = block * KB + tl.arange(0, KB)
    found = polynomials(x, number, inside, origin, linear, square, lane, D, WIDE, C)
    # a row too far for float32 is as far as that can say
    found = tl.maximum(found + tl.load(constant + lane)[None, :], -1e38)
    found = tl.where((lane < K)[None, :], found, float("-inf"))
    store_joint(found, number, inside, block, joint, peaks, norms, stride, KB)


@triton.jit(do_not_specialize=["n"])
@no_type_check
def add_diagonal(
    x,
    origin,
    joint,
    best,
    share,
    weights,
    out,
    n,
    stride,
    D,
    KP,
    KB: tl.constexpr,
    WIDE: tl.constexpr,
    SPAN: tl.constexpr,
    B: tl.constexpr,
    C: tl.constexpr,
):
    """Weights of KB components over SPAN rows, and first and second moments in C columns."""
    span = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * C + tl.arange(0, C)
    real = column < D
    lane = tl.program_id(2) * KB + tl.arange(0, KB)
    kind: tl.constexpr = tl.float64 if WIDE else tl.float32
    centre = tl.load(origin + column, real, other=0.0).to(kind)[:, None]
    total = tl.zeros((KB,), tl.float64)
    ones = tl.zeros((C, KB), kind)
    twos = tl.zeros((C, KB), kind)
    for start in range(0, SPAN, B):
        number = span * SPAN + start + tl.arange(0, B)
        inside = number < n
        at = number[:, None] + lane[None, :].to(tl.int64) * stride
        r = responsibilities_at(at, joint, best, share, number[:, None], inside[:, None]).to(kind)
        at = x + number[None, :] * D + column[:, None]
        delta = tl.load(at, inside[None, :] & real[:, None], other=0.0).to(kind) - centre
        if tl.program_id(1) == 0:  # as exact as moments, from which they are subtracted
            total += tl.sum(r, 0).to(tl.float64)
        # sums of products of few rows, so that no accumulator of float32 is rounded often
        if WIDE:
            ones += tl.dot(delta, r, out_dtype=tl.float64)
            twos += tl.dot(delta * delta, r, out_dtype=tl.float64)
        else:
            ones += tl.dot(delta, r, input_precision="tf32x3")
            twos += tl.dot(delta * delta, r, input_precision="tf32x3")
    at = out + (span * KP + lane[None, :]) * 2 * D + column[:, None]
    tl.store(at, ones, real[:, None])
    tl.store(at + D, twos, real[:, None])
    if tl.program_id(1) == 0:
        tl.store(weights + span * KP + lane, total)


def near_columns(centred: Tensor, whiten: Tensor) -> Tensor:
    """Whether float32 products about the origin keep enough digits, and stay in their range."""
    few = (centred.abs() * whiten).amax() <= FAR
    return few & (whiten.amax() < LARGEST) & (whiten.amin() > 1.0 / LARGEST)


class DiagonalParams(NamedTuple):
    """Parameters in the form of the kernels, and as float64 about the origin."""

    theta: Theta
    centred: Tensor
    whiten: Tensor


class Diagonal:
    """Sums of models with diagonal matrices."""

    span = SPAN  # rows of a tile are a multiple of it

    def __init__(self, model: MixtureModel) -> None:
        self.model = model
        self.k, self.d, self.kp = model.k, model.d, lanes(model.k)
        self.columns = min(MOST_AT_ONCE, max(16, triton.next_power_of_2(model.d)))

    @staticmethod
    def supports(model: MixtureModel) -> bool:
        """Whether the model has diagonal matrices."""
        few = model.k <= MOST_COMPONENTS and model.d <= MOST_COLUMNS
        return few and of_form(model, "diagonal")

    def prepare(self, form: Whitened) -> DiagonalParams:
        """Convert parameters for the kernels; the origin is the mean of the means."""
        means, whiten = form.means[:, 0], form.whiten[:, 0]
        theta = self.theta(means, whiten, form.offset[:, 0], self.wide_for(form))
        return DiagonalParams(theta, means - theta.origin.double(), whiten)

    def theta(self, means: Tensor, whiten: Tensor, offset: Tensor, wide: bool) -> Theta:
        """The input of an E-step, for products in float64 if `wide`."""
        origin = means.mean(dim=0).float()
        centred, precision = means - origin.double(), whiten.square()
        linear = precision * centred
        constant = offset - 0.5 * (linear * centred).sum(dim=1)
        kind = torch().float64 if wide else torch().float32
        pad = torch().nn.functional.pad
        more = self.kp - self.k
        return Theta(
            origin,
            pad(constant.to(kind), (0, more)),
            pad(linear.to(kind), (0, 0, 0, more)).contiguous(),
            pad((-0.5 * precision).to(kind), (0, 0, 0, more)).contiguous(),
        )

    def wide_for(self, form: Whitened) -> bool:
        """Whether products must be made in float64."""
        means, whiten = form.means[:, 0], form.whiten[:, 0]
        return not bool(near_columns(means - means.mean(dim=0), whiten))

    def sums(self, given: DiagonalParams, x: Tensor, weight: Tensor | None, tile: int) -> Tensor:
        """The sums of each tile, (tiles, n_sums)."""
        sums, moments = self.moments(given.theta, x, weight, tile)
        b, w, total = given.centred, given.whiten, sums[:, 1 : 1 + self.k, None]
        ones, twos = moments[:, : self.k].unbind(2)
        first = (ones - total * b) * w
        second = (twos - 2.0 * b * ones + total * b.square()) * w.square()
        table = torch().cat([total, first, second], dim=2).flatten(1)
        return torch().cat([sums[:, :1], table], dim=1)

    def moments(
        self, theta: Theta, x: Tensor, weight: Tensor | None, tile: int
    ) -> tuple[Tensor, ...]:
        """Log-likelihood and weights, (T, 1 + KP), and moments about the origin, (T, KP, 2, D), of
        T tiles, from as many at once as memory bears."""
        length = tile * max(1, SHARE_ELEMENTS // (tile * self.kp))
        return in_stretches(lambda a, w: self._some(theta, a, w, tile), x, weight, length)

    def _some(
        self, theta: Theta, x: Tensor, weight: Tensor | None, tile: int
    ) -> tuple[Tensor, ...]:
        found, log_likelihood = self._joint(theta, x).combined(weight, len(x), tile)
        weights, moments = self._added(theta, x, found)
        sums = torch().cat([log_likelihood[:, None], grouped(weights, tile // SPAN)], dim=1)
        return sums, grouped(moments, tile // SPAN)

    def _joint(self, theta: Theta, x: Tensor) -> Joint:
        n, several = len(x), min(self.kp, MOST_LANES)
        found = joint_buffers(x, self.kp, theta.linear.dtype)
        grid = triton.cdiv(n, ROWS), self.kp // several
        sizes: Any = n, found.stride, self.d, self.k, several, theta.wide, ROWS
        columns = min(_columns(theta), self.columns)
        diagonal_joint[grid](x, *theta, *found, *sizes, columns, num_warps=8, num_stages=3)
        return found

    def _added(self, theta: Theta, x: Tensor, found: Responsibilities) -> tuple[Tensor, Tensor]:
        n, spans, several = len(x), triton.cdiv(len(x), SPAN), min(self.kp, MOST_LANES)
        weights = x.new_empty((spans, self.kp), dtype=torch().float64)
        out = x.new_empty((spans, self.kp, 2, self.d), dtype=theta.linear.dtype)
        grid = spans, triton.cdiv(self.d, self.columns), self.kp // several
        sizes: Any = n, found.stride, self.d, self.kp, several, theta.wide, SPAN
        rows = _columns(theta), self.columns
        add_diagonal[grid](
            x, theta.origin, *found, weights, out, *sizes, *rows, num_warps=4, num_stages=3
        )
        return weights, out


def _columns(theta: Theta) -> int:
    """How many columns, or rows, products take at once."""
    return 32 if theta.wide else MOST_AT_ONCE
