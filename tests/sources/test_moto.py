"""Files of moto's S3 server, which mixfold's authors did not write."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from mixfold import Mixture, RemoteFiles
from mixfold.cli.main import main
from mixfold.core.errors import SourceError
from mixfold.core.rows import join
from mixfold.sources import _retries
from mixfold.sources._file_systems import file_system
from mixfold.sources.opening import open_source

X = np.random.default_rng(0).normal(size=(3000, 2))
NAMES = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")
KEYS = ("name", "word", "us-east-1")


def parquet(x: np.ndarray) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"a": x[:, 0], "b": x[:, 1]}), file)
    return file.getvalue()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """That of a server with a bucket of three days in Parquet files, and a note."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import boto3
        from moto.server import ThreadedMotoServer

        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        client = boto3.client(
            "s3",
            endpoint_url=f"http://{host}:{port}",
            aws_access_key_id=KEYS[0],
            aws_secret_access_key=KEYS[1],
            region_name=KEYS[2],
        )
        client.create_bucket(Bucket="rides")
        for day, part in enumerate(np.array_split(X, 3)):
            client.put_object(Bucket="rides", Key=f"days of May/{day}.parquet", Body=parquet(part))
        client.put_object(Bucket="rides", Key="days of May/notes.txt", Body=b"three days")
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def settings(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, given in zip(NAMES, (address, *KEYS), strict=True):
        monkeypatch.setenv(name, given)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(_retries, "WAITS", (0.0, 0.0, 0.0))
    monkeypatch.setitem(sys.modules, "s3fs", None)  # pyarrow reads S3 where it is not installed
    file_system.cache_clear()
    yield
    file_system.cache_clear()


@pytest.mark.parametrize("ending", ["days of May/*.parquet", "days of May/"])
def test_a_fit_is_that_of_the_rows(ending: str) -> None:
    def mixture() -> Mixture:
        return Mixture(n_components=2, learner="em", init=X[:2], max_iter=3)

    found = mixture().fit(f"s3://rides/{ending}")
    np.testing.assert_allclose(found.means_, mixture().fit(X).means_, rtol=1e-10)
    assert found.n_rows_ == len(X)
    np.testing.assert_array_equal(join(list(open_source(f"s3://rides/{ending}").blocks())).x, X)


def test_options_take_the_place_of_the_environment(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        monkeypatch.delenv(name)
    options: dict[str, Any] = dict(zip(("key", "secret", "region"), KEYS, strict=True))
    files = RemoteFiles("s3://rides/days of May/*.parquet", {"endpoint_url": address, **options})
    assert Mixture(n_components=1).fit(files).n_rows_ == len(X)


def test_from_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = str(tmp_path / "rides.mixfold")
    assert main(["fit", "s3://rides/days of May/*.parquet", "-k", "1", "-o", model]) == 0
    assert "3,000 rows" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["none/x.parquet", "rides/x.parquet", "rides/*.feather"])
def test_what_is_not_there_is_named(ending: str) -> None:
    with pytest.raises(SourceError, match=r"s3://.*"):
        Mixture(n_components=2).fit(f"s3://{ending}")
