"""Addresses such as s3://bucket/key are opened, or refused with what they need."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.fs
import pyarrow.parquet
import pytest

from mixfold import CsvFiles, Mixture, load
from mixfold.cli.main import main
from mixfold.core.errors import SourceError
from mixfold.core.rows import join
from mixfold.sources._file_systems import file_system
from mixfold.sources.opening import open_source
from mixfold.sources.paths import expand
from mixfold.testing import sources

X = np.round(np.random.default_rng(0).normal(size=(333, 2)), 3)
FRAME = pd.DataFrame(X, columns=["a", "b"])


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[str]:
    """A folder of files of every kind in fsspec's file system in memory."""
    FRAME.to_csv(tmp_path / "x.csv", index=False)
    FRAME.to_csv(tmp_path / "x.csv.gz", index=False)
    FRAME.to_csv(tmp_path / "semi.csv", index=False, sep=";")
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet", row_group_size=70)
    pyarrow.feather.write_feather(table, tmp_path / "x.feather", chunksize=64)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "f.npy", np.asfortranarray(X))
    system = fsspec.filesystem("memory")
    for file in tmp_path.iterdir():
        system.pipe(f"/bucket/{file.name}", file.read_bytes())
    for i in range(3):
        system.pipe(f"/bucket/days/{i}.parquet", (tmp_path / "x.parquet").read_bytes())
    system.pipe("/bucket/days/notes.txt", b"none")
    system.pipe("/bucket/days/deep/3.parquet", (tmp_path / "x.parquet").read_bytes())
    yield "memory://bucket"
    system.rm("/bucket", recursive=True)
    file_system.cache_clear()


@pytest.mark.parametrize("file", ["x.csv", "x.csv.gz", "x.parquet", "x.feather", "x.npy", "f.npy"])
def test_laws(file: str, memory: str) -> None:
    for law in sources.LAWS:
        law(open_source(f"{memory}/{file}"), X)
    source = open_source(f"{memory}/{file}")
    again = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(join(list(again.blocks())).x, X)
    assert source.fingerprint() == again.fingerprint()


def test_files_of_this_machine_have_addresses_too(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "x.parquet", index=False)
    source = open_source(f"file://{tmp_path}/x.parquet", ["b"])
    np.testing.assert_array_equal(join(list(source.blocks())).x, X[:, 1:])


def test_folders_and_patterns(memory: str) -> None:
    def found(address: str) -> list[str]:
        return [str(file).removeprefix(f"{memory}/days/") for file in expand(address)]

    three = ["0.parquet", "1.parquet", "2.parquet"]
    assert found(f"{memory}/days") == [*three, "deep/3.parquet"]
    assert found(f"{memory}/days/*.parquet") == three
    assert found(f"{memory}/days/**/*.parquet") == [*three, "deep/3.parquet"]
    assert found(f"{memory}/d*/[01].parquet") == three[:2]
    assert open_source(f"{memory}/days/*.parquet").length == 3 * 333
    with pytest.raises(SourceError, match=r"no files match 'memory://bucket/\*.xyz'"):
        expand(f"{memory}/*.xyz")
    with pytest.raises(SourceError, match=r"there is no file 'memory://bucket/none.csv'"):
        expand(f"{memory}/none.csv")


def test_learning_scoring_and_checkpoints(memory: str, tmp_path: Path) -> None:
    model = Mixture(n_components=2, checkpoint=tmp_path / "c", max_iter=2, random_state=0)
    model.fit(f"{memory}/x.parquet")
    expected = Mixture(n_components=2, max_iter=2, random_state=0).fit(tmp_path / "x.parquet")
    np.testing.assert_array_equal(model.means_, expected.means_)
    np.testing.assert_array_equal(model.predict(f"{memory}/x.csv"), expected.predict(FRAME))
    model.set_params(resume=True).fit(f"{memory}/x.parquet")
    with pytest.raises(ValueError, match=r"made from .*x\.parquet.*and now there is"):
        model.fit(f"{memory}/days/0.parquet")
    data = CsvFiles(f"{memory}/semi.csv", delimiter=";")
    np.testing.assert_array_equal(join(list(open_source(data).blocks())).x, X)


def test_commands(memory: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, scores = tmp_path / "m.mixfold", tmp_path / "s.parquet"
    assert main(["fit", f"{memory}/x.csv", "-k", "1", "-o", str(model)]) == 0
    assert load(model).means_[0] == pytest.approx(X.mean(axis=0))
    assert main(["score", str(model), f"{memory}/days", "-o", str(scores)]) == 0
    assert len(pd.read_parquet(scores)) == 4 * 333
    assert main(["fit", "az://container/x.csv", "-k", "1"]) == 2
    assert "pip install fsspec adlfs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("protocol", "package"),
    [
        ("gs", "gcsfs"),
        ("az", "adlfs"),
        ("abfs", "adlfs"),
        ("http", "aiohttp"),
        ("https", "aiohttp"),
    ],
)
def test_a_package_that_is_not_installed_is_named(
    protocol: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(address: str, **options: Any) -> Any:
        raise ImportError(f"no {package}")

    monkeypatch.setattr("fsspec.core.url_to_fs", absent)
    file_system.cache_clear()
    with pytest.raises(SourceError, match=rf"{protocol}://b/x.csv.*pip install fsspec .*{package}"):
        Mixture().fit(f"{protocol}://b/x.csv")


def test_s3_is_read_by_arrow_where_s3fs_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def absent(address: str, **options: Any) -> Any:
        raise ImportError("no s3fs")

    class Served:
        """As Arrow's own file system is asked for."""

        answer: Any = None

        @classmethod
        def from_uri(cls, address: str) -> Any:
            if isinstance(cls.answer, Exception):
                raise cls.answer
            return cls.answer

    monkeypatch.setattr("fsspec.core.url_to_fs", absent)
    monkeypatch.setattr("pyarrow.fs.FileSystem", Served)
    FRAME.to_csv(tmp_path / "x.csv", index=False)
    for answer, says in (
        (OSError("Could not resolve hostname"), r"Could not resolve hostname.*network"),
        (pa.ArrowInvalid("built without S3"), r"pip install fsspec s3fs"),
    ):
        Served.answer = answer
        file_system.cache_clear()
        with pytest.raises(SourceError, match=says) as raised:
            Mixture().fit("s3://b/x.csv")
        assert "there is no file" not in str(raised.value)
    Served.answer = pyarrow.fs.LocalFileSystem(), str(tmp_path)
    file_system.cache_clear()
    np.testing.assert_array_equal(join(list(open_source("s3://b/x.csv").blocks())).x, X)
    file_system.cache_clear()


def test_addresses_that_cannot_be() -> None:
    with pytest.raises(SourceError, match=r"xyz://b/x.csv: Protocol not known: xyz"):
        Mixture().fit("xyz://b/x.csv")
    with pytest.raises(SourceError, match=r"made a Path.*'s3://b/x.csv'"):
        Mixture().fit(Path("s3://b/x.csv"))


def test_a_password_in_an_address_is_not_shown() -> None:
    from mixfold.sources.location import RemoteFile

    file = RemoteFile("memory://user:secret@bucket/x.csv", "/user:secret@bucket/x.csv")
    assert "secret" not in str(file)
