"""Data, settings, versions and limits, for whoever uses the model."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import numpy as np

import mixfold
from mixfold.core.registry import described, name_of
from mixfold.report._blocks import Block, Details, Facts, Paragraph, Sentences, Table
from mixfold.report._models import families_of_columns
from mixfold.report._survey import Survey
from mixfold.report._texts import counted, percent
from mixfold.report.section import Section

PACKAGES = ("numpy", "scipy", "scikit-learn", "bokeh")
MOST_COLUMNS = 60


class ModelCard(Section):
    """What the model was made of, with which settings and versions, and what it cannot do."""

    title: ClassVar[str] = "Model card"
    order: ClassVar[int] = 90

    def blocks(self, survey: Survey) -> Sequence[Block]:
        mixture = survey.mixture
        seed = mixture.get_params(deep=False).get("random_state")
        facts = [
            ("Rows in this report", f"{survey.n:,}"),
            ("Rows of the fit", f"{mixture.n_rows_:,}"),
            ("Rows with missing cells", _incomplete(survey)),
            ("Estimator", type(survey.selection or mixture).__name__),
            ("Learner", name_of(mixture.learner_)),
            ("Seed of the fit", "none" if seed is None else str(seed)),
            ("Seed of this report", str(survey.seed)),
            ("Date of this report", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
        ]
        return [
            Paragraph(f"The data were {survey.description}."),
            Facts(facts),
            Details("Columns and their families", [_columns(survey)]),
            Details("Settings", [_settings(survey.selection or mixture)]),
            Details("Versions", [_versions()]),
            Paragraph("What to keep in mind:"),
            Sentences(_limits(survey)),
        ]


def _incomplete(survey: Survey) -> str:
    proportion = percent(survey.n_incomplete / survey.n)
    return f"{survey.n_incomplete:,} ({proportion})" if survey.n_incomplete else "none"


def _columns(survey: Survey) -> Table:
    """The columns with their families and missing cells."""
    families = dict(families_of_columns(survey.mixture))
    kinds = {"level": "category", "number": "number"}
    rows = []
    for j, column in enumerate(survey.columns[:MOST_COLUMNS]):
        what = kinds.get(column.kind, column.kind)
        if column.kind == "level":
            what = f"category, {len(column.levels)} levels"
        missing = percent(survey.n_missing[j] / survey.n) if survey.n_missing[j] else "none"
        rows.append([column.name, what, _family(families, column.name), missing])
    left = len(survey.columns) - len(rows)
    return Table(
        "Columns of the data",
        ["Column", "Holds", "Family", "Missing cells"],
        rows,
        words=(0, 1, 2),
        more=f"{counted(left, 'column')} more." if left else "",
    )


def _family(families: dict[str, str], name: str) -> str:
    """The family of a column, which may be a joint one of several columns."""
    if not families:
        return "as all columns"
    joint = (f"{kind}, joint with others" for one, kind in families.items() if name in one)
    return families.get(name) or next(joint, "")


def _settings(estimator: Any) -> Table:
    """The settings of the estimator."""
    rows = [[name, _shown(value)] for name, value in estimator.get_params(deep=False).items()]
    rows.append(["learner, as resolved for the data", described(estimator.learner_)])
    return Table("Settings of the estimator", ["Setting", "Value"], rows, words=(0, 1))


def _shown(value: Any, most: int = 300) -> str:
    """A setting as a text; long ones are cut."""
    text = f"array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def _versions() -> Table:
    rows = [["mixfold", mixfold.__version__], ["Python", platform.python_version()]]
    for package in PACKAGES:
        try:
            rows.append([package, version(package)])
        except PackageNotFoundError:
            rows.append([package, "not known"])
    return Table("Versions of this report", ["Package", "Version"], rows, words=(0, 1))


def _limits(survey: Survey) -> list[str]:
    """What follows from the method, and what does not."""
    found = [
        "Components describe a distribution. Whether they are groups of anything else must be "
        "checked with knowledge of the data.",
        "The model describes rows like those it has learned from. Where rows change, see the "
        "section on drift.",
    ]
    if survey.n < 10 * survey.model.n_parameters():
        found.append(
            f"There are {survey.n:,} rows for {survey.model.n_parameters():,} free parameters, "
            "fewer than ten for each: another sample could give other components."
        )
    if survey.n_incomplete:
        found.append(
            "Missing cells are integrated out, which is right if they are missing at random: if "
            "whether a cell is missing depends on the observed cells alone."
        )
    if not survey.is_complete_sample:
        found.append(
            f"All rows were read; pictures and the section on calibration are based on a random "
            f"sample of {len(survey.sample):,}."
        )
    if survey.mixture.get_params(deep=False).get("random_state") is None:
        found.append("The fit had no seed, so that it cannot be repeated exactly.")
    return found
