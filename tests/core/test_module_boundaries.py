"""Modules whose names begin with `_` stay inside their package; no module is long."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import mixfold
from mixfold.core import registry

SOURCE = Path(mixfold.__file__).parent
ROOT = Path(__file__).parents[2]
MOST_LINES = 400
REGISTERED = (
    "backends",
    "detectors",
    "engines",
    "estimators",
    "experiments",
    "families",
    "initializers",
    "learners",
    "models",
    "schedules",
    "sources",
)


def modules() -> list[tuple[Path, tuple[str, ...]]]:
    """Every module of mixfold, and the package in which it is."""
    files = sorted(SOURCE.rglob("*.py"))
    return [(file, ("mixfold", *file.relative_to(SOURCE).parent.parts)) for file in files]


def programs() -> list[tuple[Path, tuple[str, ...]]]:
    """Scripts that use mixfold from outside."""
    folders = ("benchmarks", "docs", "examples")
    return [(file, ()) for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]


def imported(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The full path of everything that a module imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else ()
            module = (*start, *(node.module.split(".") if node.module else ()))
            yield from ((*module, alias.name) for alias in node.names)


def is_private_elsewhere(path: tuple[str, ...], package: tuple[str, ...]) -> bool:
    """Whether a path goes through a private name of another package of mixfold."""
    if path[0] != "mixfold":
        return False
    private = (i for i, name in enumerate(path) if name.startswith("_") and name[:2] != "__")
    first = next(private, None)
    return first is not None and package[:first] != path[:first]


def private_imports(text: str, package: tuple[str, ...]) -> list[str]:
    found = imported(ast.parse(text), package)
    return [".".join(path) for path in found if is_private_elsewhere(path, package)]


@pytest.mark.parametrize(
    ("text", "reaches"),
    [
        ("from mixfold.sources._file import TableFile", True),
        ("from mixfold.sources import _file", True),
        ("import mixfold.sources._file", True),
        ("def f():\n    from ..sources._file import TableFile", True),
        ("from mixfold.sources.csv import _header", True),
        ("from mixfold.families._positive import Positive", False),
        ("from ._positive import Positive", False),
        ("from mixfold import _native", False),
        ("from mixfold.sources.csv import Csv", False),
        ("from __future__ import annotations", False),
        ("from scipy._lib import doccer", False),
    ],
)
def test_what_counts_as_private(text: str, reaches: bool) -> None:
    assert bool(private_imports(text, ("mixfold", "families"))) is reaches


@pytest.mark.parametrize("listed", [modules, programs])
def test_no_import_reaches_into_another_package(listed: object) -> None:
    assert callable(listed)
    files = listed()
    assert len(files) > 10
    reaching = {
        f"{file.name}: {path}"
        for file, package in files
        for path in private_imports(file.read_text(), package)
    }
    assert reaching == set()


def test_no_module_is_long() -> None:
    lengths = {
        str(file.relative_to(SOURCE)): len(file.read_text().splitlines()) for file, _ in modules()
    }
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}


@pytest.mark.parametrize("package", REGISTERED)
def test_every_public_module_has_its_class_or_is_listed_as_a_helper(package: str) -> None:
    there = {
        module.name for module in pkgutil.iter_modules(import_module(f"mixfold.{package}").__path__)
    }
    helpers = set(getattr(import_module(f"mixfold.{package}"), "HELPER_MODULES", ()))
    assert helpers <= there
    classes = registry.find_all(package)
    assert len(classes) + len(helpers) == len([name for name in there if not name.startswith("_")])
    for name, cls in classes.items():
        assert cls.__module__.startswith(f"mixfold.{package}."), name


def test_pages_show_public_paths() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    lines = (line for page in pages for line in page.read_text().splitlines())
    shown = [line for line in lines if line.startswith((":::", "#"))]
    assert any(line.startswith("::: mixfold.") for line in shown)
    assert [line for line in shown if "._" in line] == []
