"""States of workers joined: as far as one learner with all rows would have come."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from mixfold import MiniBatchEM, Mixture, OnlineVB, RecursiveEM
from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.families.gaussian import Gaussian
from mixfold.families.mean_params import MeanParams
from mixfold.families.poisson import Poisson
from mixfold.learners.exact_mle import ExactMLE
from mixfold.models.mixture_model import MixtureModel, MixtureParams

K, D, PARTS = 6, 3, 16


def overlapping(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.normal(size=(K, D))
    return np.asarray(centres[rng.integers(K, size=n)] + rng.normal(size=(n, D)))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for i, part in enumerate(np.array_split(overlapping(16_000), PARTS)):
        table = pa.table({f"c{j}": part[:, j] for j in range(D)})
        pyarrow.parquet.write_table(table, folder / f"{i:02d}.parquet")
    return folder


@pytest.mark.parametrize(
    "learner",
    [
        MiniBatchEM(sampling="stream", max_iter=4),
        MiniBatchEM(batch_size=800, sampling="stream", max_iter=2),
        RecursiveEM(),
        RecursiveEM(max_iter=3),
        OnlineVB(),
    ],
    ids=repr,
)
def test_a_cluster_learns_as_well_as_one_process(files: Path, learner: Any) -> None:
    losses = []
    for seed in range(3):
        settings = {"n_components": K, "learner": learner, "init": "random-rows"}
        here = Mixture(random_state=seed, **settings).fit(files)
        there = Mixture(random_state=seed, cluster="serial", **settings).fit(files)
        losses.append(here.score(files) - there.score(files))
    assert np.mean(losses) < 0.006


@pytest.mark.parametrize("weighted", [False, True])
def test_joined_means_are_the_mean_of_all_rows(weighted: bool) -> None:
    """With steps 1/n, and also after rows that all have in common."""
    rng = np.random.default_rng(3)
    x = rng.poisson(7.0, size=(400, 1)).astype(np.float64)
    weight = rng.uniform(0.2, 3.0, size=400) if weighted else None
    rows = Rows(x, weight)
    model = MixtureModel(Poisson(), 1, 1)
    backend, learner = Threads(model, 1), ExactMLE()
    before = learner.init(backend, MixtureParams(np.ones(1), MeanParams(np.ones((1, 1)))))
    for begin, cuts in ((0, (30, 35, 130)), (130, (150, 290, 400))):
        ends = [begin, *cuts]
        states = [learner.step(backend, before, rows.cut(*span))[0] for span in pairwise(ends)]
        before = learner.merge(backend, before, states)
    expected = float(np.average(x[:, 0], weights=weight))
    assert isinstance(before.params, MixtureParams)
    assert before.params.components.means == pytest.approx(expected, rel=1e-9)
    # and the next row weighs what it weighs among all
    after, _ = learner.step(backend, before, Rows(np.array([[50.0]]), rows.cut(0, 1).weight))
    total, last = rows.total_weight(), rows.cut(0, 1).total_weight()
    expected = (expected * total + 50.0 * last) / (total + last)
    assert isinstance(after.params, MixtureParams)
    assert after.params.components.means == pytest.approx(expected, rel=1e-9)


def test_workers_together_retain_what_one_learner_would() -> None:
    """Of the start there is as much left as the counts of rows say."""
    x = np.full((4000, D), 2.0)
    model = MixtureModel(Gaussian("diag"), 1, D)
    backend, learner = Threads(model, 1), MiniBatchEM(batch_size=100, sampling="stream")
    params = MixtureParams(np.ones(1), model.family.example(1, D, np.random.default_rng(0)))
    before = learner.init(backend, params, 5000)
    branches = [learner.branch(model, before, i, 4) for i in range(4)]
    states = [
        learner.step(backend, branch, Rows(part))[0]
        for branch, part in zip(branches, np.split(x, 4), strict=True)
    ]
    assert states[0].learned.multiple == 4
    joined = learner.merge(backend, before, states)
    alone = learner.step(backend, before, Rows(x))[0]
    assert (joined.learned.rows, joined.learned.weight) == (4000, 4000.0)
    np.testing.assert_allclose(
        joined.params.components.means, alone.params.components.means, rtol=1e-9
    )
