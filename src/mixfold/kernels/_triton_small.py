"""Gaussian mixtures with few sums: a row per lane, and all sums in registers.

Parameters come as K lists of float32: the constant of log w_k p(x | k), the mean in two parts
whose sum is its float64 value, and the whitening triangle row by row, or its diagonal.
"""

from __future__ import annotations

from typing import Any, no_type_check

import triton
import triton.language as tl

from mixfold.core.statistics import packed_length
from mixfold.kernels._moments import of_form
from mixfold.kernels._products import Whitened
from mixfold.kernels._triton_sums import grouped
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.models.mixture_model import MixtureModel

SPAN = 2048
LANES = 32  # of one warp, whose sums need no memory
MOST_SUMS = 52  # with more of them registers overflow, and compilers take minutes


@triton.jit
@no_type_check
def local_row(row, given, AT: tl.constexpr, D: tl.constexpr, FULL: tl.constexpr):
    """W (x - mu) of the component whose parameters begin at AT."""
    delta = ()
    for j in tl.static_range(D):
        delta = delta + ((row[j] - given[AT + 1 + j]) - given[AT + 1 + D + j],)
    local = ()
    for i in tl.static_range(D):
        if FULL:
            y = delta[0] * given[AT + 1 + 2 * D + i * (i + 1) // 2]
            for j in tl.static_range(1, i + 1):
                y += delta[j] * given[AT + 1 + 2 * D + i * (i + 1) // 2 + j]
        else:
            y = delta[i] * given[AT + 1 + 2 * D + i]
        local = local + (y,)
    return local


@triton.jit
@no_type_check
def moments_added(total, r, local, AT: tl.constexpr, D: tl.constexpr, FULL: tl.constexpr):
    """The sums of a component, from AT on, with those of one more row in each lane."""
    after = (total[AT] + r,)
    for i in tl.static_range(D):
        after = after + (total[AT + 1 + i] + r * local[i],)
    for i in tl.static_range(D):
        scaled = r * local[i]
        if FULL:
            for j in tl.static_range(i + 1):
                after = after + (total[AT + 1 + D + i * (i + 1) // 2 + j] + scaled * local[j],)
        else:
            after = after + (total[AT + 1 + D + i] + scaled * local[i],)
    return after


@triton.jit
@no_type_check
def row_at(x, number, inside, D: tl.constexpr):
    """The columns of a row in each lane, 0 outside."""
    row = ()
    for j in tl.static_range(D):
        row = row + (tl.load(x + number * D + j, inside, other=0.0),)
    return row


@triton.jit
@no_type_check
def expect_small(
    x,
    weight,
    theta,
    partial,
    n,
    D: tl.constexpr,
    K: tl.constexpr,
    FULL: tl.constexpr,
    WEIGHTED: tl.constexpr,
    SPAN: tl.constexpr,
    B: tl.constexpr,
):
    """The sums of SPAN rows, those of each lane in float32, then all in float64."""
    P: tl.constexpr = D * (D + 1) // 2 if FULL else D
    STRIDE: tl.constexpr = 1 + 2 * D + P
    S: tl.constexpr = 1 + D + P
    first = tl.program_id(0).to(tl.int64) * SPAN
    given = ()
    for i in tl.static_range(K * STRIDE):
        given = given + (tl.load(theta + i),)
    total = ()
    for _ in tl.static_range(1 + K * S):
        total = total + (tl.zeros((B,), tl.float32),)
    number = first + tl.arange(0, B)
    following = row_at(x, number, number < n, D)
    for start in range(0, SPAN, B):
        number = first + start + tl.arange(0, B)
        inside = number < n
        row = following
        # on its way while this row is computed with
        following = row_at(x, number + B, number + B < n, D)
        local = ()
        joint = ()
        best = tl.full((B,), float("-inf"), tl.float32)
        for k in tl.static_range(K):
            one = local_row(row, given, k * STRIDE, D, FULL)
            square = one[0] * one[0]
            for i in tl.static_range(1, D):
                square += one[i] * one[i]
            local = local + (one,)
            # a row too far for float32 is as far as that can say
            joint = joint + (given[k * STRIDE] - 0.5 * tl.minimum(square, 1e38),)
            best = tl.maximum(best, joint[k])
        odds = ()
        norm = tl.zeros((B,), tl.float32)
        for k in tl.static_range(K):
            odds = odds + (tl.exp(joint[k] - best),)
            norm += odds[k]
        w = inside.to(tl.float32)
        if WEIGHTED:
            w = tl.load(weight + number, inside, other=0.0).to(tl.float32)
        share = w / norm
        after = (total[0] + w * (best + tl.log(norm)),)
        for k in tl.static_range(K):
            after = after + moments_added(total, odds[k] * share, local[k], 1 + k * S, D, FULL)
        total = after
    at = partial + tl.program_id(0).to(tl.int64) * (1 + K * S)
    for i in tl.static_range(1 + K * S):
        tl.store(at + i, tl.sum(total[i].to(tl.float64), 0))


class Small:
    """Sums of models with few of them."""

    span = SPAN  # rows of a tile are a multiple of it

    def __init__(self, model: MixtureModel) -> None:
        self.model = model
        self.full = of_form(model, "triangular")

    @staticmethod
    def supports(model: MixtureModel) -> bool:
        """Whether the model has few sums."""
        return model.n_sums <= MOST_SUMS

    def prepare(self, form: Whitened) -> Tensor:
        """The lists of parameters, (K, 1 + 2 d + p)."""
        means, k, d = form.means[:, 0], self.model.k, self.model.d
        high = means.float()
        low = (means - high.double()).float()
        root = form.whiten[:, 0]
        if self.full:
            i, j = torch().tril_indices(d, d, device=means.device)
            root = form.whiten[:, i, j]
        assert root.shape == (k, packed_length("full" if self.full else "diag", d))
        return torch().cat([form.offset.float(), high, low, root.float()], dim=1).contiguous()

    def sums(self, theta: Tensor, x: Tensor, weight: Tensor | None, tile: int) -> Tensor:
        """The sums of each tile, (tiles, n_sums)."""
        n, d = x.shape
        programs = triton.cdiv(n, SPAN)
        partial = theta.new_empty((programs, self.model.n_sums), dtype=torch().float64)
        sizes: Any = n, d, self.model.k, self.full, weight is not None, SPAN, LANES
        given = x if weight is None else weight
        expect_small[(programs,)](
            x.contiguous(), given, theta, partial, *sizes, num_warps=LANES // 32
        )
        return grouped(partial, tile // SPAN)
