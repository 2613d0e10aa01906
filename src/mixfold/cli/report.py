"""mixfold report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mixfold.cli import _options as o
from mixfold.cli._csv_options import csv_options, found_files, with_csv

if TYPE_CHECKING:
    from mixfold.report.progress import Progress


@csv_options
def report(
    model: o.Model,
    files: o.Files,
    *,
    output: Annotated[Path, o.output("The page; default: report.html.")] = Path("report.html"),
    title: Annotated[
        str | None, o.option("--title", metavar="TEXT", help="The title of the page.")
    ] = None,
    csv: dict[str, Any],
    seed: o.Seed = 0,
    threads: o.Threads = None,
    force: o.Force = False,
    progress: o.ShowProgress = False,
) -> None:
    """Write a page about a model and rows, which opens offline.

    MODEL is a file that fit or select wrote; FILES need the columns it was fitted on.

    Example: mixfold report model.mixfold 'days/*.parquet' -o report.html
    """
    from mixfold.cli._bar import display
    from mixfold.cli._files import bundled, check_apart, load_mixture
    from mixfold.cli._tables import console, print_plain
    from mixfold.report import write_report

    mixture = load_mixture(model)
    mixture.set_params(n_threads=threads)
    data = found_files(bundled(files), csv)
    check_apart([output], [model, *data])
    _check_page(output, force)
    shown = display("reading rows", progress)
    try:
        told = _told(shown)
        write_report(mixture, with_csv(data, csv), output, title=title, seed=seed, progress=told)
    finally:
        shown.close()
    print_plain(console(output), f"saved in {output}")


def _check_page(path: Path, force: bool) -> None:
    """Refuse to replace a file that is no page, unless that is asked for."""
    from mixfold.core.errors import InvalidInputError
    from mixfold.fitting.atomic_files import check_output, is_special

    check_output(path)
    if is_special(path) or force or not path.exists():
        return
    with path.open("rb") as file:
        begins = file.read(64).lstrip().lower()
    if begins and not begins.startswith(b"<!doctype html"):
        raise InvalidInputError(
            f"{path} exists and is no page: choose another -o, or replace it with --force"
        )


def _told(shown: Any) -> Progress:
    """A function that displays how many rows were read."""
    from mixfold.cli._bar import Pace, Report

    pace = Pace()

    def tell(rows: int, length: int | None) -> None:
        share = rows / length if length else None
        left = pace.left(rows, length - rows) if length else ""
        shown.show(Report("reading rows", rows, length, share, left))

    return tell
