"""Sources whose rows arrive while they are read."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from mixfold.core.growing_source import Arrived, GrowingSource
from mixfold.errors import InvalidInputError, SourceError
from mixfold.sources import following
from mixfold.sources.csv_files import CsvOptions
from mixfold.sources.growing_folder import GrowingFolder
from mixfold.sources.growing_iterable import GrowingIterable
from mixfold.sources.growing_stream import GrowingStream
from mixfold.sources.growing_text import GrowingText

X = np.random.default_rng(0).normal(size=(700, 3)).round(6)
NAMES = ["a", "b", "c"]
Append = Callable[[np.ndarray], None]
Make = Callable[[], GrowingSource]


OPEN: list[GrowingSource] = []


def follow(*arguments: Any, **options: Any) -> GrowingSource:
    """A source that is closed after the test."""
    OPEN.append(following.follow(*arguments, **options))
    return OPEN[-1]


@pytest.fixture(autouse=True)
def close_sources() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def polled(source: GrowingSource, most: int = 64) -> list[Arrived]:
    found = []
    while (arrived := source.poll(most)) is not None:
        found.append(arrived)
    return found


def rows_of(arrived: list[Arrived]) -> np.ndarray:
    tables = [one.rows for one in arrived if one.rows is not None]
    parts = [np.column_stack([c.to_numpy() for c in t.columns]) for t in tables]
    return np.concatenate([np.empty((0, 3)), *parts])


def notices(arrived: list[Arrived]) -> str:
    return "; ".join(text for one in arrived for text in one.notices)


def text_of(x: np.ndarray) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in x.tolist())


def json_of(x: np.ndarray) -> str:
    return "".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in x.tolist())


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def in_csv(folder: Path) -> tuple[Make, Append]:
    path = folder / "x.csv"
    path.write_text("a,b,c\n")
    return lambda: follow(path), lambda x: append(path, text_of(x))


def in_json(folder: Path) -> tuple[Make, Append]:
    path = folder / "x.jsonl"
    path.touch()
    return lambda: follow(path), lambda x: append(path, json_of(x))


def in_folder(folder: Path, write: Callable[[Path, np.ndarray], None]) -> tuple[Make, Append]:
    def add(x: np.ndarray) -> None:
        write(folder / f"part{len([*folder.iterdir()]):03}", x)

    return lambda: follow(folder), add


def write_parquet(path: Path, x: np.ndarray) -> None:
    table = pa.table(dict(zip(NAMES, x.T, strict=True)))
    pyarrow.parquet.write_table(table, path.with_suffix(".parquet"), row_group_size=37)


def write_csv(path: Path, x: np.ndarray) -> None:
    path.with_suffix(".csv").write_text("a,b,c\n" + text_of(x))


KINDS: dict[str, Callable[[Path], tuple[Make, Append]]] = {
    "csv": in_csv,
    "json": in_json,
    "folder of parquet": lambda folder: in_folder(folder, write_parquet),
    "folder of csv": lambda folder: in_folder(folder, write_csv),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [1, 50, 10_000])
def test_rows_are_those_that_were_written_whenever_they_are_read(
    kind: str, most: int, tmp_path: Path
) -> None:
    make, add = KINDS[kind](tmp_path)
    source, found = make(), list[Arrived]()
    for first in range(0, 700, 140):
        found += polled(source, most)
        add(X[first : first + 140])
    found += polled(source, most)
    np.testing.assert_array_equal(rows_of(found), X)
    assert not any(one.bad or one.notices for one in found)
    assert source.position.rows == 700
    assert not source.ended


@pytest.mark.parametrize("kind", KINDS)
def test_a_position_resumes_exactly(kind: str, tmp_path: Path) -> None:
    make, add = KINDS[kind](tmp_path)
    found = list[Arrived]()
    source = make()
    for first in range(0, 700, 100):
        add(X[first : first + 100])
        for _ in range(2):  # another one continues twice between any two parts
            found += [one for one in [source.poll(33)] if one is not None]
            position = source.position
            position.check()
            source.close()
            source = make()
            source.seek(position)
            assert [source.position.rows, source.position.columns] == [position.rows, NAMES]
    found += polled(source)
    np.testing.assert_array_equal(rows_of(found), X)
    assert not notices(found)


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.touch()
    source, found = follow(path), list[Arrived]()
    text = "a,b,c\n1,2,3\n4,5,6\r\n\n7,8,9\n"
    for character in text:
        append(path, character)
        found += polled(source)
        assert source.position.files[0].offset <= path.stat().st_size
    np.testing.assert_array_equal(rows_of(found), [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    append(path, "10,11")
    assert polled(source) == []
    assert source.waiting() == f"line 6 of {path} has begun, but has no end yet"


def test_a_header_waits_for_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n")
    source = follow(path)
    assert polled(source) == []
    assert source.waiting() == f"the first row of {path} has not come yet"
    append(path, "1,2")
    assert polled(source) == []
    assert source.waiting() == f"the first row of {path} has not come yet"


def test_lines_that_do_not_parse_are_told_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    lines = text_of(X[:40]).splitlines()
    lines[7], lines[8], lines[30] = "1,oops,3", "1,2", '1,2,"3'
    path.write_text("\n".join(["a,b,c", *lines, ""]))
    source = follow(path)
    (arrived,) = polled(source)
    np.testing.assert_array_equal(rows_of([arrived]), np.delete(X[:40], [7, 8, 30], axis=0))
    assert [one.place for one in arrived.bad] == [f"{path}: line {i}" for i in (9, 10, 32)]
    first, second, third = (one.reason for one in arrived.bad)
    assert first == "column 'b' has 'oops', which is not a number"
    assert second == "'1,2' has 2 cells: 3 are needed"
    assert third.startswith("'1,2,\"3'")


def test_records_may_lack_columns_and_have_others(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"a": 1, "b": 2}\n{"a": 3}\n{"b": 4, "z": 5}\n[1]\n{"z": 1}\n{"a": "x"}\n{"a"\n'
    )
    source = follow(path)
    (arrived,) = polled(source)
    assert arrived.rows.to_pydict() == {"a": [1.0, 3.0, None], "b": [2.0, None, 4.0]}
    reasons = [one.reason for one in arrived.bad]
    assert reasons[:3] == [
        "it is no record of columns",
        "it has none of the columns a, b",
        "column 'a' has 'x', which is no double",
    ]
    assert reasons[3].startswith("'{\"a\"' is no JSON: ")


def test_types_come_from_the_first_rows_where_not_all_columns_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("n,text,day,odd\n" + "1,red,2026-01-01,2\n" * 150)
    source = follow(path, numbers=False)
    assert polled(source) == []
    assert source.waiting() == "150 of the 200 rows have come that tell the types of the columns"
    append(path, "1.5,blue,2026-01-02,oops\n" + "2,3,2026-01-03,4\n" * 60)
    (arrived,) = polled(source, 1000)
    assert list(map(str, arrived.rows.schema.types)) == [
        "double",
        "string",
        "date32[day]",
        "double",
    ]
    assert len(arrived.rows) == 210
    assert [one.reason for one in arrived.bad] == ["column 'odd' has 'oops', which is not a number"]
    again = follow(path, numbers=False)
    again.seek(source.position)
    append(path, "9,9,2026-01-09,9\n")
    (one,) = polled(again)
    assert one.rows.schema == arrived.rows.schema
    assert one.rows["text"].to_pylist() == ["9"]


# files that change otherwise


def test_a_file_that_is_replaced_is_read_to_its_end_and_the_new_one_from_its_beginning(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n" + text_of(X[:10]))
    source = follow(path)
    found = polled(source)
    append(path, text_of(X[10:20]))
    path.rename(tmp_path / "x.csv.1")
    found += polled(source)
    path.write_text("a,c,b\n" + text_of(X[20:30][:, [0, 2, 1]]))
    found += polled(source)
    np.testing.assert_array_equal(rows_of(found), X[:30])
    assert notices(found) == f"{path} was replaced: the new file is read from the beginning"


def test_a_file_that_is_cut_off_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n" + text_of(X[:10]))
    source = follow(path)
    found = polled(source)
    with path.open("r+") as file:
        file.truncate(0)
        file.write("a,b,c\n" + text_of(X[10:12]))
    found += polled(source)
    np.testing.assert_array_equal(rows_of(found), X[:12])
    assert "was cut off at" in notices(found)


def test_a_file_that_has_other_columns_than_before_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n" + text_of(X[:10]))
    source = follow(path)
    assert len(rows_of(polled(source))) == 10
    path.unlink()
    path.write_text("a,b,d\n" + text_of(X[:10]))
    with pytest.raises(SourceError, match=r"has other columns than before: .* no column 'c'"):
        polled(source)


def test_another_file_under_the_same_name_is_noticed_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n" + text_of(X[:10]))
    source = follow(path)
    polled(source)
    position = source.position
    source.close()
    path.write_text("a,b,c\n" + text_of(X[20:40]))
    again = follow(path)
    again.seek(position)
    found = polled(again)
    np.testing.assert_array_equal(rows_of(found), X[20:40])
    assert "is not the file that was read before" in notices(found)


def test_files_of_a_folder_appear_grow_and_vanish(tmp_path: Path) -> None:
    source, found = follow(tmp_path), list[Arrived]()
    assert polled(source) == []
    write_csv(tmp_path / "b", X[:20])
    found += polled(source)
    write_csv(tmp_path / "a", X[20:30])  # before b by its name, but later
    append(tmp_path / "b.csv", text_of(X[30:40]))
    (tmp_path / "_c.csv").write_text("nonsense")
    (tmp_path / "notes.txt").write_text("nonsense")
    found += polled(source)
    np.testing.assert_array_equal(rows_of(found), X[:40])
    (tmp_path / "b.csv").unlink()
    assert polled(source) == []
    assert [file.name for file in source.position.files] == [str(tmp_path / "a.csv")]
    write_csv(tmp_path / "d", X[40:50])
    np.testing.assert_array_equal(rows_of(polled(source)), X[40:50])
    (tmp_path / "e.csv").write_text("x,y\n1,2\n3,4\n")
    with pytest.raises(SourceError, match=r"a file does not fit those before it: .* no column 'a'"):
        polled(source)


def test_a_parquet_file_is_read_when_it_is_complete(tmp_path: Path) -> None:
    write_parquet(tmp_path / "x", X[:50])
    whole = (tmp_path / "x.parquet").read_bytes()
    (tmp_path / "x.parquet").write_bytes(whole[: len(whole) // 2])
    source = follow(tmp_path)
    assert polled(source) == []
    (tmp_path / "x.parquet").write_bytes(whole)
    np.testing.assert_array_equal(rows_of(polled(source)), X[:50])


def test_a_column_of_text_in_a_parquet_file_is_named(tmp_path: Path) -> None:
    table = pa.table({"a": [1.0], "name": ["x"]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(SourceError, match="column 'name' is string, not numeric; leave it out"):
        polled(follow(tmp_path))
    (arrived,) = polled(follow(tmp_path, ["a"]))
    assert arrived.rows.schema.names == ["a"]


# streams and iterables


@pytest.fixture
def pipe() -> Iterator[tuple[int, Any]]:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as file:
        yield reading, file
    os.close(reading)


def awaited(source: GrowingSource, n: int) -> list[Arrived]:
    """What arrives until there are so many rows, or the source has ended."""
    found = list[Arrived]()
    while sum(one.n for one in found) < n and not source.ended:
        found += polled(source)
    return found


@pytest.mark.parametrize("write", [lambda x: "a,b,c\n" + text_of(x), json_of])
def test_a_stream_of_lines_ends(write: Callable[[np.ndarray], str], pipe: tuple[int, Any]) -> None:
    reading, file = pipe
    text = write(X[:20]).encode()
    source = GrowingStream(reading)
    assert source.poll(10) is None
    file.write(text[:200])
    found = awaited(source, 2)
    file.write(text[200:-1])  # the last line has no end
    file.close()
    found += awaited(source, 20)
    np.testing.assert_array_equal(rows_of(found), X[:20])
    assert polled(source) == []
    assert source.ended


def test_a_stream_makes_its_writer_wait(pipe: tuple[int, Any]) -> None:
    reading, file = pipe
    source = GrowingStream(reading)
    os.set_blocking(file.fileno(), False)
    line, written, tries = b"1,2,3\n" * 10_000, 0, 0
    file.write(b"a,b,c\n")
    source.poll(1)
    while tries < 20:
        done = file.write(line)
        written, tries = written + (done or 0), 0 if done else tries + 1
        time.sleep(0.0 if done else 0.01)
    assert written < 2**22  # it was refused more


def test_items_are_records_rows_and_blocks() -> None:
    records = [dict(zip(NAMES, row, strict=True)) for row in X[:10].tolist()]
    source = GrowingIterable(iter([*records, pa.table(dict(zip(NAMES, X[10:30].T, strict=True)))]))
    np.testing.assert_array_equal(rows_of(awaited(source, 30)), X[:30])
    assert source.position.rows == 30
    source = GrowingIterable([X[0], X[1:9], X[9].tolist()])
    blocks = [one.rows for one in awaited(source, 10)]
    np.testing.assert_array_equal(np.concatenate(blocks), X[:10])
    assert source.ended
    with pytest.raises(InvalidInputError, match="is a str, which is no row"):
        awaited(GrowingIterable(["text"]), 1)


def test_errors_of_an_iterable_are_those_of_who_takes_its_rows() -> None:
    def broken() -> Iterator[dict[str, float]]:
        yield {"a": 1.0}
        raise ConnectionError("the broker is gone")

    source = GrowingIterable(broken())
    while (arrived := source.poll(1)) is None:
        pass
    assert arrived.rows.to_pydict() == {"a": [1.0]}
    with pytest.raises(ConnectionError, match="the broker is gone"):
        awaited(source, 1)


def test_what_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"there is no file or folder .* make it first"):
        follow(tmp_path / "x.csv")
    (tmp_path / "x.csv.gz").touch()
    with pytest.raises(SourceError, match="cannot be followed: give a file that ends in"):
        follow(tmp_path / "x.csv.gz")
    (tmp_path / "x.csv").touch()
    with pytest.raises(SourceError, match="utf-16 cannot be followed"):
        follow(tmp_path / "x.csv", options=CsvOptions(encoding="utf-16"))
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    with pytest.raises(SourceError, match="the first line is numbers"):
        polled(follow(tmp_path / "x.csv"))
    assert isinstance(follow(tmp_path), GrowingFolder)
    assert isinstance(follow(tmp_path / "x.csv"), GrowingText)


def test_csv_options_are_those_of_other_commands(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("# made by hand\n1,5;2;?\n3;-;4\n")
    options = CsvOptions(
        delimiter=";", decimal_point=",", header=False, skip_rows=1, null_values=["?", "-"]
    )
    (arrived,) = polled(follow(path, ["f0", "f2"], options=options))
    assert arrived.rows.to_pydict() == {"f0": [1.5, 3.0], "f2": [None, 4.0]}
