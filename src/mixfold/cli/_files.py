"""File names as users write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mixfold.core.errors import InvalidInputError, unknown_name


def bundled(files: Sequence[str]) -> list[str | Path]:
    """The same files, with those that begin with @ found inside the package."""
    return [_bundled(file) if file.startswith("@") else file for file in files]


def _bundled(file: str) -> Path:
    from mixfold.datasets import faithful_path

    known = {"@faithful": faithful_path}
    if file not in known:
        raise unknown_name("bundled data", file, known)
    return known[file]()


def load_mixture(path: Path) -> Any:
    """The mixture in a model file."""
    from mixfold import load
    from mixfold.estimators._density import Density

    model = load(path)
    if not isinstance(model, Density):
        raise InvalidInputError(
            f"{path} holds a {type(model).__name__}, not a mixture: use mixfold.load in Python"
        )
    return model


def check_apart(output: Path, inputs: Sequence[str | Path]) -> None:
    """Refuse to write over what is being read."""
    for file in inputs:
        if output.exists() and Path(file).exists() and output.samefile(file):
            raise InvalidInputError(f"{output} is both input and output: choose another -o")
