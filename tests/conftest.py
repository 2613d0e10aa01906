"""Settings for all tests; scikit-learn's array API checks need SciPy told before its import."""

from __future__ import annotations

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")
