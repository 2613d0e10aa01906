"""Starts and learners do what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from mixfold import Mixture, datasets
from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.families.gaussian import Gaussian, GaussianParams
from mixfold.families.poisson import Poisson
from mixfold.fitting.initialization import Initialization
from mixfold.initializers.k_means_plus_plus import KMeansPlusPlus
from mixfold.initializers.k_mle_plus_plus import KMlePlusPlus
from mixfold.initializers.random_labels import RandomLabels
from mixfold.initializers.random_rows import RandomRows
from mixfold.learners.auto import Auto
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.online_em import OnlineEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.schedules.constant import Constant
from mixfold.schedules.power import Power

CENTERS = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])


def clusters(n: int = 300, spread: float = 1.0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.asarray(CENTERS[rng.integers(3, size=n)] + spread * rng.normal(size=(n, 2)))


def overlapping(n: int = 500, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + rng.integers(3, size=(n, 1)) * 1.1


def matched(means: np.ndarray, centers: np.ndarray = CENTERS) -> float:
    """The largest distance from a centre to the nearest mean."""
    return float(np.linalg.norm(means[None] - centers[:, None], axis=2).min(axis=1).max())


# starts


@pytest.mark.parametrize("init", ["k-means++", "k-mle++", "random-labels", "random-rows", "auto"])
@pytest.mark.parametrize("family", ["gaussian", "poisson", "exponential"])
def test_every_start_serves_every_family(family: str, init: str) -> None:
    x = np.round(np.abs(clusters()))
    model = Mixture(family, 3, init=init, learner=EM(max_iter=5), random_state=0).fit(x)
    assert np.isfinite(model.score_samples(x)).all()
    assert equal(
        model.params_,
        Mixture(family, 3, init=init, learner=EM(max_iter=5), random_state=0).fit(x).params_,
    )


def drawn(start: Any, x: np.ndarray, k: int = 3, seed: int = 0) -> MixtureParams:
    model = MixtureModel(Gaussian(), k, x.shape[1])
    params: MixtureParams = start.draw(model, Rows(x), np.random.default_rng(seed))
    return params


@pytest.mark.parametrize("start", [KMeansPlusPlus(), KMlePlusPlus()], ids=repr)
def test_spread_starts_find_far_clusters(start: Any) -> None:
    x = clusters(spread=0.1)
    assert all(matched(drawn(start, x, seed=i).components.means) < 0.1 for i in range(20))


def test_random_rows_are_centres_of_their_neighbours() -> None:
    x = clusters(spread=0.1)
    found = [matched(drawn(RandomRows(), x, seed=i).components.means) for i in range(30)]
    assert min(found) < 0.1
    assert max(found) > 4.0  # now and then two rows of one cluster


def test_random_labels_start_close_together() -> None:
    x = clusters()
    means = drawn(RandomLabels(), x, seed=5).components.means
    assert np.linalg.norm(means - x.mean(axis=0), axis=1).max() < 2.0
    assert matched(means) > 3.0


@pytest.mark.parametrize(
    "start", [KMeansPlusPlus(), KMlePlusPlus(), RandomLabels(), RandomRows()], ids=repr
)
def test_starts_from_few_rows(start: Any) -> None:
    for n in (1, 2, 3, 5):
        params = drawn(start, clusters(n), k=4)
        assert np.isfinite(params.components.means).all()
        assert np.isfinite(params.components.factor).all()
        assert params.weights.sum() == pytest.approx(1.0)


def test_means_as_start() -> None:
    x = clusters()
    for given in (CENTERS, CENTERS.tolist()):
        model = Mixture(n_components=3, init=given, learner="em").fit(x)
        np.testing.assert_allclose(model.means_, CENTERS, atol=0.5)  # in the order given
    turned = Mixture(n_components=3, init=CENTERS[::-1], learner="em").fit(x)
    np.testing.assert_allclose(turned.means_[::-1], model.means_, atol=1e-3)


def test_parameters_or_a_model_as_start() -> None:
    x = clusters()
    first = Mixture(n_components=3, learner=EM(0.0, max_iter=3), random_state=0).fit(x)
    whole = Mixture(n_components=3, learner=EM(0.0, max_iter=7), random_state=0).fit(x)
    for given in (first, first.params_):
        held = Mixture(n_components=3, init=given, learner=EM(max_iter=0)).fit(x)
        assert equal(held.params_, first.params_)
        later = Mixture(n_components=3, init=given, learner=EM(0.0, max_iter=4)).fit(x)
        assert equal(later.params_, whole.params_)
        stream = Mixture(n_components=3, init=given).partial_fit(x[:1])
        assert stream.n_seen_ == 1
        np.testing.assert_allclose(stream.means_, first.means_, atol=0.5)


def test_a_given_start_is_fitted_once() -> None:
    x = clusters()
    alone = Mixture(n_components=3, init=CENTERS, learner="em").fit(x)
    assert equal(
        Mixture(n_components=3, init=CENTERS, learner="em", n_init=5).fit(x).params_, alone.params_
    )


def test_the_best_of_several_starts_is_kept() -> None:
    x = clusters(spread=0.1)
    settings: dict[str, Any] = {"init": "random-rows", "learner": EM(max_iter=15)}
    gains = []
    for seed in range(8):
        reached = [
            Mixture(n_components=3, n_init=n, random_state=seed, **settings).fit(x).score(x)
            for n in (1, 2, 4)
        ]
        assert (np.diff(reached) > -1e-9).all()
        gains.append(reached[-1] - reached[0])
    assert max(gains) > 0.5


# EM


def test_em_says_whether_it_converged() -> None:
    x = overlapping()
    short = Mixture(n_components=3, learner=EM(max_iter=3), random_state=0).fit(x)
    assert not short.converged_
    assert len(short.history_) == 3
    whole = Mixture(n_components=3, learner=EM(tol=1e-4, criterion="step"), random_state=0).fit(x)
    assert whole.converged_
    gains = np.diff(whole.history_.log_likelihood)
    assert (gains[:-1] >= 1e-4).all()
    assert gains[-1] < 1e-4
    np.testing.assert_array_equal(whole.history_.rows, 500 * np.arange(1, len(whole.history_) + 1))
    assert (whole.history_.step_size == 1.0).all()
    assert (np.diff(whole.history_.time) >= 0).all()
    assert whole.n_seen_ == 500 * len(whole.history_)
    assert whole.score(x) >= whole.history_.log_likelihood[-1]
    assert Mixture(n_components=3, learner="em", max_iter=2).fit(x).n_seen_ == 1000


@pytest.mark.parametrize("family", ["gaussian", "poisson", "exponential"])
def test_acceleration_never_ends_below_plain_em(family: str) -> None:
    """From the same start to convergence, unless it has found another, and better, optimum."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = np.round(np.abs(clusters(150, spread=2.0 + seed % 4, seed=seed)))
        if family == "gaussian":
            x = x + 0.3 * rng.normal(size=x.shape)
        start = x[rng.choice(len(x), 3, replace=False)]
        plain, fast = (
            Mixture(family, 3, init=start, learner=EM(1e-9, 5000, accelerate)).fit(x)
            for accelerate in (False, True)
        )
        assert plain.converged_
        assert fast.converged_
        assert fast.score(x) >= plain.score(x) - 1e-6, seed


def test_acceleration_saves_passes_where_em_is_slow() -> None:
    """Passes until a level is reached that plain EM needs hundreds of passes for."""
    slow = fast = 0
    for seed in range(6):
        x = overlapping(seed=seed)
        plain, accelerated = (
            Mixture(n_components=3, init=x[:3], learner=EM(1e-7, 3000, accelerate)).fit(x)
            for accelerate in (False, True)
        )
        target = plain.history_.log_likelihood[-1] - 1e-5
        slow += int(np.argmax(plain.history_.log_likelihood >= target)) + 1
        assert accelerated.history_.log_likelihood.max() >= target
        fast += int(np.argmax(accelerated.history_.log_likelihood >= target)) + 1
    assert fast < 0.5 * slow


# mini-batches


def test_batches() -> None:
    x = clusters(1000)
    for size, updates in ((100, 10), (0.05, 20), (333, 4), (5000, 1), (None, 20)):
        learner = MiniBatchEM(batch_size=size, max_iter=3)
        model = Mixture(n_components=3, learner=learner, random_state=0).fit(x)
        assert model._learned.stream.state.updates == 3 * updates
        assert len(model.history_) == 3 * updates
        assert model.history_.rows[-1] == 3 * len(x)
        batch = model._learned.learner.batch_size
        lengths = np.diff(model.history_.rows, prepend=0)
        # a shorter batch at the end of a pass is a part of a step of the schedule
        expected = Power()((model.history_.rows - lengths) / batch + 1.0)
        whole = lengths == batch
        np.testing.assert_allclose(model.history_.step_size[whole], expected[whole])
        assert (model.history_.step_size[~whole] < expected[~whole]).all()


def test_orders_of_sampling(tmp_path: Path) -> None:
    """Shuffling needs rows that can be indexed; a stream keeps its order."""
    x = clusters(1000)
    x = x[np.argsort(x[:, 0])]
    np.save(tmp_path / "x.npy", x)
    pa.parquet.write_table(pa.table({"a": x[:, 0], "b": x[:, 1]}), tmp_path / "x.parquet")

    def fit(sampling: str, data: Any) -> Any:
        learner = MiniBatchEM(batch_size=50, max_iter=2, sampling=sampling)
        return Mixture(n_components=3, init=CENTERS, learner=learner, random_state=0).fit(data)

    shuffled = {name: fit(name, x) for name in ("with-replacement", "without-replacement")}
    assert not equal(*(model.params_ for model in shuffled.values()))
    for name, model in shuffled.items():
        assert equal(model.params_, fit(name, tmp_path / "x.npy").params_)
        assert matched(model.means_) < 1.0
    without = shuffled["without-replacement"].params_
    assert equal(fit("auto", x).params_, without)
    assert equal(fit("auto", tmp_path / "x.parquet").params_, fit("stream", x).params_)
    stream = fit("stream", x)
    # sorted rows in stream order: the last batches hold only the cluster on the right
    assert stream.weights_[1] > 0.5
    assert shuffled["without-replacement"].weights_[1] < 0.4


def test_truncation_sends_learning_back() -> None:
    """With c = 2 a variance of about 4 lies outside the first regions: c must grow to hold it."""
    x = np.random.default_rng(0).normal(scale=2.0, size=(400, 1))
    model = MixtureModel(Gaussian(), 1, 1)
    backend = Threads(model, 1)
    params = MixtureParams(np.ones(1), GaussianParams(np.zeros((1, 1)), np.ones((1, 1, 1))))
    learner = MiniBatchEM(batch_size=20, truncation=2.0)
    state = learner.init(backend, params)
    assert (state.region, state.truncations) == (0.0, 0)
    seen = []
    for i in range(0, len(x), 20):
        state, _ = learner.step(backend, state, Rows(x[i : i + 20]))
        seen.append((state.truncations, state.region))
        if state.truncations > (seen[-2][0] if len(seen) > 1 else 0):
            assert equal(state.params, params)  # back at the start
    assert state.truncations == state.region >= 2
    assert state.truncations < len(seen)  # in the end the region was large enough
    assert isinstance(state.params, MixtureParams)
    assert model.truncation_excess(state.params, (2.0, 2.0, 2.0)) <= state.region
    free = MiniBatchEM(batch_size=20).step(backend, learner.init(backend, params), Rows(x))[0]
    assert free.truncations == 0
    assert state.params.components.factor[0, 0, 0] > 1.5


def test_truncation_far_away_changes_nothing() -> None:
    x = clusters()
    with_it, without = (
        Mixture(n_components=3, learner=MiniBatchEM(batch_size=30, truncation=c), random_state=0)
        for c in (1e9, None)
    )
    assert equal(with_it.fit(x).params_, without.fit(x).params_)


def test_polyak_averages_iterates() -> None:
    x = clusters(600)
    learner = MiniBatchEM(batch_size=30, max_iter=1, sampling="stream")
    model = MixtureModel(Gaussian("diag"), 3, 2)
    backend = Threads(model, 1)
    params = KMeansPlusPlus().draw(model, Rows(x), np.random.default_rng(0))
    state, iterates = learner.init(backend, params), []
    for i in range(0, len(x), 30):
        state, _ = learner.step(backend, state, Rows(x[i : i + 30]))
        assert isinstance(state.params, MixtureParams)
        iterates.append(state.params)
    averaging = MiniBatchEM(batch_size=30, max_iter=1, sampling="stream", average_from=8)
    averaged, _ = averaging.step(backend, averaging.init(backend, params), Rows(x))
    assert averaged.averaged == len(iterates) - 7
    assert equal(averaged.params, state.params)  # averaging does not touch the training
    found = averaging.estimate(backend, averaged)
    late = iterates[7:]
    np.testing.assert_allclose(found.weights, np.mean([p.weights for p in late], axis=0))
    means = np.mean([p.components.means for p in late], axis=0)
    np.testing.assert_allclose(found.components.means, means)
    variances = np.mean([np.square(p.components.factor) for p in late], axis=0)
    np.testing.assert_allclose(np.square(found.components.factor), variances)
    never = MiniBatchEM(batch_size=30, average_from=10_000)
    state, _ = never.step(backend, never.init(backend, params), Rows(x))
    assert equal(never.estimate(backend, state), state.params)


# online EM


def test_a_constant_step_follows_a_drift_and_a_falling_one_does_not() -> None:
    rng = np.random.default_rng(0)
    drift = np.linspace(0.0, 20.0, 4000)[:, None] + rng.normal(size=(4000, 1))
    constant, falling = (
        Mixture(learner=OnlineEM(schedule=schedule), random_state=0).partial_fit(drift)
        for schedule in (Constant(0.05), Power(1.0))
    )
    assert abs(constant.means_[0, 0] - 20.0) < 1.0
    assert abs(falling.means_[0, 0] - 10.0) < 2.0
    np.testing.assert_allclose(constant.covariances_, 1.0, atol=0.8)
    assert falling.covariances_[0, 0, 0] > 20.0


def test_warm_up_holds_the_parameters() -> None:
    x = clusters(400)
    model = Mixture(n_components=3, init=CENTERS, learner=OnlineEM(warmup=250))
    model.partial_fit(x[:100])
    held = model.params_
    assert equal(model.partial_fit(x[100:250]).params_, held)
    assert not equal(model.partial_fit(x[250:251]).params_, held)
    eager = Mixture(n_components=3, init=CENTERS, learner=OnlineEM(warmup=0))
    assert not equal(eager.partial_fit(x[:100]).params_, eager.partial_fit(x[100:101]).params_)


def test_online_em_learns_in_one_pass() -> None:
    x = clusters(3000)
    for learner in (OnlineEM(), OnlineEM(batch_size=10), OnlineEM(max_iter=2)):
        model = Mixture(n_components=3, learner=learner, random_state=0).fit(x)
        assert model.n_seen_ == 3000 * learner.max_iter
        assert matched(model.means_) < 0.4


@pytest.mark.parametrize("family", ["gaussian", "poisson", "exponential"])
def test_any_way_of_cutting_a_stream_is_the_same(family: str) -> None:
    x = np.round(np.abs(clusters(260)))
    whole = Mixture(family, 3, random_state=0).partial_fit(x)
    ones, blocks, mixed = (Mixture(family, 3, random_state=0) for _ in range(3))
    for row in x:
        ones.learn_one(row)
    blocks.partial_fit([x[:1], x[1:130], x[130:]])
    mixed.partial_fit(x[:120])
    for row in x[120:140]:
        mixed.learn_one(row)
    mixed.learn_many(x[140:])
    for model in (ones, blocks, mixed):
        assert equal(model.params_, whole.params_)
        assert equal(model._now().stream.state, whole._learned.stream.state)
        assert model.n_seen_ == 260


# weights


@pytest.mark.parametrize("family", ["gaussian", "poisson", "exponential"])
@pytest.mark.parametrize("learner", ["auto", "em", EM(accelerate=True)], ids=repr)
def test_a_weight_stands_for_repetitions(family: str, learner: Any) -> None:
    x = np.round(np.abs(clusters(200)))
    counts = np.random.default_rng(0).integers(0, 4, size=200)
    # parameters: a start from centres counts weights in units of their mean
    centres = np.abs(CENTERS) + 0.5
    start = Mixture(family, 3, init=centres, learner=EM(max_iter=1)).fit(x)
    weighted = Mixture(family, 3, init=start, learner=learner).fit(x, sample_weight=counts)
    repeated = Mixture(family, 3, init=start, learner=learner).fit(np.repeat(x, counts, axis=0))
    np.testing.assert_allclose(weighted.means_, repeated.means_, rtol=1e-5)
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, rtol=1e-5)


def test_equal_weights_do_not_matter() -> None:
    x = clusters()
    for learner in ("em", "mini-batch-em", "online-em"):
        plain, ones = (
            Mixture(n_components=3, learner=learner, random_state=0).fit(x, sample_weight=weight)
            for weight in (None, np.ones(300))
        )
        np.testing.assert_allclose(ones.means_, plain.means_, rtol=1e-9)


def test_rows_of_weight_zero_do_not_matter() -> None:
    x = np.vstack([clusters(), np.full((300, 2), 1e3)])
    weight = np.r_[np.ones(300), np.zeros(300)]
    for learner in ("auto", "em", MiniBatchEM(batch_size=100), "online-em"):
        model = Mixture(n_components=3, init=CENTERS, learner=learner, random_state=0)
        assert matched(model.fit(x, sample_weight=weight).means_) < 1.0


def test_weights_by_the_name_of_a_column(tmp_path: Path) -> None:
    x, weight = clusters(), np.random.default_rng(0).uniform(size=300)
    table = pd.DataFrame({"a": x[:, 0], "w": weight, "b": x[:, 1]})
    table.to_parquet(tmp_path / "x.parquet")
    array = Mixture(n_components=3, init=CENTERS, learner="em").fit(x, sample_weight=weight)
    for data in (table, tmp_path / "x.parquet", pa.Table.from_pandas(table)):
        model = Mixture(n_components=3, init=CENTERS, learner="em").fit(data, sample_weight="w")
        assert model.feature_names_in_.tolist() == ["a", "b"]
        np.testing.assert_allclose(model.means_, array.means_, rtol=1e-9)


# auto


def test_auto_reads_every_kind_of_data(tmp_path: Path) -> None:
    x = clusters(2000)
    pa.parquet.write_table(pa.table({"a": x[:, 0], "b": x[:, 1]}), tmp_path / "x.parquet")
    pd.DataFrame(x, columns=["a", "b"]).to_csv(tmp_path / "x.csv", index=False)
    np.save(tmp_path / "x.npy", x)
    reads: list[int] = []

    def blocks() -> Iterator[np.ndarray]:
        for i in range(0, len(x), 100):
            reads.append(i)
            yield x[i : i + 100]

    for data in (
        x,
        x.astype(np.float32),
        [x[:700], x[700:]],
        blocks(),
        *(tmp_path / f"x.{kind}" for kind in ("parquet", "csv", "npy")),
        [tmp_path / "x.csv", tmp_path / "x.parquet"],
    ):
        model = Mixture(n_components=3, random_state=0).fit(data)
        assert matched(model.means_) < 0.2
        np.testing.assert_allclose(model.weights_, 1 / 3, atol=0.05)
    assert reads == list(range(0, 2000, 100))  # a generator is read once


def test_auto_on_much_data_folds_once_and_then_polishes() -> None:
    x = clusters(3000)
    auto = Auto(sample_size=500, batch_size=512)
    model = Mixture(n_components=3, learner=auto, random_state=0).fit(x)
    assert model.converged_
    assert model.n_seen_ >= 2 * 3000
    steps = model.history_.step_size
    assert (steps[:5] < 1.0).all()  # mini-batches
    assert (steps[-1:] == 1.0).all()  # whole passes
    once = Mixture(n_components=3, learner=auto, random_state=0).fit(iter([x]))
    assert once.n_seen_ == 3000
    assert not once.converged_
    em = Mixture(n_components=3, learner=EM(tol=1e-9), random_state=0).fit(x)
    assert model.score(x) > em.score(x) - 1e-4
    assert once.score(x) > em.score(x) - 0.02


def test_auto_finds_what_several_starts_of_em_find() -> None:
    """On held-out rows of small templates, with no tuning, it is level with ten starts of EM."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        centers = rng.uniform(0.0, 20.0, size=(5, 2))
        x = centers[rng.integers(5, size=800)] + rng.normal(size=(800, 2))
        train, test = x[:400], x[400:]
        auto = Mixture(n_components=5, random_state=seed).fit(train)
        em = Mixture(n_components=5, learner="em", n_init=10, random_state=seed).fit(train)
        assert auto.score(test) > em.score(test) - 0.05, seed
    rows = datasets.load_faithful()
    model = Mixture(n_components=2, random_state=0).fit(rows[::2])
    assert model.score(rows[1::2]) > -4.35


def test_threads_do_not_show() -> None:
    x = clusters(40_000)
    models = [Mixture(n_components=3, n_threads=n, random_state=0).fit(x) for n in (1, 2, 3)]
    assert all(equal(models[0].params_, model.params_) for model in models[1:])


def test_history_is_bounded() -> None:
    x = np.zeros((30, 1)) + np.arange(30.0)[:, None]
    model = Mixture(learner=OnlineEM(batch_size=1, average_from=1, max_iter=150), random_state=0)
    model.fit(x)
    assert 2000 <= len(model.history_) <= 4096
    assert model.history_.rows[-1] == model.n_seen_ == 4500
    assert (np.diff(model.history_.rows) > 0).all()


def test_auto_draws_its_start_from_as_many_rows_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from mixfold.sources.array import Array

    asked: list[int] = []
    sample = Array.sample

    def watched(self: Array, n: int, rng: np.random.Generator) -> Rows:
        asked.append(n)
        return sample(self, n, rng)

    monkeypatch.setattr(Array, "sample", watched)
    x = np.random.default_rng(0).normal(size=(2000, 2))
    Mixture(n_components=2, learner=Auto(sample_size=300), random_state=0).fit(x)
    assert asked == [300]


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("family", "learner", "why"),
    [
        (Poisson(), "annealed-sgd", "no annealed gradients"),
        (Gaussian("factor", rank=1), "recursive-em", "depend on the parameters too: use 'em'"),
        (Gaussian("tied"), "moment-matching", "no conjugate prior"),
    ],
)
def test_a_learner_is_refused_before_a_start_is_drawn(
    family: Any, learner: str, why: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Initialization, "draw", lambda *given: pytest.fail("a start was drawn"))
    with pytest.raises(InvalidInputError, match=why):
        getattr(Mixture(family, 2, learner=learner), method)(np.ones((30, 2)))


def test_counts_learned_stepwise_begin_where_counts_do() -> None:
    x = np.random.default_rng(0).poisson(4.0, size=(300, 2)).astype(float)
    model = Mixture("poisson", 2, learner="stepwise-em", random_state=0).fit(x)
    starts = [one._settings().initialization.start for one in (model, Mixture("poisson", 2))]
    assert equal(*starts)
    assert np.abs(model.weights_ @ model.means_ - x.mean(axis=0)).max() < 0.5
