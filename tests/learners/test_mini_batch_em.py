"""Mini-batch EM: batches, orders of sampling, truncation and averages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from cluster_rows import CENTERS, clusters, matched
from mixfold import Mixture
from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.families.gaussian import Gaussian, GaussianParams
from mixfold.initializers.k_means_plus_plus import KMeansPlusPlus
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.schedules.power import Power

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
    assert state.params.components.scale[0, 0, 0] > 1.5


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
    variances = np.mean([np.square(p.components.scale) for p in late], axis=0)
    np.testing.assert_allclose(np.square(found.components.scale), variances)
    never = MiniBatchEM(batch_size=30, average_from=10_000)
    state, _ = never.step(backend, never.init(backend, params), Rows(x))
    assert equal(never.estimate(backend, state), state.params)
