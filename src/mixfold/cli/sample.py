"""mixfold sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from mixfold.cli import _options as o

if TYPE_CHECKING:
    from mixfold.cli._bar import RowProgress
    from mixfold.cli._output import Columns


def sample(
    model: o.Model,
    *,
    rows: Annotated[int, o.option("-n", "--rows", metavar="N", help="How many.", min=1)],
    output: o.Table,
    format: o.Format = None,
    seed: o.Seed = 0,
    force: o.Force = False,
    progress: o.ShowProgress = False,
) -> None:
    """Draw rows from a model, with the columns it was fitted on.

    MODEL is a file that fit wrote.

    Example: mixfold sample model.mixfold -n 1000 -o rows.csv --seed 1
    """
    from mixfold.cli._bar import RowProgress
    from mixfold.cli._files import check_apart, load_mixture
    from mixfold.cli._output import check_room, check_table, write_table
    from mixfold.cli._tables import console, print_plain

    mixture = load_mixture(model)
    check_apart([output], [model])
    check_table(output, format, force)
    check_room(output, format, rows, mixture.n_features_in_)
    shown = RowProgress("drawing", rows, progress)
    try:
        n = write_table(output, format, _drawn(mixture, rows, seed, shown))
    finally:
        shown.close()
    print_plain(console(output), f"{n:,} rows saved in {output}")


def _drawn(mixture: Any, n: int, seed: int, shown: RowProgress) -> Iterator[Columns]:
    import numpy as np

    from mixfold.cli._output import table_columns
    from mixfold.core.source import block_length

    step = block_length(mixture.n_features_in_)
    mixture.set_params(random_state=np.random.default_rng(seed))
    for first in range(0, n, step):
        x, _ = mixture.sample(min(step, n - first))
        yield table_columns(mixture, x)
        shown.update(len(x))
