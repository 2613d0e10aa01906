"""CSV files of every kind: read as they are meant, or refused with the option that they need."""

from __future__ import annotations

import gzip
import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mixfold import CsvFiles, LinearMixedModel, Mixture, load
from mixfold.cli import _trial
from mixfold.cli.main import main
from mixfold.core.errors import InvalidInputError, LearningWarning, SourceError
from mixfold.core.rows import join
from mixfold.sources.opening import open_source

X = np.round(np.random.default_rng(0).normal(size=(40, 3)) * 10, 3)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(frame: pd.DataFrame = FRAME, name: str = "x.csv", **how: Any) -> Path:
        frame.to_csv(tmp_path / name, **{"index": False, **how})
        return tmp_path / name

    return write


def rows(data: Any, columns: list[str] | None = None, weight: str | None = None) -> np.ndarray:
    return np.asarray(join(list(open_source(data, columns, weight).blocks())).x)


# options


def test_delimiters_and_decimal_points(write: Write) -> None:
    for delimiter in ";|\t ":
        file = write(sep=delimiter)
        np.testing.assert_array_equal(rows(CsvFiles(file, delimiter=delimiter)), X)
    file = write(sep=";", decimal=",")
    data = CsvFiles(file, delimiter=";", decimal_point=",")
    np.testing.assert_array_equal(rows(data), X)
    np.testing.assert_array_equal(rows(data, ["c", "a"]), X[:, [2, 0]])


def test_files_without_a_header(write: Write) -> None:
    file = write(header=False)
    source = open_source(CsvFiles(file, header=False))
    assert list(source.columns or []) == ["f0", "f1", "f2"]
    np.testing.assert_array_equal(rows(CsvFiles(file, header=False)), X)
    names = ["p", "q", "r"]
    assert list(open_source(CsvFiles(file, column_names=names)).columns or []) == names
    np.testing.assert_array_equal(rows(CsvFiles(file, column_names=names), ["r"]), X[:, 2:])


def test_names_in_place_of_a_header(write: Write) -> None:
    data = CsvFiles(write(), header=True, column_names=["p", "q", "r"])
    assert list(open_source(data).columns or []) == ["p", "q", "r"]
    np.testing.assert_array_equal(rows(data), X)


def test_lines_before_the_header(write: Write) -> None:
    file = write()
    file.write_text("made by hand\nunits: m\n" + file.read_text())
    np.testing.assert_array_equal(rows(CsvFiles(file, skip_rows=2)), X)
    data = CsvFiles(file, skip_rows=2, header=True, column_names=["p", "q", "r"])
    np.testing.assert_array_equal(rows(data), X)


def test_quotes_encodings_and_types(write: Write) -> None:
    file = write(FRAME.rename(columns={"a": "é,x"}), quotechar="'", encoding="latin-1")
    data = CsvFiles(file, quote_char="'", encoding="latin-1")
    assert list(open_source(data).columns or []) == ["é,x", "b", "c"]
    np.testing.assert_array_equal(rows(data), X)
    plain = CsvFiles(write(), column_types={"a": "float32", "b": pa.float32(), "c": "float32"})
    assert rows(plain).dtype == np.float32
    quoted = write(FRAME.rename(columns={"a": '"a'}), quoting=3, escapechar=None)
    assert '"a' in (open_source(CsvFiles(quoted, quote_char=None)).columns or [])


def test_missing_values_have_names(write: Write) -> None:
    with_gap = FRAME.copy()
    with_gap.loc[7] = np.nan
    file = write(with_gap, na_rep="?")
    with pytest.raises(SourceError, match=r"'a' is string, not numeric"):
        rows(file)
    for texts in (["?"], ["-", "?"]):
        with pytest.raises(SourceError, match=r"'a' has a missing value in row 8"):
            rows(CsvFiles(file, null_values=texts))
    empty = write(with_gap)
    with pytest.raises(SourceError, match=r"'a' has a missing value in row 8"):
        rows(CsvFiles(empty, null_values=["?"]))


def test_text_that_comes_late_is_named_with_its_column(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("a,b\n" + "1234567,1234567\n" * 300_000 + "2,unknown\n")
    with pytest.raises(SourceError, match=r"column 'b'.*'unknown'.*null_values=.*--null-value"):
        rows(file)


def test_a_text_column_that_looks_like_numbers(tmp_path: Path) -> None:
    """Levels such as 007 and 7 are one number, and two texts."""
    rng = np.random.default_rng(0)
    group = np.repeat(["07", "7", "8", "9"], 10)
    frame = pd.DataFrame({"g": group, "x": rng.normal(size=40)})
    frame["y"] = frame.x + rng.normal(size=40)
    frame.to_csv(tmp_path / "x.csv", index=False)
    data = CsvFiles(tmp_path / "x.csv", column_types={"g": "string"})
    model = LinearMixedModel("y ~ x", group="g", random_state=0).fit(data)
    assert model.n_groups_ == 4


def test_many_files_folders_and_other_names(write: Write, tmp_path: Path) -> None:
    for i in range(3):
        write(FRAME[i::3], f"p{i}.csv", sep=";")
    expected = np.concatenate([X[i::3] for i in range(3)])
    for given in (str(tmp_path / "p*.csv"), tmp_path, [tmp_path / f"p{i}.csv" for i in range(3)]):
        np.testing.assert_array_equal(rows(CsvFiles(given, delimiter=";")), expected)
    other = write(name="x.data", sep=" ")
    np.testing.assert_array_equal(rows(CsvFiles(other, delimiter=" ")), X)
    with pytest.raises(SourceError, match=r"x.data: unknown kind of file.*CsvFiles"):
        rows(other)
    FRAME.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(SourceError, match=r"x.parquet is no CSV file"):
        rows(CsvFiles(tmp_path / "x.parquet", delimiter=";"))


def test_compressed_files_and_tabs(write: Write, tmp_path: Path) -> None:
    text = write(sep="\t").read_bytes()
    (tmp_path / "x.TSV.gz").write_bytes(gzip.compress(text))
    np.testing.assert_array_equal(rows(tmp_path / "x.TSV.gz"), X)
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + write().read_bytes())
    np.testing.assert_array_equal(rows(tmp_path / "bom.csv", ["a"]), X[:, :1])


def test_every_call_takes_them(write: Write) -> None:
    data = CsvFiles(write(sep=";", decimal=","), delimiter=";", decimal_point=",")
    model = Mixture(n_components=2, columns=["a", "b"], random_state=0).fit(data)
    expected = Mixture(n_components=2, random_state=0).fit(FRAME[["a", "b"]])
    np.testing.assert_array_equal(model.predict(data), expected.predict(FRAME[["a", "b"]]))
    assert model.score(data) == pytest.approx(expected.score(FRAME[["a", "b"]]))
    assert model.partial_fit(data).n_features_in_ == 2


def test_sources_go_to_workers_with_their_options(write: Write) -> None:
    source = open_source(CsvFiles(write(header=False, sep=";"), delimiter=";", header=False))
    again = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(join(list(again.blocks())).x, X)


def test_a_checkpoint_knows_the_options(write: Write, tmp_path: Path) -> None:
    file = write(FRAME * 1000, header=False)
    model = Mixture(checkpoint=tmp_path / "c", random_state=0, max_iter=1)
    model.fit(CsvFiles(file, header=False)).set_params(resume=True, max_iter=2)
    with pytest.raises(ValueError, match="CSV options"):
        model.fit(CsvFiles(file, header=False, null_values=["?"]))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delimiter": ";;"}, "delimiter is ';;': one ASCII character"),
        ({"decimal_point": ""}, "decimal_point is ''"),
        ({"delimiter": ",", "decimal_point": ","}, "both ','"),
        ({"header": "yes"}, "header is 'yes'"),
        ({"encoding": "nope"}, "encoding is 'nope'"),
        ({"skip_rows": -1}, "skip_rows is -1"),
        ({"null_values": "?"}, r"null_values is '\?': a list"),
        ({"column_names": "abc"}, "column_names is 'abc': a list"),
        ({"column_types": {"a": "number"}}, "'number' for 'a'"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        CsvFiles("x.csv", **options)


# what is refused, and what is left out


def test_a_first_line_of_numbers_is_not_lost(write: Write) -> None:
    file = write(header=False)
    with pytest.raises(SourceError, match=r"first line is numbers.*header=False.*--no-header"):
        Mixture().fit(file)
    names = write(pd.DataFrame(X), name="names.csv")  # called 0, 1, 2
    with pytest.raises(SourceError, match=r"first line is numbers.*header=True"):
        Mixture().fit(names)
    np.testing.assert_array_equal(rows(CsvFiles(names, header=True)), X)
    np.testing.assert_array_equal(rows(names, ["2", "0"]), X[:, [2, 0]])
    decimal = write(header=False, sep=";", decimal=",", name="decimal.csv")
    with pytest.raises(SourceError, match="first line is numbers"):
        rows(CsvFiles(decimal, delimiter=";", decimal_point=","))
    for lines in ("1.5,NA\n2,3\n", "\n\r\n1.5,2\n2,3\n", "1.5,2", "1.5\n"):
        (file.parent / "gap.csv").write_text(lines)
        with pytest.raises(SourceError, match="first line is numbers"):
            rows(file.parent / "gap.csv")


def test_the_index_of_to_csv_is_left_out(write: Write) -> None:
    files = [write(index=True), write(index=True, name="y.csv")]
    with pytest.warns(LearningWarning, match=r"x.csv.*no name.*left out.*column_names") as caught:
        model = Mixture(n_components=2, random_state=0).fit(files)
    assert len(caught) == 1
    assert "1 more" in str(caught[0].message)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what the model knows, or is told, needs no warning
        np.testing.assert_array_equal(model.predict(files[0]), model.predict(FRAME))
        assert rows(files[0], ["", "a"])[:, 0].tolist() == list(range(40))
        named = CsvFiles(files[0], header=True, column_names=["i", "a", "b", "c"])
        assert rows(named).shape == (40, 4)


def test_a_weight_column_beside_the_index(write: Write) -> None:
    file = write(FRAME.assign(w=1.0), index=True)
    with pytest.warns(LearningWarning, match="left out"):
        assert list(open_source(file, None, "w").columns or []) == ["a", "b", "c"]


@pytest.mark.parametrize("sep", [";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("header", [True, False])
def test_another_delimiter_is_told(write: Write, sep: str, decimal: str, header: bool) -> None:
    file = write(sep=sep, decimal=decimal, header=header)
    shown = {"\t": r"\\t", "|": r"\|"}.get(sep, sep)
    with pytest.raises(SourceError, match=rf"delimiter='{shown}'.*--delimiter '{shown}'") as raised:
        Mixture().fit(file)
    assert ("decimal_point=','" in str(raised.value)) == (decimal == ",")


def test_a_decimal_comma_is_told(write: Write) -> None:
    file = write(sep=";", decimal=",")
    with pytest.raises(SourceError, match=r"'a' is string.*decimal_point=','.*--decimal ','"):
        Mixture().fit(CsvFiles(file, delimiter=";"))


def test_a_single_column_is_no_sign_of_another_delimiter(write: Write) -> None:
    np.testing.assert_array_equal(rows(write(FRAME[["a"]])), X[:, :1])
    np.testing.assert_array_equal(rows(write(FRAME[["a"]].rename(columns={"a": "x; y"}))), X[:, :1])


# the command line


def test_commands_take_the_options(
    write: Write,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def in_this_process(trial: dict[str, Any]) -> dict[str, Any]:
        return _trial.run(json.loads(json.dumps(trial)))

    monkeypatch.setattr(_trial, "in_another_process", in_this_process)
    model, scores = str(tmp_path / "m.mixfold"), str(tmp_path / "s.parquet")
    how = ["--delimiter", ";", "--decimal", ","]
    file = str(write(sep=";", decimal=","))
    assert main(["fit", file, "-k", "2", "-o", model, *how]) == 0
    expected = Mixture(n_components=2, random_state=0).fit(FRAME)
    np.testing.assert_allclose(load(model).means_, expected.means_, rtol=1e-4)
    assert main(["score", model, file, "-o", scores, *how]) == 0
    found = pd.read_parquet(scores)["log_density"]
    np.testing.assert_allclose(found, load(model).score_samples(FRAME))
    assert main(["compare", file, "-k", "1", "--learners", "em", *how]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "40" in out
    assert main(["score", model, file, "-o", str(tmp_path / "n.csv")]) == 2
    assert "--delimiter ';' --decimal ','" in capsys.readouterr().err


def test_commands_read_files_without_a_header(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, model = str(write(header=False, sep="\t")), tmp_path / "m.mixfold"
    for how, names in (
        (["--no-header"], ["f0", "f1", "f2"]),
        (["--column-names", "p,q,r", "--null-value", "?", "--column-type", "p=float64"], [*"pqr"]),
        (["--header", "--column-names", "p,q,r", "--quote", "none", "--skip-rows", "1"], [*"pqr"]),
    ):
        command = ["fit", file, "-k", "1", "-o", str(model), "--delimiter", "tab", *how]
        assert main(command) == 0, capsys.readouterr().err
        assert list(load(model).feature_names_in_) == names
    assert load(model).means_ == pytest.approx(X[2:].mean(axis=0)[None])
    capsys.readouterr()
    plain = str(write(header=False, name="plain.csv"))
    assert main(["fit", plain, "-k", "1", "-o", str(model)]) == 2
    assert "--no-header" in capsys.readouterr().err
    assert main(["fit", plain, "-k", "1", "-o", str(model), "--column-type", "p"]) == 2
    assert "NAME=TYPE" in capsys.readouterr().err


def test_commands_warn_of_an_index(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(write(index=True))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["fit", file, "-k", "1", "-o", str(tmp_path / "m.mixfold")]) == 0
    assert capsys.readouterr().err.count("left out") == 1
