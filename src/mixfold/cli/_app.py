"""The typer application: one command per file of this package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

import mixfold
from mixfold.cli._streams import temporary_copies
from mixfold.core import registry


def run(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments and run the command; typer's errors are raised, not printed."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    with temporary_copies():
        found = application()(args=given or ["--help"], prog_name="mixfold", standalone_mode=False)
    return found if isinstance(found, int) else 0


def _version(asked: bool) -> None:
    if asked:
        print(f"mixfold {mixfold.__version__}")
        raise typer.Exit


def application() -> typer.Typer:
    """The typer application with all commands."""
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(mixfold_)
    for name in registry.names("cli"):
        if name != "main":
            command = getattr(import_module(f"mixfold.cli.{name}"), name)
            app.command(name)(command)
    return app


def mixfold_(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Mixture models for data of any size: files, folders and streams.

    Example: mixfold fit @faithful -k 2; mixfold inspect model.mixfold
    """
