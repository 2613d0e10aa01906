"""The summary of a fitted mixed model as text."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from mixfold.core.checks import check_above
from mixfold.core.rows import Array

Row = list[str]
Pair = tuple[str, str]


class GroupingFactor(NamedTuple):
    """A grouping factor: its name, its random effects, their covariance and its groups."""

    name: str
    effects: list[str]
    covariance: Array
    n_groups: int


class SummaryContent(NamedTuple):
    """What a summary has besides fixed effects.

    `errors` are those of the logarithms of deviations, a matrix for each grouping factor; with
    `degrees` of freedom the fixed effects have t-statistics.
    """

    title: str
    left: list[Pair]
    right: list[Pair]
    factors: list[GroupingFactor]
    errors: list[Array] | None
    degrees: Array | None


class MixedSummary:
    """The tables that statsmodels prints for a mixed model; `str` and `repr` are the text.

    `fixed` and `variances` are the cells of the tables, without headings.
    """

    def __init__(self, model: Any, level: float, content: SummaryContent) -> None:
        check_above("level", level, 0.0, 1.0)
        self._model, self._level, self._content = model, level, content
        self.fixed = self._fixed()
        self.variances = self._variances()

    def __repr__(self) -> str:
        headings = self._headings()
        body = _aligned([headings, *self.fixed, *self.variances])
        top = self._top()
        width = max(map(len, [*body, *top]))
        title = self._content.title.center(width).rstrip()
        thin = "-" * width
        return "\n".join([title, "=" * width, *top, thin, body[0], thin, *body[1:], "=" * width])

    def _headings(self) -> Row:
        letter = "z" if self._content.degrees is None else "t"
        ends = [f"{0.5 * (1.0 + sign * self._level):.4g}" for sign in (-1.0, 1.0)]
        degrees = [] if self._content.degrees is None else ["df"]
        bounds = [f"[{ends[0]}", f"{ends[1]}]"]
        return ["", "Coef.", "Std.Err.", *degrees, letter, f"P>|{letter}|", *bounds]

    def _top(self) -> list[str]:
        left, right = self._content.left, self._content.right
        length = max(len(left), len(right))
        blank: list[Pair] = [("", "")] * length
        pairs = zip((left + blank)[:length], (right + blank)[:length], strict=True)
        return _aligned([[*a, *b] for a, b in pairs], left=True)

    def _fixed(self) -> list[Row]:
        model, known = self._model, self._content.degrees
        rows = []
        for i, name in enumerate(model.coef_names_):
            estimate, error = model.coef_[i], model.coef_std_errors_[i]
            ratio = estimate / error
            degrees = None if known is None else known[i]
            tail, width = self._distribution(abs(ratio), degrees)
            numbers = [estimate, error, *([] if degrees is None else [degrees]), ratio]
            numbers += [2.0 * tail, estimate - width * error, estimate + width * error]
            rows.append([name, *(f"{number:.3f}" for number in numbers)])
        return rows

    def _distribution(self, ratio: float, degrees: float | None) -> tuple[float, float]:
        """P(T > ratio), and the quantile of the level."""
        middle = 0.5 + 0.5 * self._level
        if degrees is None:
            return float(ndtr(-ratio)), float(ndtri(middle))
        return float(stdtr(degrees, -ratio)), float(stdtrit(degrees, middle))

    def _variances(self) -> list[Row]:
        """Rows of variances and covariances, with errors of the variances if they are known."""
        columns = len(self._headings())
        rows: list[Row] = []
        errors = self._content.errors
        for number, factor in enumerate(self._content.factors):
            for i, j in zip(*np.tril_indices(len(factor.effects)), strict=True):
                error = float("nan")
                if errors is not None and i == j:
                    error = 2.0 * factor.covariance[i, i] * errors[number][i, i]
                cells = [_variance_name(factor, int(i), int(j)), f"{factor.covariance[i, j]:.3f}"]
                cells.append("" if np.isnan(error) else f"{error:.3f}")
                rows.append([*cells, *[""] * (columns - 3)])
        return rows


def _variance_name(factor: GroupingFactor, i: int, j: int) -> str:
    """As statsmodels names them, and with the name of the grouping factor for all."""
    effect = factor.effects[j]
    first = factor.name if effect == "Intercept" else f"{factor.name} {effect}"
    return f"{first} Var" if i == j else f"{first} x {factor.effects[i]} Cov"


def whole(number: float) -> str:
    """A count as text."""
    return f"{number:.0f}" if number == round(number) else f"{number:.1f}"


def _aligned(rows: list[Row], left: bool = False) -> list[str]:
    """Rows as lines whose columns have one width each; the first column is at the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if left or i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(" ".join(cells).rstrip())
    return lines
