"""Options for reading CSV files, which every command that reads rows has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mixfold.cli._options import listed, option
from mixfold.core.errors import InvalidInputError

if TYPE_CHECKING:
    from mixfold.sources.csv_files import CsvFiles
    from mixfold.sources.location import Location

SPELT = {"\\t": "\t", "tab": "\t", "space": " "}
ALSO = "Delimiter of CSV; also --decimal, --no-header ..."

FLAGS: dict[str, Any] = {
    "delimiter": Annotated[str | None, option("--delimiter", metavar="CHAR", help=ALSO)],
    "decimal": Annotated[
        str | None,
        option("--decimal", metavar="CHAR", help="The decimal point of CSV files.", hidden=True),
    ],
    "header": Annotated[
        bool | None,
        option(
            "--header/--no-header",
            metavar=None,
            help="Whether the first line of CSV files holds the column names.",
            hidden=True,
        ),
    ],
    "null_value": Annotated[
        list[str] | None,
        option(
            "--null-value",
            metavar="TEXT",
            help="Text that marks a missing value; repeatable.",
            hidden=True,
        ),
    ],
    "quote": Annotated[
        str | None,
        option(
            "--quote", metavar="CHAR", help="Quote character of CSV files, or none.", hidden=True
        ),
    ],
    "skip_rows": Annotated[
        int | None,
        option(
            "--skip-rows", metavar="N", help="Lines to skip before the header.", hidden=True, min=0
        ),
    ],
    "column_names": Annotated[
        str | None,
        option("--column-names", metavar="A,B,...", help="Names of CSV columns.", hidden=True),
    ],
    "column_type": Annotated[
        list[str] | None,
        option(
            "--column-type", metavar="NAME=TYPE", help="Arrow type of a CSV column.", hidden=True
        ),
    ],
    "encoding": Annotated[
        str | None,
        option(
            "--encoding",
            metavar="NAME",
            help="Encoding of CSV files, such as latin-1.",
            hidden=True,
        ),
    ],
}


def csv_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter `csv` by these options; it receives a dict of those given."""
    own = signature(command, eval_str=True)

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        given = {name: options.pop(name) for name in FLAGS}
        command(*arguments, **options, csv=_as_settings(given))

    parameters: list[Parameter] = []
    for parameter in own.parameters.values():
        if parameter.name == "csv":
            parameters += [
                Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint)
                for name, hint in FLAGS.items()
            ]
        else:
            parameters.append(parameter)
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _as_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `CsvFiles`, as plain values that can be sent to another process."""
    quote = given["quote"]
    settings = {
        "delimiter": SPELT.get(given["delimiter"], given["delimiter"]),
        "decimal_point": given["decimal"],
        "header": given["header"],
        "null_values": given["null_value"] or None,
        "skip_rows": given["skip_rows"],
        "column_names": listed(given["column_names"]),
        "column_types": dict(map(_pair, given["column_type"] or [])) or None,
        "encoding": given["encoding"],
    }
    chosen = {name: setting for name, setting in settings.items() if setting is not None}
    if quote is not None:
        chosen["quote_char"] = None if quote.lower() in ("none", "") else quote
    return chosen


def _pair(text: str) -> tuple[str, str]:
    name, equals, kind = text.rpartition("=")
    if not equals:
        raise InvalidInputError(f"--column-type is {text!r}: write it as NAME=TYPE")
    return name, kind


def found_files(files: Sequence[str | Path], csv: Mapping[str, Any]) -> list[Location]:
    """The files to read; if CSV options are given, only the CSV files of folders."""
    from mixfold.sources.csv import Csv
    from mixfold.sources.paths import expand

    return expand(files, Csv.suffixes if csv else None)


def with_csv(
    files: Sequence[str | Location], csv: Mapping[str, Any]
) -> Sequence[str | Location] | CsvFiles:
    """The files, wrapped in `CsvFiles` if CSV options were given."""
    from mixfold.sources.csv_files import CsvFiles

    return CsvFiles(files, **csv) if csv else files
