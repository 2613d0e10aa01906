"""Addresses such as s3://bucket/key are opened, or refused with what they need."""

from __future__ import annotations

import pickle
import sys
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
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from mixfold import CsvFiles, Mixture, load
from mixfold.cli.main import main
from mixfold.core.errors import SourceError
from mixfold.core.rows import join
from mixfold.sources._file_systems import file_system
from mixfold.sources.location import RemoteFile
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


ODD = ["a#1.csv", "a?b.csv", "a b.csv", "x[1].csv", "\u00fc.csv", "100%.csv"]


def test_names_with_marks_of_addresses(memory: str) -> None:
    """A folder has all of its files, whatever their names are."""
    for name in ODD:
        fsspec.filesystem("memory").pipe(f"/bucket/odd/{name}", b"a,b\n1,2\n3,5\n")
        assert open_source(f"{memory}/odd/{name}").d == 2
    assert [file.name for file in expand(f"{memory}/odd")] == sorted(ODD)
    http = RemoteFile("http://server/x.csv?key=1", "http://server/x.csv?key=1")
    assert http.name == "x.csv"


@pytest.mark.skipif(sys.platform == "win32", reason="? is in no name there")
def test_names_with_marks_of_addresses_on_this_machine(tmp_path: Path) -> None:
    for name in ODD:
        (tmp_path / name).write_text("a,b\n1,2\n3,5\n")
        assert open_source(f"file://{tmp_path}/{name}").d == 2
    found = expand(f"file://{tmp_path}/[ax]*.csv")
    assert (len(found), str(found[0])) == (4, f"file://{tmp_path}/a b.csv")
    assert open_source(f"file://{tmp_path}/a%20b.csv").d == 2


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


class Remembering(MemoryFileSystem):  # type: ignore[misc]
    """Remembers its listings, as s3fs and gcsfs do, while other processes change the files."""

    protocol = "remembering"
    cachable = True
    find = AbstractFileSystem.find  # by `ls`

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("remembering://", "memory://")))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        if path not in self.dircache:
            self.dircache[path] = super().ls(path, detail=True)
        found = self.dircache[path]
        return found if detail else [one["name"] for one in found]

    def info(self, path: str, **kwargs: Any) -> Any:
        known = self.dircache.get(self._parent(path), [])
        names = [one for one in known if one["name"] == self._strip_protocol(path)]
        return names[0] if names else super().info(path)

    def invalidate_cache(self, path: str | None = None) -> None:
        self.dircache.clear()


@pytest.fixture
def remembering(memory: str) -> str:
    fsspec.register_implementation("remembering", Remembering, clobber=True)
    return memory.replace("memory", "remembering")


@pytest.mark.parametrize("ending", ["/*.csv", ""])
def test_files_that_come_and_change_between_fits(remembering: str, ending: str) -> None:
    system, model = fsspec.filesystem("memory"), Mixture(n_components=1)
    some = FRAME[:100].to_csv(index=False).encode()
    system.pipe("/bucket/live/0.csv", some)
    assert model.fit(f"{remembering}/live{ending}").n_rows_ == 100
    system.pipe("/bucket/live/1.csv", some)
    assert model.fit(f"{remembering}/live{ending}").n_rows_ == 200
    system.pipe("/bucket/live/0.csv", FRAME.to_csv(index=False).encode())
    assert model.fit(f"{remembering}/live{ending}").n_rows_ == 433
    assert model.fit(f"{remembering}/live/0.csv").n_rows_ == 333
    system.rm("/bucket/live/0.csv")
    assert model.fit(f"{remembering}/live{ending}").n_rows_ == 100


def test_a_file_that_is_replaced_while_it_is_read(remembering: str) -> None:
    file = expand(f"{remembering}/days/*.parquet")[0]
    assert isinstance(file, RemoteFile)
    check = file.change_check()
    check()
    fsspec.filesystem("memory").pipe("/bucket/days/0.parquet", b"other")
    with pytest.raises(SourceError, match="has changed while it was read"):
        check()


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


@pytest.mark.parametrize("library", ["libjvm", "libhdfs"])
def test_hdfs_without_hadoop(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(address: str, **options: Any) -> Any:
        raise OSError(f"Unable to load {library}")

    monkeypatch.setattr("fsspec.core.url_to_fs", absent)
    file_system.cache_clear()
    with pytest.raises(SourceError, match=rf"hdfs://h/x.csv: Unable to load {library}; .*HADOOP"):
        Mixture().fit("hdfs://h/x.csv")


def test_addresses_that_cannot_be() -> None:
    with pytest.raises(SourceError, match=r"xyz://b/x.csv: Protocol not known: xyz"):
        Mixture().fit("xyz://b/x.csv")
    with pytest.raises(SourceError, match=r"made a Path.*'s3://b/x.csv'"):
        Mixture().fit(Path("s3://b/x.csv"))


def test_a_password_in_an_address_is_not_shown() -> None:
    from mixfold.sources.location import RemoteFile

    file = RemoteFile("memory://user:secret@bucket/x.csv", "/user:secret@bucket/x.csv")
    assert "secret" not in str(file)
