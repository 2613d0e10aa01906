"""mixfold merge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mixfold.cli import _options as o


def merge(
    models: Annotated[list[Path], o.argument("MODELS")],
    *,
    align: Annotated[
        bool, o.option("--align", metavar=None, help="Match components of unrelated models.")
    ] = False,
    output: Annotated[Path, o.option("-o", "--output", metavar="PATH", help="A new model file.")],
    force: o.Force = False,
) -> None:
    """Merge models that were learned from different rows into one.

    MODELS are files that fit wrote, with the same initial parameters: fit --init START.mixfold.

    Example: mixfold merge a.mixfold b.mixfold -o all.mixfold
    """
    import mixfold
    from mixfold.cli._files import check_apart, check_model_output, load_mixture, save_model
    from mixfold.cli._tables import components, console, print_plain

    check_apart([output], models)
    check_model_output(output, force)
    merged = mixfold.merge([load_mixture(path) for path in models], align)
    save_model(merged, output)
    out = console(output)
    components(merged, out)
    out.print(f"{len(models)} models of {merged._now().n_rows:,} rows")
    print_plain(out, f"saved in {output}")
