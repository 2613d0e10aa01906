"""The rows with the lowest density, and the cells that make them strange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from mixfold.core.errors import MixfoldError
from mixfold.core.rows import Array
from mixfold.models.conditioning import unusualness
from mixfold.report._blocks import Block, Paragraph, Table
from mixfold.report._survey import Survey, as_rows
from mixfold.report._texts import number
from mixfold.report.section import Section

MOST_REASONS = 3
SURPRISING = 2.0  # nats below the usual; a cell that is more probable is not worth a mention
MOST_COLUMNS = 128  # the density is evaluated without each of them; more would take minutes


class Strangest(Section):
    """The rows of lowest log density with reasons: cells that the other cells do not suggest."""

    title: ClassVar[str] = "Strangest rows"
    order: ClassVar[int] = 80

    def blocks(self, survey: Survey) -> Sequence[Block]:
        rows = survey.strangest
        reasons = _reasons(survey)
        cells = []
        for i in range(len(rows)):
            name = survey.names[int(rows.labels[i])]
            score = number(float(rows.log_density[i]), survey.deviation)
            cells.append([f"{rows.numbers[i] + 1:,}", reasons[i], score, name])
        words = (
            "The rows that the model finds least probable. A reason compares a cell with what the "
            "other cells of its row suggest. Rows are numbered from 1, in the order in which they "
            "were read."
        )
        if survey.n_incomplete:
            words += " A row with missing cells has the density of its observed cells."
        header = ["Row", "Why", "Log density", "Most probable component"]
        table = Table("Rows of lowest log density", header, cells, words=(1, 3))
        return [Paragraph(words), table]


def _reasons(survey: Survey) -> list[str]:
    """Why the strangest rows are strange, in words."""
    x = survey.strangest.x
    found = _explained(survey, x)
    if found is None:
        return [_far_columns(survey, i) for i in range(len(x))]
    unusual, suggested = found
    return [
        _sentence(survey, row, own, other)
        for row, own, other in zip(x, unusual, suggested, strict=True)
    ]


def _explained(survey: Survey, x: Array) -> tuple[Array, Array] | None:
    """How unusual cells are, and values that the other cells suggest; None where not possible."""
    mixture = survey.mixture
    if not hasattr(mixture, "impute") or survey.model.has_noise or x.shape[1] > MOST_COLUMNS:
        return None
    try:
        unusual = np.array([unusualness(survey.model, mixture.params_, row) for row in x])
        suggested = np.full(x.shape, np.nan)
        for j in set(_highest(unusual).ravel().tolist()):
            holes = x.copy()
            holes[:, j] = np.nan
            filled = mixture.impute(as_rows(holes, survey))
            suggested[:, j] = np.asarray(filled, dtype=np.float64)[:, j]
    except MixfoldError:  # families of dependent columns, or noise
        return None
    return unusual, suggested


def _highest(unusual: Array) -> np.ndarray:
    """The most unusual columns of each row."""
    filled = np.where(np.isnan(unusual), -np.inf, unusual)
    return np.argsort(-filled, axis=1, kind="stable")[:, :MOST_REASONS]


def _sentence(survey: Survey, row: Array, unusual: Array, suggested: Array) -> str:
    parts: list[str] = []
    for j in _highest(unusual[None])[0]:
        if not unusual[j] > SURPRISING and parts:
            break
        column = survey.columns[int(j)]
        scale = float(survey.profiles.whole_deviations[j])
        own, other = column.text(float(row[j])), column.text(float(suggested[j]), scale)
        if own == other:
            parts.append(f"{column.name} is {own}")
        else:
            parts.append(f"{column.name} is {own}, where {other} is expected")
    return "; ".join(parts) + "."


def _far_columns(survey: Survey, i: int) -> str:
    """The columns that are farthest from the mean of the most probable component."""
    row, k = survey.strangest.x[i], int(survey.strangest.labels[i])
    means, spread = survey.profiles.means[k], survey.profiles.deviations[k]
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.abs(row - means) / spread
    far = np.where(np.isfinite(far), far, 0.0)
    parts: list[str] = []
    for j in np.argsort(-far, kind="stable")[:MOST_REASONS]:
        column = survey.columns[int(j)]
        if far[j] > 0:
            parts.append(
                f"{column.name} is {column.text(float(row[j]))}, {far[j]:.1f} standard deviations "
                f"from the mean of the component"
            )
    return ("; ".join(parts) or "no column is far from the mean of the component") + "."
