"""The mixtures behind the classes for river."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from mixfold.core.checks import check_whole
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.registry import is_called, make
from mixfold.estimators.mixture import OWN_LEVEL, Mixture
from mixfold.families.gaussian import Gaussian
from mixfold.families.product import Product
from mixfold.river._columns import Cells, MixedColumns, mixed_columns, number_columns
from mixfold.river._row_blocks import FittedRows, Member, RowBlocks

LEAST_FRACTION = 0.001  # of the variance of a column, so that tied values do not make narrow peaks


def gaussian(covariance: str = "full") -> Gaussian:
    """Gaussians whose conditional variances in a column are at least a fraction of its variance."""
    return Gaussian(covariance, floor=LEAST_FRACTION)


def stream_mixture(
    family: str | Family, n_components: int, learner: str | Learner, seed: int | None
) -> Mixture:
    """A mixture for the rows of a stream; unknown names are refused now, not with the first row."""
    check_whole("n_components", n_components)
    if is_called(family, "gaussian"):
        family = gaussian()
    return Mixture(
        family if is_called(family, "auto") else make("families", family),
        n_components,
        learner=make("learners", learner),
        unseen=OWN_LEVEL,
        random_state=seed,
        n_threads=1,
    )


def fitted_rows(
    family: str | Family, n_components: int, learner: str | Learner | None, seed: int | None
) -> FittedRows:
    """A mixture with the parameters of a fit to the first rows."""
    mixture = stream_mixture(family, n_components, "auto", seed)
    return FittedRows(mixture, make("learners", "online-em" if learner is None else learner))


def row_blocks(family: Any, grace_period: int, *members: Member) -> RowBlocks:
    """The members with the columns that a family takes: only some take categories and dates."""
    if is_called(family, "auto"):
        return RowBlocks(members, grace_period, partial(_with_gaussian_numbers, members))
    is_mixed = isinstance(family, Product)
    return RowBlocks(members, grace_period, mixed_columns if is_mixed else number_columns)


def _with_gaussian_numbers(members: Sequence[Member], rows: Sequence[Cells]) -> MixedColumns:
    """The columns of the first rows, those of numbers Gaussian.

    Later rows may have numbers of other signs, or fractions, which a family that is chosen by a few
    rows might refuse.
    """
    columns = mixed_columns(rows)
    for member in members:
        families = {str(name): gaussian() for name in columns.numbers}
        member.mixture.set_params(overrides=families)
    return columns
