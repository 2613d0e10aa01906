"""mixfold merge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mixfold.cli import _options as o


def merge(
    models: o.Models,
    *,
    align: Annotated[
        bool, o.option("--align", metavar=None, help="Match components of unrelated models.")
    ] = False,
    output: Annotated[Path, o.output("A new model file.")],
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Merge models that were learned from different rows into one.

    MODELS are files that fit wrote, with the same initial parameters: fit --init START.mixfold.

    Example: mixfold merge a.mixfold b.mixfold -o all.mixfold
    """
    import mixfold
    from mixfold.cli._files import check_apart, check_model_output, load_mixture, save_model
    from mixfold.cli._records import check_json, component_records, print_json
    from mixfold.cli._streams import check_dashes
    from mixfold.cli._tables import components, console, print_plain

    check_json(json, output)
    check_dashes(list(map(str, models)))
    check_apart([output], models)
    check_model_output(output, force)
    merged = mixfold.merge([load_mixture(path) for path in models], align)
    save_model(merged, output)
    rows = merged._now().n_rows
    if json:
        found = {"models": len(models), "rows": rows, "components": component_records(merged)}
        print_json({**found, "saved_in": output})
        return
    out = console(output)
    components(merged, out)
    out.print(f"{len(models)} models of {rows:,} rows")
    print_plain(out, f"saved in {output}")
