"""How a stream is watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mixfold.core.checks import check_above
from mixfold.core.errors import unknown_name


@dataclass(frozen=True)
class WatchOptions:
    """Where a model is saved, and what happens at bad rows and at the end.

    `output` is the model file, which is written when saving is asked for and when learning stops.
    With `exit_at_end` a file or folder ends when everything that is there has been read. `tell` is
    called with messages for the terminal.
    """

    output: Path = Path("model.mixfold")
    checkpoint: Path | None = None
    checkpoint_every: float = 30.0
    on_bad_row: str = "skip"
    exit_at_end: bool = False
    interval: float = 1.0
    stalled: float = 10.0
    tell: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        check_above("checkpoint_every", self.checkpoint_every, 0.0)
        check_above("interval", self.interval, 0.0)
        if self.on_bad_row not in ("skip", "stop"):
            raise unknown_name("on_bad_row", self.on_bad_row, ["skip", "stop"])
