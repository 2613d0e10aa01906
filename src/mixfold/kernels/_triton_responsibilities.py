"""From log joint densities to responsibilities, inside a kernel."""

from __future__ import annotations

from typing import Any, no_type_check

import triton
import triton.language as tl

from mixfold.kernels._triton_sums import grouped
from mixfold.kernels.optional_torch import Tensor, torch

MOST_LANES = 64  # components of one program; more are divided into blocks of as many
ROWS = 128


@triton.jit
@no_type_check
def store_responsibilities(
    joint,
    number,
    inside,
    weight,
    responsibilities,
    partial,
    n,
    WEIGHTED: tl.constexpr,
    KP: tl.constexpr,
):
    """Weighted responsibilities into `responsibilities`, (KP, n), whose type is that of weights;
    log-likelihood and their sums into a row of `partial`, (programs, 1 + KP)."""
    kind: tl.constexpr = responsibilities.dtype.element_ty
    lane = tl.arange(0, KP)
    best = tl.max(joint, 1)
    odds = tl.exp(joint - best[:, None])
    norm = tl.sum(odds, 1)
    w = inside.to(kind)
    if WEIGHTED:
        w = tl.load(weight + number, inside, other=0.0).to(kind)
    r = (odds * (w / norm)[:, None]).to(kind)
    tl.store(
        responsibilities + number[:, None] + lane[None, :].to(tl.int64) * n, r, inside[:, None]
    )
    at = partial + tl.program_id(0).to(tl.int64) * (1 + KP)
    tl.store(at, tl.sum((w * (best + tl.log(norm))).to(tl.float64), 0))
    tl.store(at + 1 + lane, tl.sum(r.to(tl.float64), 0))


@triton.jit
@no_type_check
def normalize(
    joint, weight, partial, n, KP: tl.constexpr, WEIGHTED: tl.constexpr, B: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    """The same as `store_responsibilities` for B rows of `joint`, (KP, n), C components at a time:
    first the largest log joint density and the norm of every row, then its responsibilities."""
    kind: tl.constexpr = joint.dtype.element_ty
    number = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = number < n
    best = tl.full((B,), float("-inf"), kind)
    norm = tl.zeros((B,), kind)
    for first in range(0, KP, C):
        lane = first + tl.arange(0, C)
        at = joint + lane[:, None].to(tl.int64) * n + number[None, :]
        value = tl.load(at, inside[None, :], other=0.0)
        larger = tl.maximum(best, tl.max(value, 0))
        norm = norm * tl.exp(best - larger) + tl.sum(tl.exp(value - larger[None, :]), 0)
        best = larger
    w = inside.to(kind)
    if WEIGHTED:
        w = tl.load(weight + number, inside, other=0.0).to(kind)
    share = w / norm
    out = partial + tl.program_id(0).to(tl.int64) * (1 + KP)
    tl.store(out, tl.sum((w * (best + tl.log(norm))).to(tl.float64), 0))
    for first in range(0, KP, C):
        lane = first + tl.arange(0, C)
        at = joint + lane[:, None].to(tl.int64) * n + number[None, :]
        value = tl.load(at, inside[None, :], other=0.0)
        r = tl.exp(value - best[None, :]) * share[None, :]
        tl.store(at, r, inside[None, :])
        tl.store(out + 1 + lane, tl.sum(r.to(tl.float64), 1))


def normalized(joint: Tensor, weight: Tensor | None, tile: int) -> Tensor:
    """Turn log joint densities (KP, n) into weighted responsibilities.

    Returns the log-likelihood and the sums of responsibilities of every tile, (T, 1 + KP).
    """
    (kp, n), programs = joint.shape, triton.cdiv(joint.shape[1], ROWS)
    partial = joint.new_empty((programs, 1 + kp), dtype=torch().float64)
    weights = joint if weight is None else weight
    sizes: Any = n, kp, weight is not None, ROWS, 16
    normalize[(programs,)](joint, weights, partial, *sizes, num_warps=4)
    return grouped(partial, tile // ROWS)


def lanes(k: int) -> int:
    """K rounded up to what products of matrices take, or to blocks of `MOST_LANES`."""
    if k > MOST_LANES:
        return MOST_LANES * int(triton.cdiv(k, MOST_LANES))
    return int(max(16, triton.next_power_of_2(k)))
