"""Fixed and shared parameters: M-steps against numerical maxima, EM, counts and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

import mixfold
from mixfold import Fixed, Gaussian, Mixture, Poisson, Product
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.models.assignment import statistics_of
from mixfold.models.mixture_model import MixtureModel

Array = NDArray[np.float64]
NAN = float("nan")
FREE = [NAN, NAN]
MEANS = np.array([[4.0, 0.0], [0.0, 0.0], [2.0, 3.0]])


def clusters(n: int = 300, seed: int = 0) -> tuple[Array, Any]:
    rng = np.random.default_rng(seed)
    z = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return MEANS[z] + rng.normal(size=(n, 2)) * np.array([1.0, 0.6, 1.4])[z][:, None], z


def known_component(covariance: str) -> Mixture:
    x = np.random.default_rng(5).normal(size=(50, 2))
    return Mixture(Gaussian(covariance), random_state=0).fit(x)


def constraints(covariance: str) -> dict[str, Fixed]:
    """Every kind of constraint that Gaussians of a covariance have."""
    given = {
        "full": [np.eye(2), np.full((2, 2), NAN), np.full((2, 2), NAN)],
        "tied": np.eye(2),
        "diag": [[1.0, 2.0], FREE, FREE],
        "spherical": [1.0, NAN, NAN],
    }
    found = {
        "weights": Fixed(weights="equal"),
        "some weights": Fixed(weights=[0.5, NAN, NAN]),
        "a mean": Fixed(means=[[4.0, 0.5], FREE, FREE]),
        "means": Fixed(means=MEANS),
        "covariances": Fixed(covariances=given[covariance]),
        "equal means": Fixed(equal_means=[(0, 2)]),
    }
    if covariance != "tied":
        found["equal covariances"] = Fixed(equal_covariances=[(0, 2)])
        found["a component"] = Fixed(components={1: known_component(covariance)})
        found["several"] = Fixed(
            weights=[0.2, NAN, NAN], means=[FREE, [0.0, 0.0], FREE], equal_covariances=[(1, 2)]
        )
    return found


KINDS = [(c, name) for c in ("full", "tied", "diag", "spherical") for name in constraints(c)]


def applied(fixed: Fixed, family: Any = None, k: int = 3, d: int = 2) -> MixtureModel:
    return fixed.applied(MixtureModel(Gaussian() if family is None else family, k, d))


@pytest.mark.parametrize(("covariance", "name"), KINDS)
def test_no_parameters_under_the_constraints_are_better(covariance: str, name: str) -> None:
    """The M-step against steps of random lengths towards other parameters that are allowed."""
    rng = np.random.default_rng(0)
    x, _ = clusters()
    model = applied(constraints(covariance)[name], Gaussian(covariance, floor=0.0))
    r = rng.dirichlet(np.ones(3), len(x))
    statistics = statistics_of(model, Rows(x), r)
    best, _ = model.maximize(statistics)

    def objective(params: Any) -> float:
        return float((r * model.log_joint(params, x)).sum())

    top = objective(best)
    others = [
        model.maximize(statistics_of(model, Rows(x), rng.dirichlet(np.ones(3), len(x))))[0]
        for _ in range(20)
    ]
    assert max(map(objective, others)) < top
    for other in others:
        for t in (1e-3, 0.03, 0.3):
            assert objective(model.blend(best, other, t)) < top + 1e-9


@pytest.mark.parametrize(("covariance", "name"), KINDS[::2])
def test_em_never_lowers_the_likelihood(covariance: str, name: str) -> None:
    x, _ = clusters()
    fixed = constraints(covariance)[name]
    model = Mixture(Gaussian(covariance), 3, learner="em", fixed=fixed, random_state=0).fit(x)
    gains = np.diff(model.history_.log_likelihood)
    assert len(gains) > 1
    assert gains.min() > -1e-11
    assert model.converged_


def test_fixed_values_are_kept_to_the_bit() -> None:
    x, _ = clusters()
    known = known_component("full")
    covariances = np.full((3, 2, 2), NAN)
    covariances[2] = [[1.0, 0.5], [0.5, 2.0]]
    fixed = Fixed(
        weights=[NAN, 0.25, NAN],
        means=[[4.0, 0.5], FREE, FREE],
        covariances=covariances,
        components={1: known},
    )
    for learner in ("auto", "em", "online-em", "mini-batch-em", "incremental-em", "stepwise-em"):
        model = Mixture(n_components=3, learner=learner, fixed=fixed, random_state=0, max_iter=3)
        model.fit(x)
        assert model.weights_[1] == pytest.approx(0.25, abs=1e-15)
        np.testing.assert_array_equal(model.means_[0], [4.0, 0.5])
        np.testing.assert_array_equal(model.means_[1], known.means_[0])
        np.testing.assert_array_equal(model.covariances_[1], known.covariances_[0])
        np.testing.assert_allclose(model.covariances_[2], covariances[2], rtol=1e-14)


def test_covariance_about_a_fixed_mean() -> None:
    x, _ = clusters()
    model = Mixture(fixed=Fixed(means=[[1.0, 1.0]]), learner="em").fit(x)
    away = x - 1.0
    np.testing.assert_allclose(model.covariances_[0], away.T @ away / len(x), rtol=1e-12)
    assert model.model_.n_parameters() == 3


def test_shared_mean_of_different_variances_is_the_numerical_maximum() -> None:
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal(1.0, 1.0, 200), rng.normal(1.0, 8.0, 60)])[:, None]

    def loss(theta: Array) -> float:
        w = 1.0 / (1.0 + np.exp(-theta[0]))
        a, b = (stats.norm(theta[1], np.exp(s)).pdf(x[:, 0]) for s in theta[2:])
        return -float(np.log(w * a + (1.0 - w) * b).mean())

    wanted = optimize.minimize(loss, [1.0, 0.5, 0.1, 2.0], options={"gtol": 1e-9})
    model = Mixture(n_components=2, fixed=Fixed(equal_means=[(0, 1)]), random_state=0)
    model.set_params(learner="em").set_params(learner__tol=1e-10).fit(x)
    assert model.lower_bound_ == pytest.approx(-wanted.fun, abs=1e-8)
    assert model.means_[0, 0] == model.means_[1, 0]
    assert model.means_[0, 0] == pytest.approx(wanted.x[1], abs=1e-4)
    assert model.model_.n_parameters() == 4


def test_counts_with_fixed_and_shared_means() -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 400)
    x = rng.poisson(np.array([[2.0, 9.0], [6.0, 6.0], [9.0, 1.0]])[z]).astype(float)
    fixed = Fixed(weights="equal", means=[[2.0, NAN], FREE, FREE])
    model = Mixture("poisson", 3, fixed=fixed, random_state=0).fit(x)
    assert model.means_[0, 0] == 2.0
    assert model.means_[0, 1] == pytest.approx(9.0, abs=0.7)
    assert model.model_.n_parameters() == 5
    shared = Mixture("poisson", 3, fixed=Fixed(equal_means=[(0, 1)]), random_state=0).fit(x)
    np.testing.assert_array_equal(shared.means_[0], shared.means_[1])
    assert shared.model_.n_parameters() == 2 + 4


@pytest.mark.parametrize(
    ("covariance", "name", "free"),
    [
        ("full", "weights", 6 + 9),
        ("full", "some weights", 1 + 6 + 9),
        ("full", "a mean", 2 + 4 + 9),
        ("full", "means", 2 + 9),
        ("full", "covariances", 2 + 6 + 6),
        ("full", "equal means", 2 + 4 + 9),
        ("full", "equal covariances", 2 + 6 + 6),
        ("full", "a component", 2 + 4 + 6),
        ("full", "several", 1 + 4 + 6),
        ("tied", "covariances", 2 + 6),
        ("diag", "covariances", 2 + 6 + 4),
        ("spherical", "equal covariances", 2 + 6 + 2),
    ],
)
def test_free_parameters_are_counted(covariance: str, name: str, free: int) -> None:
    model = applied(constraints(covariance)[name], Gaussian(covariance))
    assert model.n_parameters() == free
    x, _ = clusters()
    fitted = Mixture(
        Gaussian(covariance), 3, learner="em", fixed=constraints(covariance)[name], random_state=0
    ).fit(x)
    expected = free * np.log(len(x)) - 2.0 * len(x) * fitted.score(x)
    assert fitted.bic(x) == pytest.approx(expected)


def test_a_background_component_in_a_product() -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 300)
    x = np.column_stack([rng.normal(4.0 * z, 1.0), rng.poisson(2.0 + 6.0 * z)])
    family = Product({0: Gaussian("diag"), 1: Poisson()})
    background = Mixture(family).fit(x[z == 1])
    model = Mixture(family, 2, fixed=Fixed(components={0: background}), random_state=0).fit(x)
    assert (model.predict(x) == 1 - z).mean() > 0.95
    for own, other in zip(
        model.params_.components.parts, background.params_.components.parts, strict=True
    ):
        np.testing.assert_array_equal(own.means[0], other.means[0])


def test_with_labels_missing_cells_streams_and_files(tmp_path: Path) -> None:
    x, z = clusters()
    x[::7, 1] = np.nan
    labels = np.where(np.arange(300) % 5 == 0, z, -1)
    fixed = Fixed(weights=[0.5, 0.3, 0.2], means=[[4.0, 0.0], FREE, FREE])
    settings: dict[str, Any] = {"n_components": 3, "fixed": fixed, "random_state": 0}
    model = Mixture(**settings).fit(x, labels=labels)
    assert (model.predict(x) == z).mean() > 0.85
    assert model.model_.n_parameters() == 4 + 9
    stream = Mixture(learner="online-em", **settings)
    stream.partial_fit(x[:150], labels=labels[:150]).save(tmp_path / "m.mixfold")
    loaded = mixfold.load(tmp_path / "m.mixfold").partial_fit(x[150:], labels=labels[150:])
    whole = Mixture(learner="online-em", **settings).partial_fit(x, labels=labels)
    for one in (loaded, whole):
        np.testing.assert_array_equal(one.means_, whole.means_)
        np.testing.assert_array_equal(one.means_[0], [4.0, 0.0])
        np.testing.assert_allclose(one.weights_, [0.5, 0.3, 0.2], rtol=1e-15)
    plain = Mixture(**settings)
    for row in x[:60]:
        plain.learn_one(row)
    np.testing.assert_array_equal(plain.means_[0], [4.0, 0.0])
    with pytest.raises(InvalidInputError, match="fixed is"):
        loaded.set_params(fixed=None).partial_fit(x)


def test_initial_parameters_that_are_given() -> None:
    x, _ = clusters()
    fixed = Fixed(weights=[0.5, NAN, NAN])
    init = Mixture(n_components=3, init=MEANS).fit(x)
    for start in (MEANS, init):
        model = Mixture(n_components=3, fixed=fixed, init=start).fit(x)
        assert np.abs(model.means_ - MEANS).max() < 0.5
        assert model.weights_[0] == pytest.approx(0.5)
    stream = Mixture(n_components=3, fixed=fixed, init=init).partial_fit(x[:3])
    assert np.abs(stream.partial_fit(x[3:]).means_ - MEANS).max() < 0.5


def test_components_are_matched_with_what_is_fixed() -> None:
    x, z = clusters()
    for order in ([0, 1, 2], [2, 0, 1]):
        fixed = Fixed(components={1: Mixture().fit(x[z == order[1]])})
        model = Mixture(n_components=3, fixed=fixed, random_state=0).fit(x)
        assert model.score(x) > Mixture(n_components=3, random_state=0).fit(x).score(x) - 0.05


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({"weights": [0.6, 0.6, NAN]}, "sum to at most 1"),
        ({"weights": [0.2, 0.2, 0.2]}, "they must sum to 1"),
        ({"weights": [0.5, 0.5, NAN]}, "leaves nothing"),
        ({"weights": [0.0, 0.5, NAN]}, "above 0"),
        ({"weights": [0.5, 0.5]}, r"shape \(2,\): \(3,\) is needed"),
        ({"weights": "even"}, "'equal', or an array of 3 weights"),
        ({"weights": ["a", "b", "c"]}, "an array of numbers"),
        ({"means": [[0.0, 0.0]]}, r"shape \(1, 2\): \(3, 2\) is needed"),
        ({"means": [[0.0, NAN], FREE, FREE]}, "all columns or none"),
        ({"means": [[np.inf, 0.0], FREE, FREE]}, "finite"),
        ({"covariances": [np.eye(2)] * 2}, "covariances of Fixed has shape"),
        ({"covariances": [-np.eye(2), np.eye(2), np.eye(2)]}, "positive definite"),
        ({"covariances": [[[1.0, NAN], [NAN, 1.0]], np.eye(2), np.eye(2)]}, "partly NaN"),
        ({"components": {3: known_component("full")}}, "the components are 0 to 2"),
        ({"components": {0: known_component("diag")}}, "not one component of"),
        ({"components": [0]}, "a dict of numbers"),
        ({"components": "a"}, "a dict of numbers"),
        ({"equal_means": [(0, 3)]}, "has component 3"),
        ({"equal_means": [(0, 1), (1, 2)]}, "component 1 twice"),
        ({"equal_means": [0, 1]}, "groups of numbers"),
        ({"equal_means": [(0, 1)], "means": [[0.0, 0.0], FREE, FREE]}, "equal means"),
        (
            {"components": {0: known_component("full")}, "means": [[0.0, 0.0], FREE, FREE]},
            "fixed as a whole",
        ),
        (
            {"components": {0: known_component("full")}, "equal_covariances": [(0, 1)]},
            "share covariances",
        ),
    ],
)
def test_contradictions_are_refused(fixed: dict[str, Any], message: str) -> None:
    x, _ = clusters()
    with pytest.raises(InvalidInputError, match=message):
        Mixture(n_components=3, fixed=Fixed(**fixed)).fit(x)


def test_families_and_learners_that_cannot_be_constrained() -> None:
    x = np.abs(clusters()[0]) + 0.1
    means = Fixed(means=[[1.0, 1.0]] * 3)
    for settings, message in (
        ({"family": "gamma", "fixed": means}, "fix whole components"),
        ({"family": "poisson", "fixed": Fixed(covariances=np.eye(2))}, "need Gaussians"),
        ({"family": Gaussian("VEV"), "fixed": Fixed(equal_covariances=[(0, 1)])}, "full, tied"),
        ({"family": Gaussian("tied"), "fixed": Fixed(equal_covariances=[(0, 1)])}, "differ"),
        (
            {
                "family": Gaussian("tied"),
                "fixed": Fixed(components={0: Mixture(Gaussian("tied")).fit(x)}),
            },
            "share no parameters",
        ),
        ({"learner": "online-vb", "fixed": means}, "free parameters only"),
        ({"family": "poisson", "fixed": Fixed(means=[[-1.0, 1.0]] * 3)}, "cannot have some"),
        ({"fixed": "equal"}, "a Fixed is needed"),
    ):
        given: Any = settings
        with pytest.raises(InvalidInputError, match=message):
            Mixture(n_components=3, **given).fit(x.round())
    with pytest.raises(InvalidInputError, match="which is not fitted: call its fit"):
        Fixed(components={1: Mixture()})
    four = Fixed(weights="equal")
    with pytest.raises(InvalidInputError, match="free parameters only"):
        Mixture(n_components=4, learner="annealed-sgd", fixed=four).fit(x)
    model = Mixture(n_components=3, fixed=means, random_state=0).fit(x)
    with pytest.raises(InvalidInputError, match="standard errors"):
        model.estimates(x)
