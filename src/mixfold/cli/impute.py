"""mixfold impute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from mixfold.cli import _options as o
from mixfold.cli._csv_options import csv_options, with_csv

if TYPE_CHECKING:
    from mixfold.cli._bar import RowProgress
    from mixfold.cli._output import Columns
    from mixfold.core.source import Source


@csv_options
def impute(
    model: o.Model,
    files: o.Files,
    *,
    output: o.Table,
    format: o.Format = None,
    method: Annotated[
        str, o.option("--method", metavar="NAME", help="mean (default), mode or draw.")
    ] = "mean",
    seed: o.Seed = 0,
    csv: dict[str, Any],
    force: o.Force = False,
    progress: o.ShowProgress = False,
) -> None:
    """Fill missing cells from the cells that are observed.

    MODEL is a file that fit wrote; FILES need the columns it was fitted on.

    Example: mixfold impute model.mixfold visits.csv -o filled.csv
    """
    from mixfold.cli._bar import RowProgress
    from mixfold.cli._files import check_apart, load_beside_rows, mixture_of
    from mixfold.cli._output import check_table, write_table
    from mixfold.cli._tables import console, print_plain

    found, data = load_beside_rows(model, files, csv)
    mixture = mixture_of(found)
    check_apart([output], [model, *data])
    check_table(output, format, force)
    source = mixture.open_rows(with_csv(data, csv))
    shown = RowProgress("imputing", source.length, progress)
    try:
        n = write_table(output, format, _filled(mixture, source, method, seed, shown))
    finally:
        shown.close()
    print_plain(console(output), f"{n:,} rows saved in {output}")


def _filled(
    mixture: Any, source: Source, method: str, seed: int, shown: RowProgress
) -> Iterator[Columns]:
    import numpy as np

    from mixfold.cli._output import table_columns
    from mixfold.sources.array_source import ArraySource

    rng = np.random.default_rng(seed)
    for rows in source.blocks():
        filled = mixture.impute(ArraySource(rows.x, None, source.columns), method, rng)
        yield table_columns(mixture, mixture.decode(filled))
        shown.update(len(rows))
