"""Checks of families of real columns against plain EM, and of their borders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from mixfold import EM, Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.models.mixture_model import MixtureParams

Theta = tuple[Any, ...]  # arrays (d,) of one component
LogDensity = Callable[..., Any]  # of x (n, d) and the arrays of a component, (n, d)
WeightedFit = Callable[[np.ndarray, np.ndarray], Theta]


def plain_em(
    x: np.ndarray,
    weights: np.ndarray,
    theta: list[Theta],
    log_density: LogDensity,
    fit: WeightedFit,
    passes: int,
) -> tuple[np.ndarray, list[Theta]]:
    """EM in a few lines: densities are given, and weighted maximum-likelihood estimates."""
    for _ in range(passes):
        densities = [log_density(x, *one).sum(axis=1) for one in theta]
        r = softmax(np.log(weights) + np.stack(densities, axis=1), axis=1)
        weights, theta = r.mean(axis=0), [fit(x, one) for one in r.T]
    return weights, theta


def assert_is_plain_em(
    family: Family,
    x: np.ndarray,
    components: Any,
    log_density: LogDensity,
    fit: WeightedFit,
    rtol: float = 1e-7,
    passes: int = 6,
) -> None:
    """`Mixture` with EM has the parameters of plain EM after some passes; fields in order."""
    fields = [getattr(components, name) for name in type(components).__match_args__]
    k = len(fields[0])
    start = np.linspace(1.0, 2.0, k) / np.linspace(1.0, 2.0, k).sum()
    theta = [tuple(field[i] for field in fields) for i in range(k)]
    weights, theta = plain_em(x, start, theta, log_density, fit, passes)
    learner = EM(tol=0.0, max_iter=passes, accelerate=False)
    model = Mixture(family, k, init=MixtureParams(start, components), learner=learner)
    found: Any = model.fit(x).params_
    np.testing.assert_allclose(found.weights, weights, rtol)
    for number, name in enumerate(type(components).__match_args__):
        expected = np.stack([one[number] for one in theta])
        np.testing.assert_allclose(getattr(found.components, name), expected, rtol, err_msg=name)


def assert_refused(family: Family, x: np.ndarray, bad: float, message: str) -> None:
    """A value is refused by an error that names its row and column, in fits and in streams."""
    x = x.copy()
    x[4, 1] = bad
    place = rf"row 5, column 2 .*: values must be {message}"
    for call in (Mixture(family, 2).fit, Mixture(family, 2).partial_fit):
        with pytest.raises(InvalidInputError, match=place):
            call(x)


def assert_learns_tied_rows(family: Family, x: np.ndarray, value: float) -> Mixture:
    """Where half of the rows are equal, a component on them is at a limit, and all is finite."""
    rows = np.concatenate([x, np.full_like(x, value)])
    responsibilities = np.repeat(np.eye(2), len(x), axis=0)
    components, count_degenerate = family.maximize(family.blocks_of(rows, responsibilities))
    assert count_degenerate == 1, "the component of equal rows is not counted, or others are"
    start = MixtureParams(np.full(2, 0.5), components)
    model = Mixture(family, 2, init=start, learner=EM(max_iter=20)).fit(rows)
    assert np.isfinite(model.score_samples(rows)).all()
    assert np.isfinite(model.means_).all()
    constant = np.full_like(x, value)
    for k in (1, 2):
        fitted = Mixture(family, k, learner=EM(max_iter=20), random_state=0).fit(constant)
        assert np.isfinite(fitted.score_samples(constant)).all()
    return model
