"""From log joint densities to responsibilities, inside a kernel."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl


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


def lanes(k: int) -> int:
    """K rounded up to what products of matrices take."""
    return int(max(16, triton.next_power_of_2(k)))
