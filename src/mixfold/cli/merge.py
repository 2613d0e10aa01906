"""mixfold merge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mixfold.cli import _options as o


def merge(
    models: Annotated[list[Path], o.argument("MODELS")],
    *,
    align: Annotated[
        bool, o.option("--align", metavar=None, help="Match components of different lineages.")
    ] = False,
    output: Annotated[Path, o.option("-o", "--output", metavar="PATH", help="A new model file.")],
) -> None:
    """Make one model of several that learned from different rows.

    MODELS are files that fit wrote, from the same start: fit --init START.mixfold.

    Example: mixfold merge a.mixfold b.mixfold -o all.mixfold
    """
    from mixfold.cli._files import check_apart, load_mixture
    from mixfold.cli._output import check_writable
    from mixfold.cli._tables import components, console
    from mixfold.estimators._merging import merge as merged_model

    check_writable(output)
    check_apart(output, models)
    merged = merged_model([load_mixture(path) for path in models], align)
    merged.save(output)
    out = console()
    components(merged, out)
    out.print(f"{len(models)} models of {merged.n_seen_:,} rows")
    out.print(f"saved in {output}", soft_wrap=True, markup=False)
