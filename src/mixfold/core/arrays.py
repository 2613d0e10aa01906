"""Functions on arrays that may be NumPy arrays or tensors on a device.

A tensor is recognised by its methods, so that torch need not be imported. Values that may be on a
device are annotated as arrays, since rows are used in the same way in both places.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from sys import modules
from types import ModuleType
from typing import Any, Protocol, TypeGuard, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

G = TypeVar("G", bound=np.generic)

HOST = (1, 3)  # DLPack's numbers of the CPU, and of its memory that is pinned for CUDA


class Device(Protocol):
    """The attributes of a torch device that are used here."""

    @property
    def type(self) -> str: ...


class Tensor(Protocol):
    """The attributes of a torch tensor that are used here."""

    @property
    def device(self) -> Device: ...
    def to(self, device: Device) -> Tensor: ...
    def numpy(self, *, force: bool = False) -> NDArray[Any]: ...
    def is_floating_point(self) -> bool: ...
    def element_size(self) -> int: ...
    def float(self) -> Tensor: ...


def is_array(thing: object) -> TypeGuard[NDArray[np.generic]]:
    """Whether `thing` is an array, here or on a device."""
    return isinstance(thing, np.ndarray) or is_tensor(thing)


def is_tensor(thing: object) -> TypeGuard[Tensor]:
    """Whether `thing` is a torch tensor."""
    return hasattr(thing, "__dlpack__") and hasattr(thing, "new_empty")


def is_foreign(thing: object) -> bool:
    """Whether `thing` is an array of another library than NumPy and torch, such as CuPy or JAX.

    It is recognised by the interfaces of the array API standard or, for CuPy, of CUDA.
    """
    if isinstance(thing, np.ndarray | np.generic) or is_tensor(thing):
        return False
    known = hasattr(thing, "__array_namespace__") or hasattr(thing, "__cuda_array_interface__")
    return known and hasattr(thing, "__dlpack__") and hasattr(thing, "__dlpack_device__")


def is_on_host(thing: Any) -> bool:
    """Whether an array of another library is in the memory of the CPU."""
    return int(thing.__dlpack_device__()[0]) in HOST


def _library() -> ModuleType:
    return modules["torch"]


@overload
def on_host(x: NDArray[G]) -> NDArray[G]: ...
@overload
def on_host(x: Tensor) -> NDArray[Any]: ...
def on_host(x: NDArray[np.generic] | Tensor) -> NDArray[np.generic]:
    """The same numbers as a NumPy array; an array is returned unchanged."""
    return x if isinstance(x, np.ndarray) else x.numpy(force=True)


def as_array(data: Any) -> Any:
    """A user's tensor or array of another library as a NumPy array; anything else unchanged."""
    if is_foreign(data) and is_on_host(data):
        return np.from_dlpack(data)
    if is_foreign(data):
        return as_array(import_module("torch").from_dlpack(data))
    if not is_tensor(data):
        return data
    narrow = data.is_floating_point() and data.element_size() < 4  # NumPy may have no such dtype
    return on_host(data.float() if narrow else data)


def copied(x: NDArray[G]) -> NDArray[G]:
    """A C-contiguous copy on the same device."""
    return np.array(x, order="C") if isinstance(x, np.ndarray) else x.contiguous().clone()


def to_device_of(x: NDArray[np.generic], values: NDArray[G]) -> NDArray[G]:
    """The array on the device of `x`."""
    if not is_tensor(x) or is_tensor(values):
        return values
    sent: NDArray[G] = _library().from_numpy(np.array(values, order="C")).to(x.device)
    return sent


def nan_to_zero(x: NDArray[G]) -> NDArray[G]:
    """A copy with zeros for NaN, on the same device."""
    fill = np.nan_to_num if isinstance(x, np.ndarray) else _library().nan_to_num
    filled: NDArray[G] = fill(x, nan=0.0, posinf=np.inf, neginf=-np.inf)
    return filled


def all_false(x: NDArray[np.generic]) -> NDArray[np.bool_]:
    """False for every cell, on the same device."""
    if isinstance(x, np.ndarray):
        return np.zeros(x.shape, dtype=bool)
    found: NDArray[np.bool_] = x.new_zeros(x.shape, dtype=_library().bool)
    return found


def concatenated(parts: Sequence[NDArray[G]]) -> NDArray[G]:
    """Concatenate arrays; the result is on the device if any of them is."""
    tensors = [part for part in parts if not isinstance(part, np.ndarray)]
    if not tensors:
        return np.concatenate(parts)
    joined: NDArray[G] = _library().cat([to_device_of(tensors[0], part) for part in parts])
    return joined


def largest_log_joint(
    log_density: NDArray[np.floating], responsibilities: NDArray[np.floating]
) -> np.ndarray:
    """max_k log w_k p(x | k) = log p(x) + log max_k r_k of every row."""
    return np.asarray(on_host(log_density) + np.log(on_host(responsibilities).max(axis=1)))
