"""Files of responsibilities: what is refused, and how it is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError, ModelFileError
from mixfold.core.rows import Rows
from mixfold.core.statistics import Block
from mixfold.families.poisson import Poisson
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams

MODEL = MixtureModel(Poisson(), 2, 1)
BACKEND = Threads(MODEL, 1)
N = 40_000
ROWS = Rows(np.random.default_rng(0).poisson(4.0, size=(N, 1)).astype(np.float64))
HEADER, ROW_BYTES = 64, 16


def after(learner: IncrementalEM, passes: int) -> Any:
    """The state after passes over all rows."""
    means = np.array([[2.0], [5.0]])
    weights = np.array([0.5, 0.5])
    components, _ = Poisson().maximize((Block.of_means(weights, means),))
    state = learner.init(BACKEND, MixtureParams(weights, components))
    for _ in range(passes):
        state = one_pass(learner, state)
    return state


def one_pass(learner: IncrementalEM, state: Any) -> Any:
    state, _ = learner.step(BACKEND, state, ROWS)
    return learner.end_pass(BACKEND, state)[0]


def at(path: Path) -> IncrementalEM:
    return IncrementalEM(batch_size=N, memory=path / "r")


def change(file: Path, place: int, data: bytes) -> None:
    with file.open("r+b") as handle:
        handle.seek(place)
        handle.write(data)


def refused(learner: IncrementalEM, state: Any, message: str, kind: Any = ModelFileError) -> None:
    try:
        with pytest.raises(kind, match=message):
            one_pass(learner, state)
    finally:
        learner.release(state)


def test_damage_is_found_and_the_rows_are_named(tmp_path: Path) -> None:
    learner = at(tmp_path)
    state = after(learner, 1)
    learner.release(state)
    file = tmp_path / "r.1"  # the first pass writes what the second reads
    whole = file.read_bytes()
    change(file, HEADER + 20_000 * ROW_BYTES, b"\xff")
    refused(learner, state, r"r\.1 is damaged: rows 16384 to 32767 are not as they were written")
    file.write_bytes(whole[: HEADER + 39_000 * ROW_BYTES])
    refused(learner, state, r"r\.1 is damaged: rows 32768 to 39999 are not")
    file.write_bytes(whole)
    one_pass(learner, state)
    learner.release(state)


def test_files_of_another_fit_or_pass(tmp_path: Path) -> None:
    learner, other = at(tmp_path), IncrementalEM(batch_size=N, memory=tmp_path / "o")
    state = after(learner, 1)
    one_pass(learner, one_pass(learner, state))
    learner.release(state)
    refused(learner, state, "holds the memory of pass 3, not of pass 1, of the fit: the checkpoint")
    other.release(after(other, 1))
    (tmp_path / "r.1").write_bytes((tmp_path / "o.1").read_bytes())
    refused(learner, state, "holds the memory of another fit: the checkpoint is older")
    (tmp_path / "r.1").write_bytes(b"")
    refused(learner, state, "holds the memory of no fit: the checkpoint is older")


@pytest.mark.parametrize("side", [0, 1])
def test_files_that_are_not_ours_are_left_as_they_are(tmp_path: Path, side: int) -> None:
    file, learner = tmp_path / f"r.{side}", at(tmp_path)
    for data in (b"x" * 100, b"x" * 20, b"mixfold memory\0\0" + b"\1\0\0\0"):
        file.write_bytes(data)
        with pytest.raises(InvalidInputError, match=rf"r\.{side} is not a memory file of mixfold"):
            after(learner, 0)
        assert file.read_bytes() == data


@pytest.mark.parametrize("side", [0, 1])
def test_files_of_another_format(tmp_path: Path, side: int) -> None:
    learner = at(tmp_path)
    learner.release(after(learner, 2))
    change(tmp_path / f"r.{side}", 16, b"\2")
    with pytest.raises(InvalidInputError, match="is a memory file of format 2; this mixfold uses"):
        after(learner, 0)
    change(tmp_path / f"r.{side}", 16, b"\1")
    learner.release(after(learner, 0))


def test_states_whose_memory_is_not_theirs_are_refused(tmp_path: Path) -> None:
    learner = at(tmp_path)
    state = after(learner, 1)
    memory = state.memory
    learner.check_state(MODEL, state)
    for changes, message in (
        ({"fit": "a" * 31}, "an identifier of a fit is needed"),
        ({"fit": "a" * 31 + "/"}, "an identifier of a fit is needed"),
        ({"fit": "a" * 31 + "é"}, "an identifier of a fit is needed"),
        ({"length": N - 1}, f"{N} rows are needed"),
        ({"known": memory.known[:-1]}, f"memory has 2 and 0 checksums of {N} and 0 rows"),
        ({"sums": memory.known}, f"memory has 3 and 3 checksums of {N} and 0 rows"),
        ({"width": 3}, "memory has width 3"),
        ({"turn": -1}, "turn is -1"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            learner.check_state(MODEL, replace(state, memory=replace(memory, **changes)))
    learner.release(state)
