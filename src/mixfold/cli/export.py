"""mixfold export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mixfold.cli import _options as o


def export(
    model: o.Model,
    *,
    output: Annotated[Path, o.output("An .onnx file.")],
    dtype: Annotated[
        str,
        o.option("--dtype", metavar="TYPE", help="Of inputs and results: float32 or float64."),
    ] = "float32",
    force: o.Force = False,
) -> None:
    """Export a model to ONNX, for programs without mixfold.

    MODEL is a file that fit wrote. The inputs of the exported model are a matrix X or, for tables
    whose columns have families of their own, the columns by name.

    Example: mixfold export model.mixfold -o model.onnx
    """
    from mixfold.cli._files import check_apart, load_mixture
    from mixfold.cli._output import check_new
    from mixfold.cli._tables import console, print_plain

    mixture = load_mixture(model)
    check_apart([output], [model])
    check_new(output, force)
    made = mixture.to_onnx(output, dtype=dtype)
    inputs = [one.name for one in made.graph.input]
    shown = ", ".join(inputs[:6]) + (", ..." if len(inputs) > 6 else "")
    print_plain(console(output), f"saved in {output}: inputs {shown}")
