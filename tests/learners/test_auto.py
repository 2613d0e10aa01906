"""The automatic choice of a learner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from cluster_rows import clusters, matched
from mixfold import Mixture, datasets
from mixfold.core.rows import Rows
from mixfold.learners.auto import Auto
from mixfold.learners.em import EM

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


def test_auto_draws_its_start_from_as_many_rows_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from mixfold.sources.array_source import ArraySource

    asked: list[int] = []
    sample = ArraySource.sample

    def watched(self: ArraySource, n: int, rng: np.random.Generator) -> Rows:
        asked.append(n)
        return sample(self, n, rng)

    monkeypatch.setattr(ArraySource, "sample", watched)
    x = np.random.default_rng(0).normal(size=(2000, 2))
    Mixture(n_components=2, learner=Auto(sample_size=300), random_state=0).fit(x)
    assert asked[0] == 300  # a larger one may follow, where a component has few of its rows
