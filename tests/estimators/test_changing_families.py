"""Streams whose cells begin to be missing: nothing is lost, and blocks do not matter."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixfold
from mixfold import Gaussian, Mixture, Poisson, Product, StudentT
from mixfold.core.errors import InvalidInputError
from mixfold.core.value import equal
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_vb import OnlineVB
from mixfold.learners.reservoir_em import ReservoirEM

N, FIRST = 420, 210  # rows, and the first with a missing cell
MIXED = Product({0: "gaussian", 1: "poisson", 2: "bernoulli"})
LEARNERS: list[Any] = [
    "auto",
    "exact-mle",
    "k-mle",
    "mini-batch-em",
    "online-em",
    OnlineEM(batch_size=13, average_from=20),
    "online-k-mle",
    "recursive-em",
    "sem",
    "stepwise-em",
    DriftAware(OnlineEM(), window=50),
    ReservoirEM(memory_budget=1, starts=2),  # 512 rows are kept
]


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=N)
    x = np.column_stack([rng.normal(0.5 * z, 0.2), rng.poisson(2 + 8 * z), rng.random(N) < z])
    x = x.astype(np.float64)
    x[FIRST + 1 :][rng.random((N - FIRST - 1, 3)) < 0.2] = np.nan
    x[FIRST, 1] = np.nan
    return x


X = rows()


def in_blocks(model: Mixture, x: np.ndarray, *ends: int) -> Mixture:
    for part in np.split(x, ends):
        model.partial_fit(part)
    return model


NOISY = X + np.random.default_rng(3).normal(0.0, 0.1, X.shape)
CASES = {
    "mixed": (MIXED, X),
    "diag": (Gaussian("diag"), NOISY),
    "factor": (Gaussian("factor", rank=1), NOISY),
    "t": (StudentT(), NOISY),
    "counts": (Poisson(), np.floor(np.abs(10.0 * NOISY))),
}


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("case", CASES)
def test_blocks_do_not_matter(case: str, learner: Any) -> None:
    family, x = CASES[case]
    if case in ("factor", "t") and learner in ("exact-mle", "recursive-em"):
        pytest.skip("these learners need statistics that depend on responsibilities alone")
    if learner == "stepwise-em":
        x = np.minimum(x, 20.0)
    models = [Mixture(family, 2, learner=learner, random_state=0) for _ in range(3)]
    whole, halves, small = models
    in_blocks(whole, x)
    in_blocks(halves, x, 97, FIRST + 2, FIRST + 60)
    in_blocks(small, x, *range(5, N, 5))
    for other in (halves, small):
        assert equal(other.params_, whole.params_)
        assert equal(other._now().stream.state, whole._now().stream.state)
    assert np.isfinite(whole.score(x))


def test_blocks_do_not_matter_when_rows_were_dropped() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 2)) + 4.0 * rng.integers(2, size=(3000, 1))
    x[1500:][rng.random((1500, 2)) < 0.1] = np.nan
    learner = ReservoirEM(memory_budget=1, starts=2)
    one, other = (Mixture(Gaussian("diag"), 2, learner=learner, random_state=0) for _ in "ab")
    in_blocks(one, x)
    in_blocks(other, x, 700, 1400, 1700)
    assert equal(one.params_, other.params_)


@pytest.mark.parametrize("learner", ["auto", "exact-mle", ReservoirEM(memory_budget=1)], ids=repr)
def test_one_component_has_the_means_of_the_observed_cells(learner: Any) -> None:
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.normal(5.0, 2.0, 2000), rng.poisson(3.0, 2000)])
    x[900:][rng.random((1100, 2)) < 0.3] = np.nan
    model = Mixture(Product({0: "gaussian", 1: "poisson"}), 1, learner=learner, random_state=0)
    in_blocks(model, x, 300, 1000, 1001)
    np.testing.assert_allclose(model.means_[0], np.nanmean(x, axis=0), rtol=1e-10)
    variance = model.parameters_[0]["covariances"].ravel()
    np.testing.assert_allclose(variance, np.nanvar(x[:, 0]), rtol=1e-8)


@pytest.mark.parametrize("learner", ["moment-matching", OnlineVB(batch_size=30)], ids=repr)
@pytest.mark.parametrize("case", ["mixed", "diag"])
def test_posteriors_do_not_depend_on_blocks(case: str, learner: Any) -> None:
    family, x = CASES[case]
    one, other = (Mixture(family, 2, learner=learner, random_state=0) for _ in "ab")
    in_blocks(one, x)
    in_blocks(other, x, 100, FIRST - 1, FIRST + 3)
    assert equal(one.posterior_, other.posterior_)


def test_a_learner_without_missing_cells_says_so() -> None:
    model = Mixture(Gaussian("diag"), 4, learner="annealed-sgd", random_state=0)
    model.partial_fit(NOISY[:FIRST] / 10.0)
    before = model.params_
    with pytest.raises(InvalidInputError, match="has no annealed gradient"):
        model.partial_fit(NOISY[FIRST:] / 10.0)
    assert equal(model.params_, before)
    assert model.n_rows_ == FIRST


def test_copies_from_before_the_first_missing_cell_can_be_merged(tmp_path: Path) -> None:
    model = Mixture(MIXED, 2, learner="online-em", random_state=0).partial_fit(X[:200])
    other = copy(model)
    model.partial_fit(X[200:300])
    other.partial_fit(X[300:])
    model.save(tmp_path / "one.mixfold")
    both = mixfold.merge([mixfold.load(tmp_path / "one.mixfold"), other])
    assert both.n_rows_ == N
    assert abs(both.score(X) - Mixture(MIXED, 2, random_state=0).fit(X).score(X)) < 0.1
