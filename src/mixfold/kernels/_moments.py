"""Moments of tiles of rows, and buffers for the responsibilities behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mixfold.core.rows import stretches
from mixfold.kernels._forms import form_of
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.models.mixture_model import MixtureModel


FAR = 3.0  # deviations from the origin; beyond, float32 products would lose more than a digit
LARGEST = 1e15  # of what is squared


class Moments(NamedTuple):
    """Of each tile, about the origin: (T,), (T, K), (T, K, d), (T, K, d, d)."""

    log_likelihood: Tensor
    weight: Tensor
    first: Tensor
    second: Tensor


def of_form(model: MixtureModel, form: str) -> bool:
    """Whether the components are Gaussians with "triangular" or "diagonal" scales."""
    gaussians = form_of(model.family).gaussians
    return gaussians is not None and gaussians.form == form


def near(centred: Tensor, whiten: Tensor) -> Tensor:
    """Whether float32 moments about the origin keep enough digits, and stay in their range."""
    few = (whiten @ centred[:, :, None]).abs().amax() <= FAR
    scales = whiten.diagonal(dim1=1, dim2=2)
    return few & (whiten.abs().amax() < LARGEST) & (scales.amin() > 1.0 / LARGEST)


def is_far(means: Tensor, whiten: Tensor) -> bool:
    """Whether moments about the mean of the means must be summed in float64."""
    return not bool(near(means - means.mean(dim=0), whiten))


def localized_tiles(centred: Tensor, whiten: Tensor, found: Moments) -> Tensor:
    """Sums of each tile in the coordinates W (x - mu), (T, n_sums)."""
    # one by one: how products are rounded may depend on how many there are
    tiles = [_localized(centred, whiten, Moments(*one)) for one in zip(*found, strict=True)]
    return torch().stack(tiles)


def _localized(b: Tensor, w: Tensor, found: Moments) -> Tensor:
    """Sums of a tile, of means b about the origin and whitening matrices w."""
    weight = found.weight[:, None]
    first = found.first - weight * b
    cross = found.first[:, :, None] * b[:, None, :]
    outer = weight[:, :, None] * b[:, :, None] * b[:, None, :]
    second = w @ (found.second - cross - cross.transpose(1, 2) + outer) @ w.transpose(1, 2)
    i, j = torch().tril_indices(b.shape[1], b.shape[1], device=b.device)
    parts = [weight, (w @ first[:, :, None])[:, :, 0], second[:, i, j]]
    table = torch().cat(parts, dim=1)
    return torch().cat([found.log_likelihood[None], table.ravel()])


def in_stretches(
    work: Callable[[Tensor, Tensor | None], tuple[Tensor, ...]],
    x: Tensor,
    weight: Tensor | None,
    length: int,
) -> tuple[Tensor, ...]:
    """Apply `work` to all tiles, `length` rows at a time."""
    parts = [
        work(x[cut].contiguous(), None if weight is None else weight[cut])
        for cut in stretches(len(x), length)
    ]
    if len(parts) == 1:
        return parts[0]
    return tuple(torch().cat(several) for several in zip(*parts, strict=True))


def buffers(x: Tensor, programs: int, kp: int) -> tuple[Tensor, Tensor]:
    """Buffers for responsibilities, (KP, n), and for their sums and log-likelihood by program."""
    responsibilities = x.new_empty((kp, len(x)))
    return responsibilities, x.new_empty((programs, 1 + kp), dtype=torch().float64)
