"""Densities as expressions of the rows, for formats such as ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.capabilities import IdentityKernel
from mixfold.core.errors import InvalidInputError
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.expression import (
    DensityExpression,
    Expression,
    LinearExpressions,
    observed,
    total,
)
from mixfold.core.family import Family
from mixfold.core.independent_columns import separable
from mixfold.core.rows import Array
from mixfold.families._gamma_expressions import log_gamma
from mixfold.families.product import Product


def density_expression(family: Family, params: Any, x: Expression, marginalize: bool) -> Expression:
    """log p(x|k), (n, K), of rows x (n, d).

    With `marginalize`, missing cells are integrated out where columns are independent, or where the
    family is one of Gaussian rows with missing cells; otherwise results of rows with missing cells
    are NaN. Of an exponential family only t(x) and h(x) are needed:

        log p(x|k) = <eta_k, t(x)> - A(eta_k) + log h(x).
    """
    if isinstance(family, Product):
        parts = family.grouped(params)
        found = (
            density_expression(group.family, own, x.columns(group.places), marginalize)
            for group, own in parts
        )
        return total(*found)
    for form in (family, family.for_complete_rows()):
        if isinstance(form, DensityExpression):
            return form.density_expression(params, x, marginalize)
    family = family.for_complete_rows()
    if isinstance(family, ExponentialFamily) and family.has_linear_form:
        if isinstance(family, LinearExpressions):
            t, h = family.statistics_expression(x), family.base_measure_expression(x)
            return _linear(family, params, x, t, h, marginalize)
        if isinstance(family, IdentityKernel):
            one = family.base_measure == "one"
            h = 0.0 * x if one else -log_gamma(x + 1.0)
            return _linear(family, params, x, x, h, marginalize)
    raise InvalidInputError(
        f"{family!r} cannot be exported: it has neither `density_expression` nor "
        "`statistics_expression` and `base_measure_expression`"
    )


def _linear(
    family: ExponentialFamily[Any],
    params: Any,
    x: Expression,
    t: Expression,
    h: Expression,
    marginalize: bool,
) -> Expression:
    """The density of an exponential family."""
    eta, apart = family.to_natural(params), separable(family)
    if apart is None or not marginalize:
        constant = -family.log_normalizer(eta)
        return t @ eta.T + constant + h.sum(1, keepdims=True)
    d = eta.shape[1] // family.n_statistics(1)
    columns = apart.columns_of_statistics(d)
    there = x.is_missing().choose(0.0, 1.0)
    constants = _log_normalizers(family, params, d)
    linear = observed(x, t, columns) @ eta.T - there @ constants
    return linear + observed(x, h).sum(1, keepdims=True)


def _log_normalizers(family: ExponentialFamily[Any], params: Any, d: int) -> Array:
    """A(eta) of every column, (d, K)."""
    apart = separable(family)
    assert apart is not None
    parts = [apart.take_columns(params, [j]) for j in range(d)]
    return np.stack([family.log_normalizer(family.to_natural(part)) for part in parts])
