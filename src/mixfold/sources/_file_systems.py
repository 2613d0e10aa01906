"""File systems that serve addresses such as s3://bucket/key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from mixfold.core.errors import SourceError
from mixfold.sources._retries import remedy
from mixfold.sources.optional_arrow import arrow

PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "http": "aiohttp and requests",
    "https": "aiohttp and requests",
    "hf": "huggingface_hub",
    "sftp": "paramiko",
}
IN_ADDRESS = re.compile(r"\?\w+=")  # settings of Arrow in an address
UNENCODED = re.compile(r"%(?![0-9a-fA-F]{2})")  # signs of percent that encode nothing
S3_OPTIONS = {
    "key": "access_key",
    "secret": "secret_key",
    "token": "session_token",
    "anon": "anonymous",
    "endpoint_url": "endpoint_override",
    "region": "region",
}
HADOOP = (
    "; hdfs:// needs libhdfs and Java of a Hadoop installation: set HADOOP_HOME, JAVA_HOME and "
    "CLASSPATH (`hadoop classpath --glob`), and ARROW_LIBHDFS_DIR"
)


class Options:
    """The storage options of fsspec, as a value that can be a key; they are not shown."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = dict(given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self.given == other.given

    def __hash__(self) -> int:
        return hash(frozenset(self.given))

    def __repr__(self) -> str:
        return f"Options of {', '.join(self.given) or 'nothing'}"


NO_OPTIONS = Options({})


@lru_cache(maxsize=64)
def file_system(address: str, options: Options = NO_OPTIONS) -> tuple[Any, str]:
    """The Arrow file system that serves an address, and the path there."""
    protocol = address.partition("://")[0].lower()
    try:
        if protocol == "file":
            from pyarrow import fs

            system, path = fs.FileSystem.from_uri(_quoted(address))
            return system, str(path)
        return _through_fsspec(address, options)
    except ImportError as error:
        if protocol != "s3":
            raise _not_installed(address, protocol, error) from error
    except ValueError as error:  # a protocol that fsspec does not know
        raise SourceError(f"cannot open {address}: {error}") from error
    except Exception as error:
        raise unreachable(address, error) from error
    pa = arrow()
    try:  # Arrow reads S3 by itself
        return _s3_of_arrow(address, options)
    except (pa.ArrowInvalid, NotImplementedError) as error:
        raise _not_installed(address, protocol, error) from error
    except SourceError:
        raise
    except Exception as error:
        raise unreachable(address, error) from error


def _quoted(address: str) -> str:
    """The address of a local file or a pattern, as Arrow parses it: spaces and [#? are encoded."""
    protocol, path = address.split("://", 1)
    return f"{protocol}://{quote(UNENCODED.sub('%25', path), safe='/:%')}"


def _through_fsspec(address: str, options: Options) -> tuple[Any, str]:
    from fsspec.core import url_to_fs
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    system, path = url_to_fs(address, **options.given)
    return PyFileSystem(FSSpecHandler(system)), str(path)


def forget_listings(system: Any) -> None:
    """Have an Arrow file system ask again which files there are, and how large they are.

    fsspec's file systems remember that, as s3fs and gcsfs do, for as long as the process runs.
    """
    inner = getattr(getattr(system, "handler", None), "fs", None)
    if inner is not None:
        inner.invalidate_cache()


def _s3_of_arrow(address: str, options: Options) -> tuple[Any, str]:
    from pyarrow import fs

    bucket, _, key = address.partition("://")[2].partition("/")
    if not options.given:
        if IN_ADDRESS.search(key):
            system, path = fs.FileSystem.from_uri(address)
            return system, str(path)
        # the rest may be a pattern or have spaces, which from_uri does not parse
        system, path = fs.FileSystem.from_uri(f"s3://{bucket}")
        return system, f"{path}/{key}".rstrip("/")
    unknown = sorted(set(options.given) - set(S3_OPTIONS))
    if unknown:
        raise SourceError(
            f"storage_options has {unknown[0]!r}, which pyarrow does not know: install s3fs, or "
            f"give some of {', '.join(S3_OPTIONS)}"
        )
    settings = {S3_OPTIONS[name]: value for name, value in options.given.items()}
    return fs.S3FileSystem(**settings), address.partition("://")[2]


def _not_installed(address: str, protocol: str, error: Exception) -> SourceError:
    packages = f"fsspec and {PACKAGES[protocol]}" if protocol in PACKAGES else "fsspec"
    names = packages.replace(" and ", " ")
    return SourceError(
        f"cannot open {address}: {protocol}:// needs {packages} ({error}); pip install {names}, or "
        "copy the file to this machine"
    )


def unreachable(address: str, error: Exception) -> SourceError:
    """The error of a library for an address, with what can be done."""
    lines = str(error).strip().splitlines()
    what = f"cannot open {address}: {lines[0] if lines else type(error).__name__}"
    if address.startswith("hdfs:") and ("libhdfs" in what or "libjvm" in what):
        return SourceError(what + HADOOP)
    known = remedy(error)
    return SourceError(
        what + known
        if known
        else f"{what}; check the address, the network and your credentials, or copy the file to "
        "this machine"
    )
