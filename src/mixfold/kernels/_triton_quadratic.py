"""Gaussians with full matrices in few columns, all in float64: log densities are products of
quadratic terms of the rows with coefficients, moments products of responsibilities with the same
terms, so that rows are read once.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, no_type_check

import triton
import triton.language as tl

from mixfold.kernels._moments import Moments, in_stretches, localized_tiles, of_form
from mixfold.kernels._products import Whitened
from mixfold.kernels._triton_responsibilities import MOST_LANES, lanes
from mixfold.kernels._triton_sums import grouped
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.models.mixture_model import MixtureModel

MOST_TERMS = 64
ROWS = 32
SPAN = 1024
PARTIAL_ELEMENTS = 2**27


@triton.jit(do_not_specialize=["n"])
@no_type_check
def expect_quadratic(
    x,
    weight,
    origin,
    left,
    right,
    coefficients,
    moments,
    log_likelihood,
    n,
    K,
    D: tl.constexpr,
    KP: tl.constexpr,
    TP: tl.constexpr,
    WEIGHTED: tl.constexpr,
    SPAN: tl.constexpr,
    B: tl.constexpr,
):
    """Sums of r t' over SPAN rows, with terms t: the products of columns `left` and `right` about
    the origin, where column D is 1 and column D + 1 is 0; and their log-likelihood."""
    span = tl.program_id(0).to(tl.int64)
    term = tl.arange(0, TP)
    lane = tl.arange(0, KP)
    i = tl.load(left + term)
    j = tl.load(right + term)
    # what masked columns hold: 1, or 0
    from_i = tl.load(origin + i, i < D, other=0.0).to(tl.float64) - tl.where(i == D, 1.0, 0.0).to(tl.float64)
    from_j = tl.load(origin + j, j < D, other=0.0).to(tl.float64) - tl.where(j == D, 1.0, 0.0).to(tl.float64)
    theta = tl.load(coefficients + term[:, None] * KP + lane[None, :])
    sums = tl.zeros((TP, KP), tl.float64)
    total = tl.zeros((B,), tl.float64)
    for start in range(0, SPAN, B):
        number = span * SPAN + start + tl.arange(0, B)
        inside = number < n
        at = x + span * SPAN * D + (start + tl.arange(0, B))[:, None] * D
        a = tl.load(at + i[None, :], inside[:, None] & (i < D)[None, :], other=0.0)
        b = tl.load(at + j[None, :], inside[:, None] & (j < D)[None, :], other=0.0)
        terms = (a.to(tl.float64) - from_i[None, :]) * (b.to(tl.float64) - from_j[None, :])
        joint = tl.dot(terms, theta, out_dtype=tl.float64)
        joint = tl.where((lane < K)[None, :], tl.maximum(joint, -1e300), float("-inf"))
        best = tl.max(joint, 1)
        odds = tl.exp((joint - best[:, None]).to(tl.float32))
        norm = tl.sum(odds, 1)
        w = inside.to(tl.float32)
        if WEIGHTED:
            w = tl.load(weight + number, inside, other=0.0).to(tl.float32)
        total += w.to(tl.float64) * (best + tl.log(norm).to(tl.float64))
        r = (odds * (w / norm)[:, None]).to(tl.float64)
        sums = tl.dot(tl.trans(terms), r, sums, out_dtype=tl.float64)
    tl.store(moments + (span * TP + term[:, None]) * KP + lane[None, :], sums)
    tl.store(log_likelihood + span, tl.sum(total, 0))


class QuadraticParams(NamedTuple):
    """Coefficients of the terms, (TP, KP), and parameters as float64 about the origin."""

    origin: Tensor
    coefficients: Tensor
    centred: Tensor
    whiten: Tensor


@cache
def places(d: int) -> tuple[list[int], list[int]]:
    """Left and right columns of the terms: pairs of columns, columns, and 1; then zeros."""
    pairs = [(i, j) for i in range(d) for j in range(i + 1)]
    terms = [*pairs, *((i, d) for i in range(d)), (d, d)]
    terms += [(d + 1, d + 1)] * (padded(d) - len(terms))
    return [i for i, _ in terms], [j for _, j in terms]


def n_terms(d: int) -> int:
    """The number of quadratic terms of d columns."""
    return (d + 1) * (d + 2) // 2


def padded(d: int) -> int:
    """The number of terms rounded up to what products of matrices take."""
    return int(max(16, triton.next_power_of_2(n_terms(d))))


class Quadratic:
    """Sums of models with full matrices in few columns."""

    span = SPAN  # rows of a tile are a multiple of it

    def __init__(self, model: MixtureModel) -> None:
        self.model = model
        self.k, self.d = model.k, model.d
        self.kp, self.tp = lanes(model.k), padded(model.d)
        self._places: tuple[Tensor, Tensor] | None = None

    @staticmethod
    def supports(model: MixtureModel) -> bool:
        """Whether the model has full matrices, few columns and few components."""
        few = model.k <= MOST_LANES and n_terms(model.d) <= MOST_TERMS
        return few and of_form(model, "triangular")

    def prepare(self, form: Whitened) -> QuadraticParams:
        """Convert parameters for the kernels; the origin is the mean of the means."""
        return self.arranged(form.means[:, 0], form.whiten, form.offset[:, 0], True)

    def wide_for(self, form: Whitened) -> bool:
        """Whether moments must be summed in float64: they are in any case."""
        return True

    def arranged(
        self, means: Tensor, whiten: Tensor, offset: Tensor, wide: bool
    ) -> QuadraticParams:
        """Convert parameters for the kernels."""
        origin = means.mean(dim=0).float()
        centred = means - origin.double()
        precision = whiten.transpose(1, 2) @ whiten
        linear = (precision @ centred[:, :, None])[:, :, 0]
        constant = offset - 0.5 * (linear * centred).sum(dim=1)
        left, right = (place[: n_terms(self.d) - self.d - 1] for place in self._columns(means))
        square = precision[:, left, right] * torch().where(left == right, -0.5, -1.0)
        terms = torch().cat([square, linear, constant[:, None]], dim=1).T
        more = self.kp - self.k, self.tp - len(terms)
        table = torch().nn.functional.pad(terms, (0, more[0], 0, more[1])).contiguous()
        return QuadraticParams(origin, table, centred, whiten)

    def _columns(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The columns of the terms on the device, kept for the next call."""
        if self._places is None:
            left, right = (torch().tensor(place, device=like.device) for place in places(self.d))
            self._places = left, right
        return self._places

    def sums(self, given: QuadraticParams, x: Tensor, weight: Tensor | None, tile: int) -> Tensor:
        """The sums of each tile, (tiles, n_sums)."""
        found = self.moments(given, x, weight, tile)
        return localized_tiles(given.centred, given.whiten, found)

    def moments(
        self, given: QuadraticParams, x: Tensor, weight: Tensor | None, tile: int
    ) -> Moments:
        """Moments of each tile about the origin, from as many tiles at once as memory bears."""
        spans = PARTIAL_ELEMENTS // (self.kp * self.tp)
        length = tile * max(1, spans * SPAN // tile)
        found = in_stretches(lambda a, w: self._some(given, a, w, tile), x, weight, length)
        return Moments(*found)

    def _some(
        self, given: QuadraticParams, x: Tensor, weight: Tensor | None, tile: int
    ) -> tuple[Tensor, ...]:
        n, spans, wide = len(x), triton.cdiv(len(x), SPAN), torch().float64
        moments = x.new_empty((spans, self.tp, self.kp), dtype=wide)
        log_likelihood = x.new_empty((spans, 1), dtype=wide)
        left, right = self._columns(x)
        weights = x if weight is None else weight
        sizes: Any = n, self.k, self.d, self.kp, self.tp, weight is not None, SPAN, ROWS
        out = moments, log_likelihood
        expect_quadratic[(spans,)](
            x, weights, given.origin, left, right, given.coefficients, *out, *sizes, num_warps=2
        )
        d, pairs = self.d, n_terms(self.d) - self.d - 1
        total = grouped(moments, tile // SPAN)[:, :, : self.k].transpose(1, 2)
        second = total.new_empty((len(total), self.k, d, d))
        second[:, :, left[:pairs], right[:pairs]] = total[:, :, :pairs]
        second[:, :, right[:pairs], left[:pairs]] = total[:, :, :pairs]
        return (
            grouped(log_likelihood, tile // SPAN)[:, 0],
            total[:, :, pairs + d],
            total[:, :, pairs : pairs + d],
            second,
        )
