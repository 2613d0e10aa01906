"""Settings for all tests; scikit-learn's array API checks need SciPy told before its import."""

from __future__ import annotations

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")

if not os.path.exists("/dev/nvidia0"):  # GPU kernels run in an interpreter, which must be known first
    os.environ.setdefault("TRITON_INTERPRET", "1")
