"""Options that several commands share."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any

import typer

from mixfold.cli._streams import input_path, output_path
from mixfold.core import registry
from mixfold.core.errors import InvalidInputError


def known(package: str) -> str:
    """The registered names of a package, for help texts."""
    return ", ".join(registry.names(package))


def listed(text: str | None) -> list[str] | None:
    """Split a list as a line of CSV: names that contain commas stand in double quotes."""
    if text is None:
        return None
    try:
        parts = next(csv.reader([text], skipinitialspace=True))
    except csv.Error as error:
        raise InvalidInputError(f"{text!r} is no list: {error}; use double quotes") from None
    return [part.strip() for part in parts if part.strip()]


def option(*flags: str, metavar: str | None, help: str, **more: Any) -> Any:
    """An option whose help text gives the default, where that is useful."""
    return typer.Option(*flags, metavar=metavar, help=help, show_default=False, **more)


def names_on_request(package: str) -> dict[str, Any]:
    """For an option that takes the name of a class: '?' prints all names and ends the command."""

    def print_names(given: str) -> str:
        if given != "?":
            return given
        typer.echo("\n".join(registry.names(package)))
        raise typer.Exit

    return {"callback": print_names, "is_eager": True}


def output(help: str) -> Any:
    """The option for the file that a command writes; - is standard output."""
    return option("-o", "--output", metavar="PATH", help=help, parser=output_path)


def argument(metavar: str, **more: Any) -> Any:
    """An argument that is explained in the help text of the command."""
    return typer.Argument(metavar=metavar, hidden=True, show_default=False, **more)


Files = Annotated[list[str], argument("FILES")]
RowsOfFit = Annotated[list[str] | None, argument("FILES")]
Model = Annotated[Path, argument("MODEL", parser=input_path)]
Models = Annotated[list[Path], argument("MODELS", parser=input_path)]
Components = Annotated[
    int, option("-k", "--components", metavar="K", help="Number of components.", min=1)
]
Family = Annotated[
    str,
    option(
        "--family",
        metavar="NAME",
        help="auto (--family-of), poisson ...; '?' lists all.",
        **names_on_request("families"),
    ),
]
FamilyOf = Annotated[
    list[str] | None,
    option(
        "--family-of",
        metavar="COLUMN=NAME",
        help="Family of a column with --family auto; repeatable.",
        hidden=True,
    ),
]
Missing = Annotated[
    str,
    option("--missing", metavar="NAME", help="Missing cells: marginalize or error.", hidden=True),
]
Unseen = Annotated[
    str,
    option("--unseen", metavar="NAME", help="Unknown categories: error or own-level.", hidden=True),
]
Covariance = Annotated[
    str | None,
    option(
        "--covariance",
        metavar="NAME",
        help="full, tied, diag, spherical, factor, VEV, ...",
    ),
]
Rank = Annotated[
    int | None,
    option(
        "--rank", metavar="Q", help="Number of factors of --covariance factor.", min=1, hidden=True
    ),
]
Learner = Annotated[
    str,
    option(
        "--learner",
        metavar="NAME",
        help="auto, em, online-em ...; '?' lists all.",
        **names_on_request("learners"),
    ),
]
LearnerOption = Annotated[
    list[str] | None,
    option("-O", "--option", metavar="NAME=VALUE", help="Parameter of the learner; repeatable."),
]
Init = Annotated[
    str,
    option(
        "--init",
        metavar="NAME",
        help="auto, k-means ...; '?' lists all; or a model file.",
        **names_on_request("initializers"),
    ),
]
MaxIter = Annotated[
    int | None, option("--max-iter", metavar="N", help="At most N passes over the data.", min=1)
]
Columns = Annotated[
    str | None, option("--columns", metavar="A,B,...", help="Use these columns only.")
]
Weights = Annotated[
    str | None, option("--weights", metavar="COLUMN", help="The column of row weights.")
]
Labels = Annotated[
    str | None,
    option("--labels", metavar="COLUMN", help="The column of known components or classes."),
]
Seed = Annotated[int, option("--seed", metavar="N", help="Random seed; default 0.", min=0)]
Threads = Annotated[
    int | None,
    option("--threads", metavar="N", help="Number of threads; default: all cores.", min=1),
]
Cluster = Annotated[
    str | None,
    option("--cluster", metavar="ADDRESS", help=f"{known('engines')}, local, or an address."),
]
Engine = Annotated[
    str | None,
    option("--engine", metavar="NAME", help="cpu, gpu, or a device such as cuda:1."),
]
Table = Annotated[
    Path,
    output("A new .parquet, .csv, .arrow or .npy file."),
]
Format = Annotated[
    str | None,
    option("--format", metavar="NAME", help="Of -o -: csv (default) or arrow.", hidden=True),
]
JSON_HELP = "Print JSON in place of tables."
Json = Annotated[bool, option("--json", metavar=None, help=JSON_HELP)]
HiddenJson = Annotated[bool, option("--json", metavar=None, help=JSON_HELP, hidden=True)]
Force = Annotated[bool, option("--force", metavar=None, help="Replace any existing file.")]
ShowProgress = Annotated[
    bool, option("--progress", metavar=None, help="Show progress even if stderr is no terminal.")
]
