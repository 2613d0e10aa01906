"""Exported mixtures: tables, noise, missing cells, extreme values, many components, errors."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pytest
from onnxruntime import InferenceSession
from scipy import special

import mixfold
from mixfold import AutoMixture, BayesianGaussianMixture, GaussianMixture, Mixture
from mixfold.core.errors import InvalidInputError, MissingExtraError
from mixfold.core.expression import Expression
from mixfold.core.rows import Array
from mixfold.estimators._onnx_graph import OnnxGraph
from mixfold.families import _gamma_expressions, _gamma_ratios
from mixfold.families._gaussian_expressions import MOST_INCOMPLETE

DAY = pd.Timedelta("1D")


def session_of(model: Any, **settings: Any) -> InferenceSession:
    return InferenceSession(model.to_onnx(**settings).SerializeToString())


def groups(n: int = 400, d: int = 3) -> Array:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)) + 5.0 * rng.integers(2, size=(n, 1))


def assert_same(model: Any, x: Any, feed: dict[str, Any]) -> None:
    label, probabilities, score = session_of(model).run(None, feed)
    np.testing.assert_array_equal(label, model.predict(x))
    np.testing.assert_allclose(probabilities, model.predict_proba(x), atol=1e-6)
    np.testing.assert_allclose(score, model.score_samples(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        GaussianMixture(2, covariance_type="tied", random_state=0),
        BayesianGaussianMixture(n_components=3, max_iter=1000, random_state=0),
        Mixture("gaussian", 2, learner="online-vb", random_state=0),
        Mixture("student-t", 2, random_state=0),
        AutoMixture(n_components=[2], random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators(model: Any) -> None:
    x = groups().astype(np.float32)
    assert_same(model.fit(x), x, {"X": x})


def test_noise_is_the_last_probability_and_label_minus_one() -> None:
    x = np.concatenate([groups(), [[90.0, -70.0, 5.0]]]).astype(np.float32)
    model = Mixture("gaussian", 2, noise=True, random_state=0).fit(x)
    label, probabilities, _ = session_of(model).run(None, {"X": x})
    assert (label[-1], probabilities.shape) == (-1, (len(x), 3))
    assert_same(model, x, {"X": x})


# tables


def table(n: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    z = rng.integers(2, size=n)
    days = pd.to_timedelta(rng.integers(0, 400, n) * (1 + z), unit="D")
    found = pd.DataFrame(
        {
            "age": rng.normal(30.0 + 20.0 * z, 5.0),
            "visits": rng.poisson(1.0 + 6.0 * z).astype(float),
            "colour": rng.choice(["red", "green", "blue"], n),
            "since": pd.Timestamp("2024-01-01") + days,
            "member": rng.random(n) < 0.3 + 0.4 * z,
        }
    )
    found.loc[::7, "colour"] = None
    found.loc[::5, "visits"] = np.nan
    return found


def inputs_of(found: pd.DataFrame) -> dict[str, Any]:
    feed: dict[str, Any] = {}
    for name, column in found.items():
        if name == "colour":
            values: Any = column.fillna("").to_numpy(dtype=object)
        elif name == "since":
            values = ((column - pd.Timestamp(0)) / DAY).to_numpy(dtype=np.float64)
        else:
            values = column.to_numpy(dtype=np.float32)
        feed[str(name)] = values[:, None]
    return feed


def test_a_table_has_one_input_for_each_column() -> None:
    found = table().astype({"age": np.float32})
    model = Mixture("auto", 2, random_state=0).fit(found)
    kinds = {one.name: one.type for one in session_of(model).get_inputs()}
    assert kinds == {
        "age": "tensor(float)",
        "visits": "tensor(float)",
        "colour": "tensor(string)",
        "since": "tensor(double)",
        "member": "tensor(float)",
    }
    assert_same(model, found, inputs_of(found))


def test_unknown_categories_give_nothing_or_have_their_own_level() -> None:
    found, other = table(), table().replace({"colour": {"red": "violet"}})
    model = Mixture("auto", 2, random_state=0).fit(found)
    label, probabilities, score = session_of(model).run(None, inputs_of(other))
    violet = (other["colour"] == "violet").to_numpy()
    assert (label == -1).tolist() == violet.tolist()
    assert np.isnan(score).tolist() == np.isnan(probabilities[:, 0]).tolist() == violet.tolist()
    model = Mixture("auto", 2, unseen="own-level", random_state=0).fit(found)
    np.testing.assert_allclose(
        session_of(model).run(["score_samples"], inputs_of(other))[0],
        model.score_samples(other),
        rtol=1e-6,
    )


def test_categories_that_are_numbers_and_names_that_are_not() -> None:
    rng = np.random.default_rng(0)
    found = pd.DataFrame({"a b": rng.choice([3, 5, 9], 300), "ü": rng.normal(size=300)})
    found = found.astype({"a b": "category", "ü": np.float32})
    model = Mixture("auto", 2, random_state=0).fit(found)
    feed = {str(n): c.to_numpy(dtype=np.float32)[:, None] for n, c in found.items()}
    assert_same(model, found, feed)
    feed["a b"][0] = 4.0
    assert np.isnan(session_of(model).run(["score_samples"], feed)[0]).tolist()[:2] == [True, False]


# missing cells


def test_missing_cells_of_joint_distributions() -> None:
    holes = groups().astype(np.float32)
    holes[:9, 1] = np.nan
    model = Mixture("gaussian", 2, random_state=0).fit(holes)
    assert_same(model, holes, {"X": holes})
    model = Mixture("gaussian", 2, random_state=0).fit(holes[9:])
    label, probabilities, score = session_of(model).run(None, {"X": holes})
    assert (label[:9] == -1).all()
    assert np.isnan([*score[:9], *probabilities[:9].ravel()]).all()
    np.testing.assert_allclose(score[9:], model.score_samples(holes[9:]), rtol=1e-6)


def test_missing_cells_of_many_joint_columns_give_no_result() -> None:
    x = groups(d=MOST_INCOMPLETE + 1).astype(np.float32)
    x[0, 1] = np.nan
    score = session_of(Mixture("gaussian", 1, random_state=0).fit(x)).run(None, {"X": x})[2]
    assert np.isnan(score).tolist() == [True] + [False] * (len(x) - 1)


def test_missing_cells_that_are_refused_give_no_result() -> None:
    x = groups().astype(np.float32)
    model = Mixture("poisson", 2, missing="error", random_state=0).fit(abs(x).round())
    assert np.isnan(session_of(model).run(None, {"X": np.full_like(x, np.nan)})[2]).all()


# numbers


def test_far_from_zero_and_of_very_different_scales() -> None:
    for kind in ("full", "tied", "diag", "spherical"):
        x = groups() * [1.0, 1e-6, 1e6] + [1e9, 0.0, -1e12]
        model = GaussianMixture(2, covariance_type=kind, reg_covar=0.0, random_state=0).fit(x)
        score = session_of(model, dtype="float64").run(["score_samples"], {"X": x})[0]
        np.testing.assert_allclose(score, model.score_samples(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_many_components(kind: str) -> None:
    rng, k, d = np.random.default_rng(0), 300, 4
    x = rng.normal(size=(2000, d)) * 9.0
    model = Mixture(mixfold.Gaussian(kind), k, learner="em", max_iter=2, random_state=0).fit(x)
    made = model.to_onnx()
    assert len(made.graph.node) < 60
    assert_same(model, x.astype(np.float32), {"X": x.astype(np.float32)})


def evaluated(found: Expression, x: Array) -> Array:
    """An expression of the input "X", one column of numbers."""
    graph = OnnxGraph()
    graph._known[id(SYMBOL)] = graph.add_input("X", np.float64, 1), "X"
    graph.add_output("y", found, np.float64, 1)
    session = InferenceSession(graph.to_model({}).SerializeToString())
    return np.asarray(session.run(None, {"X": x[:, None]})[0])[:, 0]


SYMBOL = Expression("Input")


def test_log_gamma() -> None:
    a = np.concatenate([np.geomspace(1e-60, 1e60, 400), np.linspace(0.5, 30.0, 400)])
    found = evaluated(_gamma_expressions.log_gamma(SYMBOL), a)
    np.testing.assert_allclose(found, special.gammaln(a), rtol=1e-13, atol=1e-12)
    found = evaluated(_gamma_expressions.remainder(SYMBOL), a)
    np.testing.assert_allclose(found, _gamma_ratios.stirling_remainder(a), rtol=1e-9, atol=1e-12)
    found = evaluated(_gamma_expressions.log1p(SYMBOL), a)
    np.testing.assert_allclose(found, np.log1p(a), rtol=1e-14)


def test_large_counts_keep_their_digits() -> None:
    x = np.random.default_rng(0).poisson(1e9, size=(200, 1)) + 0.0
    for family in ("poisson", mixfold.NegativeBinomial(size=5.0), "geometric"):
        model = Mixture(family, 1, random_state=0).fit(x)
        score = session_of(model, dtype="float64").run(["score_samples"], {"X": x})[0]
        np.testing.assert_allclose(score, model.score_samples(x), rtol=1e-6, atol=1e-5)


# files and mistakes


def test_the_file_is_the_model(tmp_path: Path) -> None:
    model = Mixture("gaussian", 2, random_state=0).fit(groups())
    made = model.to_onnx(tmp_path / "a.onnx")
    assert onnx.load(tmp_path / "a.onnx") == made
    with pytest.raises(OSError, match=r"missing/a\.onnx"):
        model.to_onnx(tmp_path / "missing" / "a.onnx")


def test_a_family_that_cannot_be_exported_is_named(tmp_path: Path) -> None:
    x = np.stack(
        [np.cov(rows.T)[np.tril_indices(2)] for rows in groups(900).reshape(90, 10, 3)[..., :2]]
    )
    model = Mixture("wishart", 1).fit(x)
    with pytest.raises(InvalidInputError, match=r"Wishart\(\) cannot be exported"):
        model.to_onnx(tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


def test_models_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Mixture("gaussian", 2, random_state=0).fit(groups())
    monkeypatch.setattr("mixfold.estimators._onnx_graph.MOST_BYTES", 100)
    with pytest.raises(InvalidInputError, match="bytes of parameters"):
        model.to_onnx()


def test_without_onnx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model, original = Mixture("gaussian", 1).fit(groups()), builtins.__import__

    def refuse(name: str, *arguments: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "onnx":
            raise ImportError(name)
        return original(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"pip install 'mixfold\[onnx\]'"):
        model.to_onnx()


def test_nothing_is_exported_before_a_fit() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        Mixture("gaussian", 2).to_onnx()
