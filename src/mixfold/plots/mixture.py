"""The picture of a mixture, chosen by what its columns hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.plots.columns import draw_columns
from mixfold.plots.fitted_mixture import NUMBERS, FittedMixture
from mixfold.plots.images import draw_images, is_square
from mixfold.plots.pairs import draw_ellipses, draw_pairs
from mixfold.plots.profiles import draw_profiles

AUTO = "auto"
MOST_PAIRED = 6  # columns
KINDS: dict[str, Callable[..., Any]] = {
    "columns": draw_columns,
    "ellipses": draw_ellipses,
    "pairs": draw_pairs,
    "profiles": draw_profiles,
    "images": draw_images,
}
OF_MARGINALS = ("columns", "ellipses", "pairs")
OF_NUMBERS = ("ellipses", "pairs")


def draw_mixture(
    fitted: FittedMixture,
    ax: Any = None,
    kind: str = AUTO,
    shape: Sequence[int] | None = None,
) -> Any:
    """Draw a mixture, and its rows if there are some.

    Parameters
    ----------
    fitted : FittedMixture
    ax : None, Axes or array of Axes, default=None
        Where to draw. Pictures of several panels divide the place of a single Axes.
    kind : {"auto", "columns", "ellipses", "pairs", "profiles", "images"}, default="auto"
        What to draw; "auto" is the result of `kind_of`.
    shape : (height, width) or (height, width, 3), default=None
        The shape of rows that are pictures.

    Returns
    -------
    Axes, or an array of Axes for pictures of several panels.
    """
    if kind == AUTO:
        kind = kind_of(fitted, shape)
    if kind not in KINDS:
        raise unknown_name("kind of picture", kind, [AUTO, *KINDS])
    _check_kind(fitted, kind)
    if kind == "images":
        return draw_images(fitted, ax, shape)
    return KINDS[kind](fitted, ax)


def kind_of(fitted: FittedMixture, shape: Sequence[int] | None = None) -> str:
    """The kind of picture that suits the columns.

    Rows that are pictures are drawn as "images": with a shape, or if their columns have no names
    and are a square number, at least 64. Of numbers alone, one column has its density, two have
    "ellipses", up to six "pairs", and more "profiles". Others, of which some have counts or levels,
    have a panel for each column.
    """
    if shape is not None or (is_square(fitted.d) and not fitted.named):
        return "images"
    if not fitted.has_marginals:
        return "profiles"
    if any(kind != NUMBERS for kind in fitted.kinds):
        return "columns"
    return {1: "columns", 2: "ellipses"}.get(
        fitted.d, "pairs" if fitted.d <= MOST_PAIRED else "profiles"
    )


def _check_kind(fitted: FittedMixture, kind: str) -> None:
    """Refuse kinds that the columns, or the family, do not allow."""
    if kind in OF_MARGINALS and not fitted.has_marginals:
        raise InvalidInputError(
            f"kind is {kind!r}, and distributions of single columns of {fitted.family!r} are not "
            "known: use kind='profiles'"
        )
    if kind == "ellipses" and fitted.d != 2:
        raise InvalidInputError(
            f"kind is 'ellipses', and there are {fitted.d} columns: choose two with columns=[...]"
        )
    if kind == "pairs" and not 2 <= fitted.d <= MOST_PAIRED:
        raise InvalidInputError(
            f"kind is 'pairs', and there are {fitted.d} columns: choose two to {MOST_PAIRED} with "
            "columns=[...]"
        )
    others = [
        c.name for c, kind_ in zip(fitted.columns, fitted.kinds, strict=True) if kind_ == "levels"
    ]
    if kind in OF_NUMBERS and others:
        raise InvalidInputError(
            f"kind is {kind!r}, and column {others[0]!r} has levels, not numbers: use "
            "kind='columns', or choose others with columns=[...]"
        )
