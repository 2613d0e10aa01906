"""Mixtures of factor analysers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.decomposition import FactorAnalysis

import mixfold
from mixfold import Gaussian, Mixture
from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.rows import Rows
from mixfold.core.statistics import Block, outer_full, outer_like, packed_length
from mixfold.core.value import equal
from mixfold.families.factor_analysis import FactorParams
from mixfold.kernels.factor import FactorKernel
from mixfold.kernels.reference import ReferenceKernel
from mixfold.learners.em import EM
from mixfold.learners.online_em import OnlineEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing import families, kernels, learners


def analysers(k: int, d: int, q: int, n: int, seed: int = 0) -> np.ndarray:
    """Rows of K factor analysers that are well apart."""
    rng = np.random.default_rng(seed)
    means = 6.0 * rng.normal(size=(k, d))
    loadings = rng.normal(size=(k, q, d))
    labels = rng.integers(k, size=n)
    factors = rng.normal(size=(n, 1, q)) @ loadings[labels]
    return np.asarray(means[labels] + factors[:, 0] + 0.5 * rng.normal(size=(n, d)))


def fitted(x: Any, k: int = 2, rank: int = 2, floor: float = 1e-8, **more: Any) -> Mixture:
    more = {"learner": EM(tol=1e-6, max_iter=50), "random_state": 0, **more}
    return Mixture(Gaussian("factor", floor=floor, rank=rank), k, **more).fit(x)


def dense(model: Mixture) -> list[Any]:
    """The components by their covariances."""
    noise = [np.diag(one) for one in model.noise_variance_]
    return [
        multivariate_normal(m, part.T @ part + psi)
        for m, part, psi in zip(model.means_, model.loadings_, noise, strict=True)
    ]


@pytest.mark.parametrize("law", families.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("rank", [2, 3])
def test_laws_of_families_hold_for_several_factors(law: Callable[..., None], rank: int) -> None:
    law(Gaussian("factor", rank=rank), 2, 5, np.random.default_rng(7))


@pytest.mark.parametrize("law", kernels.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("d", [4, 17])
def test_laws_of_kernels_hold_for_several_factors(law: Callable[..., None], d: int) -> None:
    family = Gaussian("factor", rank=3)
    model, params, x = families.example_mixture(family, 4, d, 90, np.random.default_rng(7))
    weight = np.random.default_rng(8).integers(0, 3, size=90).astype(np.float64)
    for layout in kernels.layouts(x).values():
        law(model, params, FactorKernel(model), Rows(layout, weight), 1e-9)


@pytest.mark.parametrize("law", learners.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("learner", [EM(accelerate=True), OnlineEM(batch_size=10)], ids=repr)
def test_laws_of_learners_hold_for_several_factors(
    law: Callable[..., None], learner: Learner
) -> None:
    family = Gaussian("factor", rank=2)
    model, params, x = families.example_mixture(family, 3, 4, 300, np.random.default_rng(7))
    law(model, params, learner.resolve(300, 4, False), Rows(x), [1, 8, 9, 137])


@pytest.mark.parametrize("accelerate", [False, True])
def test_one_component_is_factor_analysis(accelerate: bool) -> None:
    x = analysers(1, 8, 3, 600)
    model = fitted(x, 1, 3, learner=EM(tol=1e-9, max_iter=2000, accelerate=accelerate))
    other = FactorAnalysis(3, tol=1e-8, max_iter=5000).fit(x)
    np.testing.assert_allclose(model.score(x), other.score(x), rtol=1e-5)
    own = model.loadings_[0].T @ model.loadings_[0] + np.diag(model.noise_variance_[0])
    np.testing.assert_allclose(own, other.get_covariance(), rtol=0.02, atol=0.05)


def test_many_factors_are_a_full_covariance() -> None:
    x = np.random.default_rng(0).normal(size=(500, 4)) @ np.random.default_rng(1).normal(
        size=(4, 4)
    )
    full = Mixture(Gaussian(), 1, learner="em", random_state=0).fit(x).score(x)
    learner = EM(tol=1e-7, max_iter=300, accelerate=True)
    scores = [fitted(x, 1, q, learner=learner).score(x) for q in (1, 2, 3)]
    assert scores == sorted(scores)
    assert full - 1e-2 < scores[-1] < full + 1e-9


def test_densities_are_those_of_the_covariances() -> None:
    x = analysers(2, 6, 2, 400)
    model = fitted(x)
    joint = np.stack([one.logpdf(x) for one in dense(model)], axis=1) + np.log(model.weights_)
    np.testing.assert_allclose(model.score_samples(x), np.logaddexp.reduce(joint, axis=1))
    np.testing.assert_array_equal(model.predict(x), joint.argmax(axis=1))


@pytest.mark.parametrize(
    "learner",
    ["em", "auto", "mini-batch-em", OnlineEM(batch_size=20), "k-mle", "sem"],
    ids=str,
)
def test_learners_find_the_components(learner: Any) -> None:
    x = analysers(3, 10, 2, 3000)
    best = fitted(x, 3).score(x)
    assert fitted(x, 3, learner=learner).score(x) > best - 0.05


@pytest.mark.parametrize(
    "learner",
    [
        "incremental-em",
        "fast-incremental-em",
        "variance-reduced-em",
        "recursive-em",
        "exact-mle",
        "moment-matching",
        "online-vb",
    ],
)
def test_learners_that_cannot_follow_factors_say_so(learner: str) -> None:
    model = Mixture(Gaussian("factor", rank=1), 2, learner=learner, random_state=0)
    with pytest.raises(InvalidInputError, match=r"Gaussian\(covariance='factor'"):
        model.fit(analysers(2, 4, 1, 100))
    assert not hasattr(model, "means_")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"covariance": "factor"}, "rank is None"),
        ({"covariance": "factor", "rank": 0}, "rank is 0"),
        ({"covariance": "factor", "rank": 2.5}, "rank is 2.5"),
        ({"covariance": "full", "rank": 2}, "rank is 2, but covariance 'full' has none"),
        ({"covariance": "factors", "rank": 2}, "Did you mean 'factor'"),
    ],
)
def test_ranks_are_checked(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        Gaussian(**given)


@pytest.mark.parametrize("d", [1, 2])
def test_a_rank_is_below_the_number_of_columns(d: int) -> None:
    model = Mixture(Gaussian("factor", rank=2), 1)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(InvalidInputError, match=f"rank is 2, but the data have {d} column"):
            learn(np.random.default_rng(0).normal(size=(30, d)))


@pytest.mark.parametrize("shift", [1e6, -1e6])
def test_a_shift_does_not_matter(shift: float) -> None:
    x = analysers(2, 5, 2, 500).round(4)
    here, there = (fitted(rows, learner=EM(tol=0.0, max_iter=20)) for rows in (x, x + shift))
    np.testing.assert_allclose(there.means_ - shift, here.means_, atol=1e-6)
    np.testing.assert_allclose(there.noise_variance_, here.noise_variance_, rtol=1e-6)
    np.testing.assert_allclose(there.score(x + shift), here.score(x), rtol=1e-8)


def test_components_far_apart_keep_their_digits() -> None:
    x = analysers(1, 5, 2, 400).round(4)
    apart = np.concatenate([x, x + 1e6])
    learner = EM(tol=0.0, max_iter=5)
    one = fitted(x, 1, learner=learner)
    start = MixtureParams(
        np.array([0.5, 0.5]),
        FactorParams(
            np.concatenate([one.means_, one.means_ + 1e6]),
            np.tile(one.loadings_, (2, 1, 1)),
            np.tile(one.noise_variance_, (2, 1)),
        ),
    )
    alone = fitted(x, 1, init=one, learner=learner)
    both = fitted(apart, 2, floor=1e-16, init=start, learner=learner)
    for k in range(2):
        np.testing.assert_allclose(both.noise_variance_[k], alone.noise_variance_[0], rtol=1e-6)
    np.testing.assert_allclose(both.score(apart), alone.score(x) - np.log(2.0), rtol=1e-8)


def test_near_and_far_kernels_agree() -> None:
    rng = np.random.default_rng(0)
    model = MixtureModel(Gaussian("factor", rank=3), 4, 20)
    params = MixtureParams(np.full(4, 0.25), model.family.example(4, 20, rng))
    rows = Rows(model.sample(params, 300, rng)[0])
    kernel = FactorKernel(model)
    near = kernel.prepare(params)
    assert near.near
    far = near._replace(near=False)
    np.testing.assert_allclose(kernel.expect(near, rows), kernel.expect(far, rows), rtol=1e-9)
    np.testing.assert_allclose(
        kernel.expect(near, rows), ReferenceKernel(model).expect(params, rows), rtol=1e-9, atol=1e-9
    )
    shifted = MixtureParams(
        params.weights,
        FactorParams(
            params.components.means + 1e6 * np.arange(4.0)[:, None],
            params.components.loadings,
            params.components.noise_variance,
        ),
    )
    assert not kernel.prepare(shifted).near


def test_memory_has_no_square_of_the_columns() -> None:
    k, d, q = 3, 30_000, 2
    x = np.random.default_rng(0).normal(size=(12, d)).astype(np.float32)
    model = MixtureModel(Gaussian("factor", rank=q), k, d)
    assert model.n_sums < 2 * k * d * (q + 2)
    fit = fitted(x, k, q, learner=EM(max_iter=2))
    assert np.isfinite(fit.score(x))
    assert not hasattr(fit, "covariances_")


def test_samples_are_of_the_model() -> None:
    model = fitted(analysers(2, 6, 2, 1000))
    rows, labels = model.sample(40_000)
    for k, one in enumerate(dense(model)):
        own = rows[labels == k]
        np.testing.assert_allclose(own.mean(axis=0), model.means_[k], atol=0.1)
        np.testing.assert_allclose(np.cov(own.T), one.cov, atol=0.15)


def test_free_parameters() -> None:
    model = MixtureModel(Gaussian("factor", rank=3), 4, 10)
    assert model.n_parameters() == 3 + 4 * (10 + 10 + 10 * 3 - 3)


def test_a_saved_model_is_the_same(tmp_path: Path) -> None:
    x = analysers(2, 5, 2, 300)
    model = fitted(x)
    model.save(tmp_path / "m.mixfold")
    for copy in (mixfold.load(tmp_path / "m.mixfold"), pickle.loads(pickle.dumps(model))):
        assert equal(copy.params_, model.params_)
        assert equal(copy._now().model.family, Gaussian("factor", floor=1e-8, rank=2))
        np.testing.assert_array_equal(copy.predict(x), model.predict(x))
        copy.partial_fit(x)


def test_weights_are_copies_of_rows() -> None:
    x = analysers(2, 5, 2, 200)
    times = np.random.default_rng(1).integers(0, 3, size=200)
    start = fitted(x, learner=EM(max_iter=1)).params_
    learner = EM(tol=0.0, max_iter=10)
    model = Mixture(Gaussian("factor", rank=2), 2, init=start, learner=learner)
    weighted = model.fit(x, sample_weight=times.astype(float)).params_
    repeated = model.fit(np.repeat(x, times, axis=0)).params_
    np.testing.assert_allclose(
        weighted.components.loadings, repeated.components.loadings, rtol=1e-6, atol=1e-8
    )


def test_constant_columns_are_floored_and_counted() -> None:
    x = analysers(1, 5, 2, 300)
    x[:, 2] = 7.0
    model = fitted(x, 1)
    assert model.n_degenerate_ > 0
    assert np.isfinite(model.score(x))


def test_a_floor_is_that_of_the_noise() -> None:
    x = np.random.default_rng(0).normal(size=(300, 1)) * np.ones(4)
    family = Gaussian("factor", rank=1, floor=0.01)
    model = Mixture(family, 1, learner="em", random_state=0).fit(x)
    np.testing.assert_allclose(model.noise_variance_, 0.01 * x.var(axis=0)[None])


def test_another_family_takes_its_attributes_along() -> None:
    x = analysers(2, 5, 2, 300)
    model = fitted(x)
    model.set_params(family=Gaussian("diag")).fit(x)
    assert not hasattr(model, "loadings_")
    assert hasattr(model, "covariances_")


def test_models_with_a_common_state_merge() -> None:
    x = analysers(2, 6, 2, 1000)
    start = fitted(x[:200]).params_
    parts = [fitted(x[i::2], init=start) for i in range(2)]
    assert mixfold.merge(parts).score(x) > fitted(x).score(x) - 0.02


def test_models_without_a_common_state_merge_whatever_their_rotations() -> None:
    x = analysers(2, 6, 2, 1000)
    parts = [fitted(x[i::2]) for i in range(2)]
    found = parts[1].params_.components
    angle = np.array([[0.0, 1.0], [-1.0, 0.0]])
    other = MixtureParams(
        parts[1].weights_[::-1].copy(),
        FactorParams(
            found.means[::-1].copy(),
            angle @ found.loadings[::-1],
            found.noise_variance[::-1].copy(),
        ),
    )
    parts[1] = fitted(x[1::2], init=other)
    assert mixfold.merge(parts, align=True).score(x) > fitted(x).score(x) - 0.02


def test_statistics_with_hidden_columns_add_up() -> None:
    rng = np.random.default_rng(0)
    d, hidden = 5, 2
    rows = rng.normal(size=(40, d))
    length = packed_length("factor", d, hidden)

    def of(rows: np.ndarray) -> Block:
        mean = rows.mean(axis=0)
        scatter = outer_like(rows - mean, length).mean(axis=0)
        n = float(len(rows))
        return Block(np.array([n]), mean[None], scatter[None])

    together, whole = of(rows[:15]) + of(rows[15:]), of(rows)
    np.testing.assert_allclose(together.mean, whole.mean)
    np.testing.assert_allclose(together.scatter, whole.scatter)
    delta = rng.normal(size=(1, d))
    np.testing.assert_array_equal(
        outer_like(delta, packed_length("factor", d, d - 1)), outer_full(delta)
    )


def test_blocks_and_threads_do_not_matter() -> None:
    x = analysers(3, 40, 4, 20_000)
    model = MixtureModel(Gaussian("factor", rank=4), 3, 40)
    params = fitted(x[:500], 3, 4, learner=EM(max_iter=2)).params_
    ends = [
        Threads(model, threads).fold(params, Rows(rows), np.zeros(model.n_sums))
        for threads in (1, 2, 3)
        for rows in (x, np.asfortranarray(x))
    ]
    assert all(equal(one, ends[0]) for one in ends)
