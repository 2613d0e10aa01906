"""What learners make of the number of rows, and which settings they refuse at the border."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.learners._batches import check_batch_size, rows_per_batch
from mixfold.learners._scale_warning import out_of_scale
from mixfold.learners.annealed_sgd import AnnealedSGD, uneven_grid
from mixfold.learners.auto import Auto
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.em import EM
from mixfold.learners.exact_mle import ExactMLE
from mixfold.learners.fast_incremental_em import FastIncrementalEM
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.monte_carlo_em import MonteCarloEM
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_vb import OnlineVB
from mixfold.learners.reservoir_em import ReservoirEM
from mixfold.learners.stepwise_em import StepwiseEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.schedules.constant import Constant
from mixfold.schedules.power import Power


@pytest.mark.parametrize(
    ("n", "size"),
    [(None, 1024), (100, 32), (640, 32), (659, 32), (660, 33), (163_840, 8192), (10**7, 8192)],
)
def test_rows_of_a_mini_batch(n: int | None, size: int) -> None:
    learner: Any = MiniBatchEM().resolve(n, 3, False)
    assert learner.batch_size == size


@pytest.mark.parametrize(
    ("n", "d", "size"),
    [
        (None, 8, 2**19),
        (None, 16, 2**18),
        (None, 2**13, 1024),
        (20_001, 2, 1024),
        (3_200_000, 2, 100_000),
        (10**9, 2, 2**19),
    ],
)
def test_rows_of_a_batch_of_auto(n: int | None, d: int, size: int) -> None:
    learner: Any = Auto().resolve(n, d, False)
    assert learner.batch_size == size
    assert equal(Auto(batch_size=7).resolve(n, d, False), Auto(batch_size=7))


def test_auto_is_em_where_the_sample_is_everything() -> None:
    auto = Auto(sample_size=100, tol=0.25, max_iter=7)
    assert equal(auto.resolve(100, 2, False), EM(0.25, 7, True, prior_strength=1.0))
    assert isinstance(auto.resolve(101, 2, False), Auto)
    assert isinstance(auto.resolve(None, 2, False), Auto)
    assert equal(auto.resolve(10, 2, True), ReservoirEM(sample_size=100))
    assert auto.prior_count(17, 3, 2) == 17
    assert Auto(max_iter=0).max_iter == 0
    for settings in ({"starts": 0}, {"sample_size": 0}, {"max_iter": -1}, {"batch_size": 0}):
        with pytest.raises(InvalidInputError, match=next(iter(settings))):
            Auto(**settings)
    with pytest.raises(InvalidInputError, match="tol"):
        Auto(tol=-1.0)


def test_batch_sizes() -> None:
    assert rows_per_batch(7, 100) == 7
    assert rows_per_batch(1.0, 100) == 1
    assert rows_per_batch(0.25, 100) == 25
    assert rows_per_batch(0.001, 100) == 1
    assert rows_per_batch(0.026, 100) == 3
    with pytest.raises(InvalidInputError, match=r"batch_size=0.5"):
        rows_per_batch(0.5, None)
    for good in (1, 0.3, 2.0, 5):
        check_batch_size(good)
    for wrong in (0.0, -1, 1.5):
        with pytest.raises(InvalidInputError, match="batch_size"):
            check_batch_size(wrong)


def test_rows_that_do_not_move_parameters() -> None:
    assert OnlineEM().resolve(None, 4, True).warmup == 50  # type: ignore[attr-defined]
    assert OnlineEM(warmup=3).resolve(None, 4, True).warmup == 3  # type: ignore[attr-defined]
    assert StepwiseEM().resolve(258, 4, False).warmup == 25  # type: ignore[attr-defined]
    assert StepwiseEM().resolve(None, 4, True).warmup == 50  # type: ignore[attr-defined]
    assert StepwiseEM(warmup=9).resolve(258, 4, False).warmup == 9  # type: ignore[attr-defined]
    assert StepwiseEM().prior_count(10, 3, 2) == 0


def test_rows_that_a_start_counts_for() -> None:
    """At least until steps replace no more than one row in 5 K (d + 1)."""
    window = 5 * 3 * 3
    first = next(
        i for i in [int(2 ** (j / 8)) for j in range(200)] if 1.0 / (i + 1) <= 1.0 / window
    )
    learner = OnlineEM(schedule=Power(1.0, 1.0))
    assert learner.prior_count(20, 3, 2) == max(first, 20)
    assert learner.prior_count(80, 3, 2) == 80
    assert learner.prior_count(10**6, 3, 2) == 100  # a start is drawn from no more
    assert ExactMLE().prior_count(100, 1, 2) == 0
    assert ExactMLE().prior_count(80, 3, 2) == 80
    batches = MiniBatchEM(batch_size=10, schedule=Power(1.0, 1.0))
    first = next(
        i for i in [0, *(int(2 ** (j / 8)) for j in range(99))] if 1 / (i + 1) <= 10 / window
    )
    assert batches.prior_count(10**6, 3, 2) == 10 * first
    assert MiniBatchEM(batch_size=1, schedule=Constant(0.5)).prior_count(10, 3, 2) == 0


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: OnlineEM(max_iter=0), "max_iter"),
        (lambda: OnlineEM(warmup=-1), "warmup"),
        (lambda: OnlineEM(batch_size=0), "batch_size"),
        (lambda: OnlineEM(average_from=0), "average_from"),
        (lambda: OnlineEM(truncation=0.0), "truncation"),
        (lambda: MonteCarloEM(draws=0), "draws"),
        (lambda: StepwiseEM(cap=0.0), "cap"),
        (lambda: EM(tol=-1e-9), "tol"),
        (lambda: EM(max_iter=-1), "max_iter"),
        (lambda: EM(criterion="gain"), "criterion"),  # type: ignore[arg-type]
        (lambda: IncrementalEM(max_iter=0), "max_iter"),
        (lambda: FastIncrementalEM(rho=0.0), "rho"),
        (lambda: FastIncrementalEM(rho=1.01), "rho"),
        (lambda: IncrementalEM(memory=3), "memory"),  # type: ignore[arg-type]
        (lambda: OnlineVB(batch_size=0), "batch_size"),
        (lambda: OnlineVB(max_iter=0), "max_iter"),
        (lambda: OnlineVB(n_rows=0), "n_rows"),
        (lambda: OnlineVB(form="streaming", max_iter=2), "max_iter"),
        (lambda: DriftAware(window=0), "window"),
        (lambda: AnnealedSGD(batch_size=0), "batch_size"),
        (lambda: AnnealedSGD(batch_size=2**31), "batch_size"),
        (lambda: AnnealedSGD(max_iter=0), "max_iter"),
        (lambda: AnnealedSGD(cap=0.0), "cap"),
        (lambda: AnnealedSGD(cap=1e16), "cap"),
        (lambda: AnnealedSGD(delta=0.0), "delta"),
        (lambda: AnnealedSGD(decay=0.0), "decay"),
        (lambda: AnnealedSGD(decay=1.1), "decay"),
        (lambda: AnnealedSGD(sigma=0.0), "sigma"),
        (lambda: AnnealedSGD(sigma_end=0.0), "sigma_end"),
        (lambda: AnnealedSGD(epsilon=0.0), "epsilon"),
        (lambda: AnnealedSGD(epsilon_end=0.0), "epsilon_end"),
        (lambda: AnnealedSGD(epsilon=0.01, epsilon_end=0.02), "epsilon_end"),
        (lambda: AnnealedSGD(epsilon=0.05, cap=20.0), "overshoot"),
        (lambda: AnnealedSGD(scale=1), "scale"),  # type: ignore[arg-type]
    ],
)
def test_settings_beyond_the_border(make: Any, name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        make()


def test_settings_at_the_border() -> None:
    OnlineEM(max_iter=1, warmup=0, batch_size=1, average_from=1, truncation=0.1)
    EM(tol=0.0, max_iter=0)
    FastIncrementalEM(rho=1.0)
    OnlineVB(batch_size=1, max_iter=1, n_rows=1, form="streaming")
    DriftAware(window=1)
    AnnealedSGD(batch_size=2**31 - 1, decay=1.0, epsilon=0.01, epsilon_end=0.01)
    AnnealedSGD(epsilon=0.0499, cap=20.0)


def test_steps_of_annealed_gradients() -> None:
    """0.02, or two fifths of 1 / cap; twice that in batches; the last is a quarter, times rows."""
    assert (AnnealedSGD().first_step, AnnealedSGD().last_step) == (0.02, 0.005)
    assert AnnealedSGD(cap=400.0).first_step == pytest.approx(0.001)
    assert AnnealedSGD(batch_size=2).first_step == 0.04
    assert AnnealedSGD(batch_size=3).first_step == 0.04
    assert AnnealedSGD(batch_size=3).last_step == pytest.approx(0.015)
    assert AnnealedSGD(batch_size=100).last_step == 0.04
    assert AnnealedSGD(epsilon_end=0.03).first_step == 0.03
    assert AnnealedSGD(epsilon=0.01).last_step == 0.0025
    assert AnnealedSGD(epsilon=0.03).last_step == 0.005


def test_what_annealing_begins_with() -> None:
    model = MixtureModel(Gaussian("diag"), 4, 2)
    params = MixtureParams(np.full(4, 0.25), model.family.example(4, 2, np.random.default_rng(0)))
    learner = AnnealedSGD(cap=9.0, precision="float64")
    began = learner.init(Threads(model, 1), params).annealed
    assert began.sigma == 1.0
    assert began.epsilon == 0.02
    assert began.wait == 50
    assert (began.roots == 3.0).all()
    np.testing.assert_allclose(began.logits, np.log(params.weights))
    np.testing.assert_array_equal(began.means, params.components.means)
    rule = learner.options(4)
    assert (rule.most_root, rule.least_root) == (3.0, 3e-3)
    assert learner.options(4, 4.0).most_root == 2.0
    assert learner.options(4, 16.0).most_root == 3.0
    narrow = AnnealedSGD(sigma=0.3, cap=9.0).init(Threads(model, 1), params).annealed
    assert narrow.sigma == 0.3
    assert learner.converged(learner.init(Threads(model, 1), params)) is False


@pytest.mark.parametrize(
    ("k", "said"),
    [
        (1, ""),
        (4, ""),
        (9, ""),
        (7, "1 x 7, a ring; squares such as 4 or 9"),
        (6, "2 x 3; squares"),
        (2, "1 x 2, a ring; squares such as 4 "),
    ],
)
def test_grids_that_are_not_square(k: int, said: str) -> None:
    found = uneven_grid(k)
    assert len(found) == (said != "")
    assert said in "".join(found)


def test_rows_of_another_scale() -> None:
    """Within 3 / sqrt(step) of zero, and no narrower than a quarter of what a cap resolves."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (1000, 2))
    assert out_of_scale(Rows(x), 0.01, 20.0) == []
    (far,) = out_of_scale(Rows(32.0 * x), 0.01, 20.0, ", or else")
    assert "within 30 of zero" in far
    assert far.endswith(", or else")
    assert out_of_scale(Rows(30.0 * x), 0.01, 20.0) == []
    (dull,) = out_of_scale(Rows(0.09 * x), 0.01, 20.0)  # deviations of 0.052, a quarter is 0.056
    assert "deviations of 0.05" in dull
    assert "above 0.224" in dull
    assert out_of_scale(Rows(0.1 * x), 0.01, 20.0) == []
    assert out_of_scale(Rows(np.zeros((5, 2))), 0.01, 20.0) == []
    # the widest column counts, and few rows far away do not
    assert out_of_scale(Rows(x * [0.01, 1.0]), 0.01, 20.0) == []
    x[:5] = 1e6
    assert out_of_scale(Rows(x), 0.01, 20.0) == []


def test_learners_that_do_not_serve() -> None:
    poisson = MixtureModel(Poisson(), 2, 1)
    assert OnlineEM(truncation=5.0).why_unsupported(poisson) is None
    assert EM().why_unsupported(poisson) is None
    assert "annealed gradients" in str(AnnealedSGD().why_unsupported(poisson))
    assert AnnealedSGD().why_unsupported(MixtureModel(Gaussian("diag"), 2, 1)) is None
    tied = MixtureModel(Gaussian("tied"), 2, 1)
    assert "conjugate prior" in str(OnlineVB().why_unsupported(tied))
    assert OnlineVB().why_unsupported(poisson) is None


def test_weight_of_some_of_the_rows() -> None:
    model = MixtureModel(Poisson(), 2, 1)
    params = MixtureParams(np.full(2, 0.5), model.family.example(2, 1, np.random.default_rng(0)))
    backend, learner = Threads(model, 1), OnlineEM()
    state = learner.init(backend, params)
    assert learner.resolve(10, 1, False).weight_learned(state, 4) == 0.0
    rule = learner.resolve(10, 1, False)
    rows = Rows(np.ones((8, 1)), np.full(8, 3.0))
    state, _ = rule.step(backend, state, rows)
    assert rule.weight_learned(state, 4) == 12.0
