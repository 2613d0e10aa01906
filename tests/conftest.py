"""Settings for all tests; scikit-learn's array API checks need SciPy told before its import."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("SCIPY_ARRAY_API", "1")

# without a GPU its kernels run in an interpreter, which must be asked for before they are read
if not Path("/dev/nvidia0").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# they hold no doctests, and cannot be imported under one name
collect_ignore_glob = ["conftest.py", "*/conftest.py"]
