"""CUDA graphs: work on a GPU that is recorded once and replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mixfold.kernels.optional_torch import Tensor, torch


def recorded(first: Callable[[], None], undo: Callable[[], None], work: Callable[[], None]) -> Any:
    """Record work as a graph, after a first run that compiles kernels and is undone."""
    here, aside = torch().cuda.current_stream(), torch().cuda.Stream()
    aside.wait_stream(here)
    with torch().cuda.stream(aside):
        first()
    here.wait_stream(aside)
    undo()
    graph = torch().cuda.CUDAGraph()
    with torch().cuda.graph(graph, capture_error_mode="thread_local"):
        work()
    return graph


def restored(parts: list[Tensor], kept: list[Tensor]) -> None:
    """Restore the saved contents of tensors."""
    for part, old in zip(parts, kept, strict=True):
        part.copy_(old)
