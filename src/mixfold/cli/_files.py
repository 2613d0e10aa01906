"""File names as users write them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixfold.cli._streams import STDIN, check_dashes, read_stdin, with_stdin
from mixfold.core.errors import InvalidInputError, unknown_name

if TYPE_CHECKING:
    from mixfold.sources.location import Location


def bundled(files: Sequence[str]) -> list[str | Path]:
    """The same files; names that begin with @ are replaced by data files of the package.

    In place of - is a copy of standard input.
    """
    return [_bundled(file) if file.startswith("@") else file for file in with_stdin(files)]


def _bundled(file: str) -> Path:
    from mixfold.datasets import faithful_path

    known = {"@faithful": faithful_path}
    if file not in known:
        raise unknown_name("bundled data", file, known)
    return known[file]()


def load_model(path: Path) -> Any:
    """The mixture in a model file, or the detector of anomalies around one."""
    from sklearn.base import DensityMixin

    from mixfold import AnomalyDetector, load

    model = load(read_stdin() if path == STDIN else path)
    if not isinstance(model, DensityMixin | AnomalyDetector):
        raise InvalidInputError(
            f"{path} holds a {type(model).__name__}, not a mixture: use mixfold.load in Python"
        )
    return model


def mixture_of(model: Any) -> Any:
    """A mixture, or that of a detector."""
    return getattr(model, "estimator_", model)


def load_mixture(path: Path) -> Any:
    """The mixture in a model file."""
    return mixture_of(load_model(path))


def load_beside_rows(
    model: Path, files: Sequence[str], csv: Mapping[str, Any]
) -> tuple[Any, list[Location]]:
    """What `load_model` finds in a model file, and the files of rows."""
    from mixfold.cli._csv_options import found_files

    check_dashes([str(model), *files])
    return load_model(model), found_files(bundled(files), csv)


def check_apart(outputs: Sequence[Path], inputs: Iterable[Location]) -> None:
    """Refuse to overwrite an input, or to write two outputs to one file."""
    for i, output in enumerate(outputs):
        for other in outputs[:i]:
            if os.path.realpath(output) == os.path.realpath(other) or _same(output, other):
                raise InvalidInputError(f"{other} and {output} are one file: choose another path")
    taken = {_identity(output): output for output in outputs if output.exists()}
    for file in inputs if taken else ():
        if isinstance(file, Path) and file.exists() and _identity(file) in taken:
            output = taken[_identity(file)]
            raise InvalidInputError(f"{output} is both input and output: choose another path")


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def check_model_output(path: Path, force: bool) -> None:
    """Refuse a path where a model cannot be written, or where another file would be lost."""
    from mixfold.fitting.atomic_files import STDOUT, check_output
    from mixfold.fitting.files import may_replace

    if path == STDOUT and sys.stdout.isatty():
        raise InvalidInputError("a model is no text: redirect standard output, or give -o a file")
    check_output(path)
    if not force and not may_replace(path, "model"):
        raise InvalidInputError(
            f"{path} exists and is not a model file: choose another -o, or replace it with --force"
        )


def save_model(model: Any, path: Path) -> None:
    """Save a model; if that fails, save it elsewhere and report where."""
    from mixfold.core.errors import OutputError

    try:
        model.save(path)
    except OutputError as error:
        raise OutputError(f"{error}; {_saved_elsewhere(model, path.name)}") from error


def _saved_elsewhere(model: Any, name: str) -> str:
    folder = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="mixfold-"))
        model.save(folder / name)
    except OSError as error:
        if folder is not None:
            folder.rmdir()
        return f"the model is not saved, as it cannot be written elsewhere either ({error})"
    return f"the model is saved in {folder / name} instead"
