"""What learns single rows: compiled updates where the learner has them, else its own steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixfold import DriftAware, MiniBatchEM, Mixture, OnlineEM, RecursiveEM
from mixfold.estimators import _row_stream


def stream_of(learner: Any) -> Any:
    """What a mixture learns rows with after some of them."""
    rows = np.random.default_rng(0).normal(size=(300, 2))
    model = Mixture("gaussian", 2, learner=learner, random_state=0).partial_fit(rows)
    model.learn_one(rows[0])
    return model._live


@pytest.mark.parametrize("learner", [OnlineEM(), RecursiveEM()], ids=repr)
def test_updates_of_single_rows_are_compiled(learner: Any) -> None:
    assert type(stream_of(learner)) is _row_stream.CompiledRowStream


def test_batches_are_learned_by_the_learner() -> None:
    assert type(stream_of(MiniBatchEM(batch_size=7))) is _row_stream.BatchedRowStream


def test_the_inner_learner_of_a_watched_stream_is_compiled() -> None:
    live = stream_of(DriftAware(OnlineEM()))
    assert type(live) is _row_stream.DriftRowStream
    assert type(live._window.inner) is _row_stream.CompiledRowStream
