"""An interrupt that a command has dealt with."""

from __future__ import annotations


class Stopped(Exception):
    """The command was stopped by Ctrl-C or SIGTERM; the message says what has been kept."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
