"""Look up torch devices by name."""

from __future__ import annotations

import sys
from typing import Any

from mixfold.core.errors import InvalidInputError
from mixfold.kernels.optional_torch import torch

SHARE_OF_MEMORY = 0.6  # fraction of the free memory that rows may use
PREFIXES = ("gpu", "cuda", "torch:")


def device_called(engine: str) -> Any:
    """The torch device with a name such as gpu, cuda:1 or torch:cpu; None for other names."""
    if not engine.startswith(PREFIXES):
        return None
    library = torch()
    try:
        device = library.device("cuda" if engine == "gpu" else engine.removeprefix("torch:"))
    except RuntimeError:
        return None
    # other devices lack float64, or do not report their memory
    if device.type not in ("cpu", "cuda"):
        return None
    found = library.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= found:
        raise InvalidInputError(
            f"engine is {engine!r}, but torch finds {found or 'no'} GPU here: use engine='cpu', or "
            "install a torch that is built for your GPU"
        )
    return device


def free_memory(device: Any) -> int:
    """Bytes of memory that are free on the device."""
    if device.type != "cuda":
        return sys.maxsize
    cuda = torch().cuda
    kept = cuda.memory_reserved(device) - cuda.memory_allocated(device)
    return int(cuda.mem_get_info(device)[0] + kept)
