"""Known labels of some rows, against EM written from the formulas and against other libraries."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import mixfold
from mixfold import Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.families.gaussian import Gaussian
from mixfold.families.labelled_rows import LabelledRows
from mixfold.kernels.choice import kernel_for
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams

Array = NDArray[np.float64]

MEANS = np.array([[4.0, 0.0], [0.0, 0.0], [2.0, 3.0]])


def clusters(n: int = 300, known: float = 0.1, seed: int = 0) -> tuple[Array, Any, Any]:
    """Rows, their components, and the labels of some rows; -1 for the others."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n)
    return MEANS[z] + rng.normal(size=(n, 2)), z, np.where(rng.random(n) < known, z, -1)


def oracle(x: Array, labels: Any, w: Array, log_density: Any, update: Any) -> tuple[Array, float]:
    """EM: responsibilities of labelled rows are one for their component; weights of components."""
    fixed = labels[:, None] == np.arange(3)
    open_rows = labels < 0
    r = np.where(open_rows[:, None], 0.0, fixed)
    for _ in range(400):
        s = (r * w[:, None]).sum(axis=0)
        theta = update(x, r * w[:, None] / s)
        joint = np.log(s / s.sum()) + log_density(x, theta)
        joint = np.where(open_rows[:, None] | fixed, joint, -np.inf)
        top = joint.max(axis=1, keepdims=True)
        r = np.exp(joint - top)
        total = r.sum(axis=1, keepdims=True)
        r = r / total
    return s / s.sum(), float(w @ (top + np.log(total))[:, 0] / w.sum())


def normal_update(x: Array, r: Array) -> Any:
    means = r.T @ x
    return means, [np.cov(x.T, aweights=one, ddof=0) for one in r.T]


def normal_density(x: Array, theta: Any) -> Array:
    pairs = zip(*theta, strict=True)
    return np.stack([stats.multivariate_normal(m, c).logpdf(x) for m, c in pairs], axis=1)


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_em_written_from_the_formulas(weighted: bool) -> None:
    x, _, labels = clusters()
    w = np.random.default_rng(1).integers(1, 4, len(x)).astype(float) if weighted else np.ones(300)
    weights, bound = oracle(x, labels, w, normal_density, normal_update)
    model = Mixture(n_components=3, learner="em", random_state=0)
    model.set_params(learner__tol=1e-9)
    model.fit(x, sample_weight=w if weighted else None, labels=labels)
    np.testing.assert_allclose(model.weights_, weights, atol=1e-5)
    assert model.lower_bound_ == pytest.approx(bound, abs=1e-8)
    assert (np.argmin(np.abs(model.means_[:, None] - MEANS).sum(axis=2), axis=1) == [0, 1, 2]).all()


def test_equals_em_written_from_the_formulas_for_counts() -> None:
    rng = np.random.default_rng(3)
    z = rng.integers(0, 3, 300)
    x = rng.poisson(np.array([[2.0, 9.0], [6.0, 6.0], [9.0, 1.0]])[z]).astype(float)
    labels = np.where(rng.random(300) < 0.2, z, -1)

    def density(x: Array, means: Array) -> Array:
        return np.stack([stats.poisson(m).logpmf(x).sum(axis=1) for m in means], axis=1)

    weights, bound = oracle(x, labels, np.ones(300), density, lambda x, r: r.T @ x)
    model = Mixture("poisson", 3, learner="em", random_state=0).set_params(learner__tol=1e-9)
    model.fit(x, labels=labels)
    np.testing.assert_allclose(model.weights_, weights, atol=1e-5)
    assert model.lower_bound_ == pytest.approx(bound, abs=1e-8)


def test_all_labels_give_the_moments_of_the_classes() -> None:
    x, z, _ = clusters()
    model = Mixture(n_components=3, learner="em", random_state=0).fit(x, labels=z)
    for k in range(3):
        np.testing.assert_allclose(model.means_[k], x[z == k].mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(model.covariances_[k], np.cov(x[z == k].T, ddof=0), rtol=1e-9)
    np.testing.assert_allclose(model.weights_, np.bincount(z) / len(z), rtol=1e-12)


@pytest.mark.parametrize(
    "learner",
    [
        "auto",
        "em",
        "mini-batch-em",
        "online-em",
        "incremental-em",
        "stepwise-em",
        "sem",
        "k-mle",
        "recursive-em",
        "variance-reduced-em",
        "online-k-mle",
        "drift-aware",
        "monte-carlo-em",
    ],
)
def test_components_follow_the_labels_with_every_learner(learner: str) -> None:
    x, z, labels = clusters(150, 0.2)
    model = Mixture(n_components=3, learner=learner, random_state=0, max_iter=4)
    model.fit(x, labels=labels)
    assert np.abs(model.means_ - MEANS).max() < 0.8
    assert (model.predict(x) == z).mean() > 0.9


@pytest.mark.parametrize("learner", ["auto", "online-em"])
def test_streams_do_not_depend_on_blocks(learner: str) -> None:
    x, _, labels = clusters()
    models = []
    for size in (300, 70, 1):
        model = Mixture(n_components=3, learner=learner, random_state=0)
        for i in range(0, 300 if size > 1 else 40, size):
            if size == 1:
                model.learn_one(x[i], label=int(labels[i]))
            else:
                model.partial_fit(x[i : i + size], labels=labels[i : i + size])
        models.append(model)
    np.testing.assert_array_equal(models[0].means_, models[1].means_)
    assert np.abs(models[0].means_ - MEANS).max() < 0.8
    few = Mixture(n_components=3, learner=learner, random_state=0)
    few.partial_fit(x[:40], labels=labels[:40])
    np.testing.assert_array_equal(few.means_, models[2].means_)


def test_learner_of_labelled_streams_goes_on_after_saving(tmp_path: Path) -> None:
    x, _, labels = clusters()
    whole = Mixture(n_components=3, learner="online-em", random_state=0)
    whole.partial_fit(x, labels=labels)
    half = Mixture(n_components=3, learner="online-em", random_state=0)
    half.partial_fit(x[:150], labels=labels[:150]).save(tmp_path / "half.mixfold")
    again = mixfold.load(tmp_path / "half.mixfold").partial_fit(x[150:], labels=labels[150:])
    np.testing.assert_array_equal(again.means_, whole.means_)
    np.testing.assert_array_equal(again.classes_, [0, 1, 2])
    again.partial_fit(x[:10])  # rows without labels


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "parquet", "csv"])
def test_names_of_classes_in_tables_and_files(kind: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    x, _, labels = clusters()
    names = [["red", "blue", "green"][one] if one >= 0 else None for one in labels]
    table: Any = pandas.DataFrame({"u": x[:, 0], "colour": names, "v": x[:, 1]})
    want = Mixture(n_components=3, random_state=0).fit(x, labels=names)
    if kind == "polars":
        table = pytest.importorskip("polars").from_pandas(table)
    elif kind == "arrow":
        table = pytest.importorskip("pyarrow").Table.from_pandas(table)
    elif kind == "parquet":
        table.to_parquet(tmp_path / "t.parquet")
        table = tmp_path / "t.parquet"
    elif kind == "csv":
        table.to_csv(tmp_path / "t.csv", index=False)
        table = tmp_path / "t.csv"
    model = Mixture(n_components=3, random_state=0).fit(table, labels="colour")
    assert list(model.classes_) == ["blue", "green", "red"]
    assert list(model.feature_names_in_) == ["u", "v"]
    np.testing.assert_allclose(model.means_, want.means_, atol=1e-4)
    np.testing.assert_allclose(model.means_[[2, 0, 1]], MEANS, atol=0.5)
    if kind in ("parquet", "csv"):
        local = Mixture(n_components=3, random_state=0, cluster="serial")
        local.fit(table, labels="colour")
        np.testing.assert_allclose(local.means_, want.means_, atol=1e-4)
        assert len(model.predict(table)) == 300


def test_blocks_of_tables() -> None:
    pandas = pytest.importorskip("pandas")
    x, _, labels = clusters()
    frame = pandas.DataFrame({"label": labels, "u": x[:, 0], "v": x[:, 1]})
    blocks = (frame[i : i + 100] for i in range(0, 300, 100))
    model = Mixture(n_components=3, random_state=0).fit(blocks, labels="label")
    np.testing.assert_allclose(model.means_, MEANS, atol=0.5)


def test_families_that_are_chosen_by_the_columns(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 400)
    frame = pandas.DataFrame({"visits": rng.poisson(np.array([2.0, 9.0])[z])})
    frame["city"] = np.where(rng.random(400) < np.array([0.8, 0.3])[z], "Bonn", "Ulm")
    frame["age"] = rng.normal(np.array([30.0, 50.0])[z], 5.0)
    frame.loc[::9, "age"] = np.nan
    frame["class"] = np.array(["new", "old", None])[np.where(rng.random(400) < 0.3, z, 2)]
    model = Mixture("auto", 2, random_state=0).fit(frame, labels="class")
    assert [one.column for one in model.chosen_families_] == ["visits", "city", "age"]
    assert (model.classes_[model.predict(frame)] == np.array(["new", "old"])[z]).mean() > 0.95
    frame.to_parquet(tmp_path / "t.parquet")
    again = Mixture("auto", 2, random_state=0).fit(tmp_path / "t.parquet", labels="class")
    np.testing.assert_allclose(again.weights_, model.weights_, rtol=1e-9)
    stream = Mixture("auto", 2, random_state=0)
    for i in range(0, 400, 100):
        stream.partial_fit(frame[i : i + 100], labels="class")
    assert (stream.predict(frame) == z).mean() > 0.95


def test_missing_cells_that_begin_in_a_stream() -> None:
    x, z, labels = clusters()
    x[200, 1] = np.nan
    whole = Mixture(n_components=3, random_state=0).partial_fit(x, labels=labels)
    parts = Mixture(n_components=3, random_state=0)
    parts.partial_fit(x[:200], labels=labels[:200]).partial_fit(x[200:], labels=labels[200:])
    np.testing.assert_array_equal(whole.means_, parts.means_)
    assert (parts.predict(x) == z).mean() > 0.9


def test_a_class_of_several_components() -> None:
    x, z, _ = clusters(600)
    labels = np.where(z == 2, "top", "bottom")
    classes = ["bottom", "bottom", "top"]
    model = Mixture(n_components=3, classes=classes, random_state=0).fit(x, labels=labels)
    assert np.abs(np.sort(model.means_[:2, 0]) - [0.0, 4.0]).max() < 0.4
    np.testing.assert_allclose(model.means_[2], MEANS[2], atol=0.3)
    assert list(model.classes_) == ["bottom", "top"]


def test_components_without_labels_are_found() -> None:
    x, _, labels = clusters(600)
    model = Mixture(n_components=3, random_state=0).fit(x, labels=np.where(labels == 0, 0, -1))
    np.testing.assert_allclose(model.means_[0], MEANS[0], atol=0.4)
    assert np.abs(np.sort(model.means_[1:, 0]) - [0.0, 2.0]).max() < 0.4


@pytest.mark.parametrize("given", ["means", "parameters"])
def test_initial_parameters_that_are_given(given: str) -> None:
    x, _, labels = clusters()
    init: Any = MEANS
    if given == "parameters":
        init = Mixture(n_components=3, init=MEANS).fit(x)
    model = Mixture(n_components=3, init=init).fit(x, labels=labels)
    plain = Mixture(n_components=3, random_state=0).fit(x, labels=labels)
    np.testing.assert_allclose(model.means_, plain.means_, atol=0.01)
    stream = Mixture(n_components=3, init=init).partial_fit(x[:5], labels=labels[:5])
    stream.partial_fit(x[5:], labels=labels[5:])
    np.testing.assert_allclose(stream.means_, plain.means_, atol=0.1)


def test_rows_of_weight_zero_do_not_count() -> None:
    x, _, labels = clusters()
    there = (np.arange(len(x)) % 3 > 0).astype(float)
    model = Mixture(n_components=3, learner="em", init=MEANS)
    model.fit(x, sample_weight=there, labels=labels)
    other = Mixture(n_components=3, learner="em", init=MEANS)
    other.fit(x[there > 0], labels=labels[there > 0])
    np.testing.assert_allclose(model.means_, other.means_, atol=1e-3)


def test_a_component_that_no_row_may_belong_to_has_no_weight() -> None:
    x, z, _ = clusters()
    model = Mixture(n_components=4, learner="em", random_state=0).fit(x, labels=z)
    np.testing.assert_allclose(model.weights_, [*np.bincount(z) / len(z), 0.0], atol=1e-12)
    assert np.isfinite(model.means_).all()


def test_labels_of_rows_without_weight_are_no_start() -> None:
    x, _, labels = clusters()
    model = Mixture(n_components=3, learner="auto", random_state=0)
    model.fit(x, sample_weight=(labels < 0).astype(float), labels=labels)
    assert model.score(x) > Mixture(n_components=3, random_state=0).fit(x).score(x) - 0.1


def test_few_labels_among_many_rows_are_used() -> None:
    x, z, _ = clusters(40_000)
    labels = np.full(len(x), -1)
    for k in range(3):
        labels[np.flatnonzero(z == k)[-2:]] = k
    model = Mixture(n_components=3, random_state=0).fit(x, labels=labels)
    np.testing.assert_allclose(model.means_, MEANS, atol=0.1)


@pytest.mark.parametrize("covariance", ["full", "diag", "tied", "spherical", "VEV"])
def test_the_kernel_equals_the_formulas(covariance: str) -> None:
    rng = np.random.default_rng(0)
    allowed = np.array([[True, False, False], [False, True, True]])
    family = LabelledRows(Gaussian(covariance), allowed)
    model = MixtureModel(family, 3, 4)
    params = MixtureParams(np.array([0.2, 0.5, 0.3]), family.example(3, 4, rng))
    rows = Rows(
        np.column_stack([rng.normal(size=(400, 3)), rng.integers(-1, 2, 400)]), rng.random(400)
    )
    fast, plain = kernel_for(model), ReferenceKernel(model)
    assert type(fast) is not type(plain)
    a, b = (kernel.expect(kernel.prepare(params), rows) for kernel in (fast, plain))
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9)
    r, wanted = (kernel.posterior(kernel.prepare(params), rows.x)[1] for kernel in (fast, plain))
    assert r is not None
    assert wanted is not None
    np.testing.assert_allclose(r, wanted, rtol=1e-10, atol=1e-12)
    assert (r[rows.x[:, -1] == 0] == [1.0, 0.0, 0.0]).all()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0] * 299, "one label for each of 300 rows"),
        ([3] * 300, "labels has 3; the labels are 0, 1, 2"),
        ([-2] * 300, "labels has -2"),
        ([0.5] * 300, "labels has 0.5"),
        ([-1] * 300, "no known label"),
        ([None] * 300, "no known label"),
        (np.zeros((300, 3)), "one label for each"),
        (["a", "b", "c", "d"] * 75, "set n_components=4"),
        (["a", 1, None] * 100, "name all labels alike"),
        ("u", "needs a table or file with column names"),
    ],
)
def test_labels_that_are_refused(labels: Any, message: str) -> None:
    x, _, _ = clusters()
    with pytest.raises(InvalidInputError, match=message):
        Mixture(n_components=3).fit(x, labels=labels)


def test_other_settings_that_are_refused() -> None:
    x, _, labels = clusters()
    with pytest.raises(InvalidInputError, match="classes is 'ab'"):
        Mixture(n_components=3, classes="ab").fit(x)
    with pytest.raises(InvalidInputError, match="-1 and NaN stand for labels"):
        Mixture(n_components=3, classes=[-1, 0]).fit(x)
    with pytest.raises(InvalidInputError, match="labels has 'z'; the labels are a, b"):
        Mixture(n_components=3, classes=["a", "b"]).fit(x, labels=["z"] * 300)
    with pytest.raises(InvalidInputError, match="learned without any"):
        Mixture(n_components=3).partial_fit(x).partial_fit(x, labels=labels)
    with pytest.raises(InvalidInputError, match="CPU only"):
        Mixture(n_components=3, engine="torch:cpu").fit(x, labels=labels)
    with pytest.raises(InvalidInputError, match="rows with labels"):
        Mixture(n_components=3, learner="online-vb").fit(x, labels=labels)
    frame = pytest.importorskip("pandas").DataFrame(x, columns=["u", "v"])
    with pytest.raises(mixfold.errors.SourceError, match="no column 'z'"):
        Mixture(n_components=3).fit(frame, labels="z")
    model = Mixture(n_components=3, random_state=0).fit(x)
    with pytest.raises(AttributeError, match="no labels were given"):
        _ = model.classes_


def test_merged_models_count_labels_of_all_parts() -> None:
    x, z, labels = clusters()
    start = Mixture(n_components=3, learner="online-em", random_state=0)
    start.partial_fit(x[:100], labels=labels[:100])
    parts = [
        deepcopy(start).partial_fit(x[i:j], labels=labels[i:j]) for i, j in [(100, 200), (200, 300)]
    ]
    merged = mixfold.merge(parts)
    assert merged.n_rows_ == 300
    assert (merged.predict(x) == z).mean() > 0.9


def test_a_fit_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    x, _, labels = clusters()
    want = Mixture(n_components=3, learner="em", random_state=0).fit(x, labels=labels)
    settings: dict[str, Any] = {"checkpoint": tmp_path / "c", "checkpoint_every": 0.0}
    short = Mixture(n_components=3, learner="em", random_state=0, max_iter=3, **settings)
    short.fit(x, labels=labels)
    model = Mixture(n_components=3, learner="em", random_state=0, resume=True, **settings)
    model.fit(x, labels=labels)
    np.testing.assert_array_equal(model.means_, want.means_)
    with pytest.raises(mixfold.errors.ModelFileError, match="another fit"):
        model.fit(x, labels=np.where(labels == 0, -1, labels))


def test_scikit_learn_names_of_gaussian_mixtures() -> None:
    x, z, labels = clusters()
    model = mixfold.GaussianMixture(3, random_state=0).fit(x, labels=labels)
    assert (model.predict(x) == z).mean() > 0.9
