"""`-` for standard input and output, and columns that `score` copies."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import mixfold
from command_line import SCRIPT, Run, table
from mixfold.cli.main import main

Pipe = Callable[..., tuple[int, bytes, str]]
MODEL = "a.mixfold"


class Bytes(io.TextIOWrapper):
    """Standard input with given bytes."""

    def __init__(self, data: bytes, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data))
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch, capfdbinary: Any, tmp_path: Path) -> Pipe:
    """The command line with bytes on standard input, in a folder with rows and a model of them.

    Temporary files have a folder of their own, which must be empty in the end.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    pyarrow.parquet.write_table(table(600), "rows.parquet")
    columns = ["length", "wait"]
    model = mixfold.Mixture(n_components=2, columns=columns, random_state=0).fit("rows.parquet")
    model.save(MODEL)

    def pipe(data: bytes, *arguments: str, terminal: bool = False) -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "stdin", Bytes(data, terminal))
        code = main(list(arguments))
        out, err = capfdbinary.readouterr()
        assert not list((tmp_path / "temporary").iterdir())
        return code, out, err.decode()

    return pipe


def as_csv(rows: Any) -> bytes:
    sink = io.BytesIO()
    pyarrow.csv.write_csv(rows, sink)
    return sink.getvalue()


def as_parquet(rows: Any) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(rows, sink)
    return sink.getvalue()


def as_arrow(rows: Any, new: Any = pa.ipc.new_stream) -> bytes:
    sink = io.BytesIO()
    with new(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=70)
    return sink.getvalue()


def as_npy(rows: Any) -> bytes:
    sink = io.BytesIO()
    np.save(sink, np.stack([column.to_numpy() for column in rows.columns], axis=1))
    return sink.getvalue()


FORMS: dict[str, Callable[[Any], bytes]] = {
    "csv": as_csv,
    "compressed": lambda rows: gzip.compress(as_csv(rows)),
    "parquet": as_parquet,
    "arrow stream": as_arrow,
    "arrow file": lambda rows: as_arrow(rows, pa.ipc.new_file),
    "npy": as_npy,
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_every_kind_are_read(pipe: Pipe, form: str) -> None:
    rows = table(300).select(["length", "wait"])
    settings = ("-k", "2", "--learner", "em", "--max-iter", "3", "-o", "b.mixfold")
    code, _, err = pipe(FORMS[form](rows), "fit", "-", *settings)
    assert (code, err) == (0, "")
    found = mixfold.load("b.mixfold")
    wanted = mixfold.Mixture(n_components=2, learner="em", max_iter=3, random_state=0).fit(
        rows.to_pandas()
    )
    np.testing.assert_allclose(found.means_, wanted.means_, rtol=1e-9)


def test_a_pipe_of_commands(pipe: Pipe) -> None:
    code, drawn, err = pipe(b"", "sample", MODEL, "-n", "50", "-o", "-", "--format", "arrow")
    assert code == 0
    assert "50 rows saved" in err
    rows = pa.ipc.open_stream(drawn).read_all()
    assert rows.column_names == ["length", "wait"]
    code, scores, err = pipe(drawn, "score", MODEL, "-", "-o", "-")
    assert code == 0
    assert "50 rows" in err
    found = pyarrow.csv.read_csv(io.BytesIO(scores))
    fitted = mixfold.load(MODEL)
    wanted = fitted.score_samples(rows.to_pandas())
    np.testing.assert_allclose(found["log_density"].to_numpy(), wanted, rtol=1e-12)
    code, saved, _ = pipe(as_csv(rows), "fit", "-", "-k", "1", "-o", "-")
    assert code == 0
    code, out, err = pipe(saved, "inspect", "-", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["rows"] == 50
    code, _, err = pipe(saved, "fit", "rows.parquet", "-k", "1", "--columns", "length,wait",
                        "--init", "-", "-o", "again.mixfold")  # fmt: skip
    assert (code, err) == (0, "")
    code, filled, _ = pipe(as_csv(rows), "impute", MODEL, "-", "-o", "-")
    assert code == 0
    assert pyarrow.csv.read_csv(io.BytesIO(filled)).num_rows == 50


def test_compare_reads_standard_input(pipe: Pipe) -> None:
    rows = as_csv(table(60).select(["length", "wait"]))
    code, out, err = pipe(rows, "compare", "-", "-k", "1", "--learners", "em", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["rows"], found["held_out"]) == (60, 6)
    assert [one["learner"] for one in found["learners"]] == ["em"]
    assert all(np.isfinite(one["log_likelihood"]) for one in found["learners"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("fit", "-", "-", "-k", "2"), "- is given twice"),
        (("score", "-", "-", "-o", "x.csv"), "- is given twice"),
        (("merge", "-", "-", "-o", "x.mixfold"), "- is given twice"),
        (("fit", "-", "-k", "2", "--init", "-"), "- is given twice"),
        (("compare", "-", "-k", "2", "--init", "-"), "- is given twice"),
        (("fit", "-", "-k", "2"), "standard input is empty"),
        (("score", "a.mixfold", "-", "-o", "-", "--json"), "--json and -o - both write"),
        (("sample", "a.mixfold", "-n", "3", "-o", "-", "--format", "arro"), "Did you mean 'arrow'"),
        (("sample", "a.mixfold", "-n", "3", "-o", "x.csv", "--format", "arrow"), "use -o -"),
    ],
)
def test_mistakes_are_one_line(pipe: Pipe, arguments: tuple[str, ...], says: str) -> None:
    code, out, err = pipe(b"", *arguments)
    assert (code, out, err.count("\n")) == (2, b"", 1)
    assert says in err


def test_a_terminal_is_no_file(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = pipe(b"a,b\n1,2\n", "fit", "-", "-k", "1", terminal=True)
    assert code == 2
    assert "which is a terminal: send rows to it, as in 'mixfold fit - -k 2 < rows.csv'" in err
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, err = pipe(b"a,b\n1,2\n2,4\n3,5\n", "fit", "-", "-k", "1", "-o", "-")
    assert (code, out) == (2, b"")
    assert "a model is no text: redirect standard output" in err


def test_a_reader_that_stops_ends_the_command_quietly(model: str) -> None:
    command = [SCRIPT, "sample", model, "-n", "100000", "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'"length","wait"\n'
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


# columns that are copied


def files_with_ids() -> list[str]:
    """Two files with the rows of a table, and columns that no model reads."""
    rows = table(600)
    for name, first, n in (("one.csv", 0, 250), ("two.csv", 250, 350)):
        part = rows.slice(first, n)
        numbers = pa.array(np.arange(first, first + n) + 2**53)
        days = pa.array([f"2026-01-{1 + i % 28:02d}" for i in range(n)])
        notes = pa.array(["NA" if i % 2 else "" for i in range(n)])
        for key, column in (("id", numbers), ("day", days), ("note", notes)):
            part = part.append_column(key, column)
        pyarrow.csv.write_csv(part, name)
        pyarrow.parquet.write_table(part, name.replace(".csv", ".parquet"))
    return ["one.csv", "two.csv"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_kept_columns_stand_beside_their_rows(run: Run, model: str, kind: str) -> None:
    files = [name.replace("csv", kind) for name in files_with_ids()]
    code, _, err = run("score", model, *files, "--keep", "id,day,note", "-o", "s.parquet")
    assert (code, err) == (0, "")
    scores = pyarrow.parquet.read_table("s.parquet")
    names = ["id", "day", "note", "log_density", "label", "responsibility_0", "responsibility_1"]
    assert scores.column_names == names
    assert (scores["id"].to_numpy() == np.arange(600) + 2**53).all()  # not as floats
    assert scores["note"].to_pylist()[:4] == ["", "NA", "", "NA"]
    assert str(scores["day"][1]) == "2026-01-02"
    fitted, rows = mixfold.load(model), table(600).select(["length", "wait"]).to_pandas()
    np.testing.assert_allclose(scores["log_density"], fitted.score_samples(rows), rtol=1e-9)


def test_categories_and_empty_columns_are_kept(run: Run, model: str) -> None:
    rows = table(50).append_column("kind", pa.array(["u", "v"] * 25).dictionary_encode())
    rows = rows.append_column("empty", pa.nulls(50))
    with pa.OSFile("rows.arrows", "wb") as file:
        file.write(as_arrow(rows))
    code, _, err = run("score", model, "rows.arrows", "--keep", "kind,empty", "-o", "s.csv")
    assert (code, err) == (0, "")
    scores = pyarrow.csv.read_csv("s.csv")
    assert scores["kind"].to_pylist() == ["u", "v"] * 25
    assert scores["empty"].null_count == 50


def test_a_kept_column_of_several_types_is_refused_until_it_is_given_one(
    run: Run, model: str
) -> None:
    Path("a.csv").write_text("length,wait,id\n1,50,7\n2,51,8\n")
    Path("b.csv").write_text("length,wait,id\n3,52,x9\n")
    keep = ("score", model, "a.csv", "b.csv", "--keep", "id", "-o", "s.csv")
    code, _, err = run(*keep)
    assert code == 2
    assert "column 'id' is string, and it is int64 in a.csv" in err
    assert "--column-type" in err
    assert not Path("s.csv").exists()
    assert run(*keep, "--column-type", "id=string")[0] == 0
    assert Path("s.csv").read_text().splitlines()[3].startswith('"x9",')


@pytest.mark.parametrize(
    ("keep", "says"),
    [
        ("idd", "rows.parquet has no column 'idd'; its columns are length, wait, w"),
        ("w,w", "column 'w' appears twice"),
        (",", "--keep is ',': name columns"),
        ("label", "--keep label: the output has a column of this name already"),
        ("responsibility_1", "--keep responsibility_1: the output has a column"),
    ],
)
def test_bad_columns_to_keep(run: Run, rows: str, model: str, keep: str, says: str) -> None:
    code, out, err = run("score", model, rows, "--keep", keep, "-o", "s.csv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    assert not Path("s.csv").exists()


def test_names_that_contain_commas_stand_in_quotes(run: Run, tmp_path: Path) -> None:
    given = pa.table({"size, cm": [1.0, 2.0, 4.0, 3.0], "b": [3.0, 1.0, 2.0, 5.0]})
    pyarrow.parquet.write_table(given, tmp_path / "a.parquet")
    names = '"size, cm", b'
    code, _, err = run("fit", "a.parquet", "-k", "1", "--columns", names, "-o", "a.mixfold")
    assert code == 0, err
    code, _, err = run("score", "a.mixfold", "a.parquet", "--keep", names, "-o", "a.csv")
    assert code == 0, err
    assert Path("a.csv").read_text().startswith('"size, cm","b","log_density"')


def test_columns_without_names_are_not_kept(run: Run, model: str) -> None:
    np.save("x.npy", np.ones((5, 2)))
    code, _, err = run("score", model, "x.npy", "--keep", "id", "-o", "s.csv")
    assert code == 2
    assert "x.npy has no column 'id': its columns have no names" in err


def test_nested_columns_are_not_kept(run: Run, model: str) -> None:
    rows = table(5).append_column("tags", pa.array([["a", "b"]] * 5))
    pyarrow.parquet.write_table(rows, "nested.parquet")
    code, _, err = run("score", model, "nested.parquet", "--keep", "tags", "-o", "s.csv")
    assert code == 2
    assert "column 'tags' is list<" in err
    assert "one value a row is needed" in err


def test_progress_tells_the_rows_that_are_left(run: Run, model: str) -> None:
    code, _, err = run("sample", model, "-n", "600000", "-o", os.devnull, "--progress")
    assert code == 0
    assert "drawing, 262.1k of 600k rows" in err
