"""Laws of every kernel: the reference is right, others agree with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.rows import Rows
from mixfold.kernels.choice import Kernel
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams

Arrays = dict[str, np.ndarray]


def layouts(x: np.ndarray) -> Arrays:
    """The same numbers in every memory layout a user can have."""
    n, d = x.shape
    wide = np.zeros((2 * n, 3 * d), dtype=x.dtype)
    wide[::2, ::3] = x
    return {
        "rows": np.ascontiguousarray(x),
        "columns": np.asfortranarray(x),
        "strided": wide[::2, ::3],
        "reversed": np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    }


def expectations_agree(
    model: MixtureModel, params: MixtureParams, kernel: Kernel, rows: Rows, rtol: float
) -> None:
    """The sums of a block are those of the reference."""
    reference: Any = ReferenceKernel(model)
    expected = reference.expect(params, rows)
    scale = np.abs(expected).max(initial=1.0)
    found = kernel.expect(kernel.prepare(params), rows)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale)


def posteriors_agree(
    model: MixtureModel, params: MixtureParams, kernel: Kernel, rows: Rows, rtol: float
) -> None:
    """Densities and responsibilities are those of the reference."""
    expected = ReferenceKernel(model).posterior(params, rows.x)
    found = kernel.posterior(kernel.prepare(params), rows.x)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-8, atol=1e-12)  # type: ignore[arg-type]
    assert kernel.posterior(kernel.prepare(params), rows.x, False)[1] is None


def moments_agree(
    model: MixtureModel, params: MixtureParams, kernel: Kernel, rows: Rows, rtol: float
) -> None:
    """Sums under given responsibilities, also negative ones, are those of the reference."""
    given = np.random.default_rng(0).normal(size=(len(rows), model.k))
    expected = ReferenceKernel(model).moments(params, rows, given)
    found = kernel.moments(kernel.prepare(params), rows, given)
    scale = np.abs(expected).max(initial=1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * scale)
    back = model.statistics(params, model.sums(params, model.expected(params)))
    for block, wanted in zip(back.blocks, model.expected(params).blocks, strict=True):
        np.testing.assert_allclose(block.mean, wanted.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(block.scatter, wanted.scatter, rtol=1e-8, atol=1e-12)


LAWS = [expectations_agree, posteriors_agree, moments_agree]
