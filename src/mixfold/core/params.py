"""The parameters of families and models: values that each declares for itself."""

from __future__ import annotations

from typing import Any, TypeAlias

Params: TypeAlias = Any  # a family's or a model's own frozen value, or its conjugate posterior
