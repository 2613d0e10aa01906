"""Fits to Spark DataFrames: those of one process, whatever happens to executors."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cluster_fits import CENTRES, FRAME, NAMES, X, mixture
from mixfold import Mixture
from mixfold.core.engine import FAN_IN, tree
from mixfold.core.errors import SourceError
from mixfold.core.value import equal
from mixfold.engines import _spark_frame
from mixfold.engines._spark_tasks import merge_states, states

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def same_fit(found: Mixture, expected: Mixture) -> None:
    np.testing.assert_allclose(found.means_, expected.means_, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.weights_, expected.weights_, rtol=1e-12)
    np.testing.assert_allclose(found.covariances_, expected.covariances_, rtol=1e-11)


def n_cached(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


def test_em_is_that_of_one_process(spark: SparkSession, rows: Any) -> None:
    cached = n_cached(spark)
    found = mixture(init=CENTRES).fit(rows)
    same_fit(found, mixture(init=CENTRES).fit(FRAME))
    assert found.n_seen_ == 3 * len(X)
    assert list(found.feature_names_in_) == NAMES
    assert n_cached(spark) == cached
    serial = mixture(init=CENTRES, cluster="serial").fit(rows)
    assert equal(found.params_, serial.params_)


def test_auto_finds_the_groups_again_with_the_same_bits(rows: Any) -> None:
    found, again = (Mixture("gaussian", 3, random_state=0).fit(rows) for _ in range(2))
    assert equal(found.params_, again.params_)
    near = np.abs(found.means_[:, None] - CENTRES).max(axis=2).min(axis=1)
    assert (near < 0.2).all()
    assert found.converged_


def test_executors_merge_many_partitions(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they do beyond 32 partitions; a task then merges two levels of the tree."""
    expected = mixture(init=CENTRES, max_iter=1).fit(rows)
    monkeypatch.setattr(_spark_frame, "MOST_TO_DRIVER", 1)
    assert equal(mixture(init=CENTRES, max_iter=1).fit(rows).params_, expected.params_)


@pytest.mark.parametrize("n", [2, 9, 64, 65, 200])
def test_merging_by_tasks_is_the_tree(n: int) -> None:
    def join(parts: list[str]) -> str:
        return f"({' '.join(parts)})"

    leaves = [(i, str(i)) for i in range(n)]
    batches = list(states(iter(leaves)))
    while len(batches) > FAN_IN:
        batches = list(merge_states(join, batches))
    found = [batch.to_pylist()[0]["state"] for batch in batches]
    assert tree(list(map(pickle.loads, found)), join) == tree([leaf for _, leaf in leaves], join)


def test_weights_and_missing_cells(spark: SparkSession) -> None:
    frame = FRAME[:600].assign(w=np.repeat([1.0, 2.0, 3.0], 200))
    frame.loc[::7, "b"] = np.nan
    cells = [[None if np.isnan(x) else x for x in row] for row in frame.to_numpy().tolist()]
    data = spark.createDataFrame(cells, "a double, b double, w double")
    found = mixture(init=CENTRES).fit(data, sample_weight="w")
    same_fit(found, mixture(init=CENTRES).fit(frame, sample_weight="w"))
    assert not np.allclose(found.weights_, mixture(init=CENTRES).fit(frame[NAMES]).weights_, 1e-3)


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    late = np.arange(300) >= 100
    return pd.DataFrame(
        {
            "real": np.where(late, rng.gamma(4.0, 2.0, 300), rng.random(300)),
            "count": np.where(late, rng.poisson(6.0, 300), 0),
            "text": pd.Series(rng.choice(["u", "v", "w"], 300)).where(late),
            "flag": rng.random(300) < 0.5,
        }
    )


def typed(spark: SparkSession, frame: pd.DataFrame) -> Any:
    cells = frame.astype({"text": object}).itertuples(index=False)
    return spark.createDataFrame(
        [[a, b, c if isinstance(c, str) else None, d] for a, b, c, d in cells],
        "real double, count int, text string, flag boolean",
    ).coalesce(2)


def test_families_are_chosen_by_all_partitions(spark: SparkSession) -> None:
    frame = table()
    data = typed(spark, frame)
    found = Mixture("auto", 2, random_state=0, learner="em").fit(data)
    expected = Mixture("auto", 2, random_state=0, learner="em").fit(frame)
    assert str(found.chosen_families_) == str(expected.chosen_families_)
    assert found.score(data) == pytest.approx(found.score(frame), rel=1e-12)
    labels = found.predict(data).select("label").toArrow().column(0).to_numpy()
    np.testing.assert_array_equal(labels, found.predict(frame))


def test_a_stream_of_tables_adds_levels(spark: SparkSession) -> None:
    frame = table()
    model, plain = (Mixture("auto", 1, random_state=0) for _ in range(2))
    for part in (frame[:150], frame[150:].assign(text="new")):
        model.partial_fit(typed(spark, part))
        plain.partial_fit(part)
    assert str(model.chosen_families_) == str(plain.chosen_families_)
    assert model.score(frame) == pytest.approx(plain.score(frame), rel=1e-9)


def test_vectors_dense_and_sparse(spark: SparkSession) -> None:
    from pyspark.ml.linalg import Vectors

    x = FRAME.to_numpy()[:400] * (np.arange(400) % 3 > 0)[:, None]
    vectors = [
        (Vectors.sparse(2, [0, 1], row) if i % 2 else Vectors.dense(row),)
        for i, row in enumerate(x.tolist())
    ]
    vectors[0] = (Vectors.sparse(2, [], []),)
    data = spark.createDataFrame(vectors, ["v"])
    found = mixture(init=CENTRES).fit(data)
    same_fit(found, mixture(init=CENTRES).fit(x))
    assert list(found.feature_names_in_) == ["v[0]", "v[1]"]
    lists = spark.createDataFrame([(row,) for row in x.tolist()], "v array<double>")
    same_fit(mixture(init=CENTRES).fit(lists), found)
    frame = pd.DataFrame(x, columns=["v[0]", "v[1]"])
    labels = found.predict(data).toArrow()["label"].to_pylist()
    assert labels == list(found.predict(frame))
    assert data.columns == ["v"]
    ragged = spark.createDataFrame([([1.0, 2.0],), ([1.0],)], "v array<double>").coalesce(1)
    with pytest.raises(SourceError, match="has a vector of 1 numbers, others have 2"):
        mixture(init=CENTRES).fit(ragged)


def test_predictions_are_columns(rows: Any) -> None:
    model = mixture().fit(FRAME)
    found = model.predict(rows)
    assert found.columns == [*NAMES, "label"]
    np.testing.assert_array_equal(found.toArrow()["label"].to_numpy(), model.predict(FRAME))
    shares = model.predict_proba(rows).toArrow()["responsibility"].combine_chunks()
    np.testing.assert_allclose(
        np.reshape(shares.flatten().to_numpy(), (-1, 3)), model.predict_proba(FRAME), rtol=1e-12
    )
    scores = model.score_samples(rows).toArrow()["log_density"].to_numpy()
    np.testing.assert_allclose(scores, model.score_samples(FRAME), rtol=1e-12)
    assert model.score(rows) == pytest.approx(model.score(FRAME), rel=1e-12)


def test_files_are_read_by_executors(spark: SparkSession, tmp_path: Path) -> None:
    for i, part in enumerate(np.array_split(FRAME, 3)):
        pd.DataFrame(part, columns=NAMES).to_parquet(tmp_path / f"{i}.parquet")
    for learner in ("em", "online-em"):
        found = mixture(learner, cluster="spark").fit(tmp_path)
        assert equal(found.params_, mixture(learner, cluster="serial").fit(tmp_path).params_)
    found = mixture(cluster=spark).fit(tmp_path)
    assert equal(found.params_, mixture(cluster="serial").fit(tmp_path).params_)


def test_a_worker_that_is_killed_costs_nothing_but_time(rows: Any, tmp_path: Path) -> None:
    made, killed = tmp_path / "made", tmp_path / "killed"

    def dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with made.open("a") as counts:
            counts.write("x")
        if made.stat().st_size >= 2:
            with suppress(FileExistsError):
                killed.touch(exist_ok=False)  # by one of two tasks that may be here at once
                os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    data = rows.mapInArrow(dying, rows.schema)
    found = mixture(init=CENTRES).fit(data)
    same_fit(found, mixture(init=CENTRES).fit(FRAME))
    assert made.stat().st_size == 4  # three partitions, and the one that was killed
    assert found.n_seen_ == 3 * len(X)
