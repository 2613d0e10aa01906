"""Groups of rows that are close or equal in one column."""

from __future__ import annotations

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.models.assignment import from_groups, real_columns, weights_of
from mixfold.models.clustering import some_of
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.models.narrow_groups import split_by_values

ROWS, ROWS_PER_COMPONENT = 1500, 100  # that are divided, at most 3/4 of all
Division = tuple[np.ndarray, float]


@value
class NarrowGroups(Initializer[MixtureModel, MixtureParams]):
    """Rows are divided in two where it gains the most likelihood, until there are K groups.

    One part of a division has close or equal values of one column: columns of few values, of
    frequent ones or with narrow peaks are divided there. Some of the rows are taken, at random. The
    family must allow any real numbers.
    """

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        real_columns(model, "narrow-groups")
        most = max(ROWS, ROWS_PER_COMPONENT * model.k)
        rows = rows.where(weights_of(rows) > 0.0)
        some = some_of(rows, max(min(most, 3 * len(rows) // 4), min(model.k, len(rows))), rng)
        part = Rows(rows.x[some], weights_of(rows)[some])
        groups = [np.arange(len(part))]
        best = [_division(model, part, groups[0], rng)]
        while len(groups) < model.k:
            i = int(np.argmax([gain for _, gain in best]))
            inside, _ = best[i]
            groups[i : i + 1] = [groups[i][inside], groups[i][~inside]]
            best[i : i + 1] = [_division(model, part, group, rng) for group in groups[i : i + 2]]
        labels = np.empty(len(part), np.intp)
        for number, group in enumerate(groups):
            labels[group] = number
        return from_groups(model, part, labels)


def _division(
    model: MixtureModel, rows: Rows, group: np.ndarray, rng: np.random.Generator
) -> Division:
    """The best division of a group and what it gains, in nats; at random if none is found."""
    at_random, nothing = rng.permutation(len(group)) < len(group) // 2, float(len(group) > 1)
    if len(group) <= 2 * (model.d + 1):
        return at_random, nothing - len(rows)
    part = Rows(rows.x[group], rows.weights()[group])
    found = split_by_values(model, part, 1, rng)
    if not found:
        return at_random, nothing - len(rows)
    inside, likelihood = found[0]
    x, weight = part.x.astype(np.float64, copy=False), part.weights()
    one, _ = model.family.maximize(model.family.blocks_of(x, weight[:, None]))
    return inside, likelihood - float(weight @ model.family.log_density(one, x)[:, 0])
