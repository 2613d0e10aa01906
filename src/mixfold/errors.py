"""Every error and warning that mixfold raises on purpose.

All errors derive from `MixfoldError`, and each also from the built-in error that fits: an error in
data or in a parameter is a `ValueError`, a file that cannot be written is an `OSError`.

Examples
--------
>>> from mixfold import Mixture
>>> from mixfold.errors import InvalidInputError
>>> try:
...     Mixture("cauchy").fit([[1.0], [2.0]])
... except InvalidInputError as error:
...     print(error)
unknown family 'cauchy'. Known: ...
"""

from __future__ import annotations

from mixfold.core.errors import (
    ClusterError,
    CollinearColumnsWarning,
    DegenerateComponentsWarning,
    InvalidInputError,
    LearningWarning,
    MissingExtraError,
    MissingValueError,
    MixfoldError,
    ModelFileError,
    OutputError,
    SourceError,
)

__all__ = [
    "ClusterError",
    "CollinearColumnsWarning",
    "DegenerateComponentsWarning",
    "InvalidInputError",
    "LearningWarning",
    "MissingExtraError",
    "MissingValueError",
    "MixfoldError",
    "ModelFileError",
    "OutputError",
    "SourceError",
]
