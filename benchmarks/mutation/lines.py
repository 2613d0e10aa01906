"""Which lines of the modules a test runs, and how long it takes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from types import FrameType
from typing import Any, NamedTuple


class Measured(NamedTuple):
    """What is known of one test that passes: its processor time, and lines by file."""

    seconds: float
    lines: dict[str, list[int]]


class Recorder:
    """Records the lines of some files that are run between `start` and `stop`."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.lines: dict[str, set[int]] = {path: set() for path in paths}
        self.began = 0.0

    def start(self) -> None:
        """Forget what was recorded, and record from here."""
        for lines in self.lines.values():
            lines.clear()
        self.began = time.process_time()
        threading.settrace(self._call)
        sys.settrace(self._call)

    def stop(self) -> Measured:
        """What has been run since the start."""
        sys.settrace(None)
        threading.settrace(None)
        spent = time.process_time() - self.began
        return Measured(spent, {path: sorted(lines) for path, lines in self.lines.items() if lines})

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        lines = self.lines.get(frame.f_code.co_filename)
        if lines is None:
            return None
        lines.add(frame.f_lineno)

        def record(frame: FrameType, event: str, argument: object) -> Any:
            lines.add(frame.f_lineno)
            return record

        return record
