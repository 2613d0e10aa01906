"""Annealed gradients of diagonal Gaussians, in three kernels per batch and a graph of many batches.

The first kernel sums log densities over columns, the second computes the responsibilities of rows,
the third updates the parameters of columns. Numbers are float32, as compiled code on a CPU has
them; sums of losses and the logits are float64.
"""

from __future__ import annotations

from typing import Any, no_type_check

import triton
import triton.language as tl

from mixfold.core.rows import Array
from mixfold.core.value import at_home
from mixfold.families.gaussian import LOG_2PI
from mixfold.kernels._annealing import steps
from mixfold.kernels._graphs import recorded, restored
from mixfold.kernels._triton_responsibilities import lanes
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.models.annealed import Annealed, AnnealingOptions

MOST_COMPONENTS = 64
MOST_ROWS = 256
SPLIT = 64  # columns per program of the first kernel
SOME = 16  # rows per program of the first and second kernel
COLUMNS = 16  # of a program that moves them
AT_ONCE = (20, 5, 1)  # batches in a graph: looks come after 25 of them and more


@triton.jit
@no_type_check
def add_densities(
    x,
    means,
    roots,
    counter,
    joint,
    D,
    K,
    ROWS: tl.constexpr,
    KP: tl.constexpr,
    SPLIT: tl.constexpr,
    B: tl.constexpr,
    C: tl.constexpr,
):
    """sum over columns of log root - (root (x - mean))^2 / 2, for B rows and SPLIT columns."""
    place = tl.program_id(0) * B + tl.arange(0, B)
    split = tl.program_id(1)
    row = tl.load(counter) * ROWS + place
    lane = tl.arange(0, KP)
    real = lane < K
    total = tl.zeros((B, KP), tl.float32)
    for start in range(0, SPLIT, C):
        column = split * SPLIT + start + tl.arange(0, C)
        inside = column < D
        both = (place < ROWS)[:, None] & inside[None, :]
        values = tl.load(x + row[:, None] * D + column[None, :], both, other=0.0)
        at = column[:, None] + lane[None, :] * D
        mean = tl.load(means + at, inside[:, None] & real[None, :], other=0.0)
        root = tl.load(roots + at, inside[:, None] & real[None, :], other=1.0)
        precision = tl.where(inside[:, None], root * root, 0.0)
        linear = precision * mean
        total = tl.dot(values, linear, total, input_precision="tf32x3")
        total = tl.dot(values * values, -0.5 * precision, total, input_precision="tf32x3")
        total += tl.sum(tl.log(root) - 0.5 * linear * mean, 0)[None, :]
    at = joint + (split * tl.num_programs(0) * B + place[:, None]) * KP + lane[None, :]
    tl.store(at, total)


@triton.jit
@no_type_check
def prior(logits, lane, real):
    """Logits and weights."""
    logit = tl.load(logits + lane, real, other=float("-inf"))
    odds = tl.exp(logit - tl.max(logit, 0))
    return logit, odds / tl.sum(odds, 0)


@triton.jit
@no_type_check
def batch_responsibilities(
    joint,
    weight,
    logits,
    bumps,
    counter,
    following,
    responsibilities,
    shown,
    splits,
    constant,
    K,
    ROWS: tl.constexpr,
    RP: tl.constexpr,
    KP: tl.constexpr,
    B: tl.constexpr,
):
    """Responsibilities for B rows of a batch, and the sums of log densities and losses."""
    number = tl.load(counter)
    part = tl.program_id(0)
    place = part * B + tl.arange(0, B)
    lane = tl.arange(0, KP)
    real = lane < K
    at = place[:, None] * KP + lane[None, :]
    total = tl.zeros((B, KP), tl.float32)
    for split in range(splits):
        total += tl.load(joint + split * RP * KP + at)
    _, odds = prior(logits, lane, real)
    offset = (tl.log(tl.where(real, odds, 1.0)) + constant).to(tl.float32)
    total = tl.where(real[None, :], total + offset[None, :], 0.0)
    g = tl.load(bumps + lane[None, :] * KP + lane[:, None])  # transposed: (component, centre)
    smooth = tl.dot(total, g, input_precision="tf32x3")
    smooth = tl.where(real[None, :], smooth, float("-inf"))
    best = tl.argmax(smooth, 1)
    loss = tl.max(smooth, 1)
    total = tl.where(real[None, :], total, float("-inf"))
    peak = tl.max(total, 1)
    density = peak + tl.log(tl.sum(tl.exp(total - peak[:, None]), 1))
    w = tl.load(weight + number * ROWS + place, place < ROWS, other=0.0)
    to = shown + (number * tl.num_programs(0) + part) * 2
    tl.store(to, tl.sum(w * density.to(tl.float64), 0))
    tl.store(to + 1, tl.sum(w * loss.to(tl.float64), 0))
    taken = tl.load(bumps + best[:, None] * KP + lane[None, :])
    tl.store(responsibilities + at, taken * (w / ROWS).to(tl.float32)[:, None])
    if part == 0:
        tl.store(following, number + 1)


@triton.jit
@no_type_check
def follow_batch(
    x,
    means,
    roots,
    logits,
    epsilon,
    counter,
    following,
    responsibilities,
    least,
    most,
    D,
    K,
    ROWS: tl.constexpr,
    RP: tl.constexpr,
    KP: tl.constexpr,
    C: tl.constexpr,
):
    """`follow_diagonal` in C columns; the first program moves the logits and the counter too."""
    number = tl.load(following)
    column = tl.program_id(0) * C + tl.arange(0, C)
    place = tl.arange(0, RP)
    lane = tl.arange(0, KP)
    row = (number - 1) * ROWS + place
    both = (place < ROWS)[:, None] & (column < D)[None, :]
    values = tl.load(x + row[:, None] * D + column[None, :], both, other=0.0)
    taken = tl.load(responsibilities + place[None, :] * KP + lane[:, None])
    total = tl.sum(taken, 1)
    first = tl.dot(taken, values, input_precision="tf32x3")
    second = tl.dot(taken, values * values, input_precision="tf32x3")
    at = lane[:, None] * D + column[None, :]
    inside = (lane < K)[:, None] & (column < D)[None, :]
    mean = tl.load(means + at, inside, other=0.0)
    root = tl.load(roots + at, inside, other=1.0)
    eps = tl.load(epsilon + 2 * (number - 1)).to(tl.float32)
    square = second - 2.0 * mean * first + total[:, None] * mean * mean
    moved = root + eps * (total[:, None] / root - root * square)
    tl.store(means + at, mean + eps * root * root * (first - total[:, None] * mean), inside)
    tl.store(roots + at, tl.minimum(tl.maximum(moved, least), most), inside)
    if tl.program_id(0) == 0:
        real = lane < K
        logit, odds = prior(logits, lane, real)
        rise = total.to(tl.float64) - tl.sum(total.to(tl.float64), 0) * odds
        of_logits = tl.load(epsilon + 2 * (number - 1) + 1)
        tl.store(logits + lane, logit + of_logits * rise, real)
        tl.store(counter, number)


class Batches:
    """Means, roots and logits on the device, updated by batches of the same size."""

    def __init__(self, state: Annealed, device: Any, batch_size: int, rows: int) -> None:
        self.k, self.d = state.means.shape
        self.size, self.kp = batch_size, lanes(self.k)
        self.rp = max(16, triton.next_power_of_2(batch_size))
        self.splits = triton.cdiv(self.d, SPLIT)
        self.capacity = rows // batch_size
        narrow: dict[str, Any] = {"dtype": torch().float32, "device": device}
        wide: dict[str, Any] = {"dtype": torch().float64, "device": device}
        self.x = torch().empty((rows, self.d), **narrow)
        self.weight = torch().ones(rows, **wide)
        self.means, self.roots = (torch().empty((self.k, self.d), **narrow) for _ in range(2))
        self.logits = torch().empty(self.k, **wide)
        self.bumps = torch().zeros((self.kp, self.kp), **narrow)
        self.epsilon = torch().zeros((self.capacity + 1, 2), **wide)
        self.counter, self.following = torch().zeros((2, 1), dtype=torch().int64, device=device)
        self.joint = torch().zeros((self.splits, self.rp, self.kp), **narrow)
        self.responsibilities = torch().zeros((self.rp, self.kp), **narrow)
        self.some = min(SOME, self.rp)
        self.shown = torch().zeros((self.capacity + 1, self.rp // self.some, 2), **wide)
        self.options: Any = None
        self._limits = 0.0, 0.0
        self._g: Any = None
        self._length: Any = None
        self._graphs: dict[int, Any] = {}

    def load(
        self, state: Annealed, x: Tensor, weight: Tensor, options: AnnealingOptions
    ) -> Batches:
        """Begin with rows and a state."""
        limits = options.least_root, options.most_root
        if limits != self._limits:
            self._limits, self._graphs = limits, {}
        self.options = options
        self.x[: len(x)] = x
        self.weight[: len(x)] = weight
        for mine, given in zip(
            self._moving(), (state.logits, state.means, state.roots), strict=True
        ):
            mine.copy_(torch().as_tensor(given))
        self.counter.zero_()
        return self

    def _moving(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.logits, self.means, self.roots

    def follow(self, cuts: list[Any], g: Array, epsilon: float) -> Tensor:
        """Take a number of batches; the sums of their log densities and of their losses."""
        if g is not self._g:
            self.bumps[: self.k, : self.k] = torch().tensor(g)
            self._g = g
        first, left = cuts[0][0].start // self.size, len(cuts)
        self._take(first, steps(cuts, epsilon, self.options))
        for length in AT_ONCE:
            for _ in range(left // length):
                self._play(length)
            left %= length
        return self.shown[first : first + len(cuts)].sum(dim=1)

    def _take(self, first: int, lengths: list[tuple[float, float]]) -> None:
        """Lengths of the steps of batches from the first on; most often they are all the same."""
        if set(lengths) == {(lengths[0][0], lengths[0][0])}:
            if lengths[0] != self._length:
                self.epsilon.fill_(lengths[0][0])
            self._length = lengths[0]
            return
        self._length = None
        there = torch().tensor(lengths, dtype=torch().float64)
        self.epsilon[first : first + len(lengths)] = there

    def _play(self, batches: int) -> None:
        if self.x.device.type != "cuda":
            self._several(batches)
            return
        if batches not in self._graphs:
            self._graphs[batches] = self._recorded(batches)
        self._graphs[batches].replay()

    def _several(self, batches: int) -> None:
        for _ in range(batches):
            self._one()

    def _one(self) -> None:
        sizes: Any = self.d, self.k, self.size
        moving = self.x, self.means, self.roots
        blocks = self.rp // self.some
        add_densities[(blocks, self.splits)](
            *moving, self.counter, self.joint, *sizes, self.kp, SPLIT, self.some, 64, num_warps=4
        )
        given = self.joint, self.weight, self.logits, self.bumps, self.counter, self.following
        shape: Any = self.k, self.size, self.rp, self.kp
        offset = -0.5 * self.d * LOG_2PI
        batch_responsibilities[(blocks,)](
            *given,
            self.responsibilities,
            self.shown,
            self.splits,
            offset,
            *shape,
            self.some,
            num_warps=4,
        )
        counters = self.counter, self.following
        changing = self.logits, self.epsilon, *counters, self.responsibilities, *self._limits
        follow_batch[(triton.cdiv(self.d, COLUMNS),)](
            *moving, *changing, *sizes, self.rp, self.kp, COLUMNS, num_warps=4
        )

    def _recorded(self, batches: int) -> Any:
        """A graph of a number of batches; a first run, which compiles, is undone."""
        moving = [*self._moving(), self.counter]
        kept = [part.clone() for part in moving]
        return recorded(self._one, lambda: restored(moving, kept), lambda: self._several(batches))

    def arrays(self) -> tuple[Array, Any, Any]:
        """Logits, means and roots, here again."""
        return at_home(list(self._moving()))  # type: ignore[return-value]


def serves(state: Annealed, x: Tensor, batch_size: int) -> bool:
    """Whether these kernels support the batches."""
    diagonal = state.roots.ndim == 2 and state.roots.dtype.name == "float32"
    few = len(state.logits) <= MOST_COMPONENTS and 1 < batch_size <= MOST_ROWS
    return diagonal and few and x.dtype == torch().float32
