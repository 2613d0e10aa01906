"""Moments of tiles of rows, and buffers for the responsibilities behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mixfold.core.rows import stretches
from mixfold.kernels._forms import form_of
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.models.mixture_model import MixtureModel


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
