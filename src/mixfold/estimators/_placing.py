"""Tensors as rows, and results as tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, validate_data

from mixfold.core.arrays import as_array, is_tensor
from mixfold.core.backend import Backend
from mixfold.core.backend_capabilities import DeviceDensities
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows, rows_at_a_time
from mixfold.kernels.optional_torch import torch
from mixfold.sources.tensor import Tensor


def open_tensor(
    estimator: Any, data: Any, sample_weight: Any, device: Any, reset: bool, least_rows: int
) -> Tensor:
    """A source over a tensor, with the same validation and errors as for arrays."""
    x = data.detach().to(device).contiguous()
    x = x if x.is_complex() or x.dtype in (torch().float32, torch().float64) else _as_floats(x)
    # scikit-learn checks an array of one number, broadcast to the tensor's shape
    like = np.broadcast_to(as_array(x.new_zeros(())), tuple(x.shape))
    more = {"dtype": [np.float64, np.float32], "ensure_min_samples": least_rows}
    validate_data(estimator, like, reset=reset, ensure_all_finite=False, **more)
    if sample_weight is None:
        return Tensor(x)
    weight = _check_sample_weight(
        as_array(sample_weight), like, dtype=np.float64, ensure_non_negative=True
    )
    if not weight.any():
        raise InvalidInputError("all of sample_weight is zero: at least one must be positive")
    return Tensor(x, torch().tensor(weight, device=device))


def _as_floats(x: Any) -> Any:
    return x.float() if x.is_floating_point() else x.double()


def evaluated(
    backend: Backend, params: Any, rows: Rows, expectations: bool, given: Any
) -> Iterator[tuple[Any, Any]]:
    """log p(x) of rows and, if wanted, responsibilities, part by part.

    If tensors were given, tensors are returned, on the device they came from.
    """
    there = backend.capability(DeviceDensities) if is_tensor(given) else None
    if there is None:
        yield backend.posterior(params, rows, expectations)
        return
    for some in rows_at_a_time(rows, there.sent):
        log_density, found = there.densities(params, some, expectations)
        back = None if found is None else found.to(given.device)
        yield log_density.to(given.device), back
