"""Gaussians with full matrices in up to 64 columns: products with whitening matrices give
responsibilities, products of responsibilities with all pairs of columns the second moments.

Moments are summed about a common origin. If components lie many deviations from it that loses
digits: then products are made in float64, else as three products of halves of float32 numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import triton
import triton.language as tl

from mixfold.kernels._moments import Moments, in_stretches, is_far, localized_tiles, of_form
from mixfold.kernels._products import Whitened
from mixfold.kernels._triton_halves import UPPER_BITS, halves, product
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

MOST_COLUMNS = 64
MOST_COMPONENTS = 4096
ROWS = 64
SPAN = 4096
SIDE = 16  # columns of a block; pairs of blocks have 256 products
PARTIAL_ELEMENTS = 2**27
MOST_RESPONSIBILITIES = 2**29  # of the rows that are taken at once


@triton.jit
@no_type_check
def whitened(rows, high, low, at, sums, UPPER_BITS: tl.constexpr):
    """sums + the product of rows with a block of a whitening matrix, given as two halves."""
    return product(rows, tl.load(high + at), tl.load(low + at), sums, UPPER_BITS)


@triton.jit(do_not_specialize=["n"])
@no_type_check
def full_joint(
    x,
    constant,
    mean,
    mean_rest,
    whiten,
    whiten_rest,
    joint,
    peaks,
    norms,
    n,
    stride,
    K,
    D: tl.constexpr,
    DP: tl.constexpr,
    KB: tl.constexpr,
    UPPER_BITS: tl.constexpr,
    B: tl.constexpr,
):
    """Log joint densities of B rows and KB components, -inf for those beyond K. Whitening matrices
    are triangular: of the four products of halves of columns one is zero."""
    HALVES: tl.constexpr = DP >= 32
    H: tl.constexpr = DP // 2 if HALVES else DP
    number = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = number < n
    block = tl.program_id(1)
    first = block * KB
    column = tl.arange(0, H)
    cells = x + number[:, None] * D + column[None, :]
    left = tl.load(cells, inside[:, None] & (column < D)[None, :], other=0.0)
    if HALVES:
        right = tl.load(cells + H, inside[:, None] & (column + H < D)[None, :], other=0.0)
    lane = tl.arange(0, KB)
    zero = tl.zeros((B, H), tl.float32)
    found = tl.full((B, KB), float("-inf"), tl.float32)
    for i in range(tl.minimum(KB, K - first)):
        k = first + i
        place = k * DP + column
        delta = left - tl.load(mean + place)[None, :]
        delta = delta - tl.load(mean_rest + place)[None, :]
        at = k * DP * DP + column[None, :] * DP + column[:, None]
        y = whitened(delta, whiten, whiten_rest, at, zero, UPPER_BITS)
        square = tl.sum(y * y, 1)
        if HALVES:
            other = right - tl.load(mean + place + H)[None, :]
            other = other - tl.load(mean_rest + place + H)[None, :]
            y = whitened(delta, whiten, whiten_rest, at + H * DP, zero, UPPER_BITS)
            y = whitened(other, whiten, whiten_rest, at + H * DP + H, y, UPPER_BITS)
            square += tl.sum(y * y, 1)
        # a row too far for float32 is as far as that can say
        value = tl.load(constant + k) - 0.5 * tl.minimum(square, 1e38)
        found = tl.where((lane == i)[None, :], value[:, None], found)
    store_joint(found, number, inside, block, joint, peaks, norms, stride, KB)


@triton.jit(do_not_specialize=["n"])
@no_type_check
def add_pairs(
    x,
    origin,
    joint,
    best,
    share,
    weights,
    first,
    second,
    n,
    stride,
    D: tl.constexpr,
    KP: tl.constexpr,
    KB: tl.constexpr,
    WIDE: tl.constexpr,
    SIDE: tl.constexpr,
    SPAN: tl.constexpr,
    B: tl.constexpr,
):
    """Moments of SPAN rows: of a pair of blocks of columns, and of a block of components."""
    kind: tl.constexpr = tl.float64 if WIDE else tl.float32
    span = tl.program_id(0).to(tl.int64)
    pair = tl.program_id(1)
    p = 0
    q = pair
    while q > p:  # number p (p + 1) / 2 + q of the lower triangle
        p += 1
        q -= p
    lane = tl.program_id(2) * KB + tl.arange(0, KB)
    left = p * SIDE + tl.arange(0, SIDE)
    right = q * SIDE + tl.arange(0, SIDE)
    from_left = tl.load(origin + left, left < D, other=0.0).to(kind)[None, :]
    from_right = tl.load(origin + right, right < D, other=0.0).to(kind)[None, :]
    total = tl.zeros((KB,), tl.float64)
    ones = tl.zeros((KB, SIDE), kind)
    twos = tl.zeros((KB, SIDE * SIDE), kind)
    for start in range(0, SPAN, B):
        number = span * SPAN + start + tl.arange(0, B)
        inside = number < n
        at = lane[:, None].to(tl.int64) * stride + number[None, :]
        r = responsibilities_at(at, joint, best, share, number[None, :], inside[None, :]).to(kind)
        if pair == 0:  # as exact as moments, from which they are subtracted
            total += tl.sum(r, 1).to(tl.float64)
        at = x + number[:, None] * D
        a = tl.load(at + left[None, :], inside[:, None] & (left < D)[None, :], other=0.0)
        b = tl.load(at + right[None, :], inside[:, None] & (right < D)[None, :], other=0.0)
        a = a.to(kind) - from_left
        b = b.to(kind) - from_right
        products = tl.reshape(a[:, :, None] * b[:, None, :], (B, SIDE * SIDE))
        # sums of products of few rows, so that no accumulator of float32 is rounded often
        if WIDE:
            twos = tl.dot(r, products, twos, out_dtype=tl.float64)
        else:
            twos += tl.dot(r, products, input_precision="tf32x3")
        if p == q:
            if WIDE:
                ones = tl.dot(r, b, ones, out_dtype=tl.float64)
            else:
                ones += tl.dot(r, b, input_precision="tf32x3")
    pairs = tl.num_programs(1)
    product = tl.arange(0, SIDE * SIDE)
    place = ((span * pairs + pair) * KP + lane[:, None]) * SIDE * SIDE
    tl.store(second + place + product[None, :], twos)
    if p == q:
        blocks = (D + SIDE - 1) // SIDE
        offset = ((span * KP + lane[:, None]) * blocks + q) * SIDE
        tl.store(first + offset + tl.arange(0, SIDE)[None, :], ones)
    if pair == 0:
        tl.store(weights + span * KP + lane, total)


class PairParams(NamedTuple):
    """Parameters in the form of the kernels, and as float64 about the origin."""

    origin: Tensor
    constant: Tensor
    mean: Tensor
    mean_rest: Tensor
    root: Tensor
    root_rest: Tensor
    centred: Tensor
    whiten: Tensor
    wide: bool


class Pairs:
    """Sums of models with full matrices."""

    span = SPAN  # rows of a tile are a multiple of it

    def __init__(self, model: MixtureModel) -> None:
        self.model = model
        self.k, self.d = model.k, model.d
        self.kp, self.dp = lanes(model.k), max(SIDE, triton.next_power_of_2(model.d))
        self.blocks = triton.cdiv(model.d, SIDE)
        self.pairs = self.blocks * (self.blocks + 1) // 2

    @staticmethod
    def supports(model: MixtureModel) -> bool:
        """Whether the model has full matrices in few columns."""
        small = model.d <= MOST_COLUMNS and model.k <= MOST_COMPONENTS
        return small and of_form(model, "triangular")

    def prepare(self, form: Whitened) -> PairParams:
        """Convert parameters for the kernels; the origin is the mean of the means."""
        means, wide = form.means[:, 0], self.wide_for(form)
        return self.arranged(means, form.whiten, form.offset[:, 0], wide)

    def wide_for(self, form: Whitened) -> bool:
        """Whether moments must be summed in float64."""
        return is_far(form.means[:, 0], form.whiten)

    def arranged(self, means: Tensor, whiten: Tensor, offset: Tensor, wide: bool) -> PairParams:
        """Convert parameters for the kernels, for moments in float64 if `wide`."""
        origin, high = means.mean(dim=0).float(), means.float()
        low = (means - high.double()).float()
        more = self.dp - self.d
        pad = torch().nn.functional.pad
        return PairParams(
            origin,
            offset.float(),
            pad(high, (0, more)).contiguous(),
            pad(low, (0, more)).contiguous(),
            *halves(pad(whiten.float(), (0, more, 0, more))),
            means - origin.double(),
            whiten,
            wide,
        )

    def sums(self, given: PairParams, x: Tensor, weight: Tensor | None, tile: int) -> Tensor:
        """The sums of each tile, (tiles, n_sums)."""
        return localized_tiles(given.centred, given.whiten, self.moments(given, x, weight, tile))

    def moments(self, given: PairParams, x: Tensor, weight: Tensor | None, tile: int) -> Moments:
        """Moments of each tile about the origin, from as many tiles at once as memory bears."""
        spans = PARTIAL_ELEMENTS // (self.pairs * self.kp * SIDE * SIDE)
        rows = min(spans * SPAN, MOST_RESPONSIBILITIES // self.kp)
        length = tile * max(1, rows // tile)
        found = in_stretches(lambda a, w: self._some(given, a, w, tile), x, weight, length)
        return Moments(*found)

    def _some(self, given: PairParams, x: Tensor, weight: Tensor | None, tile: int) -> Moments:
        found, log_likelihood = self._joint(given, x).combined(weight, len(x), tile)
        weights, first, second = self._added(given, x, found)
        return Moments(
            log_likelihood,
            grouped(weights, tile // SPAN)[:, : self.k],
            grouped(first, tile // SPAN).flatten(2)[:, : self.k, : self.d],
            self._square(grouped(second, tile // SPAN)),
        )

    def _joint(self, given: PairParams, x: Tensor) -> Joint:
        n, several = len(x), min(self.kp, MOST_LANES)
        found = joint_buffers(x, self.kp, torch().float32)
        grid = triton.cdiv(n, ROWS), self.kp // several
        sizes: Any = n, found.stride, self.k, self.d, self.dp, several, UPPER_BITS, ROWS
        params = given.constant, given.mean, given.mean_rest, given.root, given.root_rest
        full_joint[grid](x, *params, *found, *sizes, num_warps=4, num_stages=1)
        return found

    def _added(
        self, given: PairParams, x: Tensor, found: Responsibilities
    ) -> tuple[Tensor, Tensor, Tensor]:
        n, spans, wide = len(x), triton.cdiv(len(x), SPAN), torch().float64
        kind = wide if given.wide else torch().float32
        weights = x.new_empty((spans, self.kp), dtype=wide)
        first = x.new_empty((spans, self.kp, self.blocks, SIDE), dtype=kind)
        second = x.new_empty((spans, self.pairs, self.kp, SIDE, SIDE), dtype=kind)
        several, warps = (64, 8) if self.kp >= 64 else (16, 4)
        grid = spans, self.pairs, self.kp // several
        sizes: Any = n, found.stride, self.d, self.kp, several, given.wide, SIDE, SPAN, 32
        out = weights, first, second
        add_pairs[grid](x, given.origin, *found, *out, *sizes, num_warps=warps)
        return out

    def _square(self, pairs: Tensor) -> Tensor:
        """(T, K, d, d) from blocks of the lower triangle."""
        tiles, side = len(pairs), self.blocks * SIDE
        square = pairs.new_empty((tiles, self.kp, self.blocks, SIDE, self.blocks, SIDE))
        i, j = torch().tril_indices(self.blocks, self.blocks, device=pairs.device)
        square[:, :, i, :, j, :] = pairs.transpose(0, 1)
        square[:, :, j, :, i, :] = pairs.transpose(0, 1).transpose(3, 4)
        return square.reshape(tiles, self.kp, side, side)[:, : self.k, : self.d, : self.d]
