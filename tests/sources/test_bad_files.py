"""Bad files get a clear error, and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from bad_input import (
    CALLS,
    COUNTS,
    LEARN,
    NAMED,
    NAMED_COUNTS,
    X,
    copied,
    fitted,
    mixture,
    refuses,
    spoiled,
    write,
)
from mixfold.core.errors import (
    MixfoldError,
    SourceError,
)
from mixfold.core.value import equal
from mixfold.learners.mini_batch_em import MiniBatchEM

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
KINDS = ["csv", "parquet", "feather"]


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_files_go_by_name(kind: str, tmp_path: Path) -> None:
    file = write(tmp_path, f"x.{kind}", pa.table({"a": X[:, 0], "b": X[:, 1]}))
    turned = pa.table({"b": X[:, 1], "more": X[:, 0], "a": X[:, 0]})
    other = write(tmp_path, f"turned.{kind}", turned)
    model = mixture().fit(file)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(model.score_samples(other), model.score_samples(file))
    np.testing.assert_array_equal(model.score_samples(turned), model.score_samples(file))
    before = copied(model._learned)
    model.partial_fit(other)
    again = mixture().fit(file)
    assert equal(again._learned.params, before.params)
    assert equal(again.partial_fit(file)._learned.params, model._learned.params)
    straight = write(tmp_path, f"straight.{kind}", pa.table({"b": X[:, 1], "a": X[:, 0]}))
    both = mixture().fit([file, straight])
    assert equal(both.params_, mixture().fit([file, file]).params_)
    lacking = write(tmp_path, f"lacking.{kind}", pa.table({"b": X[:, 1], "c": X[:, 0]}))
    for method in CALLS[1:]:
        refuses(model, method, lacking, "lacking", "no column 'a'", "its columns are b, c")


@pytest.mark.parametrize("kind", [*KINDS, "arrow", "pandas", "polars"])
@pytest.mark.parametrize("method", CALLS)
def test_columns_that_are_not_numbers(method: str, kind: str, tmp_path: Path) -> None:
    words, gaps = ["x"] * 200, [None if i == 170 else float(i) for i in range(200)]
    model = fitted(mixture(), NAMED)
    for column, says in ((words, "'b'"), (gaps, "missing")):
        table = pa.table({"a": X[:, 0], "b": column})
        if kind in KINDS:
            data: Any = write(tmp_path, f"x.{kind}", table)
            refuses(model, method, data, str(data), "'b'", says, kind=SourceError)
        elif kind == "arrow":
            refuses(model, method, table, "'b'", says, kind=SourceError)
        else:
            data = table.to_pandas() if kind == "pandas" else pl.from_arrow(table)
            what = "could not convert string to float: 'x'" if column is words else "is NaN"
            refuses(model, method, data, what)


def test_nulls_are_found_where_they_are(tmp_path: Path) -> None:
    gaps = [None if i == 170 else float(i) for i in range(200)]
    for kind in KINDS:
        file = write(tmp_path, f"x.{kind}", pa.table({"a": X[:, 0], "b": gaps}))
        refuses(
            fitted(mixture(), X),
            "fit",
            file,
            "column 'b'",
            "row 171 (counted from 1)",
            "fill or drop",
        )


@pytest.mark.parametrize("method", LEARN)
def test_the_columns_asked_for(method: str, tmp_path: Path) -> None:
    file = write(tmp_path, "x.csv", pa.table({"a": X[:, 0], "b": X[:, 1]}))
    np.save(tmp_path / "x.npy", X)
    for columns, data, says in [
        (["a", "q"], file, ["no column 'q'", "its columns are a, b"]),
        (["a", "q"], NAMED, ["no column 'q'", "its columns are a, b"]),
        (["a", "a"], file, ["'a'", "twice"]),
        ("ab", file, ["columns", "'ab'", "list"]),
        ([], file, ["columns"]),
        (["a"], X, ["columns", "ndarray"]),
        (["a"], iter([X]), ["columns", "array"]),
        (["a"], tmp_path / "x.npy", ["x.npy", "without names"]),
    ]:
        model = fitted(mixture(), X).set_params(columns=columns)
        refuses(model, method, data, *says, kind=MixfoldError)


def test_a_column_name_that_appears_twice(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("a,b,a\n1,2,3\n")
    refuses(fitted(mixture(), X), "fit", file, "x.csv", "'a'", "twice")


# files


def lines(n: int = 200) -> str:
    return "".join(f"{i % 7},{i % 11}.5\n" for i in range(n))


def bad_files(folder: Path) -> Iterator[tuple[Path | str | list[Path], tuple[str, ...]]]:
    def text(name: str, content: str | bytes) -> Path:
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
        return folder / name

    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    for kind in ("csv", "parquet", "npy", "feather"):
        yield text(f"nothing.{kind}", ""), (f"nothing.{kind}", "empty")
    yield text("header.csv", "a,b\n"), ("header.csv", "no")
    yield text("long_row.csv", f"a,b\n{lines()}1,2,3\n"), ("long_row.csv", "2 columns", "3")
    yield text("short_row.csv", f"a,b\n{lines()}1\n"), ("short_row.csv", "2 columns", "1")
    yield text("truncated.csv", f"a,b\n{lines()}"[:-5]), ("truncated.csv", "2 columns", "1")
    yield text("word.csv", f"a,b\n{lines()}1,x\n"), ("word.csv", "'b'")
    yield text("gap.csv", f"a,b\n{lines()}1,\n"), ("gap.csv", "'b'", "row 201 (", "missing")
    yield text("latin.csv", b"\xe9,b\n1,2\n"), ("latin.csv",)
    yield text("binary.csv", bytes(range(256))), ("binary.csv",)
    yield text("not.csv.gz", "a,b\n1,2\n"), ("not.csv.gz",)
    whole = {kind: write(folder, f"whole.{kind}", table).read_bytes() for kind in KINDS}
    np.save(folder / "whole.npy", X)
    whole["npy"] = (folder / "whole.npy").read_bytes()
    for kind in ("parquet", "feather", "npy"):
        for cut in (10, len(whole[kind]) // 2, len(whole[kind]) - 3):
            yield text(f"cut{cut}.{kind}", whole[kind][:cut]), (f"cut{cut}.{kind}", "cannot read")
    np.save(folder / "one.npy", X[:, 0])
    yield folder / "one.npy", ("one.npy", "two-dimensional")
    np.save(folder / "words.npy", np.array([["a", "b"]]))
    yield folder / "words.npy", ("words.npy", "numbers")
    yield folder / "none.csv", ("no file", "none.csv")
    yield str(folder / "none*.csv"), ("no files match", "none*.csv")
    yield text("table.xyz", "a,b\n"), ("table.xyz", "unknown kind of file", ".parquet")
    other = text("other.csv", "a,z\n1,2\n")
    yield [folder / "whole.csv", other], ("'z'", "other.csv")


def test_bad_files(tmp_path: Path) -> None:
    model = fitted(mixture(), X)
    for file, says in bad_files(tmp_path):
        for method in ("fit", "partial_fit", "score"):
            refuses(model, method, file, *says, kind=SourceError)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come in blocks of 16 rows."""
    import mixfold.sources._file
    import mixfold.sources.array_source

    for module in (mixfold.sources._file, mixfold.sources.array_source):
        monkeypatch.setattr(module, "block_length", lambda d: 16)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("learner", ["auto", "em", "online-em", "mini-batch-em"])
def test_an_error_in_the_middle_of_a_file(learner: str, method: str, tmp_path: Path) -> None:
    table = {"a": COUNTS[:, 0], "b": spoiled(COUNTS, -3.0)[:, 1]}
    file = write(tmp_path, "x.parquet", pa.table(table))
    checkpoint = tmp_path / "checkpoint"
    model = fitted(mixture("poisson", learner=learner), NAMED_COUNTS)
    model.set_params(checkpoint=checkpoint, checkpoint_every=0.0)
    refuses(model, method, file, "row 151 (", "column 'b'", "-3.0")
    np.save(tmp_path / "x.npy", spoiled(X, np.nan))
    plain = fitted(mixture(learner=learner), X)
    refuses(plain, method, tmp_path / "x.npy", "row 151, column 2 (both counted from 1)", "NaN")


def test_rows_that_only_a_later_pass_draws(tmp_path: Path) -> None:
    """With replacement, a pass leaves rows out: each pass has to look at what it draws."""
    x = np.random.default_rng(0).normal(size=(30_000, 1))
    first = np.random.default_rng([0, 0, 0]).integers(len(x), size=len(x))
    sample = np.random.default_rng([0, 2**31]).choice(len(x), 20_000, replace=False)
    unseen = np.setdiff1d(np.arange(len(x)), np.union1d(first, sample))
    x[unseen] = np.nan
    np.save(tmp_path / "x.npy", x)
    learner = MiniBatchEM(batch_size=1000, sampling="with-replacement", max_iter=2)
    refuses(fitted(mixture(learner=learner), X), "fit", tmp_path / "x.npy", "NaN", "finite")


def test_a_csv_whose_numbers_change_their_look(tmp_path: Path) -> None:
    """Types are not taken from the first block alone: 1.5 may come long after 1."""
    n = 430_000
    file = tmp_path / "x.csv"
    file.write_text("a,b\n" + "1,1234567\n" * n + "2.5,0.5\n" * 100)
    assert file.stat().st_size > 2**22
    model = mixture(learner="online-em", max_iter=1).fit(file)
    assert model.n_seen_ == n + 100
    file.write_text("a,b\n" + "1,1234567\n" * n + "2.5,x\n")
    refuses(model, "fit", file, "x.csv", "'x'", kind=SourceError)
