"""An interrupt that a command has dealt with."""

from __future__ import annotations


class Stopped(Exception):
    """The user has pressed Ctrl-C; the message says what has been kept."""
