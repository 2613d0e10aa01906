"""Learning on a cluster: the same bits whoever does the work, and whatever happens to them."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from distributed import Client, LocalCluster

import mixfold
from cluster_fits import CENTRES, FRAME, NAMES, X, chunked, mixture
from mixfold import GaussianMixture, Mixture
from mixfold.backends.threads import Threads
from mixfold.cli.main import main
from mixfold.core.engine import FAN_IN, tree
from mixfold.core.errors import (
    InvalidInputError,
)
from mixfold.core.registry import find_all
from mixfold.core.source import no_check
from mixfold.core.value import equal
from mixfold.families.gaussian import Gaussian
from mixfold.fitting.fit import Fit
from mixfold.fitting.sharded_pass import Folding
from mixfold.learners.em import EM
from mixfold.learners.online_em import OnlineEM
from mixfold.models.mixture_model import MixtureModel
from mixfold.sources.array_source import ArraySource
from mixfold.sources.opening import open_source

MERGING = [
    name
    for name, one in find_all("learners").items()
    if hasattr(one, "merge") and one().serves(MixtureModel(Gaussian(), 1, 2))
]


def scale(cluster: LocalCluster, n: int) -> None:
    """Wait for exactly n workers.

    A client asks: when the cluster itself does, it loses track of workers that are leaving, and
    fails when it is closed.
    """
    cluster.scale(n)
    with Client(cluster, set_as_default=False) as client:
        deadline = time.monotonic() + 60
        while len(client.scheduler_info(n_workers=-1)["workers"]) != n:
            assert time.monotonic() < deadline
            time.sleep(0.05)


# the same bits


def test_workers_do_not_matter(cluster: LocalCluster, address: str, parquet: Path) -> None:
    rules = ["em", "online-em", "auto", "moment-matching"]
    fits: list[Callable[[str], Mixture]] = [
        lambda where, learner=learner: mixture(
            learner, max_iter=2, columns=NAMES, cluster=where
        ).fit(parquet)  # type: ignore[misc]
        for learner in rules
    ]
    reference = [fit("serial") for fit in fits]
    for n in (1, 3):
        scale(cluster, n)
        for fit, expected in zip(fits, reference, strict=True):
            found = fit(address)
            assert equal(found.params_, expected.params_)
            assert equal(found._learned.stream, expected._learned.stream)
            assert found.n_seen_ == expected.n_seen_
            np.testing.assert_array_equal(
                found.history_.log_likelihood, expected.history_.log_likelihood
            )
    scale(cluster, 2)


def test_a_pass_of_em_is_that_of_one_process(parquet: Path) -> None:
    there = mixture(columns=NAMES, cluster="serial").fit(parquet)
    here = mixture(columns=NAMES).fit(parquet)
    np.testing.assert_allclose(there.means_, here.means_, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(there.covariances_, here.covariances_, rtol=1e-10)
    np.testing.assert_allclose(
        there.history_.log_likelihood, here.history_.log_likelihood, rtol=1e-12
    )
    assert there.n_seen_ == here.n_seen_ == 3 * len(X)


@pytest.mark.parametrize("learner", MERGING)
def test_every_learner_that_merges(learner: str, parquet: Path) -> None:
    k = 1 if learner == "exact-mle" else 3
    slow = learner == "stepwise-em"  # its rows are learned one by one in Python
    where = {"n_components": k, "columns": NAMES, "max_iter": 1 if slow else 10}
    data = parquet / "0.parquet" if slow else parquet
    there = mixture(learner, cluster="serial", **where).fit(data)
    here = mixture(learner, **where).fit(data)
    # steps of stepwise EM are short, and shards take fewer of them one after the other
    slack = 0.5 if slow else 0.02
    assert there.score(FRAME) > here.score(FRAME) - slack
    assert np.isfinite(there.history_.log_likelihood).all()
    assert len(there.history_) > 0


class SuicidalChunk:
    """A chunk whose third making kills the process it happens in."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        with self.file.open("a") as file:
            file.write("x")
        if self.file.stat().st_size == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return rows


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("n", [1, 2])
def test_a_worker_that_is_killed_costs_nothing_but_time(
    cluster: LocalCluster, n: int, tmp_path: Path
) -> None:
    """One of two, whose tasks the other does; or the only one, and the pass begins anew."""
    scale(cluster, n)
    address = str(cluster.scheduler_address)
    made = tmp_path / "made"
    found = mixture(max_iter=4, cluster=address).fit(chunked(SuicidalChunk(made)))
    assert made.stat().st_size == 6  # a sample, four passes, and the one that was killed
    expected = mixture(max_iter=4, cluster="serial").fit(chunked(np.asarray))
    assert equal(found.params_, expected.params_)
    assert found.n_seen_ == expected.n_seen_ == 4 * len(X)


# what comes in


def test_dask_arrays_and_dataframes(address: str) -> None:
    with Client(address):
        array = mixture().fit(da.from_array(X, chunks=(1000, 1)))
        frame = mixture().fit(dd.from_pandas(FRAME, npartitions=6))
        again = mixture().fit(dd.from_pandas(FRAME, npartitions=6).persist())
    assert equal(frame.params_, again.params_)
    assert list(frame.feature_names_in_) == NAMES
    for found in (array, frame):
        assert found.n_seen_ == 3 * len(X)
        near = np.abs(found.means_[:, None] - CENTRES).max(axis=2).min(axis=1)
        assert (near < 0.2).all()


def test_without_a_client() -> None:
    """In this process, where the schedulers of Dask itself serve."""
    frame = dd.from_pandas(FRAME, npartitions=6)
    found = mixture(cluster="serial").fit(frame)
    with pytest.raises(ValueError, match="no column 'z'"):
        mixture(cluster="serial", columns=["z"]).fit(frame)
    assert found.score(frame) == pytest.approx(found.score(FRAME))
    np.testing.assert_array_equal(found.predict(frame), found.predict(FRAME))
    drop_in = GaussianMixture(3, random_state=0)
    drop_in.cluster = "serial"
    assert drop_in.fit(frame).converged_


def test_a_local_cluster_is_made_and_closed(parquet: Path) -> None:
    with dask.config.set({"distributed.worker.daemon": True}):
        found = mixture("online-em", columns=NAMES, cluster="local").fit(parquet)
    expected = mixture("online-em", columns=NAMES, cluster="serial").fit(parquet)
    assert equal(found.params_, expected.params_)


def test_weights_are_a_column(parquet: Path) -> None:
    frame = FRAME.assign(w=np.repeat([1.0, 2.0, 3.0], 2000))
    found = mixture(cluster="serial").fit(dd.from_pandas(frame, npartitions=5), sample_weight="w")
    files = mixture(cluster="serial").fit(parquet, sample_weight="w")
    here = mixture().fit(parquet, sample_weight="w")
    np.testing.assert_allclose(files.weights_, here.weights_, rtol=1e-9)
    np.testing.assert_allclose(np.sort(found.weights_), np.sort(here.weights_), rtol=1e-3)
    assert not np.allclose(np.sort(found.weights_), np.sort(mixture().fit(FRAME).weights_), 1e-4)
    with pytest.raises(InvalidInputError, match="name of a column"):
        mixture().fit(dd.from_pandas(frame, npartitions=5), sample_weight=np.ones(6000))


def test_files_of_every_kind(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    FRAME.to_csv(tmp_path / "x.csv", index=False)
    found = [mixture(cluster="serial").fit(tmp_path / name) for name in ("x.npy", "x.csv")]
    start = mixture(init=found[0], max_iter=1, cluster="serial")
    ends = [start.fit(tmp_path / name).means_ for name in ("x.npy", "x.csv")]
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-10)


def test_several_starts_keep_the_best(parquet: Path) -> None:
    found = mixture(columns=NAMES, n_init=3, cluster="serial").fit(parquet)
    assert found.n_seen_ == 9 * len(X)


# stopping and going on


def test_a_checkpoint_resumes(parquet: Path, tmp_path: Path) -> None:
    where = {"columns": NAMES, "cluster": "serial", "checkpoint": tmp_path / "kept"}
    mixture(max_iter=2, **where).fit(parquet)
    resumed = mixture(max_iter=5, resume=True, **where).fit(parquet)
    straight = mixture(max_iter=5, columns=NAMES, cluster="serial").fit(parquet)
    assert equal(resumed.params_, straight.params_)
    with pytest.raises(ValueError, match="another fit"):
        mixture(columns=NAMES, checkpoint=tmp_path / "kept", resume=True).fit(parquet)


class Impatient:
    """Presses Ctrl-C when the second pass is over."""

    def update(self, fit: Fit, length: int | None) -> None:
        if fit.passes == 2:
            raise KeyboardInterrupt

    def close(self) -> None:
        return None


def test_an_interrupt_keeps_what_was_learned(parquet: Path) -> None:
    model = mixture(max_iter=5, columns=NAMES, cluster="serial")
    model.progress = Impatient()
    with pytest.raises(KeyboardInterrupt):
        model.fit(parquet)
    two = mixture(max_iter=2, columns=NAMES, cluster="serial").fit(parquet)
    assert equal(model.params_, two.params_)


# what crosses the network


def test_results_do_not_grow_with_the_rows() -> None:
    backend = Threads(MixtureModel(Gaussian(), 3, 2), 1)
    params = mixture().fit(X).params_
    for learner in (EM(), OnlineEM().resolve(None, 2, False), OnlineEM(100, warmup=0)):
        work, before = Folding(backend.model, learner, no_check, 1), learner.init(backend, params)
        sizes = [
            len(pickle.dumps(work.fold(work.begin(before, 0), 0, ArraySource, X[:n])))
            for n in (7, 133, 6000)
        ]
        assert max(sizes) - min(sizes) < 100
        assert max(sizes) < 10_000


def test_descriptions_do_not_grow_with_the_rows(parquet: Path) -> None:
    parts = open_source(parquet).partitions()
    assert len(parts) > 10
    assert all(len(pickle.dumps(part.recipe())) < 1000 for part in parts)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 64, 65, 1000])
def test_the_tree(n: int) -> None:
    joins: list[int] = []

    def join(parts: list[list[int]]) -> list[int]:
        joins.append(len(parts))
        return [item for part in parts for item in part]

    assert tree([[i] for i in range(n)], join) == list(range(n))
    assert all(size <= FAN_IN for size in joins)


# the command line


def test_the_command_line(
    address: str, parquet: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(parquet.parent)
    fit = ["fit", "rows", "-k", "3", "--learner", "em", "--columns", "a,b", "--max-iter", "3"]
    assert main([*fit, "--cluster", address, "-o", "there.mixfold"]) == 0
    capsys.readouterr()
    there = mixfold.load("there.mixfold")
    assert equal(there.params_, mixture(columns=NAMES, cluster="serial").fit(parquet).params_)
    monkeypatch.setattr("mixfold.engines.dask.PATIENCE", 0.5)
    assert main([*fit, "--cluster", "tcp://127.0.0.1:1"]) == 2
    assert "no Dask scheduler answers" in capsys.readouterr().err
