"""Memory of `mixfold watch` during a million rows, an hour of simulated stream.

    python benchmarks/watch_growth.py [--rows 1000000] [--browser]

Rows are appended to a CSV file 278 at a time, as many as come in a simulated second, as fast as they
are learned. A tick of the page is about a simulated second, so that there are four times as many as
the page keeps. Checkpoints are written every simulated half minute. With `--browser`, a page is open
in Chromium. The memory of this process, and of the page's scripts, at every tenth of the rows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from _tables import heading
from mixfold import Mixture
from mixfold.report._alarm import EmpiricalQuantile
