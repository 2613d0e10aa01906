"""Headers and sizes of model files that parsers dislike."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

import mixfold
from attacks.model_files import pack
from crafted_files import example
from mixfold.core.errors import ModelFileError

# reading


def header_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The outer header of a file, and what comes after it."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def with_header(header: Any, rest: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + rest


def test_sizes_beyond_the_file(tmp_path: Path) -> None:
    data = pack(example("em").tree, example("em").arrays, "model")
    header, rest = header_of(data)
    name = next(name for name in header if name.endswith("weights"))
    begin, end = header[name]["data_offsets"]
    for wrong in (
        {"shape": [2**62, 2**62]},
        {"shape": [2**61]},
        {"shape": [-2]},
        {"shape": [2.0]},
        {"shape": [True, 2]},
        {"dtype": "F4"},
        {"data_offsets": [begin, end + 8]},
        {"data_offsets": [begin, 2**63]},
        {"data_offsets": [-8, end]},
        {"data_offsets": [0, end - begin]},
        {"data_offsets": [begin]},
    ):
        crafted = with_header({**header, name: {**header[name], **wrong}}, rest)
        (tmp_path / "model").write_bytes(crafted)
        with pytest.raises(ModelFileError):
            mixfold.load(tmp_path / "model")


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 100_000,
        b'{"__metadata__": {"mixfold": "' + b"[" * 100_000 + b'"}}',
        b'{"__metadata__": {"mixfold": "{\\"version\\": ' + b"9" * 10_000 + b'}"}}',
        b"\xff\xfe",
    ],
    ids=["brackets", "inner brackets", "digits", "bytes"],
)
def test_headers_that_parsers_dislike(header: bytes, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(with_header(header, b""))
    with pytest.raises(ModelFileError):
        mixfold.load(tmp_path / "model")


def test_a_name_twice(tmp_path: Path) -> None:
    data = pack(example("em").tree, example("em").arrays, "model")
    header, rest = header_of(data)
    inner = header["__metadata__"]["mixfold"]
    assert inner.startswith("{")
    header["__metadata__"]["mixfold"] = '{"kind": "model", ' + inner[1:]
    (tmp_path / "model").write_bytes(with_header(header, rest))
    with pytest.raises(ModelFileError, match="twice"):
        mixfold.load(tmp_path / "model")


def test_a_large_file_is_not_read_in_vain(tmp_path: Path) -> None:
    """A sparse file of a terabyte: its header does not account for it."""
    data = pack(example("em").tree, example("em").arrays, "model")
    for begin in (data, (2**39).to_bytes(8, "little")):
        with (tmp_path / "model").open("wb") as file:
            file.write(begin)
            file.truncate(2**40)
        with pytest.raises(ModelFileError):
            mixfold.load(tmp_path / "model")


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError):
        mixfold.load(tmp_path)


if sys.platform != "win32":

    def test_what_is_not_a_plain_file(tmp_path: Path) -> None:
        """Nothing waits for a pipe, and no device is read to its end."""
        os.mkfifo(tmp_path / "pipe")
        server = socket.socket(socket.AF_UNIX)
        here = Path.cwd()
        os.chdir(tmp_path)  # names of sockets are short
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        (tmp_path / "link").symlink_to("pipe")
        for path in ("pipe", "socket", "link", "/dev/zero", "/dev/null"):
            with pytest.raises(ModelFileError, match="is not a plain file"):
                mixfold.load(tmp_path / path)
        server.close()
