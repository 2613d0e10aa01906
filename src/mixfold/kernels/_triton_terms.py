"""Products of families, whose log densities and sums are products of matrices of values.

Values are made from the rows inside the kernels, so that nothing as wide as the levels of all
categories is stored. Normal terms are linear in columns and their squares about an origin. All
products are float64, since logarithms of probabilities of large counts have many digits, and
responsibilities have the type of the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import triton
import triton.language as tl

from mixfold.kernels._moments import in_stretches
from mixfold.kernels._term_values import COLUMN, LEVEL, OBSERVED
from mixfold.kernels._terms import Terms
from mixfold.kernels._triton_responsibilities import lanes, store_responsibilities
from mixfold.kernels._triton_sums import grouped
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.models.mixture_model import MixtureModel

MOST_COMPONENTS = 64
ROWS = 64  # with more of them registers overflow, or one program fills a processor
SPAN = 1024
VALUES = 32  # at once
SHARE_ELEMENTS = 2**28
SQUARE = 3  # a kind of value besides those of `_term_values`
KINDS = COLUMN, LEVEL, OBSERVED, COLUMN, SQUARE


@triton.jit
@no_type_check
def log_factorial(x):
    """log x! by Stirling's series, at 10 or more."""
    y = x + 1.0
    low = y < 10.0
    small = tl.where(low, y, 1.0)
    product = small
    for i in tl.static_range(1, 10):
        product *= small + i
    z = tl.where(low, y + 10.0, y)
    v = 1.0 / z
    u = v * v
    series = 0.0007936507936507937 - u * (0.0005952380952380953 - u * 0.0008417508417508417)
    series = v * (0.08333333333333333 - u * (0.002777777777777778 - u * series))
    stirling = (z - 0.5) * tl.log(z) - z + 0.9189385332046727 + series
    return stirling - tl.where(low, tl.log(product), 0.0)


@triton.jit
@no_type_check
def value_of(
    cell, kind, level, origin, LEVEL: tl.constexpr, OBSERVED: tl.constexpr, SQUARE: tl.constexpr
):
    """Values from the cells of their columns; 0 where these are missing."""
    there = cell == cell  # noqa: PLR0124 - not NaN
    delta = tl.where(there, cell - origin, 0.0)
    number = tl.where(kind == SQUARE, delta * delta, delta)
    one = tl.where(kind == LEVEL, (cell == level).to(tl.float64), there.to(tl.float64))
    return tl.where((kind == LEVEL) | (kind == OBSERVED), one, number)


@triton.jit
@no_type_check
def term_responsibilities(
    x,
    weight,
    kinds,
    columns,
    levels,
    origins,
    counts,
    constant,
    coefficients,
    responsibilities,
    partial,
    n,
    D,
    P,
    N_COUNTS,
    K,
    KP: tl.constexpr,
    WEIGHTED: tl.constexpr,
    LEVEL: tl.constexpr,
    OBSERVED: tl.constexpr,
    SQUARE: tl.constexpr,
    B: tl.constexpr,
    C: tl.constexpr,
):
    """Responsibilities of B rows, C values at a time."""
    number = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = number < n
    lane = tl.arange(0, KP)
    joint = tl.zeros((B, KP), tl.float64)
    for start in range(0, P, C):
        value = start + tl.arange(0, C)
        real = value < P
        column = tl.load(columns + value, real, other=0)
        at = x + number[:, None] * D + column[None, :]
        cell = tl.load(at, inside[:, None] & real[None, :], other=0.0).to(tl.float64)
        kind = tl.load(kinds + value, real, other=0)[None, :]
        level = tl.load(levels + value, real, other=0.0)[None, :]
        origin = tl.load(origins + value, real, other=0.0)[None, :]
        values = value_of(cell, kind, level, origin, LEVEL, OBSERVED, SQUARE)
        at = coefficients + value[:, None] + lane[None, :] * P
        given = tl.load(at, real[:, None], other=0.0)
        joint = tl.dot(values, given, joint, out_dtype=tl.float64)
    base = tl.zeros((B,), tl.float64)
    for i in range(N_COUNTS):
        count = tl.load(x + number * D + tl.load(counts + i), inside, other=0.0).to(tl.float64)
        known = count == count  # noqa: PLR0124 - not NaN
        base += log_factorial(tl.where(known, count, 0.0))
    joint = joint + tl.load(constant + lane)[None, :] - base[:, None]
    joint = tl.where((lane < K)[None, :], joint, float("-inf"))
    store_responsibilities(
        joint, number, inside, weight, responsibilities, partial, n, WEIGHTED, KP
    )


@triton.jit
@no_type_check
def add_terms(
    x,
    kinds,
    columns,
    levels,
    origins,
    responsibilities,
    out,
    n,
    D,
    P,
    KP: tl.constexpr,
    LEVEL: tl.constexpr,
    OBSERVED: tl.constexpr,
    SQUARE: tl.constexpr,
    SPAN: tl.constexpr,
    B: tl.constexpr,
    C: tl.constexpr,
):
    """Sums of C values over SPAN rows."""
    span = tl.program_id(0).to(tl.int64)
    value = tl.program_id(1) * C + tl.arange(0, C)
    real = value < P
    lane = tl.arange(0, KP)
    column = tl.load(columns + value, real, other=0)
    kind = tl.load(kinds + value, real, other=0)[:, None]
    level = tl.load(levels + value, real, other=0.0)[:, None]
    origin = tl.load(origins + value, real, other=0.0)[:, None]
    total = tl.zeros((C, KP), tl.float64)
    for start in range(0, SPAN, B):
        number = span * SPAN + start + tl.arange(0, B)
        inside = number < n
        at = responsibilities + number[:, None] + lane[None, :].to(tl.int64) * n
        r = tl.load(at, inside[:, None], other=0.0).to(tl.float64)
        at = x + number[None, :] * D + column[:, None]
        cell = tl.load(at, inside[None, :] & real[:, None], other=0.0).to(tl.float64)
        values = value_of(cell, kind, level, origin, LEVEL, OBSERVED, SQUARE)
        total = tl.dot(values, r, total, out_dtype=tl.float64)
    tl.store(out + (span * KP + lane[None, :]) * P + value[:, None], total, real[:, None])


class ValueColumns(NamedTuple):
    """Kinds, columns, levels and origins of all values, (p,)."""

    kinds: Tensor
    columns: Tensor
    levels: Tensor
    origins: Tensor


class TermParams(NamedTuple):
    """Parameters in the form of the kernels, and normal terms about the origin (K, c)."""

    values: ValueColumns
    constant: Tensor
    coefficients: Tensor
    centred: Tensor
    scales: Tensor
    terms: Terms


class TermSums:
    """Sums of products of families."""

    span = SPAN  # rows of a tile are a multiple of it

    def __init__(self, model: MixtureModel) -> None:
        self.model, self.k, self.kp = model, model.k, lanes(model.k)

    @staticmethod
    def supports(model: MixtureModel) -> bool:
        """Whether there are few components."""
        return model.k <= MOST_COMPONENTS

    def prepare(self, terms: Terms) -> TermParams:
        """Convert parameters for the kernels; origins are means of the means."""
        at, means, scales = terms.places, terms.means[:, 0], terms.scales[:, 0]
        origin = means.mean(dim=0).float().double()
        centred, precision = means - origin, scales.square()
        shift = -0.5 * precision * centred.square()
        marks = torch().nn.functional.one_hot(at.totals, terms.coefficients.shape[1]).double()
        plain = terms.coefficients + shift @ marks
        given = torch().cat([plain[:, 1:], precision * centred, -0.5 * precision], dim=1)
        more = self.kp - self.k
        pad = torch().nn.functional.pad
        return TermParams(
            self._values(terms, origin),
            pad(plain[:, 0], (0, more)),
            pad(given, (0, 0, 0, more)).contiguous(),
            centred,
            scales,
            terms,
        )

    def _values(self, terms: Terms, origin: Tensor) -> ValueColumns:
        """Values as in the rows of the terms, then normal columns and their squares."""
        at = terms.places
        parts = [at.plain, at.coded, at.observed, at.normal, at.normal]
        kinds = [torch().full_like(p, kind) for p, kind in zip(parts, KINDS, strict=True)]
        levels = torch().cat([at.plain * 0, at.levels, at.observed * 0, at.normal * 0])
        none = origin.new_zeros(len(at.plain) + len(at.coded) + len(at.observed))
        return ValueColumns(
            torch().cat(kinds).int(),
            torch().cat(parts),
            torch().cat([levels, at.normal * 0]).double(),
            torch().cat([none, origin, origin]),
        )

    def sums(self, given: TermParams, x: Tensor, weight: Tensor | None, tile: int) -> Tensor:
        """The sums of each tile, (tiles, n_sums)."""
        width = max(self.kp, self.kp * given.coefficients.shape[1] // SPAN)
        length = tile * max(1, SHARE_ELEMENTS // (tile * width))
        sums, moments = in_stretches(lambda a, w: self._some(given, a, w, tile), x, weight, length)
        table = self._table(given, sums[:, 1 : 1 + self.k, None], moments[:, : self.k])
        return torch().cat([sums[:, :1], table.flatten(1)], dim=1)

    def _table(self, given: TermParams, weights: Tensor, moments: Tensor) -> Tensor:
        """The table of sums, with moments of z = (x - m) s instead of those about origins."""
        at, b, s = given.terms.places, given.centred, given.scales
        c = b.shape[1]
        plain, ones, twos = moments.split([moments.shape[2] - 2 * c, c, c], dim=2)
        values = torch().cat([weights, plain], dim=2)
        total = values[:, :, at.totals]
        first = (ones - total * b) * s
        second = (twos - 2.0 * b * ones + total * b.square()) * s.square()
        return torch().cat([values, first, second], dim=2)[:, :, at.order]

    def _some(
        self, given: TermParams, x: Tensor, weight: Tensor | None, tile: int
    ) -> tuple[Tensor, Tensor]:
        """Log-likelihood and weights, (T, 1 + KP), and sums of values, (T, KP, p), of T tiles."""
        n, d = x.shape
        programs, p = triton.cdiv(n, ROWS), given.coefficients.shape[1]
        responsibilities = x.new_empty((self.kp, n))
        partial = x.new_empty((programs, 1 + self.kp), dtype=torch().float64)
        counts = given.terms.places.counts
        kinds: Any = LEVEL, OBSERVED, SQUARE
        sizes: Any = n, d, p, len(counts), self.k, self.kp, weight is not None
        term_responsibilities[(programs,)](
            x,
            x if weight is None else weight,
            *given.values,
            counts,
            given.constant,
            given.coefficients,
            responsibilities,
            partial,
            *sizes,
            *kinds,
            ROWS,
            VALUES,
            num_warps=8,
        )
        spans = triton.cdiv(n, SPAN)
        out = x.new_empty((spans, self.kp, p), dtype=torch().float64)
        rest: Any = n, d, p, self.kp, *kinds, SPAN, 32, VALUES
        grid = spans, triton.cdiv(p, VALUES)
        add_terms[grid](x, *given.values, responsibilities, out, *rest, num_warps=4)
        return grouped(partial, tile // ROWS), grouped(out, tile // SPAN)
