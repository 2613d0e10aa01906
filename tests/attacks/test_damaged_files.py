"""Files that hold no table, that are cut short while they are read, or that are very wide."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from mixfold import EM, MiniBatchEM, Mixture
from mixfold.core.errors import ClusterError, InvalidInputError, SourceError
from mixfold.core.value import equal
from mixfold.engines._dask_errors import failed
from mixfold.engines.dask import Dask
from mixfold.sources import npy
from mixfold.sources.npy import Npy
from mixfold.sources.opening import open_source

X = np.random.default_rng(0).normal(size=(3000, 3))


def saved(x: Any, **more: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, x, **more)
    return file.getvalue()


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    size = 2 if version[0] == 1 else 4
    return b"\x93NUMPY" + version + len(text).to_bytes(size, "little") + text.encode()


def shaped(shape: str, descr: str = "'<f8'") -> bytes:
    made = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"
    return header(made) + bytes(160)


BAD = {
    "no columns": (saved(np.empty((5, 0))), "columns are needed"),
    "nothing at all": (saved(np.empty((0, 0))), "columns are needed"),
    "a structure": (saved(np.zeros(4, [("a", "f8"), ("b", "f8")])), "two-dimensional"),
    "a table of structures": (saved(np.zeros((2, 2), [("a", "f8")])), "numbers is needed"),
    "names that are not ASCII": (header("{}", b"\x03\x00"), "format version 3"),
    "objects": (saved(np.array([[1, None]]), allow_pickle=True), "numbers is needed"),
    "text": (saved(np.array([["a"]])), "numbers is needed"),
    "dates": (saved(np.zeros((2, 2), "M8[s]")), "numbers is needed"),
    "complex numbers": (saved(np.zeros((2, 2), complex)), "numbers is needed"),
    "one dimension": (saved(np.zeros(3)), "two-dimensional"),
    "a cut": (saved(X)[:-1], "it is truncated"),
    "half a header": (saved(X)[:50], "no .npy file"),
    "half a mark": (b"\x93NUM", "no .npy file"),
    "an archive": (b"PK\x03\x04" + bytes(100), "no .npy file"),
    "a pickle": (b"\x80\x04K\x01.", "no .npy file"),
    "an unknown version": (header("{}", b"\x09\x00"), "format version 9"),
    "rows below zero": (shaped("(-2, 3)"), "columns are needed"),
    "columns below zero": (shaped("(2, -3)"), "columns are needed"),
    "more rows than atoms": (shaped(f"({10**80}, 3)"), "it is truncated"),
    "rows that are no number": (shaped("(2.5, 3)"), "no .npy file"),
    "no shape": (header("{'descr': '<f8'}\n"), "no .npy file"),
    "a program": (shaped("__import__('os').getpid()"), "no .npy file"),
    "an unknown type": (shaped("(2, 3)", "'<q99'"), "no .npy file"),
}


@pytest.mark.parametrize("what", BAD)
def test_npy_files_that_are_refused(what: str, tmp_path: Path) -> None:
    data, words = BAD[what]
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(SourceError, match=rf"x\.npy.*{words}"):
        Mixture(n_components=2).fit(tmp_path / "x.npy")


def test_a_npy_file_without_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.empty((0, 3)))
    with pytest.raises(InvalidInputError, match="no rows"):
        Mixture(n_components=2).fit(tmp_path / "x.npy")


FORMS: dict[str, np.ndarray] = {
    "by column": np.asfortranarray(X),
    "single": X.astype(np.float32),
    "half": X.astype(np.float16),
    "big-endian": X.astype(">f8"),
    "big-endian by column": np.asfortranarray(X.astype(">f4")),
    "whole numbers": (10 * X).astype(np.int16),
    "extended": X.astype(np.longdouble),
    "truths": X > 0,
    "one column": X[:, :1],
}


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_npy_files_of_all_kinds(
    form: str, held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npy, "KEPT_BYTES", 2**30 if held else 0)
    x = FORMS[form]
    np.save(tmp_path / "x.npy", x)
    source = Npy(tmp_path / "x.npy")
    indices = np.random.default_rng(0).integers(len(x), size=500)
    np.testing.assert_array_equal(source.take(indices).x, x[indices].astype(source.dtype))
    np.testing.assert_array_equal(source.whole().x, x.astype(source.dtype))
    found = np.concatenate([rows.x for rows in source.blocks(7, 1000)])
    np.testing.assert_array_equal(found, x[7:].astype(source.dtype))
    part = source.partitions(1000)[1]
    np.testing.assert_array_equal(part.take(indices % 1000).x, source.take(indices % 1000 + 1000).x)
    assert (
        found.dtype
        == source.dtype
        == (np.float32 if x.dtype.kind == "f" and x.itemsize < 8 else np.float64)
    )


class Cuts:
    """Cuts a file short when the first pass is over."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def update(self, fit: Any, length: int | None) -> None:
        if fit.passes == 1 and fit.row == 0:
            with self.path.open("r+b") as file:
                file.truncate(self.path.stat().st_size // 2)

    def close(self) -> None:
        return None


@pytest.mark.parametrize("kind", ["npy", "feather", "parquet"])
@pytest.mark.parametrize("shuffled", [True, False])
def test_a_file_that_is_cut_short_during_a_fit(
    kind: str, shuffled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npy, "KEPT_BYTES", 0)
    path = tmp_path / f"x.{kind}"
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    if kind == "npy":
        np.save(path, X)
    elif kind == "feather":
        pyarrow.feather.write_feather(pa.table(dict(frame.items())), path, chunksize=500)
    else:
        frame.to_parquet(path, row_group_size=500)
    learner = MiniBatchEM(max_iter=4) if shuffled else EM(tol=0.0, max_iter=4)
    model = Mixture(n_components=2, learner=learner, random_state=0).fit(X)
    before = model._learned
    model.progress = Cuts(path)
    with pytest.raises(SourceError, match=rf"x\.{kind}"):
        model.fit(path)
    assert model._learned is before


@pytest.mark.parametrize("kind", ["npy", "csv", "feather", "parquet"])
def test_memory_that_runs_out(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"x.{kind}"
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    to_csv = partial(frame.to_csv, index=False)
    write = {"csv": to_csv, "feather": frame.to_feather, "parquet": frame.to_parquet}
    if kind == "npy":
        np.save(path, X)
    else:
        write[kind](path)
    source = open_source(path)

    def short(*_: Any) -> Iterator[Any]:
        raise MemoryError

    monkeypatch.setattr(type(source), "_read_rows" if kind == "npy" else "batches", short)
    with pytest.raises(SourceError, match=rf"x\.{kind}: there is not enough memory .* fewer"):
        list(source.blocks())


# many columns


def wide(d: int) -> tuple[np.ndarray, list[str]]:
    return np.random.default_rng(0).normal(size=(2, d)), [f"column {i}" for i in range(d)]


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
def test_a_file_of_many_columns(kind: str, tmp_path: Path) -> None:
    x, names = wide(5000)
    frame = pd.DataFrame(x, columns=names)
    path = tmp_path / f"x.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else getattr(frame, f"to_{kind}")(path)
    source = open_source(path)
    assert list(source.columns or []) == names
    np.testing.assert_array_equal(next(source.blocks()).x, x)
    some = open_source(path, names[:-3:-1], names[7])
    np.testing.assert_array_equal(next(some.blocks()).x, x[:, :-3:-1])
    with pytest.raises(SourceError, match=r"no column 'z'.* column 19 and 4,980 more$"):
        open_source(path, ["z"])


def test_columns_of_wide_text_that_are_not_numbers(tmp_path: Path) -> None:
    x, names = wide(1200)
    frame = pd.DataFrame(x, columns=names)
    for odd, words in (("text", "'odd' is string"), (None, "'odd' has no values")):
        frame.assign(odd=odd).to_csv(tmp_path / "x.csv", index=False)
        with pytest.raises(SourceError, match=words):
            open_source(tmp_path / "x.csv")
    frame.assign(odd=[True, False]).to_csv(tmp_path / "x.csv", index=False)
    assert next(open_source(tmp_path / "x.csv").blocks()).x[:, -1].tolist() == [1.0, 0.0]


def test_lines_longer_than_a_block(tmp_path: Path) -> None:
    names = [f"{'long name ' * 50}{i}" for i in range(9000)]
    text = ",".join(names) + "\n" + ",".join(["1.5"] * len(names)) + "\n"
    (tmp_path / "x.csv").write_text(text)
    assert next(open_source(tmp_path / "x.csv").blocks()).x.sum() == 1.5 * len(names)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_frames_become_tables_as_pandas_makes_them(dtype: Any) -> None:
    from mixfold.sources.opening import as_table

    frame = pd.DataFrame((10 * np.abs(X[:50])).astype(dtype), columns=["a", "b", "c"])
    for one in (
        frame,
        frame.set_axis([0, 1, 2], axis=1),
        frame[10:],
        frame[::3],
        frame.set_index("a"),
        frame.assign(d="x"),
    ):
        assert as_table(one).equals(pa.Table.from_pandas(one, preserve_index=False))
    if dtype == np.float64:
        frame.loc[3, "a"] = np.nan
        assert as_table(frame).equals(pa.table(frame))


def test_rows_of_chunked_tables() -> None:
    one, two = pa.table({"a": X[:7, 0], "b": X[:7, 1]}), pa.table({"a": X[7:, 0], "b": X[7:, 1]})
    source = open_source(pa.concat_tables([one, two]))
    np.testing.assert_array_equal(next(source.blocks()).x, X[:, :2])
    missing = pa.concat_tables([one, pa.table({"a": [1.0, None], "b": [1.0, 2.0]})])
    with pytest.raises(SourceError, match="'a' has a missing value in row 9 "):
        open_source(missing)


def test_a_wide_model_learns_from_tables() -> None:
    x, names = wide(2000)
    frame = pd.DataFrame(x, columns=names)
    model = Mixture("exponential", 1, learner="online-em", random_state=0)
    other = Mixture("exponential", 1, learner="online-em", random_state=0)
    model.partial_fit(frame.abs())
    other.partial_fit(pa.table(dict(frame.abs().items())))
    assert equal(model.params_, other.params_)
    assert model.score(frame.abs()) == other.score(pa.table(dict(frame.abs().items())))


# errors of clusters


class KilledWorker(Exception):
    """Stands for the one of distributed."""


class Breaks:
    """A client whose cluster fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def scatter(self, things: list[Any], **_: Any) -> list[Any]:
        return things

    def compute(self, graph: Any) -> Breaks:
        return self

    def result(self) -> Any:
        raise self.error

    def cancel(self) -> None:
        return None


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KilledWorker("task"), "lack of memory: give each worker more memory .*repartition"),
        (MemoryError(), "not have enough memory: give each worker more memory"),
        (ConnectionResetError("peer"), "connection was lost: .*checkpoint and resume"),
        (TimeoutError("30 s"), "no answer in time"),
        (CancelledError("gone"), "was cancelled, or its workers are gone"),
    ],
)
def test_errors_of_a_cluster_have_a_remedy(error: Exception, words: str) -> None:
    source = open_source([X[:5]])
    with pytest.raises(ClusterError, match=words):
        Dask(Breaks(error)).reduce(None, None, [[source]])  # type: ignore[arg-type]
    assert str(failed(RuntimeError("odd"))) == "a task failed on the cluster: RuntimeError: odd"
