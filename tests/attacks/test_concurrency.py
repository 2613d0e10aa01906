"""Threads that read while others learn, several that learn, and interrupts."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from attacks.concurrency import (
    MODELS,
    begun,
    clusters,
    fit_while_predicting,
    gaussian,
    interrupt_learning,
    learned,
    read_while_learning,
    together,
    write_together,
)
from mixfold import LinearMixedModel, merge
from mixfold.core.value import equal


def rows(n: int = 220, d: int = 2) -> np.ndarray:
    return clusters(np.random.default_rng(0), n, d)


def some_rows(name: str) -> np.ndarray:
    """Fewer where every reading of parameters is a search for them."""
    return rows(145 if name == "scikit-learn" else 220)


@pytest.mark.parametrize("name", MODELS)
def test_readers_change_nothing(name: str, tmp_path: Path) -> None:
    read_while_learning(MODELS[name], some_rows(name), tmp_path)


def test_no_reader_sees_half_a_row(tmp_path: Path) -> None:
    """A row of 40 columns takes long enough to be learned for others to look."""
    read_while_learning(gaussian("online-em", 8), rows(400, 40), tmp_path, readers=4)


@pytest.mark.parametrize("name", MODELS)
def test_no_row_is_lost_between_writers(name: str) -> None:
    write_together(MODELS[name], rows(160), each=40)


@pytest.mark.parametrize("name", MODELS)
def test_an_interrupt_leaves_whole_rows(name: str) -> None:
    pauses = np.random.default_rng(1).uniform(0.0, 0.0005, 40)
    interrupt_learning(MODELS[name], some_rows(name), pauses)


def test_the_old_model_is_there_until_the_new_one_is() -> None:
    fit_while_predicting(rows(400))


def test_a_fit_of_other_columns_does_not_disturb_readers() -> None:
    x, other = rows(300, 2), rows(3000, 3)
    model = gaussian("online-em")().fit(x)
    before, began, read = model.score_samples(x), threading.Event(), threading.Event()

    def blocks() -> Iterator[np.ndarray]:
        for part in np.array_split(other, 5):
            yield part
            began.set()
        assert read.wait(60.0)

    def reader() -> None:
        assert began.wait(60.0)
        try:
            for _ in range(5):
                np.testing.assert_array_equal(model.score_samples(x), before)
            assert copy.deepcopy(model).n_features_in_ == 2
        finally:
            read.set()

    together(lambda: model.fit(blocks()), reader)
    assert model.n_features_in_ == 3


def test_a_mixed_model_is_there_until_the_next_one_is() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 5)
    narrow, wide = rng.normal(size=(100, 1)), rng.normal(size=(100, 2))
    y = rng.normal(size=20)[groups] + narrow[:, 0] + rng.normal(0.0, 0.1, 100)
    model = LinearMixedModel().fit(narrow, y, groups)
    done = threading.Event()

    def fit() -> None:
        try:
            for x in (wide, narrow) * 3:
                model.fit(x, y, groups)
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            shown = copy.copy(model)
            assert len(shown.coef_) == 1 + shown.n_features_in_

    together(fit, read)


def test_locks_are_not_copied() -> None:
    model = MODELS["rows in place"]().fit(rows())
    model.learn_one(rows()[0])
    for other in (copy.copy(model), copy.deepcopy(model), clone(model).fit(rows())):
        assert other._lock() is not model._lock()
    with model._lock():  # a copy learns though the model does not
        other = copy.copy(model)
        together(lambda: other.learn_one(rows()[1]))
    assert other.n_seen_ == model.n_seen_ + 1


def test_copies_made_while_learning_can_be_merged() -> None:
    """What copies have in common with their model counts once, though it never stood still."""
    x = rows(400)
    model, copies = begun(MODELS["rows in place"](), x[:150]), list[Any]()

    def write() -> None:
        for row in x[150:]:
            model.learn_one(row)

    def take() -> None:
        copies.extend(copy.deepcopy(model) for _ in range(3))

    together(write, take)
    model.learn_one(x[0])
    for other in copies:
        common = other._now().n_rows
        other.partial_fit(x[:10])
        merged = merge([model, other])
        assert merged._now().n_rows == model._now().n_rows + 10
        assert merged._now().stream.snapshots[0].n_rows == common


def test_reading_between_rows_does_not_show() -> None:
    """One thread, too: reading must not change what a model has learned."""
    for name, make in MODELS.items():
        looked, plain = begun(make(), rows()[:120]), begun(make(), rows()[:120])
        for row in some_rows(name)[120:]:
            looked.learn_one(row)
            plain.learn_one(row)
            assert np.isfinite(looked.means_).all()
        assert equal(learned(looked), learned(plain))
