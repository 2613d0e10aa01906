"""Memory files belong to one fit, and what they hold is checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks import memory_files, run_some
from mixfold import IncrementalEM
from mixfold.core.errors import InvalidInputError, ModelFileError, OutputError
from mixfold.core.value import equal
from mixfold.learners import _memory_files


def test_random_attacks(tmp_path: Path) -> None:
    run_some("memory_files", 40, tmp_path)


def test_two_processes(tmp_path: Path) -> None:
    memory_files.two_processes(tmp_path / "r", np.random.default_rng(0))


def test_files_are_free_after_a_fit_and_after_an_error(tmp_path: Path) -> None:
    rows = memory_files.rows()
    model = memory_files.mixture(tmp_path / "r").fit(rows)
    model.progress = memory_files.At(400, memory_files.stop)
    with pytest.raises(memory_files.Stopped):
        model.fit(rows)
    assert not _memory_files._FILES
    model.progress = None
    again = memory_files.mixture(tmp_path / "r", n_init=2).fit(rows)
    assert equal(again.params_, memory_files.mixture(None, n_init=2).fit(rows).params_)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["r.0", "r.1"]


def test_an_older_checkpoint_does_not_use_a_newer_memory(tmp_path: Path) -> None:
    rows, kept = memory_files.rows(), tmp_path / "kept"
    fits: dict[str, Any] = {"checkpoint": kept, "resume": True}
    memory_files.mixture(tmp_path / "r", max_iter=2, **fits).fit(rows)
    older = kept.read_bytes()
    memory_files.mixture(tmp_path / "r", max_iter=4, **fits).fit(rows)
    kept.write_bytes(older)
    with pytest.raises(
        ModelFileError, match=r"r\.\d holds the memory of pass .*start the fit again"
    ):
        memory_files.mixture(tmp_path / "r", max_iter=4, **fits).fit(rows)


def test_a_memory_of_several_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixfold.learners._memory.SEGMENT", 64)
    monkeypatch.setattr("mixfold.learners._memory_files.SEGMENT", 64)
    rows = memory_files.rows()
    for passes in (2, 3):  # the file that is read first, and the other
        memory, kept = tmp_path / f"r{passes}", tmp_path / f"kept{passes}"
        fits: dict[str, Any] = {"checkpoint": kept, "resume": True}
        memory_files.mixture(memory, max_iter=passes, **fits).fit(rows)
        file = Path(f"{memory}.{passes % 2}")
        data = bytearray(file.read_bytes())
        data[64 + 3 * 8 * 200] ^= 1
        file.write_bytes(data)
        with pytest.raises(ModelFileError, match="rows 192 to 255 are not as they were written"):
            memory_files.mixture(memory, **fits).fit(rows)
        data[64 + 3 * 8 * 200] ^= 1
        file.write_bytes(data)
        found = memory_files.mixture(memory, **fits).fit(rows)
        assert equal(found.params_, memory_files.mixture(None).fit(rows).params_)


def test_a_memory_must_be_a_path(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="memory is 3"):
        IncrementalEM(memory=3)
    with pytest.raises(OutputError, match="there is no folder"):
        memory_files.mixture(tmp_path / "missing" / "r").fit(memory_files.rows())
    assert IncrementalEM(memory=tmp_path / "r").memory == str(tmp_path / "r")


if hasattr(os, "mkfifo"):

    def test_a_memory_is_a_plain_file(tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "r.1")
        with pytest.raises(InvalidInputError, match=r"r\.1 is no plain file"):
            memory_files.mixture(tmp_path / "r").fit(memory_files.rows())
