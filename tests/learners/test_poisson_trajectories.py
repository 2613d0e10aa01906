"""Learners of the EM kind against loops over rows of a Poisson mixture, written in plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.learner import Learner
from mixfold.core.rows import Rows
from mixfold.families.poisson import Poisson
from mixfold.kernels.reference import ReferenceKernel
from mixfold.learners.em import EM
from mixfold.learners.fast_incremental_em import FastIncrementalEM
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_k_mle import OnlineKMLE
from mixfold.learners.recursive_em import RecursiveEM
from mixfold.learners.variance_reduced_em import VarianceReducedEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.schedules.constant import Constant
from mixfold.schedules.power import Power

Stat = np.ndarray  # of K rows: the weight, then weighted means of the columns
Step = Callable[[float], float]
MODEL = MixtureModel(Poisson(), 2, 2)
START_WEIGHTS, START_MEANS = np.array([0.4, 0.6]), np.array([[2.0, 5.0], [6.0, 3.0]])


def data(n: int = 23) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and weights of which some are zero."""
    rng = np.random.default_rng(4)
    means = np.array([[1.0, 7.0], [8.0, 2.0]])[rng.integers(2, size=n)]
    weight = rng.uniform(0.3, 3.0, size=n)
    weight[[0, 4, 5, n - 1]] = 0.0
    return rng.poisson(means).astype(np.float64), weight


def start() -> Stat:
    return np.column_stack([START_WEIGHTS, START_WEIGHTS[:, None] * START_MEANS])


def shares(x: np.ndarray, weights: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Responsibilities: w_k prod_j exp(-m) m^x / x!, of which x! cancels."""
    joint = np.log(weights) + x @ np.log(means).T - means.sum(axis=1)
    joint = np.exp(joint - joint.max(axis=1, keepdims=True))
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def theta(s: Stat) -> tuple[np.ndarray, np.ndarray]:
    return s[:, 0] / s[:, 0].sum(), s[:, 1:] / s[:, :1]


def sbar(x: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Of every row: its share of each component, and share times x."""
    return np.asarray(r[:, :, None] * np.insert(x, 0, 1.0, axis=1)[:, None, :])


def log_likelihood(x: np.ndarray, weight: np.ndarray, s: Stat) -> float:
    from scipy.stats import poisson

    weights, means = theta(s)
    density = weights * np.exp(poisson.logpmf(x[:, None, :], means).sum(axis=2))
    return float(weight @ np.log(density.sum(axis=1)) / weight.sum())


def run(
    learner: Learner,
    x: np.ndarray,
    weight: np.ndarray | None,
    passes: int = 1,
    seen: int = 0,
    reference: bool = False,
    state: Any = None,
) -> tuple[Any, list[Any], np.ndarray]:
    """The state after passes in blocks of five rows, what was told, and the estimate."""
    backend = Threads(MODEL, 1, ReferenceKernel(MODEL) if reference else None)
    params = MixtureParams(START_WEIGHTS, MODEL.family.maximize(_blocks(start()))[0])
    state = learner.init(backend, params, seen) if state is None else state
    infos = []
    for _ in range(passes):
        for i in range(0, len(x), 5):
            rows = Rows(x[i : i + 5], None if weight is None else weight[i : i + 5])
            state, some = learner.step(backend, state, rows)
            infos += some
        state, some = learner.end_pass(backend, state)
        infos += some
    return state, infos, numbers(learner.estimate(backend, state))


def _blocks(s: Stat) -> Any:
    from mixfold.core.statistics import Block

    mean = s[:, 1:] / s[:, :1]
    return (Block(s[:, 0], mean, np.empty((len(s), 0))),)


def numbers(params: Any) -> np.ndarray:
    return np.column_stack([params.weights, params.components.means])


def close(found: np.ndarray, s: Stat) -> None:
    weights, means = theta(s)
    np.testing.assert_allclose(found, np.column_stack([weights, means]), rtol=1e-10)


class Steps:
    """Step sizes by their definition: a weight is counted in units of the mean weight so far."""

    def __init__(self, schedule: Any, size: int, prior: float = 0.0) -> None:
        self.schedule, self.size, self.prior = schedule, size, prior
        self.rows, self.weight = 0, 0.0

    def next(self, weight: np.ndarray) -> float:
        """The step of the batch of these weights."""
        self.rows += int((weight > 0).sum())
        self.weight += float(weight.sum())
        share = weight.sum() / (self.weight / self.rows)
        before = max(0.0, self.prior + self.rows - share) / self.size
        gamma = float(self.schedule(np.array([before + 1.0]))[0])
        batch = share / self.size  # batches of mean weight
        odds = batch * gamma / (1.0 - gamma) if gamma < 1.0 else np.inf
        return 1.0 if odds == np.inf else odds / (1.0 + odds)


def assigned(strategy: str, x: np.ndarray, s: Stat, held: Stat, gamma: float) -> np.ndarray:
    if strategy == "soft":
        return shares(x, *theta(held))
    if strategy == "argmax":
        return np.asarray(np.eye(2)[shares(x, *theta(held)).argmax(axis=1)])
    values = []
    for k in range(2):  # the joint density of the row and k after the M-step that k would cause
        after = s + gamma * (sbar(x, np.eye(2)[[k]])[0] - s)
        weights, means = theta(after)
        values.append(np.log(weights[k]) + (x[0] * np.log(means[k]) - means[k]).sum())
    return np.eye(2)[[int(np.argmax(values))]]


def stochastic(
    x: np.ndarray,
    weight: np.ndarray,
    steps: Steps,
    warmup: int = 0,
    strategy: str = "soft",
    recursive: bool = False,
) -> tuple[list[Stat], list[float]]:
    """Parameters (as statistics) after every batch, and the steps taken."""
    s, held, path, taken = start(), start(), list[Stat](), list[float]()
    for i in range(0, len(x), steps.size):
        xs, ws = x[i : i + steps.size], weight[i : i + steps.size]
        if not ws.sum() > 0:
            continue
        gamma = steps.next(ws)
        batch = sbar(xs, assigned(strategy, xs, s, held, gamma))
        mean = (ws[:, None, None] * batch).sum(axis=0) / ws.sum()
        if recursive:
            weights, means = theta(s)
            moved = means + gamma * (mean[:, 1:] - mean[:, :1] * means) / weights[:, None]
            weights = weights + gamma * (mean[:, 0] - weights)
            s = np.column_stack([weights, weights[:, None] * moved])
        else:
            s = s + gamma * (mean - s)
        held = s if i + len(xs) > warmup else held
        path.append(held)
        taken.append(gamma)
    return path, taken


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("schedule", [Power(0.7, 0.9), Constant(0.05), Power(1.0, 1.0)], ids=repr)
@pytest.mark.parametrize(("size", "warmup", "seen"), [(1, 7, 3), (4, 0, 10), (6, 9, 0)])
@pytest.mark.parametrize("strategy", ["soft", "argmax"])
def test_stochastic_approximation(
    weighted: bool,
    reference: bool,
    schedule: Any,
    size: int,
    warmup: int,
    seen: int,
    strategy: str,
) -> None:
    x, weight = data()
    settings = {"batch_size": size, "schedule": schedule, "warmup": warmup}
    learner = (
        OnlineEM(**settings) if strategy == "soft" else OnlineKMLE(strategy="argmax", **settings)
    )
    weights = weight if weighted else np.ones(len(x))
    path, taken = stochastic(x, weights, Steps(schedule, size, seen), warmup, strategy)
    state, infos, found = run(
        learner, x, weight if weighted else None, seen=seen, reference=reference
    )
    close(found, path[-1])
    assert infos[-1].step_size == pytest.approx(taken[-1], rel=1e-10)
    assert sum(info.rows for info in infos) <= len(x)
    assert (state.rows, state.updates, state.passes) == (len(x), len(path), 1)
    assert state.learned.weight == pytest.approx(weights.sum(), rel=1e-12)
    assert state.learned.rows == (weights > 0).sum()


@pytest.mark.parametrize("reference", [False, True])
def test_looking_ahead(reference: bool) -> None:
    x, weight = data()
    schedule = Power(0.6, 0.8)
    learner = OnlineKMLE(strategy="lookahead", schedule=schedule, warmup=0)
    path, _ = stochastic(x, weight, Steps(schedule, 1, 4.0), strategy="lookahead")
    close(run(learner, x, weight, seen=4, reference=reference)[2], path[-1])


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("size", [1, 5])
def test_recursion_in_the_parameters(reference: bool, size: int) -> None:
    x, weight = data()
    learner = RecursiveEM(batch_size=size, schedule=Constant(0.02), warmup=0)
    path, _ = stochastic(x, weight, Steps(Constant(0.02), size, 4.0), recursive=True)
    state, _, found = run(learner, x, weight, seen=4, reference=reference)
    close(found, path[-1])
    assert state.n_degenerate == 0


@pytest.mark.parametrize("average_from", [1, 3, 6, 7])
def test_averaging_is_a_mean_of_iterates(average_from: int) -> None:
    """Of log weights and log means, the coordinates in which parameters are blended, or of them."""
    x, weight = data()
    learner = MiniBatchEM(batch_size=4, schedule=Power(0.6), average_from=average_from)
    path, _ = stochastic(x, weight, Steps(Power(0.6), 4, 10.0))
    assert len(path) == 6
    state, _, found = run(learner, x, weight, seen=10)
    iterates = [np.column_stack(theta(s)) for s in path[average_from - 1 :]]
    assert state.averaged == len(iterates)
    expected = np.mean(iterates, axis=0) if iterates else np.column_stack(theta(path[-1]))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_truncation_goes_back_to_the_start() -> None:
    """Means beyond 6.5 are outside; every return widens the region by one."""
    x, weight = data()
    bound = 6.5
    learner = MiniBatchEM(batch_size=4, schedule=Constant(0.5), truncation=bound)
    s, steps, returns = start(), Steps(Constant(0.5), 4, 10.0), 0
    for i in range(0, len(x), 4):
        xs, ws = x[i : i + 4], weight[i : i + 4]
        mean = (ws[:, None, None] * sbar(xs, shares(xs, *theta(s)))).sum(axis=0) / ws.sum()
        s = s + steps.next(ws) * (mean - s)
        weights, means = theta(s)
        c = bound + returns
        if (weights < 1.0 / c).any() or (means > c).any() or (means < 1.0 / c).any():
            s, returns = start(), returns + 1
    state, _, found = run(learner, x, weight, seen=10)
    assert (state.truncations, state.region) == (returns, returns)
    assert returns > 0
    close(found, s)


def controlled(
    x: np.ndarray, weight: np.ndarray, size: int, passes: int, kind: str, rho: float | None = None
) -> tuple[Stat, list[float]]:
    """Incremental EM (memory renewed at once), fast incremental EM and variance-reduced EM."""
    n, total = len(x), weight.sum()
    memory = np.zeros((n, 2))
    s = reference = start()
    anchor = s
    means_of_pass = []
    for number in range(passes):
        held, fresh, told = s, np.zeros((n, 2)), 0.0
        if number == 0 or (kind == "anchored" and number % 2 == 0):
            told = log_likelihood(x, weight, s)
            anchor, memory = s, shares(x, *theta(s))
            reference = (weight[:, None, None] * sbar(x, memory)).sum(axis=0) / total
            s = reference
        else:
            for i in range(0, n, size):
                part = slice(i, i + size)
                xs, ws = x[part], weight[part]
                if not ws.sum() > 0:
                    continue
                r = shares(xs, *theta(s))
                old = shares(xs, *theta(anchor)) if kind == "anchored" else memory[part]
                told += log_likelihood(xs, ws, s) * ws.sum() / total
                change = (ws[:, None, None] * sbar(xs, r - old)).sum(axis=0)
                if kind == "incremental":
                    memory[part] = r
                    s = s + change / total
                else:
                    full = rho if rho is not None else default_rho(size, n)
                    share = ws.sum() / (total / n) / size
                    step = share * full / (1.0 + (share - 1.0) * full)
                    s = s + step * (reference + change / ws.sum() - s)
            if kind == "following":
                fresh = shares(x, *theta(held))
                reference = (weight[:, None, None] * sbar(x, fresh)).sum(axis=0) / total
                memory = fresh
        means_of_pass.append(told)
    return s, means_of_pass


def default_rho(size: int, n: int) -> float:
    """(batches)^(-2/3), but no more than a batch's share of 50 K (d + 1) rows, or of all."""
    return float(min(1.0, max(size / (50 * 2 * 3), size / n), (size / n) ** (2.0 / 3.0)))


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [1, 4, 23])
@pytest.mark.parametrize(
    ("make", "kind", "rho"),
    [
        (IncrementalEM, "incremental", None),
        (FastIncrementalEM, "following", None),
        (FastIncrementalEM, "following", 0.3),
        (VarianceReducedEM, "anchored", None),
        (VarianceReducedEM, "anchored", 0.1),
    ],
)
def test_control_variates(
    make: Any, kind: str, rho: float | None, size: int, weighted: bool, reference: bool
) -> None:
    x, weight = data()
    weights = weight if weighted else np.ones(len(x))
    settings = {} if kind == "incremental" else {"rho": rho}
    learner = make(batch_size=size, max_iter=5, **settings).resolve(len(x), 2, False)
    expected, told = controlled(x, weights, size, 5, kind, rho)
    state, infos, found = run(
        learner, x, weight if weighted else None, passes=5, reference=reference
    )
    close(found, expected)
    assert state.before == pytest.approx(told[-1], rel=1e-10)
    assert (state.passes, state.row) == (5, 0)
    assert state.length == len(x)
    assert state.weight == pytest.approx(weights.sum(), rel=1e-12)
    assert learner.weight_learned(state, 7) == pytest.approx(weights.sum(), rel=1e-12)
    assert learner.finished(state)
    n = max(weights.sum(), len(x))
    gains = np.diff(told) * n
    np.testing.assert_allclose(state.gains, gains[-len(state.gains) :], rtol=1e-6, atol=1e-9)
    assert len(state.gains) == 4
    assert infos


@pytest.mark.parametrize("weighted", [False, True])
def test_em_over_whole_passes(weighted: bool) -> None:
    x, weight = data()
    weights = weight if weighted else np.ones(len(x))
    s, told = start(), []
    for _ in range(4):
        told.append(log_likelihood(x, weights, s))
        r = shares(x, *theta(s))
        s = (weights[:, None, None] * sbar(x, r)).sum(axis=0) / weights.sum()
    state, infos, found = run(EM(tol=0.0), x, weight if weighted else None, passes=4)
    close(found, s)
    np.testing.assert_allclose([info.log_likelihood for info in infos], told, rtol=1e-12)
    assert [info.rows for info in infos] == [len(x)] * 4
    assert state.before == pytest.approx(told[-1], rel=1e-12)
    n = max(weights.sum(), len(x))
    np.testing.assert_allclose(state.gains, np.diff(told) * n, rtol=1e-8)
    assert EM().weight_learned(state, 3) == pytest.approx(weights.sum(), rel=1e-12)
    assert not EM(max_iter=5).finished(state)
    assert EM(max_iter=4).finished(state)
