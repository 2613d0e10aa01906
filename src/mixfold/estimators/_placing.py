"""Where rows are computed with: on this machine's cores, or on a device."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, validate_data

from mixfold.core.arrays import as_array, is_tensor
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.source import Source
from mixfold.engines._feeding import resident
from mixfold.engines.gpu import Gpu, say_short_of_memory
from mixfold.engines.threads import Threads
from mixfold.kernels._torch import torch
from mixfold.sources.array import Array
from mixfold.sources.npy import Npy
from mixfold.sources.tensor import Tensor

SHARE_OF_MEMORY = 0.6


def device_for(engine: Any, data: Any) -> Any:
    """The torch device of an engine by name, or of data that lie on one; None is the CPU."""
    if engine == "cpu":
        return None
    if engine is None:
        there = is_tensor(data) and data.device.type == "cuda"
        return data.device if there else None
    if not isinstance(engine, str):
        raise unknown_engine(engine)
    return _device(engine, torch())


def unknown_engine(engine: Any) -> InvalidInputError:
    """An error that says what an engine is."""
    return InvalidInputError(
        f"engine is {engine!r}: 'cpu', 'gpu' or a GPU of torch such as 'cuda:1' is needed"
    )


def _device(engine: str, library: Any) -> Any:
    """The device a name stands for: gpu, cuda:1, torch:cpu."""
    name = "cuda" if engine == "gpu" else engine.removeprefix("torch:")
    try:
        device = library.device(name)
    except RuntimeError:
        raise unknown_engine(engine) from None
    if device.type not in ("cpu", "cuda"):  # others have no float64, or no memory
        raise unknown_engine(engine)
    found = library.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= found:
        raise InvalidInputError(
            f"engine is {engine!r}, but torch finds {found or 'no'} GPU here: use engine='cpu', or "
            "install a torch that is built for your GPU"
        )
    return device


def open_tensor(
    estimator: Any, data: Any, sample_weight: Any, device: Any, reset: bool, least_rows: int
) -> Tensor:
    """A source over a tensor, with what arrays are refused for refused in the same words."""
    x = data.detach().to(device).contiguous()
    x = x if x.is_complex() or x.dtype in (torch().float32, torch().float64) else _as_floats(x)
    # scikit-learn looks at an array of one number that has the tensor's shape
    like = np.broadcast_to(as_array(x.new_zeros(())), tuple(x.shape))
    more = {"dtype": [np.float64, np.float32], "ensure_min_samples": least_rows}
    validate_data(estimator, like, reset=reset, ensure_all_finite=False, **more)
    if sample_weight is None:
        return Tensor(x)
    weight = _check_sample_weight(
        as_array(sample_weight), like, dtype=np.float64, ensure_non_negative=True
    )
    if not weight.any():
        raise InvalidInputError("all of sample_weight is zero: at least one row must count")
    return Tensor(x, torch().tensor(weight, device=device))


def _as_floats(x: Any) -> Any:
    return x.float() if x.is_floating_point() else x.double()


def free_memory(device: Any) -> int:
    """Bytes that could be had on the device."""
    if device.type != "cuda":
        return sys.maxsize
    cuda = torch().cuda
    kept = cuda.memory_reserved(device) - cuda.memory_allocated(device)
    return int(cuda.mem_get_info(device)[0] + kept)


def at_device(source: Source, device: Any, problem: Any) -> Source:
    """An array that fits as a tensor on the device; all else as it is, to be sent in pieces."""
    if not isinstance(source, Array | Npy):
        return source
    if source.length * source.d * source.dtype.itemsize > SHARE_OF_MEMORY * free_memory(device):
        return source
    try:
        rows = source.whole()
        how = device, problem.sent, problem.n_threads
        weight = None if rows.weight is None else resident(rows.weight, *how)
        placed = Tensor(resident(rows.x, *how), weight)
    except torch().OutOfMemoryError:
        say_short_of_memory(device)
        return source
    placed.columns = source.columns
    return placed


def problem_for(model: Any, device: Any, n_threads: int | None) -> Threads:
    """A model bound to the device, or to this machine's cores."""
    return Threads(model, n_threads) if device is None else Gpu(model, device, n_threads)


def in_place(work: Callable[[Source], None], source: Source, device: Any, problem: Threads) -> None:
    """Work with rows that lie on the device or, where its memory is too small, are sent there."""
    placed = source if device is None else at_device(source, device, problem)
    if placed is source:
        work(source)
        return
    try:
        work(placed)
    except torch().OutOfMemoryError:
        say_short_of_memory(device)
    else:
        return
    del placed
    problem.forget()
    work(source)


def evaluated(
    problem: Threads, params: Any, rows: Rows, latent: bool, given: Any
) -> Iterator[tuple[Any, Any]]:
    """log p(x) of rows and, if wanted, responsibilities, part by part.

    If tensors were given, tensors are returned, on the device they came from.
    """
    step = problem.block or max(1, len(rows))
    for first in range(0, len(rows), step):
        some = rows.cut(first, first + step)
        if isinstance(problem, Gpu) and is_tensor(given):
            log_density, shares = problem.densities(params, some, latent)
            back = None if shares is None else shares.to(given.device)
            yield log_density.to(given.device), back
        else:
            yield problem.posterior(params, some, latent)
