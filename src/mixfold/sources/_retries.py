"""Repetition of what fails because of a connection, and what can be done about other failures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

WAITS = (0.5, 1.0, 2.0, 4.0)  # seconds after each failure without progress
TRANSIENT = re.compile(
    r"NETWORK_CONNECTION|curlCode|HTTP status 5\d\d|SLOW_?DOWN|SERVICE_UNAVAILABLE|THROTTLING"
    r"|INTERNAL_FAILURE|REQUEST_TIMEOUT|time[d -]?out|connection|disconnected|IncompleteRead"
    r"|Temporary failure|broken pipe",
    re.IGNORECASE,
)
KINDS = ("ConnectionError", "TimeoutError", "ClientPayloadError", "ClientConnectionError")
DENIED = re.compile(r"ACCESS_?DENIED|Forbidden|permission denied|HTTP status 40[13]", re.IGNORECASE)


def is_denied(error: BaseException) -> bool:
    """Whether a file may not be read."""
    return any(isinstance(e, PermissionError) or DENIED.search(str(e)) for e in _causes(error))


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed later, because a connection or a server has failed."""
    if isinstance(error, FileNotFoundError) or is_denied(error):
        return False
    return any(_has_kind(e) or TRANSIENT.search(str(e)) for e in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _has_kind(error: BaseException) -> bool:
    return any(kind.__name__ in KINDS for kind in type(error).__mro__)


def remedy(error: BaseException) -> str:
    """What can be done about an error of a remote file, for the end of its message."""
    if is_denied(error):
        return "; you may not read it: check your credentials, and the permissions of the file"
    if isinstance(error, FileNotFoundError):
        return "; it is not there, or no longer"
    if any("range requests" in str(e) for e in _causes(error)):
        return "; the server sends whole files only: download the file, or read CSV from there"
    if is_transient(error):
        return (
            f"; {len(WAITS) + 1} attempts have failed: check the network, and call it again; a fit "
            "with checkpoint and resume continues where it was"
        )
    return ""


class Retries:
    """Waits after failures of a connection, longer each time, until there is progress.

    Other errors are raised, and those of a connection after the last of the waits.
    """

    def __init__(self) -> None:
        self._failures = 0

    def progress(self) -> None:
        """Note that something was read."""
        self._failures = 0

    def wait(self, error: Exception) -> None:
        """Wait before the next attempt, or raise the error."""
        if not is_transient(error) or self._failures >= len(WAITS):
            raise error
        time.sleep(WAITS[self._failures])
        self._failures += 1


def retried(call: Callable[[], T]) -> T:
    """The result of a call that is repeated while the connection fails."""
    retries = Retries()
    while True:
        try:
            return call()
        except Exception as error:  # libraries for remote files can raise any error
            retries.wait(error)
