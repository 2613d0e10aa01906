"""mixfold plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from mixfold.cli import _options as o
from mixfold.cli._csv_options import csv_options, found_files, with_csv

DPI = 150
OF_FITS: dict[str, Callable[[Any], Any]] = {
    "history": lambda mixture: mixture.plot_history(),
    "drift": lambda mixture: mixture.plot_drift(),
}
OF_ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "responsibilities": lambda mixture, rows: mixture.plot_responsibilities(rows),
}


@csv_options
def plot(
    model: o.Model,
    files: Annotated[list[str] | None, o.argument("FILES")] = None,
    *,
    output: Annotated[Path, o.output("A new .png, .svg, .pdf or .jpg file.")],
    kind: Annotated[
        str,
        o.option(
            "--kind",
            metavar="NAME",
            help="auto, columns, ellipses, pairs, profiles, images, history, drift, "
            "responsibilities.",
        ),
    ] = "auto",
    columns: Annotated[
        str | None, o.option("--columns", metavar="A,B,...", help="Draw these columns only.")
    ] = None,
    shape: Annotated[
        str | None,
        o.option("--shape", metavar="HxW", help="Rows are pictures of this shape: 28x28."),
    ] = None,
    csv: dict[str, Any],
    force: o.Force = False,
) -> None:
    """Draw a picture of a model, and of rows.

    MODEL is a file that fit wrote; FILES, which may be left out, need the columns it was fitted on.

    Example: mixfold plot model.mixfold days.parquet -o picture.png
    """
    from mixfold.cli._files import bundled, check_apart, load_mixture
    from mixfold.cli._output import check_new
    from mixfold.cli._tables import console, print_plain

    mixture = load_mixture(model)
    data = found_files(bundled(files or []), csv) if files else []
    check_apart([output], [model, *data])
    _check_suffix(output)
    check_new(output, force)
    _check_options(kind, bool(files), columns or shape)
    rows = mixture.open_rows(with_csv(data, csv)) if data else None
    if kind in OF_FITS:
        axes = OF_FITS[kind](mixture)
    elif kind in OF_ROWS:
        axes = OF_ROWS[kind](mixture, rows)
    else:
        chosen = o.listed(columns)
        axes = mixture.plot(rows, kind=kind, columns=chosen, shape=_sides(shape))
    _save(axes, output)
    print_plain(console(output), f"saved in {output}")


def _check_options(kind: str, has_files: bool, of_columns: str | None) -> None:
    """Refuse unknown kinds, rows that are missing or not drawn, and options without effect."""
    from mixfold.core.errors import InvalidInputError, unknown_name
    from mixfold.plots.mixture import AUTO, KINDS

    known = [AUTO, *KINDS, *OF_FITS, *OF_ROWS]
    if kind not in known:
        raise unknown_name("kind of picture", kind, known)
    if kind in OF_ROWS and not has_files:
        raise InvalidInputError(f"--kind {kind} draws rows: give their FILES after the model")
    if kind in OF_FITS and has_files:
        raise InvalidInputError(f"--kind {kind} draws the fit, not rows: leave FILES out")
    if of_columns and (kind in OF_ROWS or kind in OF_FITS):
        raise InvalidInputError(f"--kind {kind} draws no columns: leave --columns and --shape out")


def _check_suffix(path: Path) -> None:
    """Choose a backend that needs no screen; refuse names of pictures that it cannot write."""
    from mixfold.core.errors import InvalidInputError
    from mixfold.plots.axes import pyplot

    plt = pyplot()
    plt.switch_backend("agg")
    known = sorted(plt.figure().canvas.get_supported_filetypes())
    plt.close("all")
    if _format(path) not in known:
        raise InvalidInputError(
            f"cannot write {path}: the name must end in one of {', '.join(f'.{n}' for n in known)}"
        )


def _format(path: Path) -> str:
    """The format that the suffix names; PNG on standard output, which has none."""
    from mixfold.fitting.atomic_files import STDOUT

    return "png" if path == STDOUT else path.suffix.lower().removeprefix(".")


def _sides(shape: str | None) -> Sequence[int] | None:
    """The height and width in a text such as 28x28, and the number of colours in 28x28x3."""
    from mixfold.core.errors import InvalidInputError

    if shape is None:
        return None
    sides = shape.lower().split("x")
    if not all(side.isdecimal() for side in sides):
        raise InvalidInputError(f"--shape is {shape!r}: write HEIGHTxWIDTH, such as 28x28")
    return [int(side) for side in sides]


def _save(axes: Any, path: Path) -> None:
    """Write the figure of axes; the same picture has the same bytes."""
    import matplotlib as mpl
    import numpy as np

    from mixfold.fitting.atomic_files import replacing
    from mixfold.plots.axes import pyplot

    figure, kind = np.ravel(axes)[0].figure, _format(path)
    dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "ps": {}, "eps": {}}
    with mpl.rc_context({"svg.hashsalt": "mixfold"}), replacing(path) as file:
        figure.savefig(file, format=kind, dpi=DPI, metadata=dated.get(kind))
    pyplot().close(figure)
