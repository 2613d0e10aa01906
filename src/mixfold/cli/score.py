"""mixfold score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from mixfold.cli import _options as o
from mixfold.cli._csv_options import csv_options, with_csv

if TYPE_CHECKING:
    from mixfold.cli._bar import RowProgress
    from mixfold.cli._output import Columns
    from mixfold.core.source import Source
    from mixfold.sources.kept_columns import KeptColumns

LOG_DENSITY, LABEL, ALARM = "log_density", "label", "alarm"


@csv_options
def score(
    model: o.Model,
    files: o.Files,
    *,
    output: o.Table,
    keep: Annotated[
        str | None,
        o.option("--keep", metavar="A,B,...", help="Columns to copy to the output."),
    ] = None,
    format: o.Format = None,
    csv: dict[str, Any],
    force: o.Force = False,
    threads: o.Threads = None,
    progress: o.ShowProgress = False,
    json: o.Json = False,
) -> None:
    """Write log-density, label and responsibilities of rows.

    MODEL is a file that fit wrote; FILES need the columns it was fitted on.
    The alarms of a detector are in a column too.

    Example: mixfold score model.mixfold 'days/*.parquet' -o scores.parquet
    """
    from mixfold.cli._bar import RowProgress
    from mixfold.cli._files import check_apart, load_beside_rows, mixture_of
    from mixfold.cli._output import check_table, write_table
    from mixfold.cli._records import check_json, detector_record, print_json
    from mixfold.cli._tables import console, counted, print_plain, threshold_in_words

    check_json(json, output)
    found, data = load_beside_rows(model, files, csv)
    mixture = mixture_of(found)
    mixture.set_params(n_threads=threads)
    check_apart([output], [model, *data])
    check_table(output, format, force)
    source = mixture.open_rows(with_csv(data, csv))
    kept = _kept(source, keep, mixture)
    shown = RowProgress("scoring", source.length, progress)
    total = _Total(getattr(found, "offset_", None))
    try:
        n = write_table(output, format, _scored(mixture, source, kept, total, shown))
    finally:
        shown.close()
    likelihood, bound = total.log_density / n, total.bound / n
    if json:
        sums = {"log_likelihood": likelihood, "best_component_alone": bound, "rows": n}
        alarms = {} if total.threshold is None else {"alarms": total.alarms}
        print_json({**sums, **alarms, **detector_record(found), "saved_in": output})
        return
    out = console(output)
    out.print(f"log-likelihood {likelihood:.6g} per row, {n:,} rows")
    out.print(f"of the best component alone {bound:.6g} per row")
    if total.threshold is not None:
        out.print(f"{counted(total.alarms, 'alarm')} {threshold_in_words(found)}")
    print_plain(out, f"saved in {output}")


@dataclass
class _Total:
    """Sums over rows; with a threshold, those below it raise alarms."""

    threshold: float | None
    log_density: float = 0.0
    bound: float = 0.0
    rows: int = 0
    alarms: int = 0


def _kept(source: Source, keep: str | None, mixture: Any) -> KeptColumns | None:
    """The columns to copy, whose names no other column of the output may have."""
    from mixfold.core.errors import InvalidInputError
    from mixfold.sources.kept_columns import KeptColumns

    names = o.listed(keep)
    if names is None:
        return None
    if not names:
        raise InvalidInputError(f"--keep is {keep!r}: name columns, as in --keep id,time")
    n = mixture.model_.k + mixture.model_.has_noise
    taken = {LOG_DENSITY, LABEL, ALARM, *_responsibility_names(n)}
    for name in names:
        if name in taken:
            raise InvalidInputError(
                f"--keep {name}: the output has a column of this name already; give the column of "
                "the files another name"
            )
    return KeptColumns(source, names)


def _responsibility_names(n: int) -> list[str]:
    return [f"responsibility_{k}" for k in range(n)]


def _scored(
    mixture: Any, source: Source, kept: KeptColumns | None, total: _Total, shown: RowProgress
) -> Iterator[Columns]:
    import numpy as np

    from mixfold.core.arrays import largest_log_joint
    from mixfold.core.errors import SourceError

    for log_density, responsibilities in mixture.iter_posteriors(source):
        total.log_density += float(log_density.sum())
        total.bound += float(largest_log_joint(log_density, responsibilities).sum())
        total.rows += len(log_density)
        label = responsibilities.argmax(axis=1).astype(np.int32)
        names = _responsibility_names(responsibilities.shape[1])
        columns = dict(zip(names, responsibilities.T, strict=True))
        copied = {} if kept is None else kept.take(len(label))
        alarms = {}
        if total.threshold is not None:
            alarms[ALARM] = (log_density < total.threshold).astype(np.int32)
            total.alarms += int(alarms[ALARM].sum())
        yield {**copied, LOG_DENSITY: log_density, **alarms, LABEL: label, **columns}
        shown.update(len(log_density))
    if not total.rows:
        raise SourceError("the files have no rows to score")
