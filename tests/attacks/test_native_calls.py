"""The compiled functions check their arguments themselves, and read memory at any address."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from attacks import run_some
from attacks.native_calls import misaligned
from mixfold import Mixture

native = import_module("mixfold._native")


def posterior(k: int, d: int) -> dict[str, np.ndarray]:
    return {
        "alpha": np.ones(k),
        "mean": np.zeros((k, d)),
        "kappa": np.ones(k),
        "nu": np.full(k, d + 2.0),
        "scale": np.tile(np.eye(d), (k, 1, 1)),
    }


def test_hostile_calls(tmp_path: Path) -> None:
    run_some("native_calls", 600, tmp_path)


def test_no_component_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"between 1 and .* components; there are 0"):
        native.match_gaussian(np.ones((3, 2)), None, **posterior(0, 2))
    nothing = np.ones((0, 2))
    with pytest.raises(ValueError, match=r"between 1 and .* components; there are 0"):
        native.match_rates(np.ones((3, 2)), None, np.ones(0), nothing, nothing, True)


def test_no_column_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"between 1 and .* coordinates; there are 0"):
        native.match_gaussian(np.ones((3, 0)), None, **posterior(2, 0))


@pytest.mark.parametrize("nu", [-np.inf, -1e300, -1.0, 0.0, np.nan])
@pytest.mark.parametrize("weights", [None, np.array([2.0, 0.5, 3.0])])
def test_degrees_of_freedom_outside_their_domain(nu: float, weights: np.ndarray | None) -> None:
    given = posterior(2, 3) | {"nu": np.array([5.0, nu])}
    with pytest.raises(ValueError, match="nu must be above"):
        native.match_gaussian(np.ones((3, 3)), weights, **given)


def test_loops_end_whatever_the_numbers() -> None:
    # a negative weight lowers nu below any bound within one call
    ones = np.ones((2, 2))
    for weight in (-1e300, -np.inf, np.nan, -3.0):
        weights = np.full(3, weight)
        native.match_gaussian(np.ones((3, 3)), weights, **posterior(2, 3))
        native.match_rates(np.ones((3, 2)), weights, np.ones(2), ones, ones, True)


def test_errors_name_the_argument_and_both_shapes() -> None:
    given = posterior(2, 3) | {"alpha": np.ones(5)}
    with pytest.raises(ValueError, match=r"alpha must have shape \(2,\); it has shape \(5,\)"):
        native.match_gaussian(np.ones((3, 3)), None, **given)


def test_misaligned_rows_give_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    for kind in ("f4", "f8"):
        x, weights = rng.normal(size=(300, 3)).astype(kind), rng.exponential(size=300)
        fitted = [
            Mixture(n_components=2, random_state=0).fit(rows, sample_weight=w)
            for rows, w in ((x, weights), (misaligned(x), misaligned(weights)))
        ]
        assert fitted[0].means_.tobytes() == fitted[1].means_.tobytes()
        assert (fitted[0].predict(x) == fitted[0].predict(misaligned(x))).all()


def test_fields_of_records_give_the_same_bits() -> None:
    # 25 bytes from row to row: no multiple of the size of a number
    records = np.zeros(200, dtype=[("flag", "u1"), ("x", "f8", 2), ("weight", "f8")])
    rng = np.random.default_rng(0)
    records["x"], records["weight"] = rng.normal(size=(200, 2)), rng.exponential(size=200)
    assert records["x"].strides[0] == records["weight"].strides[0] == 25
    x, weight = np.ascontiguousarray(records["x"]), np.ascontiguousarray(records["weight"])
    model = Mixture(n_components=2, random_state=0)
    means = [
        model.fit(rows, sample_weight=w).means_
        for rows, w in ((records["x"], records["weight"]), (x, weight))
    ]
    assert means[0].tobytes() == means[1].tobytes()
    assert (model.predict(records["x"]) == model.predict(x)).all()
    given = posterior(2, 2)
    results = [native.match_gaussian(rows, weight, **given)[-2] for rows in (records["x"], x)]
    assert results[0] == results[1]
    assert results[0] == native.match_gaussian(x, records["weight"], **given)[-2]
