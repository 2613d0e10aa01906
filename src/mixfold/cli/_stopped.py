"""The exception for an interrupt that a command has handled."""

from __future__ import annotations


class Stopped(Exception):
    """The command was stopped by Ctrl-C or SIGTERM; the message says what was saved."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
