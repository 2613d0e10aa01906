"""The summary of a fitted linear mixed model as text."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from mixfold.estimators._mixed_inference import GroupingFactor

Row = list[str]


class MixedSummary:
    """The tables that statsmodels prints for a mixed linear model; `str` and `repr` are the text.

    `fixed` and `variances` are the cells of the tables, without headings.
    """

    def __init__(self, model: Any, level: float) -> None:
        self._model, self._level = model, level
        self._errors = model._mixed().variance_errors
        self.fixed = self._fixed()
        self.variances = self._variances()

    def __repr__(self) -> str:
        headings = self._headings()
        body = _aligned([headings, *self.fixed, *self.variances])
        top = self._top()
        width = max(map(len, [*body, *top]))
        title = "Mixed Linear Model Regression Results".center(width).rstrip()
        thin = "-" * width
        return "\n".join([title, "=" * width, *top, thin, body[0], thin, *body[1:], "=" * width])

    def _headings(self) -> Row:
        letter = "z" if self._errors is None else "t"
        ends = [f"{0.5 * (1.0 + sign * self._level):.4g}" for sign in (-1.0, 1.0)]
        degrees = [] if self._errors is None else ["df"]
        bounds = [f"[{ends[0]}", f"{ends[1]}]"]
        return ["", "Coef.", "Std.Err.", *degrees, letter, f"P>|{letter}|", *bounds]

    def _top(self) -> list[str]:
        model, learned = self._model, self._model._mixed()
        factors, sizes = learned.factors(), learned.group_sizes
        left = [
            ("Model:", type(model).__name__),
            ("No. Observations:", _whole(model.n_observations_)),
        ]
        if sizes is not None:
            mean = model.n_observations_ / factors[0].n_groups
            left += [
                ("No. Groups:", str(factors[0].n_groups)),
                ("Min. group size:", str(sizes[0])),
                ("Max. group size:", str(sizes[1])),
                ("Mean group size:", f"{mean:.1f}"),
            ]
        else:
            left += [(f"No. Groups of {each.name}:", str(each.n_groups)) for each in factors]
        right = [
            ("Dependent Variable:", learned.response_name),
            ("Method:", "REML" if learned.reml else "ML"),
            ("Scale:", f"{model.noise_variance_:.4f}"),
            ("Log-Likelihood:", f"{model._maximum():.4f}"),
            ("Converged:", "Yes" if model.converged_ else "No"),
            ("AIC:", f"{model.aic():.4f}"),
            ("BIC:", f"{model.bic():.4f}"),
        ]
        length = max(len(left), len(right))
        blank = [("", "")] * length
        pairs = zip((left + blank)[:length], (right + blank)[:length], strict=True)
        return _aligned([[*a, *b] for a, b in pairs], left=True)

    def _fixed(self) -> list[Row]:
        model = self._model
        rows = []
        for i, name in enumerate(model.coef_names_):
            estimate, error = model.coef_[i], model.coef_std_errors_[i]
            ratio = estimate / error
            degrees = None if self._errors is None else self._errors.degrees_of_freedom[i]
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
        for number, factor in enumerate(self._model._mixed().factors()):
            for i, j in zip(*np.tril_indices(len(factor.effects)), strict=True):
                error = float("nan")
                if self._errors is not None and i == j:
                    error = 2.0 * factor.covariance[i, i] * self._errors.effects[number][i, i]
                cells = [_variance_name(factor, int(i), int(j)), f"{factor.covariance[i, j]:.3f}"]
                cells.append("" if np.isnan(error) else f"{error:.3f}")
                rows.append([*cells, *[""] * (columns - 3)])
        return rows


def _variance_name(factor: GroupingFactor, i: int, j: int) -> str:
    """As statsmodels names them, and with the name of the grouping factor for all."""
    effect = factor.effects[j]
    first = factor.name if effect == "Intercept" else f"{factor.name} {effect}"
    return f"{first} Var" if i == j else f"{first} x {factor.effects[i]} Cov"


def _whole(number: float) -> str:
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
