"""Fair timing on noisy machines: alternate the rivals, keep each one's best."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

K = TypeVar("K")


def best_alternating(
    rivals: Mapping[K, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[K, float]:
    """Seconds of the fastest of `rounds` calls of each rival, called in turn.

    A rival that returns a float says itself how many seconds its work has taken. With
    `time.process_time` as the clock, other work on the machine matters less.
    """
    best = dict.fromkeys(rivals, float("inf"))
    for _ in range(rounds):
        for name, work in rivals.items():
            began = clock()
            said = work()
            seconds = said if isinstance(said, float) else clock() - began
            best[name] = min(best[name], seconds)
    return best


def passes_of_fit(model: Any, x: np.ndarray) -> np.ndarray:
    """Seconds of each pass of a fit but the first, which also checks the rows.

    Of a learner that makes one entry in the history per pass.
    """
    return np.diff(model.fit(x).history_.time)


def matrix_product_peak() -> float:
    """Floating-point operations per second of a large float64 matrix product."""
    a = np.random.default_rng(0).normal(size=(1500, 1500))
    seconds = best_alternating({"product": lambda: a @ a}, 8)["product"]
    return 2 * len(a) ** 3 / seconds


def read_bandwidth() -> float:
    """Bytes per second of summing a large array on one thread."""
    a = np.ones(2**26)
    return a.nbytes / best_alternating({"sum": lambda: [a.sum()]}, 6)["sum"]


def processor() -> str:
    """The processor's name, where Linux tells it, and the number of its cores."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    told = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    told = {name.strip(): value.strip() for name, value in told.items()}
    name = told.get("model name", platform.processor() or platform.machine())
    family = f", family {told['cpu family']} model {told['model']}" if "model" in told else ""
    return f"{name}{family}, {os.cpu_count()} cores"
