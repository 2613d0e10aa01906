"""What goes wrong on a cluster is said, and changes nothing."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import delayed

from cluster_fits import CENTRES, FRAME, NAMES, X, chunked, mixture
from mixfold.backends.threads import Threads
from mixfold.core.errors import (
    ClusterError,
    InvalidInputError,
    MissingExtraError,
    SourceError,
)
from mixfold.core.value import digest
from mixfold.families.gaussian import Gaussian
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.online_em import OnlineEM
from mixfold.models.mixture_model import MixtureModel
from mixfold.sources.array_source import ArraySource

# bad input


def untouched(model: Any, error: type[Exception], words: str, *data: Any) -> None:
    """The call is refused with these words, and the model is as it was."""
    before = digest(model._learned) if hasattr(model, "_learned") else None
    with pytest.raises(error, match=words):
        model.fit(*data)
    assert (digest(model._learned) if hasattr(model, "_learned") else None) == before


def frames(*parts: pd.DataFrame) -> Any:
    return dd.from_delayed([delayed(part) for part in parts], meta=FRAME[:0], verify_meta=False)


def test_partitions_that_are_empty() -> None:
    nothing = FRAME[:0]
    found = mixture(cluster="serial").fit(frames(nothing, FRAME[:3000], nothing, FRAME[3000:]))
    without = mixture(cluster="serial").fit(frames(FRAME[:3000], FRAME[3000:]))
    np.testing.assert_allclose(np.sort(found.means_, 0), np.sort(without.means_, 0), atol=1e-3)
    assert found.n_seen_ == 3 * len(X)
    untouched(found, InvalidInputError, "no rows", frames(nothing, nothing))
    online = mixture("online-em", cluster="serial").fit(frames(nothing, FRAME[:300], nothing))
    assert online.n_seen_ == 300


def test_weights_of_an_array_say_how_they_are_given() -> None:
    for weight in (da.ones(len(X)), np.ones(len(X))):
        words = "sample_weight for .* is the name of a column, .*from_dask_array"
        with pytest.raises(InvalidInputError, match=words):
            mixture(cluster="serial").fit(da.from_array(X), sample_weight=weight)


def test_partitions_with_other_columns(address: str) -> None:
    other = FRAME.rename(columns={"b": "c"})
    model = mixture(cluster="serial").fit(FRAME)
    bad = frames(FRAME[:3000], other[3000:])
    untouched(model, SourceError, "partition 1: it has columns a, c", bad)
    untouched(mixture(cluster=address), SourceError, "partition 1: it has columns a, c", bad)
    ragged = da.concatenate([da.from_array(X), da.from_array(X)])
    ragged = ragged.map_blocks(lambda x: x[:, :1], chunks=ragged.chunks)
    untouched(model, SourceError, "has 1 columns", ragged)


def test_rows_that_are_no_numbers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EM, "sample_size", 200)
    bad = FRAME.copy()
    bad.loc[4321, "b"] = np.inf
    model = mixture(cluster=address, init=CENTRES)
    untouched(model, InvalidInputError, r"partition 4: row 322 .*'b' is inf", frames_of(bad))
    text = dd.from_pandas(FRAME.assign(b="x"), npartitions=2)
    untouched(model, SourceError, "not numeric", text)
    untouched(model, InvalidInputError, "rows and columns", da.from_array(X[:, 0]))


def frames_of(frame: pd.DataFrame) -> Any:
    return dd.from_pandas(frame, npartitions=6)


def test_a_task_that_fails_says_why(address: str) -> None:
    def broken(rows: np.ndarray) -> np.ndarray:
        raise RuntimeError("the disk is gone")

    calls = mixture(cluster=address, init=CENTRES)
    untouched(calls, Exception, "the disk is gone", chunked(broken))


@pytest.mark.parametrize("where", ["tcp://127.0.0.1:1", "nowhere", "tcp://nowhere.invalid:8786"])
def test_an_address_nobody_answers(
    where: str, parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixfold.engines.dask.PATIENCE", 0.5)
    untouched(mixture(columns=NAMES, cluster=where), ClusterError, "no Dask scheduler", parquet)


def test_what_a_cluster_cannot_do(parquet: Path) -> None:
    untouched(mixture(cluster="local"), InvalidInputError, "memory of this process", X)
    untouched(mixture(cluster=3), InvalidInputError, "cluster is 3", X)
    incremental = mixture("incremental-em", cluster="serial", columns=NAMES)
    untouched(incremental, InvalidInputError, "cannot be shared out", parquet)
    drawn = MiniBatchEM(sampling="with-replacement")
    shuffled = mixture(drawn, cluster="serial", columns=NAMES)
    untouched(shuffled, InvalidInputError, "sampling='stream'", parquet)


def test_states_of_different_passes_are_refused() -> None:
    backend = Threads(MixtureModel(Gaussian(), 3, 2), 1)
    learner = EM()
    before = learner.init(backend, mixture().fit(X).params_)
    after, _ = learner.end_pass(backend, learner.step(backend, before, ArraySource(X).whole())[0])
    with pytest.raises(InvalidInputError, match="pass 1"):
        learner.merge(backend, before, [before, after])
    online = OnlineEM(warmup=0)
    other: Any = online.init(backend, before.params)
    with pytest.raises(InvalidInputError, match=r"a StochasticState cannot .* EMState"):
        learner.merge(backend, before, [other])
    with pytest.raises(InvalidInputError, match=r"a EMState cannot .* StochasticState"):
        online.merge(backend, other, [before])  # type: ignore[list-item]


def test_a_missing_extra(monkeypatch: pytest.MonkeyPatch, parquet: Path) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    untouched(
        mixture(cluster="local", columns=NAMES), MissingExtraError, r"mixfold\[dask\]", parquet
    )
    error = MissingExtraError("a", "b", "c")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
