"""A table of estimates, as statsmodels prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixfold.core.rows import Array

if TYPE_CHECKING:
    from mixfold.models.estimates import Estimates

NUMBER = 10  # characters of a column of numbers
LEAST_WIDTH = 78


def summary_table(estimates: Estimates, level: float) -> str:
    """The rows of the table, with a heading and notes."""
    low, high = estimates.ends(level)
    z, p = _tests(estimates)
    tails = f"[{0.5 - 0.5 * level:.3f}", f"{0.5 + 0.5 * level:.3f}]"
    numbers = [_formatted(one) for one in (estimates.values, estimates.errors)]
    numbers += [_formatted(z, "{:.3f}"), _formatted(p, "{:.3f}"), _formatted(low), _formatted(high)]
    first = max(map(len, estimates.names))
    width = max(LEAST_WIDTH, first + 6 * (NUMBER + 1))
    first = width - 6 * (NUMBER + 1)
    titles = ["coef", "std err", "z", "P>|z|", *tails]
    lines = [
        "Mixture Results".center(width).rstrip(),
        "=" * width,
        f"No. Observations: {estimates.n_rows}    "
        f"Log-Likelihood: {estimates.log_likelihood:.3f}    "
        f"Covariance Type: {estimates.kind}",
        "=" * width,
        " " * first + "".join(f" {title:>{NUMBER}}" for title in titles),
        "-" * width,
    ]
    for name, *cells in zip(estimates.names, *numbers, strict=True):
        lines.append(f"{name:<{first}}" + "".join(f" {cell:>{NUMBER}}" for cell in cells))
    return "\n".join(line.rstrip() for line in [*lines, "=" * width, *_notes(estimates)])


def _tests(estimates: Estimates) -> tuple[Array, Array]:
    """z statistics and their two-sided probabilities, NaN where zero is no hypothesis."""
    from scipy.stats import norm

    real = np.concatenate([np.full(len(s.values), s.scale == "identity") for s in estimates.shown])
    known = real & (estimates.errors > 0.0)
    z = np.full(len(real), np.nan)
    z[known] = estimates.values[known] / estimates.errors[known]
    return z, 2.0 * norm.sf(np.abs(z))


def _formatted(numbers: Array, form: str = "{:.4g}") -> list[str]:
    return ["" if np.isnan(number) else form.format(number) for number in numbers]


def _notes(estimates: Estimates) -> list[str]:
    notes = []
    if estimates.by_component:
        notes.append("Standard errors of each component are as if the other components were known.")
    if estimates.not_identified:
        notes.append(f"The rows cannot tell apart: {', '.join(estimates.not_identified)}.")
    if np.isnan(estimates.errors).any() and not estimates.not_identified:
        notes.append("Parameters without standard error are at a limit of their domain.")
    return notes
