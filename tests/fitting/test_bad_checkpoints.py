"""Models and checkpoints that cannot be saved, resumed or loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixfold
from bad_input import COUNTS, NAMED, X, content, fitted, mixture, refuses
from mixfold import Mixture
from mixfold.core.errors import (
    ModelFileError,
    OutputError,
)
from mixfold.learners.online_em import OnlineEM

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")


def test_saving_where_it_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(mixture(), X)
    model.save(tmp_path / "old")
    before = content(tmp_path)
    for path in (tmp_path, tmp_path / "no folder" / "model", tmp_path / "old" / "model"):
        refuses(model, "save", path, "cannot write", str(path), kind=OutputError)
    with pytest.raises(ModelFileError, match="schedule is a function"):
        Mixture(learner=OnlineEM(schedule=unsavable)).fit(X).save(tmp_path / "old")
    with pytest.raises(ValueError, match="not fitted"):
        Mixture().save(tmp_path / "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    refuses(model, "save", tmp_path / "old", "No space left", "old", kind=OutputError)
    assert content(tmp_path) == before


def unsavable(r: Any) -> np.ndarray:
    return np.full(np.shape(r), 0.1)


def test_resuming(tmp_path: Path) -> None:
    model = fitted(mixture(), X)
    refuses(model.set_params(resume=True), "fit", X, "resume=True", "checkpoint=PATH")
    file = tmp_path / "checkpoint"
    mixture(checkpoint=file).fit(X)
    model.set_params(checkpoint=file).fit(X)
    whole = file.read_bytes()
    for changes in (
        {"n_components": 3},
        {"family": "poisson"},
        {"learner": "em"},
        {"n_init": 2},
        {"random_state": 1},
        {"init": "random-rows"},
    ):
        other = fitted(mixture(), COUNTS)
        other.set_params(**{"checkpoint": file, "resume": True, **changes})
        refuses(other, "fit", COUNTS, str(file), "another fit", "remove", kind=ModelFileError)
    for data in (X[:100], np.hstack([X, X]), NAMED):
        refuses(model, "fit", data, str(file), "another fit", "remove", kind=ModelFileError)
    assert file.read_bytes() == whole
    model.save(tmp_path / "model")
    refuses(model.set_params(checkpoint=tmp_path / "model"), "fit", X, "is a model file")
    file.write_bytes(whole[: len(whole) // 2])
    refuses(model.set_params(checkpoint=file), "fit", X, str(file), "damaged", kind=ModelFileError)
    missing = tmp_path / "missing" / "checkpoint"
    model.set_params(checkpoint=missing)
    refuses(model, "fit", X, "cannot write", str(missing), kind=OutputError)
    assert sorted(content(tmp_path)) == ["checkpoint", "model"]


def test_loading_what_is_no_model(tmp_path: Path) -> None:
    mixture(checkpoint=tmp_path / "checkpoint").fit(X)
    (tmp_path / "junk").write_bytes(b"junk")
    for path, says in [
        (tmp_path / "none", "No such file"),
        (tmp_path, "directory"),
        (tmp_path / "junk", "not a mixfold file"),
        (tmp_path / "checkpoint", "is a checkpoint file: a model file is needed"),
    ]:
        with pytest.raises(ModelFileError, match=says):
            mixfold.load(path)
