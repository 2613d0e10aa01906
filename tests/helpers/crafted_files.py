"""Model files that are changed."""

from __future__ import annotations

from attacks._saved_models import Example, examples


def example(name: str) -> Example:
    return next(one for one in examples() if one.name == name)
