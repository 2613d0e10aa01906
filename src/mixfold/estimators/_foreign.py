"""Tensors and arrays of other libraries, and results for them."""

from __future__ import annotations

from sys import modules
from typing import Any

import numpy as np

from mixfold.core.arrays import as_array, is_foreign, is_on_host, is_tensor
from mixfold.estimators._xarray import rows_of
from mixfold.kernels.optional_torch import torch
from mixfold.sources.opening import as_plain


def as_rows_here(data: Any) -> Any:
    """Data of another array library as a NumPy array or, on a GPU, as a tensor there.

    A tensor stays as it is, and so does all else.
    """
    if not is_foreign(data):
        return data
    return as_array(data) if is_on_host(data) else torch().from_dlpack(data)


def as_rows(data: Any, sample_weight: Any = None) -> Any:
    """Data of xarray and other libraries as the tables and arrays that sources read."""
    weight = sample_weight if isinstance(sample_weight, str) else None
    return rows_of(as_plain(as_rows_here(data)), weight)


def as_given(found: Any, data: Any) -> Any:
    """Results for rows of a tensor or an array of another library: of this kind, on its device."""
    if not isinstance(found, np.ndarray) and not is_tensor(found):
        return found
    if is_tensor(data):
        return (found if is_tensor(found) else torch().from_numpy(found)).to(data.device)
    library = _library_of(data)
    return library.from_dlpack(found)


def _library_of(data: Any) -> Any:
    """The functions of the library of an array."""
    if hasattr(data, "__array_namespace__"):
        return data.__array_namespace__()
    return modules[type(data).__module__.partition(".")[0]]
