"""Mixtures with noise, against mclust and the formula of their density."""

from __future__ import annotations

import copy
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm, poisson

import mixfold
from mixfold import AutoMixture, Gaussian, Mixture, Product, datasets, merge
from mixfold.core.backend import Assignment
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.registry import find_all
from mixfold.core.rows import Rows
from mixfold.families.incomplete_rows import with_missing
from mixfold.kernels.choice import kernel_for
from mixfold.kernels.noise_mixture import NoiseMixtureKernel
from mixfold.kernels.reference import ReferenceKernel
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureParams
from mixfold.models.noise_mixture import Box, NoiseMixture, NoiseParams

FIXTURE = Path(__file__).parents[1] / "fixtures" / "mclust_noise.csv"
BOX = ([-30.0, -30.0], [30.0, 30.0])


def two_groups(n: int = 200, seed: int = 0) -> np.ndarray:
    """Two groups in the middle of rows that are uniform in the box, in random order."""
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(n, 2)), rng.normal(size=(n, 2)) + 8.0
    x = np.vstack([*parts, rng.uniform(-30.0, 30.0, size=(n // 5, 2))])
    return np.asarray(rng.permutation(x))


def check_found(model: Any, far: float = 0.3) -> None:
    means = model.means_[np.argsort(model.means_[:, 0])]
    np.testing.assert_allclose(means, [[0.0, 0.0], [8.0, 8.0]], atol=far)
    assert model.noise_weight_ == pytest.approx(1.0 / 11.0, abs=0.05)
    assert model.weights_.sum() + model.noise_weight_ == pytest.approx(1.0)


# agreement with mclust


def mclust() -> list[dict[str, str]]:
    with FIXTURE.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("one", mclust(), ids=lambda one: one["model"])
def test_em_reaches_the_log_likelihood_of_mclust(one: dict[str, str]) -> None:
    i = np.arange(24.0)
    near = np.asarray(datasets.load_faithful())
    x = np.vstack([near, np.stack([0.4 * i, 15 + (37 * i) % 101], axis=1)])
    r = np.eye(3)[np.r_[(near[:, 0] > 3.0).astype(int), np.full(24, 2)]]
    family, volume = Gaussian(one["model"], floor=0.0), 1.0 / float(one["inverse_volume"])
    components, _ = family.maximize(family.blocks_of(x, r[:, :2]))
    begin = NoiseParams(r[:, :2].mean(axis=0), components, r[:, 2].mean())
    learner = EM(tol=1e-9, max_iter=20_000)
    model = Mixture(family, 2, noise=volume, learner=learner, init=begin).fit(x)
    found, theirs = len(x) * model.score(x), float(one["log_likelihood"])
    if one["model"] == "VVE":  # whose M-steps in mclust end before the maximum
        assert found > theirs
        return
    assert found == pytest.approx(theirs, rel=1e-11)
    assert model.noise_weight_ == pytest.approx(float(one["noise"]), abs=1e-6)
    assert (model.predict(x) == -1).sum() == int(one["labelled"])
    bic = int(one["parameters"]) * np.log(len(x)) - 2.0 * theirs
    assert model.bic(x) == pytest.approx(bic, rel=1e-9)


# the density


def test_the_density_is_that_of_the_formula() -> None:
    x = two_groups()
    x[::9, 1] = np.nan
    model = Mixture(n_components=2, noise=True, random_state=0).fit(x)
    w, noise, lengths = model.weights_, model.noise_weight_, np.ptp(x[~np.isnan(x[:, 1])], axis=0)
    lengths[0] = np.ptp(x[:, 0])
    density = np.zeros((len(x), 3))
    for k in range(2):
        mean, covariance = model.means_[k], model.covariances_[k]
        whole = multivariate_normal(mean, covariance).pdf(np.nan_to_num(x))
        alone = norm(mean[0], np.sqrt(covariance[0, 0])).pdf(x[:, 0])
        density[:, k] = w[k] * np.where(np.isnan(x[:, 1]), alone, whole)
    density[:, 2] = noise / np.where(np.isnan(x[:, 1]), lengths[0], lengths.prod())
    np.testing.assert_allclose(model.score_samples(x), np.log(density.sum(axis=1)), rtol=1e-10)
    r = density / density.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(x), r, atol=1e-10)
    labels = r.argmax(axis=1)
    assert (model.predict(x) == np.where(labels == 2, -1, labels)).all()


def test_noise_of_counts_is_uniform_over_whole_numbers() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.poisson(5.0, 300), rng.integers(0, 200, 30)])[:, None].astype(float)
    model = Mixture("poisson", 1, noise=([0.0], [199.0]), random_state=0).fit(x)
    values = np.arange(200.0)[:, None]
    p = (1.0 - model.noise_weight_) * poisson.pmf(values[:, 0], model.means_[0])
    expected = np.log(p + model.noise_weight_ / 200.0)
    np.testing.assert_allclose(model.score_samples(values), expected, rtol=1e-10)
    assert np.exp(model.score_samples(values)).sum() == pytest.approx(1.0)
    assert model.means_[0] == pytest.approx(5.0, abs=0.4)
    drawn, labels = model.sample(2000)
    assert (labels == -1).mean() == pytest.approx(model.noise_weight_, abs=0.03)
    far = drawn[labels == -1]
    assert far.min() >= 0.0
    assert far.max() <= 199.0
    assert (far == np.round(far)).all()


def example(name: str) -> tuple[NoiseMixture, MixtureParams, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.poisson(4.0, size=(70, 2)).astype(float)
    family: Any = {
        "full": Gaussian(),
        "factor": Gaussian("factor", rank=1),
        "poisson": mixfold.Poisson(),
        "product": Product({"a": Gaussian(), "b": mixfold.Poisson()}).bound(["a", "b"]),
        "missing": with_missing(Gaussian()),
    }[name]
    if name == "missing":
        x[::3, 1] = np.nan
    model = NoiseMixture(family, 3, 2, Box(np.zeros(2), np.full(2, 20.0), np.array([False, True])))
    components = family.for_complete_rows().example(3, 2, rng)
    return model, NoiseParams(np.array([0.2, 0.3, 0.4]), components, 0.1), x


@pytest.mark.parametrize("name", ["full", "factor", "poisson", "product", "missing"])
def test_the_kernel_computes_the_sums_of_responsibilities(name: str) -> None:
    """Rows weighted by 1 - q give the same sums as responsibilities of all parts."""
    model, params, x = example(name)
    kernel = kernel_for(model)
    assert isinstance(kernel, NoiseMixtureKernel)
    assert type(kernel.components) is not ReferenceKernel
    rows = Rows(x, np.random.default_rng(2).uniform(size=len(x)))
    prepared, joint = kernel.prepare(params), model.log_joint(params, x)
    log_density = logsumexp(joint, axis=1)
    r = np.exp(joint - log_density[:, None])
    found, responsibilities = kernel.posterior(prepared, x)
    np.testing.assert_allclose(found, log_density, rtol=1e-10)
    assert responsibilities is not None
    np.testing.assert_allclose(responsibilities, r, atol=1e-10)
    components = model.of_components(3)
    plain, weight = ReferenceKernel(components), rows.weights()
    expected = components.statistics(params, plain.moments(params, rows, r[:, :3]))
    ways = kernel.expect(prepared, rows), kernel.moments(prepared, rows, r)
    assert ways[0][0] == pytest.approx(weight @ log_density)
    for sums in ways:
        one = model.statistics(params, sums)
        np.testing.assert_allclose(one.weight, weight @ r[:, :3], rtol=1e-9, atol=1e-12)
        assert one.count == pytest.approx(weight.sum())
        for a, b in zip(one.blocks, expected.blocks, strict=True):
            np.testing.assert_allclose(a.weight, b.weight, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(a.sums(), b.sums(), rtol=1e-8, atol=1e-9)
            if a.scatter.size:
                own, other = (one.weight[:, None] * one.scatter for one in (a, b))
                np.testing.assert_allclose(own, other, rtol=1e-8, atol=1e-8)
    drawn = kernel.simulate(prepared, rows, Assignment("draw", 200, 3))[1]
    assert np.abs(drawn.mean(axis=0) - r.mean(axis=0)).max() < 0.02


# learning


@pytest.mark.parametrize("name", [n for n, one in find_all("learners").items() if one.serves_noise])
def test_learners_find_groups_among_noise(name: str) -> None:
    cls: Any = find_all("learners")[name]
    x = two_groups()
    model = Mixture(n_components=2, noise=BOX, learner=cls(), random_state=0)
    box = Box(np.array(BOX[0]), np.array(BOX[1]), np.zeros(2, bool))
    why = cls().why_unsupported(NoiseMixture(Gaussian(), 2, 2, box))
    if why is not None:
        with pytest.raises(InvalidInputError):
            model.fit(x)
        return
    check_found(model.fit(x), far=0.6)


@pytest.mark.parametrize("learner", ["incremental-em", "online-vb", "moment-matching"])
def test_other_learners_refuse_noise(learner: str) -> None:
    with pytest.raises(InvalidInputError, match="does not support noise"):
        Mixture(n_components=2, noise=True, learner=learner).fit(two_groups())


def test_em_never_lowers_the_likelihood() -> None:
    learner = EM(max_iter=40, tol=0.0)
    model = Mixture(n_components=3, noise=True, learner=learner, random_state=2).fit(two_groups())
    gains = np.diff(model.history_.log_likelihood)
    assert (gains > -1e-12).all()


def test_far_rows_change_components_little() -> None:
    rng = np.random.default_rng(3)
    clean = np.vstack([rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 8.0])
    far = rng.uniform(500.0, 1000.0, size=(6, 2))
    alone = Mixture(n_components=2, random_state=0).fit(clean)
    both = Mixture(n_components=2, noise=True, random_state=0).fit(np.vstack([clean, far]))
    np.testing.assert_allclose(both.means_, alone.means_, atol=1e-3)
    assert (both.predict(far) == -1).all()


def test_a_weight_counts_rows() -> None:
    x = two_groups(80)
    weight = np.random.default_rng(0).integers(0, 4, size=len(x)).astype(float)
    settings: dict[str, Any] = {
        "n_components": 2,
        "noise": BOX,
        "random_state": 0,
        "learner": EM(tol=1e-8),
    }
    one = Mixture(**settings).fit(x, sample_weight=weight)
    other = Mixture(**settings).fit(np.repeat(x, weight.astype(int), axis=0))
    np.testing.assert_allclose(one.means_, other.means_, rtol=1e-5)
    assert one.noise_weight_ == pytest.approx(other.noise_weight_, rel=1e-4)


def test_files_and_blocks(tmp_path: Path) -> None:
    x = two_groups(3000)
    frame, table = pd.DataFrame(x, columns=["a", "b"]), tmp_path / "rows.parquet"
    frame.to_parquet(table)
    ends = x.min(axis=0).tolist(), x.max(axis=0).tolist()

    def blocks() -> Iterator[np.ndarray]:
        yield x[:100]
        yield x[100:]

    model = Mixture(n_components=2, noise=True, random_state=0).fit(x)
    check_found(model)
    from_file = Mixture(n_components=2, noise=True, random_state=0).fit(table)
    assert from_file.means_.tobytes() == model.means_.tobytes()
    assert from_file.noise_weight_ == model.noise_weight_
    check_found(Mixture(n_components=2, noise=ends, random_state=0).fit(blocks()))
    with pytest.raises(InvalidInputError, match=r"noise=\(low, high\)"):
        Mixture(n_components=2, noise=True).fit(blocks())


@pytest.mark.parametrize("learner", ["auto", "online-em"])
def test_streams(learner: str, tmp_path: Path) -> None:
    x = two_groups(400)
    new = Mixture(n_components=2, noise=BOX, learner=learner, random_state=0)
    one = mixfold.Mixture(**new.get_params(deep=False))
    other = mixfold.Mixture(**new.get_params(deep=False))
    for block in np.array_split(x, 7):
        one.partial_fit(block)
    for block in (x[:300], x[300:301], x[301:]):
        other.partial_fit(block)
    assert one.means_.tobytes() == other.means_.tobytes()
    assert one.noise_weight_ == other.noise_weight_
    check_found(one, far=0.6)
    one.save(tmp_path / "model.mixfold")
    loaded = mixfold.load(tmp_path / "model.mixfold")
    assert (loaded.predict(x) == one.predict(x)).all()
    assert loaded.noise_weight_ == one.noise_weight_
    for model in (one, loaded):
        model.partial_fit(x[:50]).learn_one(x[0])
    assert loaded.means_.tobytes() == one.means_.tobytes()
    one.set_params(noise=None)
    with pytest.raises(InvalidInputError, match="noise is False"):
        one.partial_fit(x[:50])


def test_learning_goes_on_after_a_fit() -> None:
    x = two_groups(400)
    model = Mixture(n_components=2, noise=True, random_state=0).fit(x[:400])
    low = model.model_.box.low.copy()
    model.partial_fit(x[400:])
    check_found(model)
    assert (model.model_.box.low == low).all()


def test_merged_streams() -> None:
    x = two_groups(400)
    new = Mixture(n_components=2, noise=BOX, learner="online-em", random_state=0)
    first = new.partial_fit(x[:200])
    others = []
    for part in (x[200:500], x[500:]):
        others.append(copy.deepcopy(first).partial_fit(part))
    check_found(merge(others), far=0.6)
    other = Mixture(n_components=2, noise=([-31.0] * 2, [31.0] * 2), learner="online-em")
    with pytest.raises(InvalidInputError, match="the box of noise"):
        merge([first, other.partial_fit(x[:200])])


def test_the_number_of_components_is_chosen_with_noise() -> None:
    x = two_groups()
    auto = AutoMixture(range(1, 4), ["EII", "VVV"], noise=True, random_state=0).fit(x)
    assert auto.best_estimator_.n_components == 2
    check_found(auto)
    table = auto.results_
    one = table[(table.n_components == 2) & (table.covariance == "EII")].iloc[0]
    assert one.n_parameters == 1 + 4 + 1 + 2
    assert one.bic == pytest.approx(auto.bic(x))
    without = AutoMixture(range(1, 4), ["EII", "VVV"], random_state=0).fit(x)
    assert without.best_estimator_.n_components == 3


def test_clusters_leave_noise_apart() -> None:
    x = two_groups()
    model = Mixture(n_components=3, noise=True, random_state=0).fit(x)
    clusters = model.component_clusters(x)
    r, labels = model.predict_proba(x), clusters.labels(2)
    parts = [r[:, :3][:, labels == c].sum(axis=1) for c in range(2)]
    expected = np.stack([*parts, r[:, 3]], axis=1)
    np.testing.assert_allclose(clusters.predict_proba(x, 2), expected, atol=1e-14)
    assert ((clusters.predict(x, 2) == -1) == (expected.argmax(axis=1) == 2)).all()
    assert clusters.entropies[0] > 0.0  # rows between one cluster and noise


# what is refused


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (0.0, "noise is 0.0"),
        (-1.0, "noise is -1.0"),
        (np.nan, "noise is nan"),
        (np.inf, "noise is inf"),
        ("yes", "pair"),
        (([0.0], [1.0]), "1 columns, but there are 2"),
        (([0.0, 0.0], [1.0]), "pair"),
        (([0.0, 2.0], [1.0, 1.0]), "low below high"),
        (([0.0, 1.0], [1.0, 1.0]), "no length in column 2"),
        (([0.0, np.nan], [1.0, 1.0]), "finite"),
        ([1.0, 2.0, 3.0], "pair"),
    ],
)
def test_bad_noise_is_refused(noise: Any, message: str) -> None:
    model = Mixture(n_components=2, noise=noise)
    with pytest.raises(InvalidInputError, match=message):
        model.fit(two_groups(20))
    assert not hasattr(model, "model_")


def test_rows_that_fill_no_box_are_refused() -> None:
    x = two_groups(20)
    with pytest.raises(InvalidInputError, match="no length in column 1"):
        Mixture(n_components=2, noise=True).fit(np.column_stack([np.ones(len(x)), x]))
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=50)
    with pytest.raises(InvalidInputError, match="depend on one another"):
        Mixture("dirichlet", 2, noise=True).fit(p)
    with pytest.raises(InvalidInputError, match=r"noise=\(low, high\)"):
        Mixture(n_components=2, noise=True).partial_fit(x)
    with pytest.raises(InvalidInputError, match="infinity"):
        Mixture(n_components=2, noise=True).fit(np.vstack([x, [[np.inf, 0.0]]]))


def test_methods_for_components_alone_are_refused() -> None:
    x = two_groups(40)
    model = Mixture(n_components=2, noise=True, random_state=0).fit(x)
    calls: list[Any] = [
        lambda: model.impute(x),
        lambda: model.explain(x),
        lambda: model.marginal([0]),
        lambda: model.conditional({0: 1.0}),
        lambda: model.standard_errors(x),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match="not defined for a mixture with noise"):
            call()
    with pytest.raises(InvalidInputError, match="GPU"):
        Mixture(n_components=2, noise=True, engine="torch:cpu").fit(x)
    without = Mixture(n_components=2, init=model, random_state=0).fit(x)
    assert not hasattr(without, "noise_weight_")
    assert without.weights_.sum() == pytest.approx(1.0)
    assert issubclass(type(without._learner()), Learner)
