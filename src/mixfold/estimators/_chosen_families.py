"""The choice of a family for every column of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixfold.core.data_limits import without_limits
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.core.value import replace
from mixfold.estimators._column_facts import DATES, FEW_VALUES, ColumnFacts, plain_number
from mixfold.estimators._column_likelihoods import likelihood
from mixfold.estimators._column_names import known_name
from mixfold.estimators._joined_columns import Member, can_join, chosen_scales, joint_family
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.beta import Beta
from mixfold.families.categorical import Categorical
from mixfold.families.factor import Factor, Name
from mixfold.families.gamma import Gamma
from mixfold.families.gaussian import Gaussian
from mixfold.families.log_normal import LogNormal
from mixfold.families.negative_binomial import NegativeBinomial
from mixfold.families.poisson import Poisson
from mixfold.families.product import Product
from mixfold.sources.table import listed

FEWEST_COUNTS = 5  # different whole numbers from zero on that are taken for counts
ROWS_PER_VALUE = 20  # rows in the sample for each of few real numbers
ROWS_PER_WHOLE = 5  # the same for whole numbers
MARGIN = 0.01  # nats per row by which others must be better than the first
NORMAL = Gaussian("diag")
YES_AND_NO = (False, True)
TEXT = "values that are not numbers"
FEW_NUMBERS, FEW_WHOLE = "few different numbers", "few whole numbers"
COUNTED = (TEXT, FEW_NUMBERS, FEW_WHOLE)  # reasons for levels
GIVEN = "as given"


class Choice(NamedTuple):
    """The family that was chosen for a column, the reason, and its levels if it is coded.

    `column` is a tuple if several columns have a joint distribution.
    """

    column: Any
    family: Family
    reason: str
    levels: tuple[Any, ...] | None = None

    def factor(self, other: bool) -> Factor:
        """The factor of a product; with `other`, one more level stands for all other values."""
        levels = self.levels
        columns = self.column if isinstance(self.column, tuple) else (self.column,)
        if not other or levels is None or levels is YES_AND_NO:
            return Factor(columns, self.family, None, levels)
        return Factor(columns, Categorical(len(levels) + 1), None, levels, True)


def choices_of(product: Product, reasons: Iterable[str]) -> list[Choice]:
    """The families and levels of a product, with the reasons why they were chosen."""
    found = []
    for factor, reason in zip(product.factors, reasons, strict=True):
        family = without_limits(factor.family).for_complete_rows()
        counted = factor.levels is not None and reason in COUNTED
        count = f", {_count(len(factor.levels or ()))} of them" if counted else ""
        found.append(Choice(factor.label, family, reason + count, factor.levels))
    return found


def _count(number: int) -> str:
    return "two" if number == 2 else str(number)


def choose(facts: ColumnFacts) -> Choice:
    """The family of a column, by what it holds and by the likelihood of a sample of its values."""
    name = facts.name
    if facts.levels is not None:
        return _of_levels(name, facts.levels, TEXT)
    if facts.holds == "yes and no":
        return Choice(name, Bernoulli(), "yes and no", YES_AND_NO)
    if facts.holds == DATES:
        return Choice(name, NORMAL, "dates, as days since 1970")
    return _of_any_numbers(facts)


def _of_any_numbers(facts: ColumnFacts) -> Choice:
    different = len(facts.distinct)
    if different == 2:
        return _of_numbers(facts, FEW_NUMBERS)
    if facts.whole:
        return _of_whole_numbers(facts)
    if different <= min(FEW_VALUES, len(facts.values) // ROWS_PER_VALUE):
        return _of_numbers(facts, FEW_NUMBERS)
    return _of_reals(facts)


def _of_levels(name: Any, levels: tuple[Any, ...], reason: str) -> Choice:
    family = Bernoulli() if len(levels) <= 2 else Categorical(len(levels))
    return Choice(name, family, reason, levels)


def _of_numbers(facts: ColumnFacts, reason: str) -> Choice:
    """Few numbers, whose probabilities are estimated one by one."""
    values = facts.distinct.tolist()
    if values == [0.0, 1.0]:
        return Choice(facts.name, Bernoulli(), "zeros and ones")
    levels = tuple(plain_number(value) for value in values)
    return _of_levels(facts.name, levels, reason)


def _of_whole_numbers(facts: ColumnFacts) -> Choice:
    values = facts.values
    few = len(facts.distinct) <= min(FEW_VALUES, len(values) // ROWS_PER_WHOLE)
    counts: dict[str, Family] = {
        "counts": Poisson(),
        "counts that vary more than Poisson's": NegativeBinomial(size=None),
    }
    if few:
        # counts that were not in the data may come later, levels may not
        if values.min() != 0.0 or len(facts.distinct) < FEWEST_COUNTS:
            return _of_numbers(facts, FEW_WHOLE)
        reason = _best(counts, values)
        return Choice(facts.name, counts[reason], reason)
    found: dict[str, Family] = {"whole numbers, most like normal distributions": NORMAL}
    reason = _best(found | counts if values.min() >= 0.0 else found, values)
    return Choice(facts.name, (found | counts)[reason], reason)


def _of_reals(facts: ColumnFacts) -> Choice:
    values = facts.values
    found: dict[str, Family] = {"real numbers": NORMAL}
    if values.min() > 0.0:
        found["positive and skewed, most like log-normal distributions"] = LogNormal()
        found["positive and skewed, most like gamma distributions"] = Gamma()
        if values.max() < 1.0:
            found["proportions"] = Beta()
    reason = _best(found, values)
    return Choice(facts.name, found[reason], reason)


def _best(found: Mapping[str, Family], values: Array) -> str:
    """The reason for the family whose mixtures describe the values best; the first if all alike."""
    scores = [likelihood(family, values) for family in found.values()]
    scores[0] += MARGIN
    return list(found)[int(np.argmax(scores))]


def chosen_product(
    facts: Sequence[ColumnFacts], overrides: Product | None, other: bool, groups: bool
) -> tuple[Product, tuple[str, ...]]:
    """The product of chosen families, and the reasons for its factors.

    Those in `overrides` take the place of chosen ones. With `groups`, columns that depend on one
    another may have a joint distribution.
    """
    names = [one.name for one in facts]
    given = [] if overrides is None else [_named(one, names) for one in overrides.factors]
    for factor in given:
        unknown = [name for name in factor.columns if name not in names]
        if unknown:
            raise InvalidInputError(
                f"overrides has a family of column {unknown[0]!r}, which the data do not have: "
                f"their columns are {listed(names)}"
            )
    taken = {name for factor in given for name in factor.columns}
    chosen = [(one, choose(one)) for one in facts if one.name not in taken]
    choices = _with_group(chosen) if groups else [choice for _, choice in chosen]
    factors = [choice.factor(other) for choice in choices]
    given = [_with_levels(factor, facts, other) for factor in given]
    reasons = [*(choice.reason for choice in choices), *(GIVEN for _ in given)]
    return Product((*factors, *given)), tuple(reasons)


def _named(factor: Factor, names: Sequence[Name]) -> Factor:
    """The factor with the names by which the model knows its columns."""
    return replace(factor, columns=tuple(known_name(name, names) for name in factor.columns))


def _with_group(chosen: Sequence[tuple[ColumnFacts, Choice]]) -> list[Choice]:
    """The choices, with one for all columns that have a joint distribution."""
    able = [Member(one, choice.family) for one, choice in chosen if can_join(one, choice.family)]
    scales = chosen_scales(able)
    choices = [choice for one, choice in chosen if one.name not in scales]
    if not scales:
        return choices
    logs = [str(name) for name, scale in scales.items() if scale == "log"]
    reason = "numbers that depend on one another within components"
    if logs:
        reason += f", {', '.join(logs)} on the logarithmic scale"
    return [*choices, Choice(tuple(scales), joint_family(list(scales.values())), reason)]


def with_levels(product: Product, facts: Sequence[ColumnFacts], other: bool) -> Product:
    """The product with the levels of columns that are not numeric."""
    return Product(tuple(_with_levels(factor, facts, other) for factor in product.factors))


def for_stream(product: Product, facts: Sequence[ColumnFacts], given: Product | None) -> Product:
    """The product before the first row of a stream, whose rows bring their levels one by one.

    Only levels that are known without the rows are there from the beginning.
    """
    known = {one.name: one.declared for one in facts}
    fixed = {name for factor in given.factors for name in factor.columns} if given else set()
    return Product(tuple(_for_stream(f, known, f.label in fixed) for f in product.factors))


def _for_stream(factor: Factor, known: Mapping[Any, tuple[Any, ...]], given: bool) -> Factor:
    if factor.levels is None or factor.levels is YES_AND_NO:
        return factor
    levels = known[factor.label]
    family = Categorical(max(len(levels), 2))
    if isinstance(factor.family, Bernoulli) or (len(levels) <= 2 and not given):
        return replace(factor, levels=levels, family=Bernoulli())
    return replace(factor, levels=levels, family=family)


def _with_levels(factor: Factor, facts: Iterable[ColumnFacts], other: bool) -> Factor:
    """The factor with the levels of its column, if its values are not numbers."""
    known: Mapping[Any, ColumnFacts] = {one.name: one for one in facts}
    coded = [name for name in factor.columns if name in known and known[name].levels is not None]
    if not coded:
        return factor
    family, found = factor.family, known[coded[0]].levels
    if len(factor.columns) > 1 or not isinstance(family, Categorical | Bernoulli):
        raise InvalidInputError(
            f"column {coded[0]!r} has values that are not numbers: use Categorical() or "
            f"Bernoulli(), not {family!r}"
        )
    assert found is not None
    number = len(found) + other
    if isinstance(family, Bernoulli) and number > 2:
        raise InvalidInputError(
            f"column {factor.label!r} has {number} levels and Bernoulli() two: use Categorical()"
        )
    if isinstance(family, Categorical):
        family = Categorical(max(number, 2))
    return replace(factor, family=family, levels=found, other=other)
