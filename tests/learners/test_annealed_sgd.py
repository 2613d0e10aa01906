"""Annealed stochastic gradients."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixfold
from annealed_rows import begun, pictures
from mixfold import AnnealedSGD, Gaussian, Mixture
from mixfold.backends.threads import Threads
from mixfold.core.backend_capabilities import Annealer, required
from mixfold.core.errors import InvalidInputError, LearningWarning
from mixfold.core.rows import Array, Rows
from mixfold.core.value import equal
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.annealed import anneal_batch, bumps, grid_rows, log_weights, seen
from mixfold.models.mixture_model import MixtureModel


def test_grids_are_as_square_as_they_can_be() -> None:
    assert [grid_rows(k) for k in (1, 4, 6, 7, 12, 64)] == [1, 2, 2, 1, 3, 8]


@pytest.mark.parametrize(("k", "sigma"), [(1, 0.5), (6, 0.8), (64, 2.0), (64, 0.01)])
def test_bumps_are_periodic_and_sum_to_one(k: int, sigma: float) -> None:
    g = bumps(k, grid_rows(k), sigma)
    np.testing.assert_allclose(g.sum(axis=1), 1.0)
    np.testing.assert_allclose(g, g.T)
    assert (g.argmax(axis=1) == np.arange(k)).all()
    np.testing.assert_allclose(np.sort(g, axis=1), np.sort(g, axis=1)[:1].repeat(k, axis=0))
    if sigma < 0.1:
        assert equal(g, np.eye(k))


SHAPES = [
    Gaussian("diag"),
    Gaussian("full"),
    Gaussian("factor", rank=1),
    Gaussian("factor", rank=2),
]


@pytest.mark.parametrize("family", SHAPES, ids=repr)
def test_a_step_follows_the_gradient(family: Gaussian) -> None:
    learner = AnnealedSGD(precision="float64", epsilon=1e-7, epsilon_end=1e-8, sigma=0.7)
    annealed = begun(learner, 4, 3, family)[1].annealed
    roots = np.random.default_rng(2).uniform(0.5, 4.0, size=annealed.roots.shape)
    roots = np.triu(roots) if roots.ndim == 3 else roots
    loadings = None if annealed.loadings is None else 10.0 * annealed.loadings
    annealed = replace(annealed, roots=roots, loadings=loadings)
    x = np.random.default_rng(3).random((5, 3))
    names = ["logits", "means", "roots", *([] if loadings is None else ["loadings"])]

    def loss(**moved: Array) -> float:
        state = replace(annealed, **moved)
        joint = log_weights(state.logits) + seen(state, x).log_density()
        return float((joint @ bumps(4, 2, 0.7).T).max(axis=1).mean())

    after, log_density, bound = anneal_batch(annealed, Rows(x), learner.options(4))
    kernel = ReferenceKernel(MixtureModel(family, 4, 3))
    np.testing.assert_allclose(log_density, kernel.posterior(annealed.params(), x)[0])
    assert bound.mean() == pytest.approx(loss())
    for name in names:
        start = getattr(annealed, name)
        gradient = (getattr(after, name) - start) / 1e-7
        for index in zip(*np.nonzero(start), strict=True):
            ends = []
            for sign in (1.0, -1.0):
                shifted = start.copy()
                shifted[index] += sign * 1e-6
                ends.append(loss(**{name: shifted}))
            np.testing.assert_allclose(
                gradient[index], (ends[0] - ends[1]) / 2e-6, rtol=1e-4, atol=1e-5
            )
    assert after.roots.ndim == 2 or not np.tril(after.roots, -1).any()


@pytest.mark.parametrize("shape", ["diag", "full"])
@pytest.mark.parametrize("d", [1, 3, 17, 64, 130])
@pytest.mark.parametrize(("k", "batch_size"), [(1, 1), (4, 1), (9, 1), (4, 7), (9, 3)])
def test_compiled_steps_are_the_readable_ones(k: int, batch_size: int, d: int, shape: str) -> None:
    learner = AnnealedSGD(precision="float64", epsilon=0.04, delta=0.5)
    model, state = begun(learner, k, d, Gaussian(shape))
    rng = np.random.default_rng(0)
    n = 100 if batch_size == 1 and d > 64 else 300
    x, weight = rng.random((n, d)), rng.choice([0.0, 1.0, 2.0], size=n)
    weight[21:42] = 0.0
    for rows in (Rows(x), Rows(x.astype(np.float32), weight)):
        given = state.annealed, rows, learner.options(k), batch_size
        fast, *sums = required(Threads(model, 1), Annealer).anneal(*given)
        slow, *expected = ReferenceKernel(model).anneal(*given)
        assert fast.looks == slow.looks > 0
        assert (fast.sigma, fast.epsilon, fast.wait) == (slow.sigma, slow.epsilon, slow.wait)
        assert sums == pytest.approx(expected, rel=1e-9)
        for name in ("logits", "means", "roots", "loss", "first"):
            np.testing.assert_allclose(
                getattr(fast, name), getattr(slow, name), rtol=1e-7, atol=1e-9
            )


def test_single_precision_is_close_to_double() -> None:
    x = pictures(2000)
    ends = []
    for precision in ("float32", "float64"):
        learner: Any = AnnealedSGD(precision=precision, max_iter=1)
        model = Mixture(Gaussian("diag"), 9, learner=learner, random_state=0).fit(x)
        ends.append(model.score(x))
    assert ends[0] == pytest.approx(ends[1], abs=0.5)


def test_annealing_finds_what_no_annealing_misses() -> None:
    x, other = pictures(6000), pictures(1000, seed=1)
    scores = []
    for sigma in (None, 0.01):
        learner = AnnealedSGD(cap=400.0, epsilon=0.002, epsilon_end=0.0005, max_iter=4, sigma=sigma)
        model = Mixture(Gaussian("diag"), 16, learner=learner, random_state=0).fit(x)
        scores.append(model.score(other))
    best = Mixture(Gaussian("diag"), 9, random_state=0).fit(x).score(other)
    assert scores[0] > scores[1] + 10.0
    assert scores[0] > best - 12.0


def test_thirty_thousand_columns_give_finite_numbers() -> None:
    x = np.random.default_rng(0).random((40, 30_000), dtype=np.float32)
    for learn in ("fit", "partial_fit"):
        model = Mixture(Gaussian("diag"), 16, learner=AnnealedSGD(max_iter=2), random_state=0)
        getattr(model, learn)(np.tile(x, (3, 1)) if learn == "partial_fit" else x)
        assert np.isfinite(model.score_samples(x[:3])).all()
        assert np.isfinite(model.history_.table).all()
        assert len(model.history_) > 0


def test_more_components_than_a_start_needs_rows() -> None:
    x = pictures(300, d=2)
    for learn in ("fit", "partial_fit"):
        learner = AnnealedSGD(max_iter=1)
        model = getattr(Mixture(Gaussian("diag"), 144, learner=learner, random_state=0), learn)(x)
        assert len(model.weights_) == 144


def test_streams_go_on(tmp_path: Path) -> None:
    x = pictures(900)
    whole = Mixture(Gaussian("diag"), 9, learner="annealed-sgd", random_state=0).partial_fit(x)
    parts = Mixture(Gaussian("diag"), 9, learner="annealed-sgd", random_state=0)
    parts.partial_fit(x[:300]).save(tmp_path / "m")
    again = mixfold.load(tmp_path / "m").partial_fit(x[300:899])
    again.learn_one(x[899])
    assert equal(again._now().stream.state, whole._now().stream.state)


def test_steps_that_are_not_given_suit_the_cap() -> None:
    for cap, steps in ((1.0, (0.02, 0.005)), (20.0, (0.02, 0.005)), (400.0, (0.001, 0.00025))):
        learner = AnnealedSGD(cap=cap)
        assert (learner.first_step, learner.last_step) == pytest.approx(steps)
    for batch_size, steps in ((2, (0.04, 0.01)), (8, (0.04, 0.04)), (100, (0.04, 0.04))):
        learner = AnnealedSGD(batch_size=batch_size)
        assert (learner.first_step, learner.last_step) == pytest.approx(steps)
    assert AnnealedSGD(epsilon=0.04).last_step == 0.005
    assert AnnealedSGD(cap=80.0, epsilon_end=0.006).first_step == 0.006
    assert AnnealedSGD(epsilon=0.002).last_step == 0.0005


def test_bad_settings_are_refused() -> None:
    x = pictures(100)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"epsilon": 0.1}, "product must be below 1"),
        ({"cap": 0.0}, "cap is 0"),
        ({"epsilon": 0.01, "epsilon_end": 0.1}, "epsilon_end"),
        ({"epsilon_end": "small"}, "epsilon_end is 'small'"),
        ({"epsilon": 2.0}, "product must be below 1"),
        ({"precision": "float16"}, "precision"),
    ]
    for settings, message in cases:
        with pytest.raises(InvalidInputError, match=message):
            AnnealedSGD(**settings)
    with pytest.raises(InvalidInputError, match="diag"):
        Mixture(Gaussian("tied"), 4, learner="annealed-sgd").fit(x)


@pytest.mark.parametrize(
    ("k", "said"),
    [
        (2, "n_components=2 is laid out as 1 x 2, a ring; squares such as 4 anneal"),
        (6, "n_components=6 is laid out as 2 x 3; squares such as 4 or 9 anneal better"),
        (7, "n_components=7 is laid out as 1 x 7, a ring; squares such as 4 or 9"),
    ],
)
def test_grids_that_are_not_square_are_said_once(k: int, said: str) -> None:
    x, learner = pictures(200, d=4), AnnealedSGD(max_iter=2)
    for learn in ("fit", "partial_fit"):
        model = Mixture(Gaussian("diag"), k, learner=learner, random_state=0, n_init=2)
        with pytest.warns(LearningWarning, match=said) as caught:
            getattr(model, learn)(x)
        assert len(caught) == 1
        assert caught[0].filename == __file__
    model.partial_fit(x)  # what is known needs no saying


def test_square_grids_are_not_spoken_of() -> None:
    for k in (1, 4, 9):
        Mixture(Gaussian("diag"), k, learner=AnnealedSGD(max_iter=1)).fit(pictures(50, d=4))


def test_starts_that_suit_gaussians_only_say_so() -> None:
    x = np.random.default_rng(0).poisson(3.0, size=(50, 2))
    for init in ("uniform", "around-mean"):
        with pytest.raises(InvalidInputError, match="k-mle"):
            Mixture("poisson", 2, init=init).fit(x)


def test_history_has_the_bound_and_the_likelihood(tmp_path: Path) -> None:
    x, learner = pictures(800), AnnealedSGD(max_iter=2)
    model = Mixture(Gaussian("diag"), 9, learner=learner, random_state=0).fit(x)
    history = model.history_
    assert (history.bound < history.log_likelihood).all()
    assert model.score(x) - 10.0 < history.log_likelihood[-1] < model.score(x)
    model.save(tmp_path / "m")
    assert equal(mixfold.load(tmp_path / "m").history_, history)
    other = Mixture(Gaussian("diag"), 9, learner="em", random_state=0).fit(x).history_
    assert np.isnan(other.bound).all()


@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_where_rows_lie_does_not_show(batch_size: int) -> None:
    learner = AnnealedSGD(batch_size=batch_size)
    model, state = begun(learner, 4, 50, Gaussian("factor", rank=3))
    x, ends = np.random.default_rng(0).random((210, 50)), []
    for first in range(4):
        moved = np.empty(x.size + 4)[first : first + x.size].reshape(x.shape)
        moved[:] = x
        for rows in (Rows(moved), Rows(np.asfortranarray(x))):
            ends.append(learner.step(Threads(model, 1), state, rows)[0])
    assert all(equal(end, ends[0]) for end in ends)


def test_heavy_rows_do_not_throw_means_about() -> None:
    x = pictures(400)
    fits = [
        Mixture(Gaussian("diag"), 9, learner="annealed-sgd", random_state=0).fit(
            x, sample_weight=np.full(400, weight)
        )
        for weight in (1.0, 100.0, 1e6)
    ]
    for heavy in fits[1:]:
        assert np.abs(heavy.means_).max() < 2.0
        assert heavy.score(x) > fits[0].score(x) - 20.0


def test_the_cap_of_the_family_holds() -> None:
    x = pictures(300)
    model = Mixture(Gaussian("diag", cap=5.0), 9, learner=AnnealedSGD(cap=50.0), random_state=0)
    assert model.fit(x).covariances_.min() >= 1.0 / 5.0 - 1e-6
    with pytest.raises(InvalidInputError, match="without a cap"):
        Mixture(Gaussian("full", cap=5.0), 9, learner="annealed-sgd").fit(x)


def test_annealing_has_converged_when_it_is_cold() -> None:
    x = pictures(600)
    short = Mixture(Gaussian("diag"), 9, learner=AnnealedSGD(max_iter=1), random_state=0).fit(x)
    long = Mixture(Gaussian("diag"), 9, learner=AnnealedSGD(max_iter=150), random_state=0).fit(x)
    assert not short.converged_
    assert long.converged_


@pytest.mark.parametrize("batch_size", [1, 20])
def test_heavy_rows_count_for_more(batch_size: int) -> None:
    """Two clusters of as many rows: their weights are the shares of components."""
    rng = np.random.default_rng(0)
    labels = np.arange(4000) % 2
    x = np.where(labels, 0.8, 0.2)[:, None] + 0.05 * rng.normal(size=(4000, 2))
    weight = np.where(labels, 4.0, 1.0)
    learner = AnnealedSGD(batch_size=batch_size, max_iter=10)
    model = Mixture(Gaussian("diag"), 4, learner=learner, random_state=0).fit(
        x, sample_weight=weight
    )
    heavy = model.weights_[model.means_[:, 0] > 0.5].sum()
    assert heavy == pytest.approx(0.8, abs=0.01)


class Wide:
    """A few rows of 30,000 columns, block by block."""

    def __iter__(self) -> Iterator[np.ndarray]:
        rng = np.random.default_rng(0)
        return (rng.random((10, 30_000), dtype=np.float32) for _ in range(12))


def test_thirty_thousand_columns_take_less_than_100_megabytes() -> None:
    learner = AnnealedSGD(max_iter=2)
    model = Mixture(Gaussian("diag"), 64, learner=learner, random_state=0, n_threads=1)
    tracemalloc.start()
    try:
        model.fit(Wide())
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 90e6
    assert np.isfinite(model.means_).all()
