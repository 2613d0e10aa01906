"""Standard errors, intervals and summaries of fitted mixtures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from mixfold import Gaussian, Mixture, Product
from mixfold.core.errors import InvalidInputError, LearningWarning
from mixfold.core.value import value
from mixfold.families.poisson import Poisson
from mixfold.learners.em import EM

pd = pytest.importorskip("pandas")


def counts(n: int = 300) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.poisson(2.0 + 8.0 * (rng.random((n, 1)) < 0.5)).astype(float)


def fitted(x: Any, family: Any = "poisson", k: int = 2, **settings: Any) -> Mixture:
    return Mixture(family, k, learner=EM(tol=1e-8), random_state=0, **settings).fit(x)


def table(n: int = 400) -> Any:
    rng = np.random.default_rng(0)
    z = rng.random(n) < 0.4
    return pd.DataFrame(
        {
            "colour": np.where(rng.random(n) < 0.3 + 0.4 * z, "red", "blue"),
            "visits": rng.poisson(2.0 + 5.0 * z),
            "height": rng.normal(3.0 * z),
            "width": rng.normal(size=n),
        }
    )


PRODUCT = {
    "colour": "categorical",
    "visits": "poisson",
    ("height", "width"): "gaussian",
}


def test_errors_have_the_shapes_of_the_attributes() -> None:
    x = np.random.default_rng(0).normal(size=(200, 3)) + 5.0 * (np.arange(200) % 2)[:, None]
    for form in ("full", "tied", "diag", "spherical"):
        model = fitted(x, Gaussian(form))
        errors, intervals = model.standard_errors(x), model.confidence_intervals(x)
        assert set(errors) == set(intervals) == {"weights", "means", "covariances"}
        for name, found in errors.items():
            values = getattr(model, f"{name}_")
            assert found.shape == values.shape
            low, high = intervals[name]
            assert (low < values).all()
            assert (values < high).all()
        matrices = errors["covariances"]
        if form in ("full", "tied"):
            assert np.array_equal(matrices, matrices.swapaxes(-1, -2))


def test_parameters_of_tables_are_named_by_columns_and_levels() -> None:
    frame = table()
    model = fitted(frame, Product(PRODUCT))
    found = model.estimates(frame)
    assert set(found.names) >= {
        "weights[0]",
        "means[1, visits]",
        "means[1, width]",
        "covariances[0, width, height]",
        "probabilities[1, colour, red]",
    }
    errors = found.standard_errors()
    assert list(errors) == [
        "weights",
        "probabilities of colour",
        "means",
        "covariances of height, width",
    ]
    columns = list(model.feature_names_in_)
    assert np.isnan(errors["means"]).all(axis=0).tolist() == [n == "colour" for n in columns]
    assert errors["probabilities of colour"].shape == (2, 1, 2)
    assert errors["covariances of height, width"].shape == (2, 2, 2)
    place = found.names.index("means[1, visits]")
    assert errors["means"][1, columns.index("visits")] == found.errors[place]


def test_files_and_weights_by_name_give_the_same_errors(tmp_path: Path) -> None:
    x = counts()
    weight = np.random.default_rng(1).integers(1, 4, size=len(x))
    frame = pd.DataFrame({"n": x[:, 0], "times": weight})
    frame.to_csv(tmp_path / "x.csv", index=False)
    repeated = pd.DataFrame({"n": np.repeat(x[:, 0], weight)})
    model = fitted(repeated)
    expected = model.estimates(repeated)
    for data, named in ((frame, "times"), (tmp_path / "x.csv", "times")):
        found = model.estimates(data, sample_weight=named)
        assert found.errors == pytest.approx(expected.errors, rel=1e-9)
        assert found.log_likelihood == pytest.approx(expected.log_likelihood)
        assert found.names == expected.names


def test_the_summary_is_a_table() -> None:
    x = counts()
    model = fitted(x)
    text = model.summary(x, level=0.9)
    assert "No. Observations: 300" in text
    assert f"Log-Likelihood: {300 * model.score(x):.3f}" in text
    assert "Covariance Type: observed" in text
    line = next(line for line in text.splitlines() if line.startswith("means[1, 0]"))
    low, high = model.confidence_intervals(x, 0.9)["means"]
    error = model.standard_errors(x)["means"][1, 0]
    expected = [model.means_[1, 0], error, low[1, 0], high[1, 0]]
    assert line.split()[2:] == [f"{number:.4g}" for number in expected]
    assert "[0.050     0.950]" in text


def test_the_summary_has_tests_of_parameters_of_any_sign() -> None:
    from scipy.stats import norm

    x = np.random.default_rng(0).normal(0.1, size=(100, 1))
    text = fitted(x, "gaussian", 1).summary(x)
    z = x.mean() / (x.std() / 10.0)
    line = next(line for line in text.splitlines() if line.startswith("means"))
    assert line.split()[4:6] == [f"{z:.3f}", f"{2 * norm.sf(abs(z)):.3f}"]
    line = next(line for line in text.splitlines() if line.startswith("covariances"))
    assert len(line.split()) == 7  # three words of the name, two numbers and an interval


def test_rows_without_any_cell_change_no_error() -> None:
    x = counts()
    empty = np.vstack([x, [[np.nan]]])
    for model in (fitted(x), fitted(empty)):
        expected = model.standard_errors(x)["means"]
        assert model.standard_errors(empty)["means"] == pytest.approx(expected)


def test_rows_of_the_parametric_bootstrap_have_no_missing_cells() -> None:
    x = np.vstack([counts(), [[np.nan]]])
    with pytest.raises(InvalidInputError, match="missing cells"):
        fitted(x).estimates(x, "parametric-bootstrap")


def test_missing_cells_of_directions_are_refused() -> None:
    angles = np.random.default_rng(0).normal(size=200)
    x = np.column_stack([np.cos(angles), np.sin(angles)])
    model = fitted(x, "von-mises-fisher", 1)
    x[0, 0] = np.nan
    with pytest.raises(InvalidInputError, match="missing"):
        model.standard_errors(x)


def test_parameters_far_from_the_maximum_are_said() -> None:
    x = counts()
    model = Mixture("poisson", 2, learner="em", max_iter=1, init=[[3.0], [9.0]]).fit(x)
    with pytest.warns(LearningWarning, match="below its maximum") as caught:
        found = model.estimates(x)
    best = fitted(x)
    gain = best.estimates(x).log_likelihood - found.log_likelihood
    assert found.left_to_gain == pytest.approx(gain, rel=0.5)
    assert f"about {found.left_to_gain:.3g} below" in str(caught[0].message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "fisher"}, "unknown kind 'fisher'"),
        ({"kind": "bootstrap", "n_replicates": 1}, "n_replicates is 1"),
        ({"sample_weight": [1.0]}, "sample_weight"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    x = counts()
    with pytest.raises(ValueError, match=message):
        fitted(x).estimates(x, **change)


@pytest.mark.parametrize("level", [0.0, 1.5, float("nan")])
def test_bad_levels_are_refused(level: float) -> None:
    x = counts()
    model = fitted(x)
    with pytest.raises(InvalidInputError, match="level is"):
        model.confidence_intervals(x, level)
    with pytest.raises(InvalidInputError, match="level is"):
        model.summary(x, level)


def test_rows_outside_the_support_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="is -1"):
        fitted(counts()).standard_errors([[-1.0]])


@value
class WithoutCoordinates(Poisson):
    """Counts without unconstrained coordinates."""

    has_coordinates = False


def test_families_without_scores_say_so() -> None:
    model = Mixture(WithoutCoordinates(), 1, random_state=0).fit(counts())
    with pytest.raises(InvalidInputError, match=r"standard errors of Without.* are not known"):
        model.standard_errors(counts())


def test_unfitted_models_are_refused() -> None:
    with pytest.raises(NotFittedError):
        Mixture().standard_errors(counts())


@pytest.mark.parametrize("seed", [0, 2])
def test_shares_of_zeros_of_two_components_are_not_identified(seed: int) -> None:
    """Only the weight of all zeros is, and so many of each component as are not zero."""
    rng = np.random.default_rng(seed)
    counts = np.where(rng.random(400) < 0.3, 0, rng.poisson(rng.choice([12.0, 3.0], 400)))
    x = counts[:, None].astype(float)
    learner = EM(tol=1e-13, max_iter=5000)
    model = Mixture("zero-inflated-poisson", 2, learner=learner, random_state=0).fit(x)
    with pytest.warns(LearningWarning, match=r"cannot tell apart weights\[0\], weights\[1\]"):
        found = model.estimates(x)
    assert np.isnan(found.errors[:2]).all()
