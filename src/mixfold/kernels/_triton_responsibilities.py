"""From log joint densities to responsibilities, inside a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

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
    stride,
    WEIGHTED: tl.constexpr,
    KP: tl.constexpr,
):
    """Weighted responsibilities into `responsibilities`, (KP, stride), whose type is that of
    weights; log-likelihood and their sums into a row of `partial`, (programs, 1 + KP)."""
    kind: tl.constexpr = responsibilities.dtype.element_ty
    lane = tl.arange(0, KP)
    best = tl.max(joint, 1)
    odds = tl.exp((joint - best[:, None]).to(kind))
    norm = tl.sum(odds, 1)
    w = inside.to(kind)
    if WEIGHTED:
        w = tl.load(weight + number, inside, other=0.0).to(kind)
    r = (odds * (w / norm)[:, None]).to(kind)
    tl.store(
        responsibilities + number[:, None] + lane[None, :].to(tl.int64) * stride,
        r,
        inside[:, None],
    )
    at = partial + tl.program_id(0).to(tl.int64) * (1 + KP)
    tl.store(at, tl.sum((w * (best + tl.log(norm))).to(tl.float64), 0))
    tl.store(at + 1 + lane, tl.sum(r.to(tl.float64), 0))


@triton.jit
@no_type_check
def store_joint(found, number, inside, block, joint, peaks, norms, stride, KB: tl.constexpr):
    """Log joint densities of rows and a block of components into `joint`, (KP, stride), their
    largest, and the sum of their ratios to it, into `peaks` and `norms`, (blocks, stride)."""
    lane = block * KB + tl.arange(0, KB)
    tl.store(joint + number[:, None] + lane[None, :].to(tl.int64) * stride, found, inside[:, None])
    # components of no weight alone: -inf less -inf would be no number
    peak = tl.maximum(tl.max(found, 1), -1e38)
    at = number + block.to(tl.int64) * stride
    tl.store(peaks + at, peak, inside)
    ratio = tl.exp((found - peak[:, None]).to(tl.float32))
    tl.store(norms + at, tl.sum(ratio, 1), inside)


@triton.jit(do_not_specialize=["n"])
@no_type_check
def normalize(
    joint,
    peaks,
    norms,
    weight,
    responsibilities,
    partial,
    n,
    stride,
    KP: tl.constexpr,
    KB: tl.constexpr,
    WEIGHTED: tl.constexpr,
    B: tl.constexpr,
    C: tl.constexpr,
):
    """The same as `store_responsibilities` from what `store_joint` has stored of B rows, C
    components at a time."""
    number = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = number < n
    best = tl.load(peaks + number, inside, other=0.0)
    norm = tl.load(norms + number, inside, other=1.0)
    for block in range(1, KP // KB):
        at = number + block * stride
        peak = tl.load(peaks + at, inside, other=0.0)
        larger = tl.maximum(best, peak)
        more = tl.load(norms + at, inside, other=0.0) * tl.exp((peak - larger).to(tl.float32))
        norm = norm * tl.exp((best - larger).to(tl.float32)) + more
        best = larger
    w = inside.to(tl.float32)
    if WEIGHTED:
        w = tl.load(weight + number, inside, other=0.0).to(tl.float32)
    share = w / norm
    total = w.to(tl.float64) * (best.to(tl.float64) + tl.log(norm).to(tl.float64))
    out = partial + tl.program_id(0).to(tl.int64) * (1 + KP)
    tl.store(out, tl.sum(total, 0))
    for first in range(0, KP, C):
        lane = first + tl.arange(0, C)
        at = lane[:, None].to(tl.int64) * stride + number[None, :]
        value = tl.load(joint + at, inside[None, :], other=0.0)
        r = tl.exp((value - best[None, :]).to(tl.float32)) * share[None, :]
        tl.store(responsibilities + at, r, inside[None, :])
        tl.store(out + 1 + lane, tl.sum(r.to(tl.float64), 1))


class Joint(NamedTuple):
    """Log joint densities of rows, (KP, stride), and by block of components, (blocks, stride),
    their largest, and the sum of their ratios to it."""

    joint: Tensor
    peaks: Tensor
    norms: Tensor

    @property
    def stride(self) -> int:
        """From one component to the next."""
        return int(self.joint.shape[1])

    def normalized(self, weight: Tensor | None, n: int, tile: int) -> tuple[Tensor, Tensor]:
        """Weighted responsibilities of n rows (KP, stride), and the log-likelihood and the sums of
        responsibilities of every tile, (T, 1 + KP)."""
        kp, programs = len(self.joint), triton.cdiv(n, ROWS)
        wide = torch().float64
        found = self.joint
        if found.dtype == wide:
            found = torch().empty_like(found, dtype=torch().float32)
        partial = self.joint.new_empty((programs, 1 + kp), dtype=wide)
        weights = self.joint if weight is None else weight
        sizes: Any = n, self.stride, kp, block_of(kp), weight is not None, ROWS, 16
        normalize[(programs,)](*self, weights, found, partial, *sizes, num_warps=4)
        return found, grouped(partial, tile // ROWS)


def block_of(kp: int) -> int:
    """The number of components of one program."""
    return min(kp, MOST_LANES)


def stride_of(n: int) -> int:
    """From one component to the next, for n rows: a multiple of the rows of a program, so that
    kernels for any number of rows are the same, as are their bits."""
    return int(ROWS * triton.cdiv(n, ROWS))


def joint_buffers(x: Tensor, kp: int, dtype: Any) -> Joint:
    """Buffers for the log joint densities of rows."""
    stride, blocks = stride_of(len(x)), kp // block_of(kp)
    joint, peaks = (x.new_empty((rows, stride), dtype=dtype) for rows in (kp, blocks))
    return Joint(joint, peaks, x.new_empty((blocks, stride), dtype=torch().float32))


def responsibility_buffers(x: Tensor, kp: int, rows: int) -> tuple[Tensor, Tensor]:
    """Buffers for responsibilities, (KP, stride), and for their sums and log-likelihood by program
    of so many rows."""
    wide = torch().float64
    partial = x.new_empty((triton.cdiv(len(x), rows), 1 + kp), dtype=wide)
    return x.new_empty((kp, stride_of(len(x)))), partial


def lanes(k: int) -> int:
    """K rounded up to what products of matrices take, or to blocks of `MOST_LANES`."""
    if k > MOST_LANES:
        return MOST_LANES * int(triton.cdiv(k, MOST_LANES))
    return int(max(16, triton.next_power_of_2(k)))
