"""A fit that is stopped anywhere, in any way, goes on to the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from mixfold import Mixture
from mixfold.core.value import equal
from mixfold.families.gaussian import Gaussian
from mixfold.fitting.checkpoint import Checkpoint
from mixfold.fitting.fit import Fit
from mixfold.learners.auto import Auto
from mixfold.learners.em import EM
from mixfold.learners.fast_incremental_em import FastIncrementalEM
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_k_mle import OnlineKMLE
from mixfold.learners.sem import SEM
from mixfold.learners.variance_reduced_em import VarianceReducedEM

BLOCK = 200


def rows(n: int = 1500) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.poisson(np.where(rng.random((n, 1)) < 0.4, 2.0, 9.0), size=(n, 2)).astype(float)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Rows in several forms, all of which come in small blocks."""
    modules = [f"sources.{name}" for name in ("_file", "array_source", "npy", "parquet")]
    for module in (*modules, "fitting.resampled"):
        monkeypatch.setattr(f"mixfold.{module}.block_length", small, raising=False)
    x = rows()
    table = pa.table({"a": x[:, 0], "b": x[:, 1]})
    pa.parquet.write_table(table, tmp_path / "x.parquet", row_group_size=350)
    pd.DataFrame(x, columns=["a", "b"]).to_csv(tmp_path / "x.csv", index=False)
    np.save(tmp_path / "x.npy", x)
    for name, first in (("holes", 0), ("late", len(x) - 1)):
        gaps = x.copy()
        gaps[first::7, 0] = np.nan  # NaN among floats, of which the file does not tell
        holes = pa.table({"a": gaps[:, 0], "b": gaps[:, 1]})
        pa.parquet.write_table(holes, tmp_path / f"{name}.parquet", row_group_size=350)
    blocks = [x[i : i + BLOCK] for i in range(0, len(x), BLOCK)]
    forms: dict[str, Callable[[], Any]] = {
        "array": lambda: x,
        "parquet": lambda: tmp_path / "x.parquet",
        "holes": lambda: tmp_path / "holes.parquet",
        "late hole": lambda: tmp_path / "late.parquet",
        "csv": lambda: tmp_path / "x.csv",
        "npy": lambda: tmp_path / "x.npy",
        "blocks": lambda: blocks,
        "generator": lambda: iter(blocks),
    }
    return lambda form: forms[form]()


def small(d: int) -> int:
    return BLOCK


FITS: dict[str, tuple[str, dict[str, Any]]] = {
    "auto": ("parquet", {"learner": Auto(sample_size=300, batch_size=450, tol=1e-3)}),
    "auto once": ("generator", {"learner": Auto(sample_size=300, batch_size=450)}),
    "em": ("parquet", {"learner": EM(tol=1e-3)}),
    "em, two starts": ("npy", {"learner": EM(max_iter=5), "n_init": 2, "init": "random-rows"}),
    "accelerated em": ("blocks", {"learner": EM(tol=1e-4, accelerate=True)}),
    "mini-batch em, shuffled": ("npy", {"learner": MiniBatchEM(batch_size=90, max_iter=3)}),
    "mini-batch em, two starts": (
        "array",
        {"learner": MiniBatchEM(batch_size=0.1, max_iter=2), "n_init": 2},
    ),
    "mini-batch em, with replacement": (
        "array",
        {"learner": MiniBatchEM(batch_size=130, max_iter=2, sampling="with-replacement")},
    ),
    "mini-batch em, averaged": (
        "parquet",
        {"learner": MiniBatchEM(batch_size=33, max_iter=2, average_from=5, truncation=9.5)},
    ),
    "online em": ("csv", {"learner": OnlineEM(max_iter=2)}),
    "incremental em": ("npy", {"learner": IncrementalEM(max_iter=5)}),
    "incremental em, batches": ("csv", {"learner": IncrementalEM(batch_size=70, tol=1e-3)}),
    "fast incremental em": ("npy", {"learner": FastIncrementalEM(max_iter=3)}),
    "variance-reduced em": ("blocks", {"learner": VarianceReducedEM(batch_size=40, max_iter=4)}),
    "sem": ("array", {"learner": SEM(max_iter=6, average_from=3)}),
    "online k-mle": ("array", {"learner": OnlineKMLE(strategy="sample", max_iter=2)}),
    "online em, once": ("generator", {"learner": OnlineEM(batch_size=7)}),
    "missing cells": ("holes", {"learner": EM(tol=1e-3)}),
    "a missing cell in the last row": (
        "late hole",
        {"learner": OnlineEM(batch_size=50), "init": [[2.0, 2.0], [9.0, 9.0]]},
    ),
    "poisson": ("parquet", {"family": "poisson", "learner": EM(tol=1e-3)}),
    "tied": ("csv", {"family": Gaussian("tied"), "learner": EM(tol=1e-3), "max_iter": 4}),
}


def mixture(settings: dict[str, Any], **more: Any) -> Mixture:
    return Mixture(n_components=2, random_state=3, **{**settings, **more})


def same(a: Any, b: Any) -> None:
    """Two fits agree in every bit that is not a time."""
    one, two = a._learned, b._learned
    assert equal(one.params, two.params)
    assert equal(one.stream.state, two.stream.state)
    assert equal(one.history.table[:, :3].copy(), two.history.table[:, :3].copy())
    assert (one.n_seen, one.converged) == (two.n_seen, two.converged)
    assert one.n_degenerate == two.n_degenerate


class Stopped(Exception):
    """Stands for a crash."""


@pytest.mark.parametrize("name", FITS)
def test_stopped_after_every_block(
    name: str, data: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run but the last does one block, then crashes."""
    form, settings = FITS[name]
    alone = mixture(settings).fit(data(form))
    kept = Checkpoint.keep
    stops = 0

    def crash(self: Checkpoint, fit: Fit) -> None:
        kept(self, fit)
        if not fit.done:
            raise Stopped

    monkeypatch.setattr(Checkpoint, "keep", crash)
    model = mixture(settings, checkpoint=tmp_path / "c", checkpoint_every=0.0, resume=True)
    while True:
        try:
            model.fit(data(form))
        except Stopped:
            assert not hasattr(model, "weights_")
            stops += 1
        else:
            break
    assert stops >= (3 if form == "csv" else 7)  # a CSV file this small is one block
    same(model, alone)
    same(model.fit(data(form)), alone)  # one that is done stays as it is


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C interrupts, also where these tests run in the background of a shell's script."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("name", FITS)
def test_interrupted(name: str, data: Callable[[str], Any], tmp_path: Path) -> None:
    """Ctrl-C keeps the model learned so far, and the checkpoint goes on from there."""
    form, settings = FITS[name]
    alone = mixture(settings).fit(data(form))
    for moment in (1, 2) if form == "csv" else (1, 4, 7):
        file = tmp_path / f"after {moment}"
        model = mixture(settings, checkpoint=file, checkpoint_every=1e9)
        model.progress = Interrupts(moment)
        with pytest.raises(KeyboardInterrupt):
            model.fit(data(form))
        assert 0 < model.n_seen_ <= alone.n_seen_
        assert not model.converged_
        assert np.isfinite(model.score_samples(data(form))).all()
        model.progress = None
        same(model.set_params(resume=True).fit(data(form)), alone)


class Interrupts:
    """Presses Ctrl-C at one update."""

    def __init__(self, moment: int) -> None:
        self.left = moment

    def update(self, fit: Fit, length: int | None) -> None:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)

    def close(self) -> None:
        return None


def test_interrupted_before_anything_was_learned() -> None:
    def breaks(d: int) -> Iterator[np.ndarray]:
        yield np.ones((5, d))
        raise KeyboardInterrupt

    model = Mixture(n_components=2, random_state=0).fit(rows())
    before = model._learned
    for method, d in ((model.fit, 3), (model.partial_fit, 2)):
        with pytest.raises(KeyboardInterrupt):
            method(breaks(d))
        assert model._learned is before
        assert model.n_features_in_ == 2
    fresh = Mixture(n_components=2)
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(breaks(3))
    assert not hasattr(fresh, "n_features_in_")


KILLED = """
import os, random, signal, sys, threading, time
import numpy as np
from mixfold import Auto, EM, IncrementalEM, Mixture, MiniBatchEM, OnlineEM, VarianceReducedEM
import mixfold.sources._file, mixfold.sources.array_source, mixfold.fitting.resampled
import mixfold.sources.npy

folder = sys.argv[1]
sources = mixfold.sources
for module in (sources._file, sources.array_source, sources.npy, mixfold.fitting.resampled):
    module.block_length = lambda d: 4096

FITS = {
    "auto": ("x.parquet", dict(learner=Auto(batch_size=10_000, tol=1e-4))),
    "em": ("x.parquet", dict(learner=EM(tol=0.0, max_iter=12))),
    "fast": ("x.parquet", dict(learner=EM(tol=0.0, max_iter=12, accelerate=True))),
    "shuffled": ("x.npy", dict(learner=MiniBatchEM(batch_size=2500, max_iter=6))),
    "stream": ("x.parquet", dict(learner=MiniBatchEM(batch_size=2500, max_iter=6, average_from=9))),
    "online": ("x.parquet", dict(learner=OnlineEM())),
    "on-file": ("x.parquet", dict(learner=IncrementalEM(memory=folder + "/r", max_iter=6))),
    "anchored": ("x.parquet", dict(learner=VarianceReducedEM(batch_size=999, max_iter=6))),
    "starts": ("x.parquet", dict(learner=EM(tol=0.0, max_iter=5), n_init=2)),
}


def fit(name, **more):
    # in a child, so that it can be killed
    child = os.fork()
    if child == 0:
        file, settings = FITS[name]
        model = Mixture(n_components=3, random_state=0, n_threads=1, **settings, **more)
        model.fit(os.path.join(folder, file))
        parts = [model.weights_, model.means_, model.covariances_, model.history_.table[:, :3]]
        result = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
        with open(os.path.join(folder, name + ".new"), "wb") as out:
            out.write(result)
        os.rename(out.name, os.path.join(folder, name))
        os._exit(0)
    return child


def result(name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


chance = random.Random(int(sys.argv[2]))
for name in FITS:
    began = time.monotonic()
    assert os.waitpid(fit(name), 0)[1] == 0
    alone, whole = result(name), time.monotonic() - began
    os.remove(os.path.join(folder, name))
    kills, checkpoint = 0, os.path.join(folder, name + ".checkpoint")
    while True:
        child = fit(name, checkpoint=checkpoint, checkpoint_every=0.0, resume=True)
        if kills < 3:
            killer = threading.Timer(chance.uniform(0.0, 0.6 * whole), os.kill, (child, 9))
            killer.start()
        status = os.waitpid(child, 0)[1]
        killer.cancel()
        killer.join()
        if not os.WIFSIGNALED(status):
            break
        kills += 1
    assert status == 0, (name, status)
    print(name, kills, result(name) == alone, flush=True)
"""


if sys.platform != "win32":  # where processes neither fork nor are killed by signals

    def test_killed_at_random_moments(tmp_path: Path) -> None:
        x = rows(40_000) + np.random.default_rng(1).normal(size=(40_000, 2))
        np.save(tmp_path / "x.npy", x)
        pa.parquet.write_table(pa.table({"a": x[:, 0], "b": x[:, 1]}), tmp_path / "x.parquet")
        seed = int.from_bytes(os.urandom(4), "little")
        script = subprocess.run(
            [sys.executable, "-W", "error", "-c", KILLED, str(tmp_path), str(seed)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert script.returncode == 0, script.stderr
        told = [line.split() for line in script.stdout.splitlines()]
        assert len(told) == 9
        assert all(same == "True" for _, _, same in told), (seed, script.stdout)
        assert sum(int(kills) for _, kills, _ in told) >= 7, script.stdout
