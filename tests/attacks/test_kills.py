"""Fits that are killed."""

from __future__ import annotations

import sys
from pathlib import Path

from attacks import run_some

if sys.platform != "win32":  # where processes are not killed by signals

    def test_killed_fits_go_on_to_the_same_bits(tmp_path: Path) -> None:
        run_some("kills", 2, tmp_path, seed=1)
