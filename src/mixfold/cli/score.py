"""mixfold score."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mixfold.cli import _options as o
from mixfold.cli._csv_options import csv_options, found_files, with_csv

if TYPE_CHECKING:
    from mixfold.cli._bar import Display
    from mixfold.cli._output import Columns
    from mixfold.core.source import Source


@csv_options
def score(
    model: o.Model,
    files: o.Files,
    *,
    output: o.Table,
    csv: dict[str, Any],
    force: o.Force = False,
    threads: o.Threads = None,
    progress: o.ShowProgress = False,
) -> None:
    """Write log-density, label and responsibilities of rows.

    MODEL is a file that fit wrote; FILES need the columns it was fitted on.

    Example: mixfold score model.mixfold 'days/*.parquet' -o scores.parquet
    """
    from mixfold.cli._bar import display
    from mixfold.cli._files import bundled, check_apart, load_mixture
    from mixfold.cli._output import check_table, write_table
    from mixfold.cli._tables import console, print_plain

    mixture = load_mixture(model)
    mixture.set_params(n_threads=threads)
    data = found_files(bundled(files), csv)
    check_apart([output], [model, *data])
    check_table(output, force)
    source = mixture.open_rows(with_csv(data, csv))
    shown = display("scoring", progress)
    total = _Total()
    try:
        n = write_table(output, _scored(mixture, source, total, shown))
    finally:
        shown.close()
    out = console(output)
    likelihood, bound = total.log_density / n, total.bound / n
    out.print(f"log-likelihood {likelihood:.6g} per row, {n:,} rows")
    out.print(f"of the best component alone {bound:.6g} per row")
    print_plain(out, f"saved in {output}")


class _Total:
    log_density = 0.0
    bound = 0.0
    rows = 0


def _scored(mixture: Any, source: Source, total: _Total, shown: Display) -> Iterator[Columns]:
    import numpy as np

    from mixfold.cli._bar import Pace, Report
    from mixfold.core.arrays import largest_log_joint
    from mixfold.core.errors import SourceError

    pace, length = Pace(), source.length
    for log_density, responsibilities in mixture.iter_posteriors(source):
        total.log_density += float(log_density.sum())
        total.bound += float(largest_log_joint(log_density, responsibilities).sum())
        total.rows += len(log_density)
        label = responsibilities.argmax(axis=1).astype(np.int32)
        columns = {f"responsibility_{k}": r for k, r in enumerate(responsibilities.T)}
        yield {"log_density": log_density, "label": label, **columns}
        share = total.rows / length if length else None
        left = pace.left(total.rows, length - total.rows) if length else ""
        shown.show(Report("scoring", total.rows, length, share, left))
    if not total.rows:
        raise SourceError("the files have no rows to score")
