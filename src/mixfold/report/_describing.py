"""Sentences about what sets a component apart from the other rows."""

from __future__ import annotations

from itertools import islice

import numpy as np

from mixfold.core.rows import Array
from mixfold.report._survey import Survey
from mixfold.report._texts import counted, joined, percent, proportion_of

LEAST_EFFECT = 0.2  # standard deviations; smaller differences are not mentioned
HUGE_EFFECT = 20.0
SMALL = 1e-6
MOST_NAMES = 4  # of columns about which the same is said


def ranked_columns(survey: Survey, component: int | None = None) -> list[int]:
    """The columns in which a component, or any of them, differs most from the rest, in order."""
    size = np.abs(survey.profiles.effects)
    if survey.k == 1:
        return list(range(len(survey.columns)))
    reached: Array = size.max(axis=0) if component is None else size[component]
    return [int(j) for j in np.argsort(-reached, kind="stable")]


def differences(survey: Survey, component: int, most: int) -> list[str]:
    """The columns in which a component differs most from all other rows, in sentences."""
    large = np.abs(survey.profiles.effects[component]) >= LEAST_EFFECT
    found: dict[str, list[str]] = {}  # columns by what is said about them
    for j in ranked_columns(survey, component):
        if not large[j] or len(found) > most:
            break
        found.setdefault(_statement(survey, component, j), []).append(survey.columns[j].name)
    return [_sentence(names, words) for words, names in islice(found.items(), most)]


def usual_values(survey: Survey, most: int) -> list[str]:
    """What the rows of a single component look like."""
    return [_alone(survey, j) for j in range(min(most, len(survey.columns)))]


def _sentence(names: list[str], words: str) -> str:
    """What is said about one column, or about several at once."""
    if len(names) == 1:
        return f"{names[0]} is {words}"
    more = len(names) - MOST_NAMES
    shown = names[:MOST_NAMES] + ([f"{counted(more, 'more column')}"] if more > 0 else [])
    return f"{joined(shown)} are {words}"


def _statement(survey: Survey, k: int, j: int) -> str:
    """What a column is in a component, against the other rows."""
    column, found = survey.columns[j], survey.profiles
    if column.kind == "level":
        own, rest = found.levels[j][k], found.other_levels[j][k]
        arcs = np.arcsin(np.sqrt(own)) - np.arcsin(np.sqrt(rest))
        # of levels that differ as much, one that is frequent here
        level = int((np.abs(arcs) + SMALL * (arcs > 0.0)).argmax())
        return (
            f"{column.text(level)} in {proportion_of(float(own[level]), 'its rows')}, against "
            f"{proportion_of(float(rest[level]), 'the others')}."
        )
    mean, other = found.means[k, j], found.other_means[k, j]
    scale, effect = float(found.whole_deviations[j]), float(found.effects[k, j])
    side = "away" if column.kind == "angle" else "higher" if effect > 0 else "lower"
    huge = abs(effect) >= HUGE_EFFECT
    size = f"more than {HUGE_EFFECT:.0f}" if huge else f"{abs(effect):.1f}"
    return (
        f"{column.text(mean, scale)} on average, against {column.text(other, scale)} in the other "
        f"rows: {size} standard deviations {side}."
    )


def _alone(survey: Survey, j: int) -> str:
    column, found = survey.columns[j], survey.profiles
    if column.kind == "level":
        level = int(found.levels[j][0].argmax())
        proportion = proportion_of(float(found.levels[j][0, level]), "the rows")
        return f"{column.name} is {column.text(level)} in {proportion}."
    scale = float(found.deviations[0, j])
    mean = column.text(float(found.means[0, j]), scale)
    return (
        f"{column.name} is {mean} on average, with a standard deviation of "
        f"{column.difference(scale)}."
    )


def average(survey: Survey, k: int, j: int) -> str:
    """The mean and the standard deviation of a column in a component, or its usual level."""
    column, found = survey.columns[j], survey.profiles
    if column.kind == "level":
        level = int(found.levels[j][k].argmax())
        return f"{column.text(level)} {percent(found.levels[j][k, level])}"
    mean, scale = float(found.means[k, j]), float(found.deviations[k, j])
    if not np.isfinite(mean):
        return "no values"
    return f"{column.text(mean, scale)} ± {column.difference(scale)}"
