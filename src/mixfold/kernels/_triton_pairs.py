"""Gaussians with full matrices in up to 64 columns: products with whitening matrices give
responsibilities, products of responsibilities with all pairs of columns the second moments.

Moments are summed in float64 about a common origin: of float32 rows no digits that count are lost,
however far components lie from it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import triton
import triton.language as tl

from mixfold.kernels._moments import Moments, buffers, in_stretches, localized_tiles, of_form
from mixfold.kernels._products import Whitened
from mixfold.kernels._triton_responsibilities import (
    MOST_LANES,
    lanes,
    normalized,
    store_responsibilities,
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
def log_joint(
    row, column, first, count, constant, high, low, whiten, DP: tl.constexpr, KB: tl.constexpr
):
    """log w_k p(x | k) of rows and `count` components from `first` on, -inf in other lanes."""
    lane = tl.arange(0, KB)
    joint = tl.full((row.shape[0], KB), float("-inf"), tl.float32)
    for i in range(count):
        k = first + i
        delta = row - tl.load(high + k * DP + column)[None, :]
        delta = delta - tl.load(low + k * DP + column)[None, :]
        root = tl.load(whiten + k * DP * DP + column[None, :] * DP + column[:, None])
        y = tl.dot(delta, root, input_precision="tf32x3")
        # a row too far for float32 is as far as that can say
        value = tl.load(constant + k) - 0.5 * tl.minimum(tl.sum(y * y, 1), 1e38)
        joint = tl.where((lane == i)[None, :], value[:, None], joint)
    return joint


@triton.jit
@no_type_check
def full_responsibilities(
    x,
    weight,
    constant,
    high,
    low,
    whiten,
    responsibilities,
    partial,
    n,
    K,
    D: tl.constexpr,
    DP: tl.constexpr,
    KP: tl.constexpr,
    WEIGHTED: tl.constexpr,
    B: tl.constexpr,
):
    """Responsibilities of B rows."""
    number = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    column = tl.arange(0, DP)
    inside = number < n
    at = x + number[:, None] * D + column[None, :]
    row = tl.load(at, inside[:, None] & (column < D)[None, :], other=0.0)
    joint = log_joint(row, column, 0, K, constant, high, low, whiten, DP, KP)
    store_responsibilities(
        joint, number, inside, weight, responsibilities, partial, n, WEIGHTED, KP
    )


@triton.jit
@no_type_check
def full_joint(
    x,
    constant,
    high,
    low,
    whiten,
    joint,
    n,
    K,
    D: tl.constexpr,
    DP: tl.constexpr,
    KB: tl.constexpr,
    B: tl.constexpr,
):
    """Log joint densities of B rows and KB components, into (KP, n)."""
    number = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    column = tl.arange(0, DP)
    inside = number < n
    at = x + number[:, None] * D + column[None, :]
    row = tl.load(at, inside[:, None] & (column < D)[None, :], other=0.0)
    first = tl.program_id(1) * KB
    count = tl.minimum(KB, K - first)
    found = log_joint(row, column, first, count, constant, high, low, whiten, DP, KB)
    lane = first + tl.arange(0, KB)
    tl.store(joint + number[:, None] + lane[None, :].to(tl.int64) * n, found, inside[:, None])


@triton.jit
@no_type_check
def add_pairs(
    x,
    origin,
    responsibilities,
    first,
    second,
    n,
    D: tl.constexpr,
    KP: tl.constexpr,
    KB: tl.constexpr,
    SIDE: tl.constexpr,
    SPAN: tl.constexpr,
    B: tl.constexpr,
):
    """Moments of SPAN rows: of a pair of blocks of columns, and of a block of components."""
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
    from_left = tl.load(origin + left, left < D, other=0.0).to(tl.float64)[None, :]
    from_right = tl.load(origin + right, right < D, other=0.0).to(tl.float64)[None, :]
    ones = tl.zeros((KB, SIDE), tl.float64)
    twos = tl.zeros((KB, SIDE * SIDE), tl.float64)
    for start in range(0, SPAN, B):
        number = span * SPAN + start + tl.arange(0, B)
        inside = (number < n)[:, None]
        r = tl.load(
            responsibilities + lane[:, None].to(tl.int64) * n + number[None, :],
            (number < n)[None, :],
            other=0.0,
        )
        r = r.to(tl.float64)
        at = x + number[:, None] * D
        a = tl.load(at + left[None, :], inside & (left < D)[None, :], other=0.0)
        b = tl.load(at + right[None, :], inside & (right < D)[None, :], other=0.0)
        a = a.to(tl.float64) - from_left
        b = b.to(tl.float64) - from_right
        products = tl.reshape(a[:, :, None] * b[:, None, :], (B, SIDE * SIDE))
        twos = tl.dot(r, products, twos, out_dtype=tl.float64)
        if p == q:
            ones = tl.dot(r, b, ones, out_dtype=tl.float64)
    pairs = tl.num_programs(1)
    product = tl.arange(0, SIDE * SIDE)
    place = ((span * pairs + pair) * KP + lane[:, None]) * SIDE * SIDE
    tl.store(second + place + product[None, :], twos)
    if p == q:
        blocks = (D + SIDE - 1) // SIDE
        offset = ((span * KP + lane[:, None]) * blocks + q) * SIDE
        tl.store(first + offset + tl.arange(0, SIDE)[None, :], ones)


class PairParams(NamedTuple):
    """Parameters in the form of the kernels, and as float64 about the origin."""

    origin: Tensor
    constant: Tensor
    high: Tensor
    low: Tensor
    root: Tensor
    centred: Tensor
    whiten: Tensor


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
        means = form.means[:, 0]
        return self.arranged(means.mean(dim=0).float(), means, form.whiten, form.offset[:, 0])

    def arranged(self, origin: Tensor, means: Tensor, whiten: Tensor, offset: Tensor) -> PairParams:
        """Convert parameters for the kernels, with a given origin."""
        high = means.float()
        low = (means - high.double()).float()
        more = self.dp - self.d
        pad = torch().nn.functional.pad
        return PairParams(
            origin,
            offset.float(),
            pad(high, (0, more)).contiguous(),
            pad(low, (0, more)).contiguous(),
            pad(whiten.float(), (0, more, 0, more)).contiguous(),
            means - origin.double(),
            whiten,
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
        find = self._in_blocks if self.kp > MOST_LANES else self._at_once
        responsibilities, sums = find(given, x, weight, tile)
        first, second = self._added(given.origin, x, responsibilities, len(x))
        return Moments(
            sums[:, 0],
            sums[:, 1 : 1 + self.k],
            grouped(first, tile // SPAN).flatten(2)[:, : self.k, : self.d],
            self._square(grouped(second, tile // SPAN)),
        )

    def _at_once(
        self, given: PairParams, x: Tensor, weight: Tensor | None, tile: int
    ) -> tuple[Tensor, Tensor]:
        """Responsibilities (KP, n), and log-likelihood and weights of tiles, (T, 1 + KP)."""
        n, programs = len(x), triton.cdiv(len(x), ROWS)
        responsibilities, partial = buffers(x, programs, self.kp)
        sizes: Any = n, self.k, self.d, self.dp, self.kp, weight is not None, ROWS
        params = given.constant, given.high, given.low, given.root
        weights = x if weight is None else weight
        out = responsibilities, partial
        full_responsibilities[(programs,)](
            x, weights, *params, *out, *sizes, num_warps=4, num_stages=1
        )
        return responsibilities, grouped(partial, tile // ROWS)

    def _in_blocks(
        self, given: PairParams, x: Tensor, weight: Tensor | None, tile: int
    ) -> tuple[Tensor, Tensor]:
        """The same, from log joint densities of blocks of components."""
        n = len(x)
        joint = x.new_empty((self.kp, n))
        grid = triton.cdiv(n, ROWS), self.kp // MOST_LANES
        sizes: Any = n, self.k, self.d, self.dp, MOST_LANES, ROWS
        params = given.constant, given.high, given.low, given.root
        full_joint[grid](x, *params, joint, *sizes, num_warps=4, num_stages=1)
        return joint, normalized(joint, weight, tile)

    def _added(
        self, origin: Tensor, x: Tensor, responsibilities: Tensor, n: int
    ) -> tuple[Tensor, Tensor]:
        spans, wide = triton.cdiv(n, SPAN), torch().float64
        first = x.new_empty((spans, self.kp, self.blocks, SIDE), dtype=wide)
        second = x.new_empty((spans, self.pairs, self.kp, SIDE, SIDE), dtype=wide)
        several, warps = (64, 8) if self.kp >= 64 else (16, 4)
        grid = spans, self.pairs, self.kp // several
        sizes: Any = self.d, self.kp, several, SIDE, SPAN, 32
        add_pairs[grid](x, origin, responsibilities, first, second, n, *sizes, num_warps=warps)
        return first, second

    def _square(self, pairs: Tensor) -> Tensor:
        """(T, K, d, d) from blocks of the lower triangle."""
        tiles, side = len(pairs), self.blocks * SIDE
        square = pairs.new_empty((tiles, self.kp, self.blocks, SIDE, self.blocks, SIDE))
        i, j = torch().tril_indices(self.blocks, self.blocks, device=pairs.device)
        square[:, :, i, :, j, :] = pairs.transpose(0, 1)
        square[:, :, j, :, i, :] = pairs.transpose(0, 1).transpose(3, 4)
        return square.reshape(tiles, self.kp, side, side)[:, : self.k, : self.d, : self.d]
