"""Files of a server that answers as S3 does, whose connections break."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.fs
import pyarrow.parquet
import pytest

from mixfold import CsvFiles, Mixture, RemoteFiles
from mixfold.cli.main import main
from mixfold.core.errors import InvalidInputError, SourceError
from mixfold.core.rows import join
from mixfold.core.source import Source
from mixfold.sources import _retries, csv
from mixfold.sources._file_systems import file_system
from mixfold.sources.opening import open_source
from s3_server import S3Server

N = 60_000
X = np.round(np.random.default_rng(0).normal(size=(N, 2)), 6)
TABLE = pa.table({"a": X[:, 0], "b": X[:, 1]})
FILES = ["x.parquet", "x.csv", "x.csv.gz", "x.feather", "x.npy", "f.npy"]


def contents() -> dict[str, bytes]:
    """The table in files of every kind, by name."""
    found = {}
    frame = TABLE.to_pandas()
    for name in FILES:
        file = io.BytesIO()
        if name.endswith(".parquet"):
            pyarrow.parquet.write_table(TABLE, file, row_group_size=9000)
        elif name.endswith(".feather"):
            pyarrow.feather.write_feather(TABLE, file, chunksize=9000, compression="uncompressed")
        elif name.endswith(".npy"):
            np.save(file, np.asfortranarray(X) if name == "f.npy" else X)
        else:
            how: Any = "gzip" if name.endswith(".gz") else None
            frame.to_csv(file, index=False, compression=how)
        found[name] = file.getvalue()
    return found


CONTENTS = contents()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    made = S3Server()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", made.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "name")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "word")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(_retries, "WAITS", (0.0, 0.0, 0.0))
    monkeypatch.setitem(sys.modules, "s3fs", None)  # pyarrow reads S3 where it is not installed
    file_system.cache_clear()
    made.objects = {f"bucket/{name}": data for name, data in CONTENTS.items()}
    with made.running():
        yield made
    file_system.cache_clear()


@pytest.fixture
def impatient(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow's client without repetitions of its own, which take six seconds each."""
    strategy = pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=1)

    class Impatient:
        @classmethod
        def from_uri(cls, address: str) -> Any:
            system = pyarrow.fs.S3FileSystem(
                retry_strategy=strategy, endpoint_override=server.endpoint
            )
            return system, address.partition("://")[2]

    monkeypatch.setattr("pyarrow.fs.FileSystem", Impatient)


def read(source: Source, start: int = 0) -> np.ndarray:
    return join(list(source.blocks(start, 5000))).x


class Cuts:
    """Cuts the connection in the middle of objects."""

    def __init__(self, times: int, beyond: int = 100_000) -> None:
        self.times, self.beyond, self.made = times, beyond, 0
        self._lock = threading.Lock()

    def __call__(self, method: str, path: str, wanted: range) -> int | None:
        with self._lock:
            if self.made >= self.times or wanted.stop <= self.beyond or len(wanted) < 2:
                return None
            self.made += 1
            return len(wanted) // 2


@pytest.mark.parametrize("name", FILES)
def test_files_of_every_kind(name: str, server: S3Server) -> None:
    source = open_source(f"s3://bucket/{name}")
    np.testing.assert_array_equal(read(source), X)
    np.testing.assert_array_equal(read(source, 31_000), X[31_000:])


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("times", [1, 3])
def test_a_connection_that_breaks_loses_no_row(name: str, times: int, server: S3Server) -> None:
    source = open_source(f"s3://bucket/{name}")
    server.fault = cuts = Cuts(times)
    np.testing.assert_array_equal(read(source), X)
    assert cuts.made == times


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", FILES)
def test_a_connection_that_breaks_while_a_file_is_opened(name: str, server: S3Server) -> None:
    server.fault = cuts = Cuts(2, beyond=0)
    assert open_source(f"s3://bucket/{name}").d == 2
    assert cuts.made == 2


@pytest.mark.usefixtures("impatient")
def test_what_was_read_is_not_read_again(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a break, a CSV file continues at the byte, and not at the beginning."""
    monkeypatch.setattr(csv, "BLOCK", 2**17)
    source = open_source("s3://bucket/x.csv")
    server.fault = Cuts(2, beyond=600_000)
    server.requests.clear()
    np.testing.assert_array_equal(read(source), X)
    begun = [one for method, _, one in server.requests if method == "GET" and one.start == 0]
    assert len(begun) == 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", ["x.parquet", "x.csv"])
def test_a_fit_goes_on_with_the_same_bits(name: str, server: S3Server) -> None:
    settings: dict[str, Any] = {"n_components": 2, "random_state": 0, "max_iter": 3}
    for learner in ("em", "online-em"):
        server.fault = None
        expected = Mixture(learner=learner, **settings).fit(f"s3://bucket/{name}")
        server.fault = Cuts(2)
        found = Mixture(learner=learner, **settings).fit(f"s3://bucket/{name}")
        np.testing.assert_array_equal(found.means_, expected.means_)
        assert found.n_rows_ == expected.n_rows_ == N
        assert found.n_seen_ == expected.n_seen_


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", ["x.parquet", "x.csv"])
def test_a_connection_that_stays_broken(name: str, server: S3Server) -> None:
    source = open_source(f"s3://bucket/{name}")
    server.fault = Cuts(10_000)
    with pytest.raises(SourceError, match=rf"s3://bucket/{name}.*4 attempts.*checkpoint"):
        read(source)
    server.fault = None
    np.testing.assert_array_equal(read(source), X)


@pytest.mark.usefixtures("impatient")
def test_a_failed_fit_leaves_the_model(server: S3Server) -> None:
    model = Mixture(n_components=2, random_state=0, max_iter=2).fit(X)
    before = model._learned
    server.fault = Cuts(10_000)
    with pytest.raises(SourceError):
        model.fit("s3://bucket/x.csv")
    assert model._learned is before


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_busy(server: S3Server) -> None:
    source = open_source("s3://bucket/x.parquet")
    server.busy = 2
    assert len(source.head(10)) == 10


@pytest.mark.usefixtures("impatient")
def test_a_fit_that_failed_is_resumed(server: S3Server, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"n_components": 2, "random_state": 0, "learner": "em"}
    expected = Mixture(**settings, max_iter=4).fit("s3://bucket/x.csv")
    model = Mixture(**settings, max_iter=4, checkpoint=tmp_path / "c", checkpoint_every=0.0)
    server.fault = cuts = Cuts(0)
    reads = []

    def later(method: str, path: str, wanted: range) -> int | None:
        reads.append(wanted)
        cuts.times = 10_000 if sum(r.start == 0 for r in reads) > 4 else 0
        return cuts(method, path, wanted)

    server.fault = later
    with pytest.raises(SourceError, match="attempts"):
        model.fit("s3://bucket/x.csv")
    server.fault = None
    model.set_params(resume=True).fit("s3://bucket/x.csv")
    np.testing.assert_array_equal(model.means_, expected.means_)
    assert model.n_seen_ == expected.n_seen_


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", ["x.parquet", "x.csv"])
def test_a_file_that_changes_while_it_is_read(name: str, server: S3Server) -> None:
    source = open_source(f"s3://bucket/{name}")
    cuts = Cuts(10_000)

    def fault(method: str, path: str, wanted: range) -> int | None:
        cut = cuts(method, path, wanted)
        if cut is not None:
            server.objects[path] = CONTENTS[name] + b"more"
        return cut

    server.fault = fault
    with pytest.raises(SourceError, match=rf"s3://bucket/{name} has changed while it was read"):
        read(source)


# folders, and files that are not as they should be


def test_folders_and_patterns(server: S3Server) -> None:
    for i in range(3):
        server.objects[f"bucket/days/{i}.parquet"] = CONTENTS["x.parquet"]
    server.objects["bucket/days/notes.txt"] = b"none"
    for address in ("s3://bucket/days", "s3://bucket/days/*.parquet", "s3://bucket/d*/[0-2].*"):
        assert open_source(address).length == 3 * N
    with pytest.raises(SourceError, match="no files match 's3://bucket/days/x"):
        open_source("s3://bucket/days/x*")


def said(address: str) -> str:
    with pytest.raises(SourceError) as caught:
        Mixture().fit(address)
    return str(caught.value)


def test_permission_denied(server: S3Server) -> None:
    server.denied = {"bucket/x.parquet"}
    message = said("s3://bucket/x.parquet")
    assert "s3://bucket/x.parquet" in message
    assert "you may not read it: check your credentials" in message
    server.denied = {"bucket"}
    assert "you may not read it" in said("s3://bucket/*.csv")


def test_permission_is_withdrawn_during_a_fit(server: S3Server) -> None:
    source = open_source("s3://bucket/x.csv")
    server.denied = {"bucket/x.csv"}
    with pytest.raises(SourceError, match=r"s3://bucket/x\.csv.*you may not read it"):
        read(source)


def test_missing_objects(server: S3Server) -> None:
    assert "there is no file 's3://bucket/none.csv'" in said("s3://bucket/none.csv")
    assert "there is no file 's3://other/x.csv'" in said("s3://other/x.csv")
    source = open_source("s3://bucket/x.parquet")
    del server.objects["bucket/x.parquet"]
    with pytest.raises(SourceError, match=r"s3://bucket/x\.parquet.*not there, or no longer"):
        read(source)


@pytest.mark.parametrize("name", ["x.parquet", "x.feather", "x.npy", "x.csv.gz"])
def test_partial_objects(name: str, server: S3Server) -> None:
    data = CONTENTS[name]
    server.objects[f"bucket/{name}"] = data[: len(data) * 2 // 3]
    assert f"s3://bucket/{name}" in said(f"s3://bucket/{name}")
    server.objects[f"bucket/{name}"] = b""
    assert "is empty (0 bytes)" in said(f"s3://bucket/{name}")


def parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), file)
    return file.getvalue()


def test_files_of_a_folder_that_differ(server: S3Server) -> None:
    server.objects["bucket/days/0.parquet"] = parquet(a=[1.0, 2.0], b=[1.0, 2.0])

    def second(**columns: Any) -> str:
        server.objects["bucket/days/1.parquet"] = parquet(**columns)
        return said("s3://bucket/days")

    message = second(a=[1.0, 2.0])
    assert "s3://bucket/days/1.parquet" in message
    assert "no column 'b', which s3://bucket/days/0.parquet has" in message
    message = second(a=[1.0], b=[1.0], c=[1.0])
    assert "days/1.parquet has a column 'c', which s3://bucket/days/0.parquet has not" in message
    message = second(a=[1.0], b=["text"])
    assert "days/1.parquet: column 'b' is string" in message
    message = second(a=[1.0], B=[1.0])
    assert "days/1.parquet has no column 'b'" in message
    server.objects["bucket/days/1.parquet"] = parquet(b=[1.0, 2.0], a=[3.0, 4.0])
    np.testing.assert_array_equal(
        join(list(open_source("s3://bucket/days").blocks())).x[:, 0], [1.0, 2.0, 3.0, 4.0]
    )


# options


def test_storage_options(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    options = {"endpoint_url": server.endpoint, "anon": True}
    files = RemoteFiles("s3://bucket/x.*", options)
    assert server.endpoint not in repr(files)
    some = RemoteFiles(["s3://bucket/x.parquet", "s3://bucket/x.feather"], options)
    model = Mixture(max_iter=1).fit(some)
    assert model.n_rows_ == 2 * N
    text = CsvFiles(RemoteFiles("s3://bucket/x.csv", options), column_types={"a": "float64"})
    assert model.score(text) == pytest.approx(model.score(TABLE), rel=1e-12)
    with pytest.raises(SourceError, match="storage_options has 'secrets', which pyarrow does not"):
        open_source(RemoteFiles("s3://bucket/x.csv", {"secrets": "word"}))


def test_options_that_are_none() -> None:
    with pytest.raises(InvalidInputError, match=r"paths has 'x.csv': an address"):
        RemoteFiles("x.csv")
    with pytest.raises(InvalidInputError, match="storage_options is a list: a dict"):
        RemoteFiles("s3://b/x.csv", [1])  # type: ignore[arg-type]


def test_commands(server: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, scores = tmp_path / "m.mixfold", tmp_path / "s.parquet"
    assert main(["fit", "s3://bucket/x.csv", "-k", "2", "-o", str(model)]) == 0
    assert main(["score", str(model), "s3://bucket/x.parquet", "-o", str(scores)]) == 0
    assert len(pd.read_parquet(scores)) == N
    server.denied = {"bucket/x.csv"}
    assert main(["fit", "s3://bucket/x.csv", "-k", "2"]) == 2
    assert "you may not read it" in capsys.readouterr().err
