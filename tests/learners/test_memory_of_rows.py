"""What incremental learners remember of rows: in memory and on file, against a plain array."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixfold.core.errors import InvalidInputError, ModelFileError
from mixfold.learners import _memory, _memory_files
from mixfold.learners._memory import InMemory, OnFile, on_file
from mixfold.learners._memory_files import Files, open_files, read_at, write_at

WIDTH = 3


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (_memory, _memory_files):
        monkeypatch.setattr(module, "SEGMENT", 4)


def vectors(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, WIDTH))


def write(memory: Any, latent: np.ndarray, cuts: list[int]) -> Any:
    for start, stop in zip([0, *cuts], [*cuts, len(latent)], strict=True):
        memory = memory.written(start, latent[start:stop])
    return memory


CUTS = [[], [4], [1, 2, 3], [3, 9], [5, 8, 12]]


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 4, 13, 16])
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("place", ["at once", "next pass", "file"])
def test_what_is_written_is_read(
    precision: str, n: int, cuts: list[int], place: str, tmp_path: Path
) -> None:
    memory: Any = InMemory([], WIDTH, precision, None if place == "at once" else [])
    if place == "file":
        memory = on_file(str(tmp_path / "m"), WIDTH, precision)
    cuts = [cut for cut in cuts if cut < n]
    latent = vectors(n)
    memory = write(memory, latent, cuts).swapped()
    kept = latent.astype(precision).astype(np.float64)
    memory.check(WIDTH, precision, n)
    for first in range(n):
        for count in (0, 1, 3, 4, 5, n - first):
            found = memory.read(first, min(count, n - first))
            np.testing.assert_array_equal(found, kept[first : first + min(count, n - first)])
            assert found.dtype == np.float64
    again = vectors(n, 1)
    later = write(memory, again, cuts)
    if place != "at once":  # what the pass before has left stays until this pass is over
        np.testing.assert_array_equal(later.read(0, n), kept)
    np.testing.assert_array_equal(later.swapped().read(0, n), again.astype(precision))
    if place != "file":  # values are never changed
        np.testing.assert_array_equal(memory.read(0, n), kept)
    memory.release()


def test_a_few_rows_of_many_are_renewed() -> None:
    latent = vectors(13)
    memory = InMemory([], WIDTH, "float64").written(0, latent)
    changed = memory.written(3, vectors(6, 1))
    latent[3:9] = vectors(6, 1)
    np.testing.assert_array_equal(changed.read(0, 13), latent)
    assert [len(segment) for segment in changed.segments] == [4, 4, 4, 1]
    assert changed.segments[3] is memory.segments[3]


def test_memories_that_no_rows_have_led_to() -> None:
    memory = InMemory([], WIDTH, "float64").written(0, vectors(6))
    memory.check(WIDTH, "float64", 6)
    with pytest.raises(InvalidInputError, match="holds 6 rows: 7 are needed"):
        memory.check(WIDTH, "float64", 7)
    for width, precision in ((2, "float64"), (WIDTH, "float32")):
        with pytest.raises(InvalidInputError, match="width 3 and precision 'float64'"):
            memory.check(width, precision, 6)
    short = replace(memory, segments=[memory.segments[0][:3], memory.segments[1]])
    with pytest.raises(InvalidInputError, match="segments"):
        short.check(WIDTH, "float64", 5)
    long = replace(memory, segments=[vectors(5)])
    with pytest.raises(InvalidInputError, match="segments"):
        long.check(WIDTH, "float64", 5)
    other = replace(memory, segments=[segment.astype(np.float32) for segment in memory.segments])
    with pytest.raises(InvalidInputError, match="float32, not float64"):
        other.check(WIDTH, "float64", 6)


def test_files_that_no_rows_have_led_to(tmp_path: Path) -> None:
    memory = write(on_file(str(tmp_path / "m"), WIDTH, "float64"), vectors(9), [])
    assert len(memory.sums) == 2
    memory = memory.swapped()
    assert (memory.turn, memory.length, len(memory.known), memory.row) == (1, 9, 3, 0)
    memory.check(WIDTH, "float64", 9)
    for wrong in (
        replace(memory, fit="short"),
        replace(memory, fit="-" * 32),
        replace(memory, fit="é" * 32),
        replace(memory, turn=-1),
        replace(memory, row=-1),
        replace(memory, last=-1),
        replace(memory, known=memory.known[:2]),
        replace(memory, length=8),
        replace(memory, row=4),
    ):
        with pytest.raises(InvalidInputError):
            wrong.check(WIDTH, "float64", 9)
    memory.release()


def damage(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))


def test_damaged_files(tmp_path: Path) -> None:
    """Of three segments the middle one is damaged: the others are read."""
    memory = write(on_file(str(tmp_path / "m"), WIDTH, "float64"), vectors(11), []).swapped()
    path = tmp_path / "m.1"
    assert path.stat().st_size == 64 + 11 * WIDTH * 8
    damage(path, 64 + 5 * WIDTH * 8)
    np.testing.assert_array_equal(memory.read(0, 4), vectors(11)[:4])
    np.testing.assert_array_equal(memory.read(8, 3), vectors(11)[8:])
    with pytest.raises(ModelFileError, match=r"m.1 is damaged: rows 4 to 7 are not"):
        memory.read(4, 4)
    os.truncate(path, 64 + 10 * WIDTH * 8)
    memory.release()
    open_files(str(tmp_path / "m"), memory.fit)
    with pytest.raises(ModelFileError, match=r"rows 8 to 10"):
        memory.read(8, 3)
    memory.release()


def test_files_of_others(tmp_path: Path) -> None:
    memory = write(on_file(str(tmp_path / "m"), WIDTH, "float64"), vectors(5), []).swapped()
    later = write(write(memory, vectors(5), []).swapped(), vectors(5), []).swapped()
    with pytest.raises(ModelFileError, match="holds the memory of pass 3, not of pass 1, of the"):
        replace(memory, turn=1).read(0, 5)
    with pytest.raises(ModelFileError, match="another fit"):
        _memory_files.opened(later.fit).segment(replace(later, fit="0" * 32), 0)
    for other in (replace(later, width=2), replace(later, precision="float32")):
        with pytest.raises(ModelFileError, match="of pass 3"):
            _memory_files.opened(later.fit).segment(other, 0)
    with pytest.raises(InvalidInputError, match="another fit uses it"):
        on_file(str(tmp_path / "m"), WIDTH, "float64")
    later.release()
    on_file(str(tmp_path / "m"), WIDTH, "float64").release()


def test_files_that_are_something_else(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    (tmp_path / "m.1").write_bytes(b"a letter")
    with pytest.raises(InvalidInputError, match=r"m.1 is not a memory file"):
        Files(path, "0" * 32)
    assert (tmp_path / "m.1").read_bytes() == b"a letter"
    (tmp_path / "m.1").write_bytes(b"x" * 64)
    with pytest.raises(InvalidInputError, match=r"m.1 is not a memory file"):
        Files(path, "0" * 32)
    (tmp_path / "m.1").unlink()
    write(on_file(path, WIDTH, "float64"), vectors(2), []).release()
    whole = (tmp_path / "m.1").read_bytes()
    (tmp_path / "m.1").write_bytes(whole[:63])
    with pytest.raises(InvalidInputError, match="is not a memory file"):
        Files(path, "0" * 32)
    (tmp_path / "m.1").write_bytes(whole[:16] + b"\x02" + whole[17:])
    with pytest.raises(InvalidInputError, match="of format 2; this mixfold uses format 1"):
        Files(path, "0" * 32)
    (tmp_path / "m.1").unlink()
    (tmp_path / "m.1").mkdir()
    with pytest.raises(InvalidInputError, match=r"cannot use .*m.1 as memory"):
        Files(path, "0" * 32)


def test_bytes_at_places(tmp_path: Path) -> None:
    handle = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    write_at(handle, b"abcdef", 3)
    write_at(handle, b"X", 4)
    assert read_at(handle, 100, 0) == b"\0\0\0aXcdef"
    assert read_at(handle, 3, 4) == b"Xcd"
    assert read_at(handle, 0, 4) == b""
    os.close(handle)


def test_a_memory_that_begins_is_empty(tmp_path: Path) -> None:
    memory = on_file(str(tmp_path / "m"), WIDTH, "float32")
    assert isinstance(memory, OnFile)
    assert (memory.turn, memory.length, memory.row, memory.last) == (0, 0, 0, 0)
    assert len(memory.known) == len(memory.sums) == 0
    memory.check(WIDTH, "float32", 0)
    memory.release()
    memory.release()
