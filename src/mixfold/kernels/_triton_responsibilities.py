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
def combine(
    peaks,
    norms,
    weight,
    share,
    log_likelihood,
    n,
    stride,
    blocks,
    WEIGHTED: tl.constexpr,
    B: tl.constexpr,
):
    """The largest log joint density of B rows into the first row of `peaks`, and into `share` what
    ratios to it are multiplied by to be weighted responsibilities; their log-likelihood."""
    number = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = number < n
    best = tl.load(peaks + number, inside, other=0.0)
    norm = tl.load(norms + number, inside, other=1.0)
    for block in range(1, blocks):
        at = number + block * stride
        peak = tl.load(peaks + at, inside, other=0.0)
        larger = tl.maximum(best, peak)
        more = tl.load(norms + at, inside, other=0.0) * tl.exp((peak - larger).to(tl.float32))
        norm = norm * tl.exp((best - larger).to(tl.float32)) + more
        best = larger
    w = inside.to(tl.float32)
    if WEIGHTED:
        w = tl.load(weight + number, inside, other=0.0).to(tl.float32)
    tl.store(peaks + number, best, inside)
    tl.store(share + number, w / norm, inside)
    total = tl.sum(w.to(tl.float64) * (best.to(tl.float64) + tl.log(norm).to(tl.float64)), 0)
    tl.store(log_likelihood + tl.program_id(0), total)


@triton.jit
@no_type_check
def responsibilities_at(at, joint, best, share, number, inside):
    """Weighted responsibilities `at` these places, of rows of these numbers; 0 outside."""
    value = tl.load(joint + at, inside, other=0.0)
    peak = tl.load(best + number, inside, other=0.0)
    ratio = tl.exp((value - peak).to(tl.float32))
    return ratio * tl.load(share + number, inside, other=0.0)


class Responsibilities(NamedTuple):
    """Log joint densities (KP, stride) of rows; of every row, the largest, and what ratios to it
    are multiplied by, in float32."""

    joint: Tensor
    best: Tensor
    share: Tensor

    @property
    def stride(self) -> int:
        """From one component to the next."""
        return int(self.joint.shape[1])


class Joint(NamedTuple):
    """Buffers of a kernel that computes log joint densities, in blocks of components."""

    joint: Tensor
    peaks: Tensor
    norms: Tensor

    @property
    def stride(self) -> int:
        """From one component to the next."""
        return int(self.joint.shape[1])

    def combined(self, weight: Tensor | None, n: int, tile: int) -> tuple[Responsibilities, Tensor]:
        """Responsibilities, and the log-likelihood of each tile."""
        (blocks, stride), programs = self.peaks.shape, triton.cdiv(n, ROWS)
        share = torch().empty_like(self.norms[0])
        log_likelihood = self.joint.new_empty((programs, 1), dtype=torch().float64)
        weights = self.joint if weight is None else weight
        out = weights, share, log_likelihood
        sizes: Any = n, stride, blocks, weight is not None, ROWS
        combine[(programs,)](self.peaks, self.norms, *out, *sizes, num_warps=4)
        found = Responsibilities(self.joint, self.peaks[0], share)
        return found, grouped(log_likelihood, tile // ROWS)[:, 0]


def joint_buffers(x: Tensor, kp: int, dtype: Any) -> Joint:
    """Buffers for rows; kernels for any number of them are the same, as are their bits."""
    stride = ROWS * triton.cdiv(len(x), ROWS)
    blocks = triton.cdiv(kp, MOST_LANES)
    joint, peaks = (x.new_empty((rows, stride), dtype=dtype) for rows in (kp, blocks))
    return Joint(joint, peaks, x.new_empty((blocks, stride), dtype=torch().float32))


def lanes(k: int) -> int:
    """K rounded up to what products of matrices take, or to blocks of `MOST_LANES`."""
    if k > MOST_LANES:
        return MOST_LANES * int(triton.cdiv(k, MOST_LANES))
    return int(max(16, triton.next_power_of_2(k)))
