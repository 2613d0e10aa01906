"""Files of web servers, with and without parts of files."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from mixfold import Mixture
from mixfold.core.errors import SourceError
from mixfold.core.rows import join
from mixfold.sources import _retries
from mixfold.sources._file_systems import file_system
from mixfold.sources.opening import open_source
from s3_server import S3Server

X = np.round(np.random.default_rng(0).normal(size=(3000, 2)), 6)


def contents() -> dict[str, bytes]:
    """The rows in files of three kinds, by name."""
    parquet, csv, npy = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), parquet)
    np.savetxt(csv, X, fmt="%.6f", delimiter=",", header="a,b", comments="")
    np.save(npy, X)
    return {"x.parquet": parquet.getvalue(), "x.csv": csv.getvalue(), "x.npy": npy.getvalue()}


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_retries, "WAITS", (0.0, 0.0))
    file_system.cache_clear()
    yield
    file_system.cache_clear()


class Silent(SimpleHTTPRequestHandler):
    """Sends whole files only."""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def copyfile(self, source: Any, outputfile: Any) -> None:
        with suppress(OSError):  # the reader may have seen enough
            super().copyfile(source, outputfile)


@pytest.fixture
def whole_files(tmp_path: Path) -> Iterator[str]:
    """The address of a server that sends whole files only."""
    for name, data in contents().items():
        (tmp_path / name).write_bytes(data)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("name", ["x.parquet", "x.csv", "x.npy"])
def test_a_server_that_sends_parts_of_files(name: str) -> None:
    server = S3Server()
    server.objects = {f"files/{name}": contents()[name]}
    with server.running():
        address = f"{server.endpoint}/files/{name}"
        np.testing.assert_array_equal(join(list(open_source(address).blocks())).x, X)
        assert Mixture(n_components=1).fit(address).n_rows_ == len(X)


def test_a_server_that_sends_whole_files(whole_files: str) -> None:
    found = open_source(f"{whole_files}/x.csv")
    np.testing.assert_array_equal(join(list(found.blocks())).x, X)
    with pytest.raises(SourceError, match=r"x\.npy.*download the file, or read CSV"):
        Mixture(n_components=1).fit(f"{whole_files}/x.npy")
    with pytest.raises(SourceError, match=r"there is no file 'http://.*none\.csv'"):
        Mixture(n_components=1).fit(f"{whole_files}/none.csv")
