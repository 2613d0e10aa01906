"""The choice of real columns that have a joint distribution within components.

All columns of many different numbers begin in one group with a covariance matrix per component,
each on the scale of its own family. Then every column in turn leaves the group, or changes its
scale, if that raises the likelihood of a sample less BIC's penalty. The group must be better than
independent columns, both with the families of their own and on the scales of the group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import rankdata

from mixfold.core.data_limits import limits_of
from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.estimators._column_facts import ColumnFacts
from mixfold.estimators._column_likelihoods import fitted_likelihood, in_order
from mixfold.families.factor import Factor
from mixfold.families.gamma import Gamma
from mixfold.families.gaussian import Gaussian
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.log_normal import LogNormal
from mixfold.families.negative_binomial import NegativeBinomialSizes
from mixfold.families.poisson import Poisson
from mixfold.families.product import Product
from mixfold.families.transformed_gaussian import TransformedGaussian

Scale = Literal["own", "real", "log"]  # a family of its own, or a scale in the group

# whole numbers are taken for measurements if there are more different ones, and none is as frequent
MANY_VALUES, FREQUENT = 30, 0.1
ROWS = 1000  # of the sample that are used
# complete rows that are enough, without which rows with missing cells are used, of which fewer,
# since each may have other missing cells
ENOUGH_ROWS, INCOMPLETE_ROWS = 200, 150
COMPONENTS, STEPS, FEW_STEPS = 3, 15, 5
MARGIN = 0.01  # nats per row by which a change must be better


class Member(NamedTuple):
    """A column that may be in the group, and the family of its own."""

    facts: ColumnFacts
    family: Family

    @property
    def scale(self) -> Scale:
        """The scale on which its own family is skewed the least."""
        skewed = isinstance(self.family, LogNormal | Gamma | NegativeBinomialSizes)
        return "log" if skewed and self.positive else "real"

    @property
    def positive(self) -> bool:
        """Whether all values have logarithms."""
        return bool(self.facts.values.min() > 0.0)


def can_join(facts: ColumnFacts, family: Family) -> bool:
    """Whether a column has measurements, which may depend on one another within components."""
    known = isinstance(family, Gaussian | LogNormal | Gamma | NegativeBinomialSizes | Poisson)
    if not known or facts.cells is None:
        return False
    _, counts = np.unique(facts.values, return_counts=True)
    many = len(counts) > MANY_VALUES and counts.max() < FREQUENT * counts.sum()
    return bool(many) or not facts.whole


def joint_family(scales: Sequence[Scale], covariance: str = "full") -> Family:
    """The family of the columns of a group, of which those on the logarithmic scale are given."""
    logs = tuple(i for i, scale in enumerate(scales) if scale == "log")
    normal = Gaussian(covariance)
    return TransformedGaussian(logs, normal) if logs else normal


def chosen_scales(members: Sequence[Member]) -> Mapping[str | int, Scale]:
    """The columns of the group, with their scales; none if they are better independent."""
    x = _sample(members)
    if len(members) < 2 or len(x) < 2 * COMPONENTS:
        return {}
    trial = _Trial(members, x)
    own: list[Scale] = ["own"] * len(members)
    candidates: list[list[Scale]] = [[m.scale for m in members], ["real"] * len(members)]
    first = in_order(_places(x), COMPONENTS)
    found = [(*trial.fit(scales, first, STEPS), scales) for scales in candidates]
    score, r, scales = max(found, key=lambda each: each[0])
    score, scales = trial.improve(score, r, scales)
    rivals = [trial.fit(own, first, STEPS)[0], trial.fit(scales, first, STEPS, "diag")[0]]
    if score < max(rivals) + MARGIN:
        return {}
    pairs = zip(members, scales, strict=True)
    return {member.facts.name: scale for member, scale in pairs if scale != "own"}


class _Trial:
    """Fits of mixtures to the sample, with columns in the group or with families of their own."""

    def __init__(self, members: Sequence[Member], x: Array) -> None:
        self.members, self.x = members, x

    def fit(
        self, scales: Sequence[Scale], first: Array, steps: int, covariance: str = "full"
    ) -> tuple[float, Array]:
        """The likelihood less the penalty, and responsibilities."""
        family = self._family(scales, covariance)
        score, r = fitted_likelihood(family, self.x, first, steps, family.log_density)
        width = sum(scale != "own" for scale in scales) if covariance == "full" else 0
        if r.sum(axis=0).min() <= width:  # of so few rows the likelihood has no bound
            score = -np.inf
        return score, r

    def _family(self, scales: Sequence[Scale], covariance: str) -> Family:
        group = [j for j, scale in enumerate(scales) if scale != "own"]
        factors = [
            Factor((j,), self.members[j].family) for j, scale in enumerate(scales) if scale == "own"
        ]
        if group:
            joint = joint_family([scales[j] for j in group], covariance)
            factors.append(Factor(tuple(group), joint))
        family: Family = Product(tuple(factors))
        if np.isnan(self.x).any():
            family = with_missing(family)
        known = limits_of(family)
        return family if known is None else known.with_limits(self.x)

    def improve(self, score: float, r: Array, scales: list[Scale]) -> tuple[float, list[Scale]]:
        """Let every column in turn leave the group, or change its scale, where that is better."""
        for j, member in enumerate(self.members):
            others: list[Scale] = ["own", "real", *(["log"] if member.positive else [])]  # type: ignore[list-item]
            for scale in others:
                changed = [*scales[:j], scale, *scales[j + 1 :]]
                if scale == scales[j] or sum(each != "own" for each in changed) < 2:
                    continue
                found, responsibilities = self.fit(changed, r, FEW_STEPS)
                if found > score + MARGIN:
                    score, r, scales = found, responsibilities, changed
        return score, scales


def _sample(members: Sequence[Member]) -> Array:
    """Rows of the members' columns, complete ones if there are enough."""
    columns = [member.facts.cells for member in members if member.facts.cells is not None]
    x = np.column_stack(columns) if columns else np.empty((0, 0))
    x = np.where(np.isfinite(x), x, np.nan)
    missing = np.isnan(x)
    complete = x[~missing.any(axis=1)]
    if len(complete) >= ENOUGH_ROWS:
        return _some(complete, ROWS)
    return _some(x[~missing.all(axis=1)], INCOMPLETE_ROWS)


def _some(x: Array, number: int) -> Array:
    """Every so many of the rows."""
    return x[:: max(1, -(-len(x) // number))]


def _places(x: Array) -> Array:
    """The places from 0 to 1 of rows along the direction in which their ranks vary most."""
    ranks = np.zeros_like(x)
    for column, found in zip(x.T, ranks.T, strict=True):
        there = ~np.isnan(column)
        found[there] = (rankdata(column[there]) - 0.5) / max(there.sum(), 1) - 0.5
    direction = np.linalg.eigh(ranks.T @ ranks)[1][:, -1]
    return np.asarray((rankdata(ranks @ direction) - 0.5) / len(x))
