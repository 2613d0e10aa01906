"""Arrays that may lie on a device: what values and rows need to know of them.

A tensor is known by what it can do, and where there is one its library has been imported. Where an
array may lie on a device, its type is that of an array: rows are used alike in both places.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import modules
from types import ModuleType
from typing import Any, Protocol, TypeGuard, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

G = TypeVar("G", bound=np.generic)


class Device(Protocol):
    """What is used here of a torch device."""

    @property
    def type(self) -> str: ...


class Tensor(Protocol):
    """What is used here of a torch tensor."""

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


def _library() -> ModuleType:
    return modules["torch"]


@overload
def on_host(x: NDArray[G]) -> NDArray[G]: ...
@overload
def on_host(x: Tensor) -> NDArray[Any]: ...
def on_host(x: NDArray[np.generic] | Tensor) -> NDArray[np.generic]:
    """The same numbers as a NumPy array; one that is here stays what it is."""
    return x if isinstance(x, np.ndarray) else x.numpy(force=True)


def as_array(data: Any) -> Any:
    """A tensor that a user has given as a NumPy array; anything else as it is."""
    if not is_tensor(data):
        return data
    narrow = data.is_floating_point() and data.element_size() < 4  # NumPy may have no such kind
    return on_host(data.float() if narrow else data)


def copied(x: NDArray[G]) -> NDArray[G]:
    """The same numbers, row by row in memory of their own, where they are."""
    return np.array(x, order="C") if isinstance(x, np.ndarray) else x.contiguous().clone()


def to_device_of(x: NDArray[np.generic], values: NDArray[G]) -> NDArray[G]:
    """The values of an array that is here, or where `x` is, as an array where `x` is."""
    if not is_tensor(x) or is_tensor(values):
        return values
    sent: NDArray[G] = _library().from_numpy(np.array(values, order="C")).to(x.device)
    return sent


def concatenated(parts: Sequence[NDArray[G]]) -> NDArray[G]:
    """Arrays one after the other: on the device if any of them is there."""
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
