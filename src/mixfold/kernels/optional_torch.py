"""torch, only when it is needed."""

from __future__ import annotations

from typing import Any

from mixfold.core.errors import MissingExtraError

Tensor = Any


def torch() -> Any:
    """The library, or an error that says how to get it."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            "torch and triton", "gpu", "learning on a GPU", ", or use engine='cpu'"
        ) from None
    return torch
