"""The EM family: what its members have in common, and where each of them ends."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixfold import Mixture
from mixfold.backends.threads import Threads
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.rows import Rows
from mixfold.core.statistics import Block, Blocks
from mixfold.core.value import equal
from mixfold.fitting.checkpoint import Checkpoint
from mixfold.fitting.fit import Fit
from mixfold.kernels.reference import ReferenceKernel
from mixfold.learners.em import EM
from mixfold.learners.exact_mle import ExactMLE
from mixfold.learners.fast_incremental_em import FastIncrementalEM
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.learners.k_mle import KMLE
from mixfold.learners.monte_carlo_em import MonteCarloEM
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_k_mle import OnlineKMLE
from mixfold.learners.recursive_em import RecursiveEM
from mixfold.learners.sem import SEM
from mixfold.learners.variance_reduced_em import VarianceReducedEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.schedules.power import Power
from mixfold.testing import families
from mixfold.testing.folding import fold

FAMILIES = families.all_variants(2)
LINEAR = [f for f in FAMILIES if not f.statistics_depend_on_params]
ONE_OVER_N = Power(exponent=1.0, scale=1.0)
EXACT: list[Learner] = [
    ExactMLE(),
    OnlineEM(schedule=ONE_OVER_N, warmup=0),
    RecursiveEM(warmup=0),
    *(
        OnlineKMLE(strategy=strategy, schedule=ONE_OVER_N, warmup=0)
        for strategy in ("argmax", "lookahead", "sample")
    ),
]


@pytest.mark.parametrize(
    ("family", "d"),
    [
        (family, d)
        for d in (1, 3, 6)
        for family in families.all_variants(d)
        if not family.statistics_depend_on_params
    ],
    ids=repr,
)
def test_one_component_is_exact_maximum_likelihood(family: Family, d: int) -> None:
    model, params, x = families.example_mixture(family, 1, d, 80, np.random.default_rng(5))
    backend = Threads(model, 1)
    ends = []
    for learner in EXACT:
        rule = learner.resolve(len(x), d, False)
        state, _ = fold(backend, rule, params, Rows(x), [40], passes=1)
        ends.append(rule.estimate(backend, state))
    assert all(equal(ends[0], other) for other in ends)
    batch, _ = fold(backend, EM(), params, Rows(x), [], passes=1)
    np.testing.assert_allclose(
        model.unconstrained(ends[0]), model.unconstrained(batch.params), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("k", [2, 3, 4, 5, 8, 9, 17])
def test_rows_draw_the_same_components_in_compiled_code(k: int) -> None:
    model, params, x = families.example_mixture(_gaussian(), k, 2, 600, np.random.default_rng(k))
    weight = np.where(np.arange(600) % 7 == 0, 0.0, 1.0)
    learner = OnlineKMLE(strategy="sample", warmup=20).resolve(600, 2, False)
    ends = []
    for kernel in (None, ReferenceKernel(model)):
        backend = Threads(model, 1, kernel)
        state, _ = fold(backend, learner, params, Rows(x, weight), [100, 101], passes=1)
        ends.append(model.unconstrained(learner.estimate(backend, state)))
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6, atol=1e-6)


def overlapping(n: int = 4000) -> tuple[MixtureModel, MixtureParams, Rows]:
    """Rows, and a start that is wrong but not lost."""
    rng = np.random.default_rng(3)
    family = FAMILIES[[repr(f) for f in FAMILIES].index(repr(_gaussian()))]
    x = np.where(rng.random(n) < 0.4, rng.normal(size=n), 3.0 + 0.7 * rng.normal(size=n))[:, None]
    components, _ = family.maximize(_blocks([-0.5, 2.0], [2.0, 2.0]))
    return MixtureModel(family, 2, 1), MixtureParams(np.array([0.5, 0.5]), components), Rows(x)


def _gaussian() -> Family:
    from mixfold.families.gaussian import Gaussian

    return Gaussian()


def _blocks(means: list[float], variances: list[float]) -> Blocks:
    column = np.array(means)[:, None], np.array(variances)[:, None]
    return (Block(np.array([0.5, 0.5]), *column),)


def learned(learner: Learner, passes: int) -> np.ndarray:
    model, params, rows = overlapping()
    backend = Threads(model, 1)
    rule = learner.resolve(len(rows), 1, False)
    state, _ = fold(backend, rule, params, rows, [1000], passes=passes)
    return model.unconstrained(rule.estimate(backend, state))


@cache
def end_of_em() -> np.ndarray:
    return learned(EM(tol=0.0, max_iter=1000), 800)


def test_a_batch_of_all_rows_is_em() -> None:
    np.testing.assert_allclose(
        learned(IncrementalEM(batch_size=4000), 6), learned(EM(), 6), rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize(
    ("learner", "passes", "tolerance"),
    [
        (IncrementalEM(batch_size=1), 40, 1e-6),
        (IncrementalEM(batch_size=100, precision="float32"), 60, 1e-5),
        (IncrementalEM(batch_size=0.5), 150, 1e-5),
        (FastIncrementalEM(), 30, 2e-3),
        (FastIncrementalEM(batch_size=100), 60, 2e-3),
        (VarianceReducedEM(), 30, 2e-3),
        (VarianceReducedEM(batch_size=100), 60, 2e-3),
        (SEM(), 150, 0.03),
        (MonteCarloEM(max_iter=150), 150, 0.02),
        (MonteCarloEM(batch_size=400), 60, 0.05),
        (OnlineEM(schedule=Power(0.9)), 20, 0.05),
        (RecursiveEM(), 100, 0.08),
        (OnlineKMLE(strategy="sample", schedule=Power(0.9)), 20, 0.08),
    ],
    ids=repr,
)
def test_ends_where_em_ends(learner: Learner, passes: int, tolerance: float) -> None:
    assert np.abs(learned(learner, passes) - end_of_em()).max() < tolerance


@pytest.mark.parametrize(
    "learner",
    [KMLE(), *(OnlineKMLE(strategy=s, schedule=Power(0.9)) for s in ("argmax", "lookahead"))],
    ids=repr,
)
def test_hard_assignments_are_biased(learner: Learner) -> None:
    end = learned(EM(tol=0.0, max_iter=1000), 800)
    found = learned(learner, 40)
    assert np.abs(found - end).max() > 0.05
    assert found[0, 2] < end[0, 2] - 0.05  # the wide component loses what it shares


def test_k_mle_raises_the_complete_likelihood() -> None:
    model, params, rows = overlapping()
    backend, learner, reached = Threads(model, 1), KMLE(), -np.inf
    for _ in range(15):
        now = model.log_joint(params, rows.x).max(axis=1).sum()
        assert now >= reached - 1e-9
        reached = now
        params = fold(backend, learner, params, rows, [], passes=1)[0].params


def test_recursive_em_is_projected_and_says_so() -> None:
    model, params, rows = overlapping()
    backend, learner = Threads(model, 1), RecursiveEM(warmup=0)
    state, _ = fold(backend, learner, params, rows, [], passes=1)
    assert state.n_degenerate > 0
    assert np.isfinite(model.unconstrained(state.params)).all()


def some_rows(n: int = 900) -> np.ndarray:
    rng = np.random.default_rng(2)
    return rng.normal(size=(n, 2)) + 5.0 * rng.integers(3, size=(n, 1))


@pytest.mark.parametrize("kind", [IncrementalEM, FastIncrementalEM])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("batch_size", [1, 70])
def test_memory_on_file(kind: Any, precision: str, batch_size: int, tmp_path: Path) -> None:
    x = some_rows()
    learner = {"batch_size": batch_size, "precision": precision}
    inside = Mixture(n_components=3, learner=kind(**learner), random_state=0, max_iter=5).fit(x)
    outside = kind(**learner, memory=str(tmp_path / "r"))
    model = Mixture(n_components=3, learner=outside, random_state=0, max_iter=5).fit(x)
    assert equal(model.params_, inside.params_)
    sizes = {file.name: file.stat().st_size for file in tmp_path.iterdir()}
    bytes_per_row = 3 * np.dtype(precision).itemsize
    assert sizes == {"r.0": 64 + 900 * bytes_per_row, "r.1": 64 + 900 * bytes_per_row}


@pytest.mark.parametrize("every", [0.0, 1e9])
def test_memory_on_file_resumes(
    every: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the last checkpoint is that of the last pass, and rows were learned since."""
    monkeypatch.setattr("mixfold.sources.array_source.block_length", lambda d: 128)
    x = some_rows()

    def mixture(folder: Path, **more: Any) -> Mixture:
        learner = IncrementalEM(batch_size=50, memory=str(folder / "r"), tol=0.0, max_iter=4)
        return Mixture(n_components=3, learner=learner, random_state=0, **more)

    (tmp_path / "alone").mkdir()
    alone = mixture(tmp_path / "alone").fit(x)
    kept, blocks = Checkpoint.keep, 0

    def crash(self: Checkpoint, fit: Fit) -> None:
        nonlocal blocks
        kept(self, fit)
        blocks += 1
        if blocks % 11 == 0 and not fit.done:
            raise RuntimeError

    monkeypatch.setattr(Checkpoint, "keep", crash)
    monkeypatch.setattr(Checkpoint, "write", _only_in_keep(Checkpoint.write))
    again = {"checkpoint": tmp_path / "c", "checkpoint_every": every, "resume": True}
    stops = 0
    while True:
        try:
            model = mixture(tmp_path, **again).fit(x)
        except RuntimeError:
            stops += 1
            continue
        break
    assert stops >= 3
    assert equal(model.params_, alone.params_)


def _only_in_keep(write: Any) -> Any:
    """What a kill leaves: no checkpoint is written on the way out."""
    import sys

    def guarded(self: Checkpoint, fit: Fit) -> None:
        if sys._getframe(1).f_code.co_name == "keep":
            write(self, fit)

    return guarded


def stream() -> Iterator[np.ndarray]:
    yield some_rows(300)


REREADS: list[Learner] = [IncrementalEM(), FastIncrementalEM(), VarianceReducedEM()]


@pytest.mark.parametrize("learner", REREADS, ids=repr)
def test_a_source_that_can_be_read_once_is_refused(learner: Learner) -> None:
    model = Mixture(n_components=3, learner=learner, random_state=0).fit(some_rows())
    before = model._learned
    with pytest.raises(ValueError, match=r"read only once: .*online-em"):
        model.fit(stream())
    with pytest.raises(ValueError, match=r"stream does not allow: use learner='online-em'"):
        model.partial_fit(some_rows())
    assert model._learned is before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OnlineKMLE(strategy="argmin"), "unknown strategy 'argmin'. Did you mean 'argmax'"),
        (lambda: OnlineKMLE(strategy="lookahead", batch_size=5), "batch_size=1 is needed"),
        (lambda: KMLE(accelerate=True), "accelerate=False"),
        (lambda: IncrementalEM(batch_size=0), "batch_size is 0"),
        (lambda: IncrementalEM(batch_size=2.5), "batch_size is 2.5"),
        (lambda: IncrementalEM(precision="float16"), "unknown precision 'float16'"),
        (lambda: FastIncrementalEM(rho=1.5), "rho is 1.5"),
        (lambda: MonteCarloEM(draws=0), "draws is 0"),
    ],
)
def test_wrong_settings(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_monte_carlo_em_needs_batches_in_a_stream() -> None:
    with pytest.raises(ValueError, match="give batch_size"):
        Mixture(n_components=2, learner="monte-carlo-em").partial_fit(some_rows())
    model = Mixture(n_components=3, learner=MonteCarloEM(batch_size=50), random_state=0)
    assert model.partial_fit(some_rows()).partial_fit(some_rows()).n_seen_ == 1800


@pytest.mark.parametrize("strategy", ["argmax", "lookahead", "sample"])
def test_learn_one_is_partial_fit(strategy: str) -> None:
    x = some_rows(400)
    learner = OnlineKMLE(strategy=strategy)
    whole = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x)
    single = Mixture(n_components=3, learner=learner, random_state=0)
    for row in x:
        single.learn_one(row)
    assert equal(single.params_, whole.params_)
    assert equal(single._now().stream.state, whole._learned.stream.state)


def test_a_saved_model_does_not_hold_the_rows(tmp_path: Path) -> None:
    model = Mixture(n_components=3, learner="incremental-em", random_state=0).fit(some_rows(20_000))
    model.save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 100_000
