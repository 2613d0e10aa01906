"""What was fitted, and how well it describes the rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import ClassVar

import numpy as np

from mixfold.core.registry import name_of
from mixfold.report._blocks import Block, Facts, Paragraph
from mixfold.report._models import family_of
from mixfold.report._survey import Survey
from mixfold.report._texts import counted, number, percent
from mixfold.report.section import Section


class Summary(Section):
    """Family, number of components, likelihood, criteria and convergence."""

    title: ClassVar[str] = "Fit"
    order: ClassVar[int] = 10

    def blocks(self, survey: Survey) -> Sequence[Block]:
        mixture, n, free = survey.mixture, survey.n, survey.model.n_parameters()
        total = survey.log_likelihood
        facts = [
            ("Family", name_of(family_of(mixture))),
            ("Components", _components(survey)),
            ("Rows in this report", f"{n:,}"),
            ("Columns", f"{len(survey.columns):,}"),
            ("Log-likelihood per row", number(survey.mean, survey.deviation or None)),
            ("Free parameters", f"{free:,}"),
            ("BIC (smaller is better)", f"{free * log(n) - 2.0 * total:,.1f}"),
            ("AIC (smaller is better)", f"{2.0 * free - 2.0 * total:,.1f}"),
            ("Learning has converged", "yes" if mixture.converged_ else "no"),
        ]
        held_out = _held_out(survey)
        if held_out is not None:
            facts.append(("Held-out log-density per row", number(held_out, survey.deviation)))
        return [Facts(facts), *_comparison(survey), *_warnings(survey)]


def _components(survey: Survey) -> str:
    return f"{survey.model.k} and noise" if survey.model.has_noise else str(survey.model.k)


def _held_out(survey: Survey) -> float | None:
    """The log-density per held-out row of the best candidate of a selection."""
    if survey.selection is None or survey.selection.criterion != "held-out":
        return None
    return float(np.nanmax(np.asarray(survey.selection.results_["held_out"], dtype=np.float64)))


def _comparison(survey: Survey) -> list[Block]:
    """How much better the mixture is than one component, and how clear the components are."""
    found: list[Block] = []
    single = survey.one_component if survey.k > 1 else None
    if single is not None:
        mean = float(survey.sample.log_density.mean())
        where = "" if survey.is_complete_sample else f" in a sample of {len(survey.sample):,} rows"
        better = mean - single
        size = number(abs(better))
        than = f"{number(single, survey.deviation)} for one component of the same family{where}"
        if better > 0:
            words = (
                f"The mixture describes the rows better than a single component: "
                f"{number(mean, survey.deviation)} nats per row against {than}, a gain of {size}."
            )
        else:
            words = (
                f"The mixture describes the rows no better than a single component: "
                f"{number(mean, survey.deviation)} nats per row against {than}."
            )
        found.append(Paragraph(words, "note"))
    if survey.k > 1:
        sure = float(survey.certainty.sum()) / survey.n
        found.append(
            Paragraph(
                f"If the model is right, {percent(sure)} of the rows belong to the component that "
                f"is most probable for them, and {percent(1.0 - sure)} to another one."
            )
        )
    return found


def _warnings(survey: Survey) -> list[Block]:
    found: list[Block] = []
    mixture = survey.mixture
    if not mixture.converged_:
        words = "Learning has not converged: more passes may give a better model."
        found.append(Paragraph(words, "warning"))
    if mixture.n_degenerate_:
        one = mixture.n_degenerate_ == 1
        words = (
            f"{counted(mixture.n_degenerate_, 'component')} {'is' if one else 'are'} degenerate: "
            "in some column as narrow as the resolution of the data allows, or at the smallest "
            "mean or probability. Fewer components, or fewer columns, may be enough."
        )
        found.append(Paragraph(words, "warning"))
    if survey.n != mixture.n_rows_:
        words = (
            f"The model has learned from {counted(mixture.n_rows_, 'row')}; likelihood and "
            f"criteria are those of the {counted(survey.n, 'row')} of this report."
        )
        found.append(Paragraph(words, "note"))
    return found
