"""Passes of EM on a device, E-steps and M-steps; only likelihoods are transferred.

On a GPU some passes are recorded as a graph and replayed, since a pass over few rows takes less
time than a call from Python.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import triton

from mixfold.core.backend_capabilities import Passes
from mixfold.core.capabilities import DevicePasses, MaximizedOnDevice
from mixfold.core.limits import LEAST_VARIANCE
from mixfold.core.rows import stretches
from mixfold.core.variance_floors import ROUNDING
from mixfold.families.gaussian import LOG_2PI
from mixfold.kernels._graphs import recorded, restored
from mixfold.kernels._moments import Moments, near, of_form
from mixfold.kernels._products import Whitened
from mixfold.kernels._triton_columns import Columns, Theta
from mixfold.kernels._triton_diagonal import Diagonal, near_columns
from mixfold.kernels._triton_maximize import maximize_small
from mixfold.kernels._triton_responsibilities import MOST_LANES
from mixfold.kernels._triton_small import Small
from mixfold.kernels._triton_spherical import Spherical
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.models.mixture_model import MixtureParams

MOST_PASSES = 16
WORK = 2**41  # operations in the passes made at once, which take some tenths of a second


class Iterations(ABC):
    """Several passes of EM at once over the same rows.

    Parameters before each pass and after the last are the rows of `slots`: weights, means and
    factors. A pass in which a component is degenerate, or for which float32 is not precise enough,
    is not healthy: it and those after it are discarded, and it is made again by itself.
    """

    def __init__(self, fused: Any, x: Tensor, weight: Tensor | None, tile: int) -> None:
        self.fused, self.model = fused, fused.model
        self.family: MaximizedOnDevice = fused.model.family
        assert self.family.device_passes is not None
        self.known = self.family.device_passes
        self.x, self.weight, self.tile = x, weight, tile
        k, d = self.model.k, self.model.d
        scales = {"full": (k, d, d), "diag": (k, d), "spherical": (k, 1)}[self.known.structure]
        self.shapes = [(k,), (k, d), scales]
        self.sizes = [int(np.prod(shape)) for shape in self.shapes]
        self.passes = max(1, min(MOST_PASSES, WORK // (len(x) * self.model.n_sums)))
        size, wide = sum(self.sizes), torch().float64
        self.slots = torch().zeros((self.passes + 1, size), dtype=wide, device=x.device)
        self.log_likelihood = torch().zeros(self.passes, dtype=wide, device=x.device)
        self.healthy = torch().zeros(self.passes, dtype=torch().int32, device=x.device)
        self.limits = limits_of(self.known, x)
        self._ended: Any = None
        self._graphs: dict[bool, Any] = {}
        self.wide = False

    def run(self, params: MixtureParams, form: Callable[[], Whitened | None]) -> Passes:
        """Make passes from `params`; return the healthy ones.

        `form()` is `params` on the device, or None where float32 cannot hold them.
        """
        is_continued, self._ended = params is self._ended, None
        with torch().cuda.device_of(self.x):
            if is_continued:
                self.slots[0] = self.slots[self.passes]
            else:
                there = form()
                if there is None:
                    return Passes(np.empty(0), self._after)
                self._begin(params, there)
            if self.x.device.type == "cuda":
                self._play()
            else:
                self._all()
        healthy = self.healthy.numpy(force=True).astype(bool)
        number = self.passes if healthy.all() else int(healthy.argmin())
        return Passes(self.log_likelihood.numpy(force=True)[:number].copy(), self._after)

    def _begin(self, params: MixtureParams, form: Whitened) -> None:
        flat = [params.weights, *self.family.to_arrays(params.components)]
        self.slots[0] = torch().tensor(np.concatenate([part.ravel() for part in flat]))
        self.prepare(form)

    def _after(self, passes: int) -> MixtureParams:
        """Parameters after this many passes of the last run."""
        flat = self.slots[passes].numpy(force=True)
        ends = np.cumsum(self.sizes)
        cut = np.split(flat, ends[:-1])
        parts = [part.reshape(shape).copy() for part, shape in zip(cut, self.shapes, strict=True)]
        params = MixtureParams(parts[0], self.family.from_arrays(parts[1], parts[2]))
        self._ended = params if passes == self.passes else None
        return params

    def _play(self) -> None:
        """Replay a recorded graph of passes; the first pass, which compiles, is undone."""
        if self.wide not in self._graphs:
            kept = [part.clone() for part in self.begun()]
            self._graphs[self.wide] = recorded(
                lambda: self.step(0), lambda: restored(self.begun(), kept), self._all
            )
        self._graphs[self.wide].replay()

    def _all(self) -> None:
        for i in range(self.passes):
            self.step(i)

    def begun(self) -> list[Tensor]:
        """The input of a pass, at fixed addresses."""
        return [self.slots]

    @abstractmethod
    def prepare(self, form: Whitened) -> None:
        """Prepare for passes that begin with the parameters in the first slot."""

    @abstractmethod
    def step(self, i: int) -> None:
        """A pass from slot i to the next."""


class SmallIterations(Iterations):
    """E-step, sums, M-step: three kernels."""

    def __init__(self, fused: Any, x: Tensor, weight: Tensor | None, tile: int) -> None:
        super().__init__(fused, x, weight, tile)
        self.theta: Any = None

    def begun(self) -> list[Tensor]:
        return [self.slots, self.theta]

    def prepare(self, form: Whitened) -> None:
        theta = self.fused.prepare(form)
        self.theta = theta if self.theta is None else self.theta.copy_(theta)

    def step(self, i: int) -> None:
        k, d = self.model.k, self.model.d
        sums = self.fused.sums(self.theta, self.x, self.weight, self.tile)
        slots = self.slots[i], self.slots[i + 1], self.theta
        found = self.log_likelihood[i:], self.healthy[i:], self.limits
        sizes: Any = d, k, max(2, triton.next_power_of_2(k))
        maximize_small[(1,)](sums, len(sums), *slots, *found, *sizes, num_warps=1)


class DiagonalIterations(Iterations):
    """Kernels compute the input of a pass from its slot."""

    def __init__(self, fused: Any, x: Tensor, weight: Tensor | None, tile: int) -> None:
        super().__init__(fused, x, weight, tile)
        self.columns = Columns(fused.k, fused.d, fused.kp, self.limits)

    def prepare(self, form: Whitened) -> None:
        self.wide = self.fused.wide_for(form)

    def step(self, i: int) -> None:
        theta = self.columns.theta(self.slots[i], self.wide)
        tiles = self.fused.moments(theta, self.x, self.weight, self.tile)
        found = self.slots[i + 1], self.log_likelihood[i:], self.healthy[i:]
        self.columns.maximize(theta, *tiles, *found)


class ManyDiagonalIterations(Iterations):
    """The M-step, and the input of a pass, for more components than a program of Triton holds."""

    def prepare(self, form: Whitened) -> None:
        self.wide = self.fused.wide_for(form)

    def step(self, i: int) -> None:
        flat = self.slots[i].split(self.sizes)
        weights, means, std = (p.view(s) for p, s in zip(flat, self.shapes, strict=True))
        offset = weights.log() - 0.5 * self.model.d * LOG_2PI - std.log().sum(dim=1)
        theta = self.fused.theta(means, 1.0 / std, offset, self.wide)
        sums, moments = self.fused.moments(theta, self.x, self.weight, self.tile)
        total, (first, second) = sums.sum(dim=0), moments.sum(dim=0)[: self.model.k].unbind(1)
        weight = total[1 : 1 + self.model.k]
        origin = theta.origin.double()
        *params, good = maximized_columns(self.limits, origin, weight, first, second)
        if not self.wide:
            good = good & near_columns(means - origin, 1.0 / std)
        self.healthy[i] = good
        self.slots[i + 1] = torch().cat([part.ravel() for part in params])
        self.log_likelihood[i] = total[0] / weight.sum()


class SphericalIterations(Iterations):
    """One variance per component, whose floor does not depend on the parameters."""

    def __init__(self, fused: Any, x: Tensor, weight: Tensor | None, tile: int) -> None:
        super().__init__(fused, x, weight, tile)
        self.spherical = Spherical(self.model.k, self.model.d)
        self.floor = floor_of_data(self.limits, x, weight, tile)

    def prepare(self, form: Whitened) -> None:
        self.wide = self.fused.wide_for(form)

    def step(self, i: int) -> None:
        k, d = self.model.k, self.model.d
        flat = self.slots[i].split(self.sizes)
        weights, means, std = (p.view(s) for p, s in zip(flat, self.shapes, strict=True))
        offset = weights.log() - d * (0.5 * LOG_2PI + std.log()[:, 0])
        whiten = (1.0 / std).expand(k, d)
        theta = self.fused.theta(means, whiten, offset, self.wide)
        total, weight, first, second = self._moments(theta)
        origin, good = theta.origin.double(), (weight > 0).all()
        centred = first / weight[:, None]
        variance = second / weight - centred.square().sum(dim=1)
        pivots = variance / d + self.limits[1]
        good = good & (pivots > self.floor).all()
        if not self.wide:
            good = good & near_columns(means - origin, whiten)
        self.healthy[i] = good
        std = pivots.clamp(min=LEAST_VARIANCE).sqrt()
        parts = weight / weight.sum(), (origin + centred).ravel(), std
        self.slots[i + 1] = torch().cat(parts)
        self.log_likelihood[i] = total / weight.sum()

    def _moments(self, theta: Theta) -> list[Tensor]:
        """Log-likelihood, weights, first moments and squared distances about the origin."""
        given, k = (theta, self.x, self.weight, self.tile), self.model.k
        if not self.wide:
            total, *found = (tiles.sum(dim=0) for tiles in self.spherical.moments(*given))
            return [total, *(part[:k] for part in found)]
        sums, moments = (tiles.sum(dim=0) for tiles in self.fused.moments(*given))
        first, second = moments[:k].unbind(1)
        return [sums[0], sums[1 : 1 + k], first, second.sum(dim=1)]


class FullIterations(Iterations):
    """The M-step is written in torch. The input of a pass is computed from its slot."""

    def prepare(self, form: Whitened) -> None:
        self.wide = self.fused.wide_for(form)

    def step(self, i: int) -> None:
        flat = self.slots[i].split(self.sizes)
        weights, means, tril = (p.view(s) for p, s in zip(flat, self.shapes, strict=True))
        diagonal, whiten = tril.diagonal(dim1=1, dim2=2), whitened(tril)
        offset = weights.log() - 0.5 * self.model.d * LOG_2PI - diagonal.log().sum(dim=1)
        given = self.fused.arranged(means, whiten, offset, self.wide)
        tiles = self.fused.moments(given, self.x, self.weight, self.tile)
        total = Moments(*(several.sum(dim=0) for several in tiles))
        *params, good = maximized(self.limits, given.origin.double(), total)
        if not self.wide:
            good = good & near(given.centred, whiten)
        self.healthy[i] = good
        self.slots[i + 1] = torch().cat([part.ravel() for part in params])
        self.log_likelihood[i] = total.log_likelihood / total.weight.sum()


def limits_of(family: DevicePasses, x: Tensor) -> Tensor:
    """The fraction of `Gaussian.variance_floor`, what is added to variances, and what no variance
    falls below: by rounding, as a fraction of the squared mean, and in every column.
    """
    lowest = family.lowest_variances(x.shape[1])
    numbers = [family.floor, family.reg_covar, ROUNDING**2, *lowest]
    return x.new_tensor(numbers, dtype=torch().float64)


def floor_of_data(limits: Tensor, x: Tensor, weight: Tensor | None, tile: int) -> Tensor:
    """The mean over columns of the smallest variances, from the variances of the rows."""
    wide = torch().float64
    count, first, second = (limits.new_zeros(size) for size in ((), x.shape[1], x.shape[1]))
    origin = x[0].to(wide)
    for cut in stretches(len(x), tile):
        delta = x[cut].to(wide) - origin
        w = delta.new_ones(len(delta)) if weight is None else weight[cut].to(wide)
        count, first = count + w.sum(), first + w @ delta
        second = second + w @ delta.square()
    one = (first / count)[None]
    spread = second[None] / count - one.square()
    return floors(limits, origin, limits.new_ones(1), one, spread).mean()


def whitened(tril: Tensor) -> Tensor:
    """Inverse scales."""
    eye = torch().eye(tril.shape[1], dtype=tril.dtype, device=tril.device)
    return torch().linalg.solve_triangular(tril, eye.expand_as(tril), upper=False)


def maximized(limits: Tensor, origin: Tensor, total: Moments) -> tuple[Tensor, ...]:
    """Weights, means, scales, and whether no component is degenerate.

    The same as `Gaussian.maximize`, from moments about an origin.
    """
    weight = total.weight
    centred = total.first / weight[:, None]
    scatter = total.second / weight[:, None, None] - centred[:, :, None] * centred[:, None, :]
    floor = floors(limits, origin, weight, centred, scatter.diagonal(dim1=1, dim2=2))
    eye = torch().eye(scatter.shape[1], dtype=scatter.dtype, device=scatter.device)
    tril, failed = torch().linalg.cholesky_ex(scatter + limits[1] * eye)
    pivots = tril.diagonal(dim1=1, dim2=2).square()
    good = (failed == 0).all() & (weight > 0).all() & (pivots > floor).all()
    return weight / weight.sum(), origin + centred, tril, good


def maximized_columns(
    limits: Tensor, origin: Tensor, weight: Tensor, first: Tensor, second: Tensor
) -> tuple[Tensor, ...]:
    """The same for diagonal covariances: (K,), (K, d), (K, d)."""
    centred = first / weight[:, None]
    variance = second / weight[:, None] - centred.square()
    floor = floors(limits, origin, weight, centred, variance)
    pivots = variance + limits[1]
    good = (weight > 0).all() & (pivots > floor).all()
    return weight / weight.sum(), origin + centred, pivots.clamp(min=LEAST_VARIANCE).sqrt(), good


def floors(
    limits: Tensor, origin: Tensor, weight: Tensor, centred: Tensor, variances: Tensor
) -> Tensor:
    """The smallest variance of every column, from means about the origin and variances."""
    proportion = weight / weight.sum()
    middle = proportion @ centred
    spread = proportion @ (variances + (centred - middle).square())
    lowest = torch().maximum(limits[2] * (origin + middle).square(), limits[3:])
    return torch().maximum(limits[0] * spread, lowest)


def iterations(fused: Any, x: Tensor, weight: Tensor | None, tile: int) -> Iterations | None:
    """Passes on the device, if M-steps of the family can be made there."""
    model = fused.model
    if model.is_constrained:
        return None
    if not isinstance(model.family, MaximizedOnDevice) or model.family.device_passes is None:
        return None
    if of_form(model, "diagonal"):
        diagonal = Diagonal(model)
        if model.family.device_passes.structure == "spherical":
            return SphericalIterations(diagonal, x, weight, tile)
        few = diagonal.kp <= MOST_LANES
        return (DiagonalIterations if few else ManyDiagonalIterations)(diagonal, x, weight, tile)
    kind = SmallIterations if isinstance(fused, Small) else FullIterations
    return kind(fused, x, weight, tile)
