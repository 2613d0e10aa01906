"""Laws of exported models: they give what the mixture gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.independent_columns import separable
from mixfold.estimators.onnx_model import onnx_model
from mixfold.families.gaussian import Gaussian
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.transformed_gaussian import TransformedGaussian
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams

N = 40  # rows


def exported(model: MixtureModel, params: Any, missing: bool, dtype: str) -> Any:
    """The session of ONNX Runtime that evaluates a mixture; None if it cannot be exported.

    An error then names the family.
    """
    from onnxruntime import InferenceSession

    try:
        made = onnx_model(model, params, dtype, missing)
    except InvalidInputError as error:
        if repr(model.family) not in str(error):
            raise AssertionError(f"the error does not name the family: {error}") from error
        return None
    return InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])


def mixture_of(family: Family, k: int, d: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """A mixture of the family and parameters of it."""
    params = MixtureParams(rng.dirichlet(np.full(k, 5.0)), family.example(k, d, rng))
    return MixtureModel(family, k, d), params


def agree(session: Any, model: MixtureModel, params: Any, x: Any, rtol: float) -> None:
    """Log densities, labels and responsibilities of rows are those of the reference."""
    log_density, responsibilities = ReferenceKernel(model).posterior(params, x)
    assert responsibilities is not None
    label, probabilities, score = session.run(None, {"X": x})
    np.testing.assert_allclose(score, log_density, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(probabilities, responsibilities, rtol=0.0, atol=rtol)
    best = responsibilities.max(axis=1)
    chosen = responsibilities[np.arange(len(x)), label]
    assert (chosen >= best - rtol).all(), "labels are not those of the largest responsibilities"


def export_agrees_in_float32(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """An exported mixture gives the same for float32 rows, to 1e-6, for any number of rows."""
    model, params = mixture_of(family, k, d, rng)
    session = exported(model, params, False, "float32")
    if session is None:
        return
    x = family.sample(params.components, rng.integers(k, size=N), rng)
    x = family.into_support(x.astype(np.float32)).astype(np.float32)
    for rows in (x, x[:1], x[:0]):
        agree(session, model, params, rows, 1e-6)


def export_agrees_in_float64(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """An exported mixture gives the same for float64 rows, to 1e-9."""
    model, params = mixture_of(family, k, d, rng)
    session = exported(model, params, False, "float64")
    if session is None:
        return
    x = family.sample(params.components, rng.integers(k, size=N), rng)
    agree(session, model, params, x, 1e-9)


def export_integrates_missing_cells(
    family: Family, k: int, d: int, rng: np.random.Generator
) -> None:
    """Missing cells are integrated out in independent columns, and by Gaussians fitted with some.

    Others give NaN and label -1.
    """
    model, params = mixture_of(family, k, d, rng)
    session = exported(model, params, True, "float64")
    if session is None:
        return
    x = family.sample(params.components, rng.integers(k, size=N), rng)
    missing = rng.random(x.shape) < 0.4
    if separable(family) is not None:
        missing[0] = True
        x[missing] = np.nan
        agree(session, MixtureModel(with_missing(family), k, d), params, x, 1e-9)
        return
    if isinstance(family, Gaussian | TransformedGaussian):
        incomplete = MixtureModel(with_missing(family), k, d)
        missing[0] = True
        holes = np.where(missing, np.nan, x)
        agree(exported(incomplete, params, True, "float64"), incomplete, params, holes, 1e-9)
    x[0] = np.nan
    label, probabilities, score = session.run(None, {"X": x[:2]})
    if np.isfinite(score[0]):  # it has only columns that are independent
        np.testing.assert_allclose(score[0], 0.0, atol=1e-9)
        return
    assert label[0] == -1
    assert np.isnan(probabilities[0]).all()
    assert np.isfinite(score[1])


LAWS = [export_agrees_in_float32, export_agrees_in_float64, export_integrates_missing_cells]
