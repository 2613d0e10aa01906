"""Marginal and conditional distributions of fitted mixtures.

The columns are divided into two sets, o and m. Since

    p(x_o, x_m) = sum_k w_k p(x_o|k) p(x_m|x_o, k),

the distribution of x_m given x_o is a mixture too. Its weights are the responsibilities of the
components for x_o, and its components are the conditional distributions within each component.

Reference: Bishop (2006), Pattern recognition and machine learning, sections 2.3 and 9.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import LevelProbabilities
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.limits import LARGEST
from mixfold.core.rows import Array, Rows
from mixfold.families import conditional_cells
from mixfold.families.incomplete_rows import REMEDY, find_dependent, with_missing
from mixfold.models.mixture_model import SMALLEST_WEIGHT, MixtureModel, MixtureParams

MOST_DRAWN, LEAST_DRAWN = 256, 16  # rows of all components, and of each, that say what is usual


def marginal(
    model: MixtureModel, params: MixtureParams, columns: Sequence[int]
) -> tuple[MixtureModel, MixtureParams]:
    """The mixture of some of the columns, in the order that is given.

    Parameters
    ----------
    model, params : the mixture
    columns : sequence of int
        Numbers of columns, from 0 on. A product keeps the names of its columns; columns without
        names are numbered anew, from 0 on.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold.families.gaussian import Gaussian, GaussianParams
    >>> from mixfold.models.conditioning import marginal
    >>> from mixfold.models.mixture_model import MixtureModel, MixtureParams
    >>> means, scale = np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3))
    >>> params = MixtureParams(np.ones(1), GaussianParams(means, scale))
    >>> smaller, found = marginal(MixtureModel(Gaussian("diag"), 1, 3), params, [2, 0])
    >>> smaller.d, found.components.means
    (2, array([[2., 0.]]))
    """
    chosen = [_column(column, model.d) for column in columns]
    if not chosen:
        raise InvalidInputError("columns is empty: give the numbers of at least one column")
    if len(set(chosen)) < len(chosen):
        twice = next(column for column in chosen if chosen.count(column) > 1)
        raise InvalidInputError(f"columns has {twice} twice: give every column once")
    observed = incomplete(model)
    family, components = conditional_cells.marginal(observed.family, params.components, chosen)
    return _like(model, family, len(chosen)), MixtureParams(params.weights.copy(), components)


def conditional(
    model: MixtureModel, params: MixtureParams, given: Mapping[int, float]
) -> tuple[MixtureModel, MixtureParams]:
    """The mixture of the other columns, given the values of some.

    A weight is multiplied by the density of the given values in its component. Gaussians with
    covariances get conditional means and covariances; independent columns are unchanged.

    Parameters
    ----------
    model, params : the mixture
    given : mapping
        Values by the number of their column, from 0 on. The other columns keep their order.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold.families.gaussian import Gaussian, GaussianParams
    >>> from mixfold.models.conditioning import conditional
    >>> from mixfold.models.mixture_model import MixtureModel, MixtureParams
    >>> scale = np.linalg.cholesky([[[1.0, 0.5], [0.5, 1.0]]])
    >>> params = MixtureParams(np.ones(1), GaussianParams(np.zeros((1, 2)), scale))
    >>> _, found = conditional(MixtureModel(Gaussian(), 1, 2), params, {0: 2.0})
    >>> found.components.means.round(3), np.square(found.components.scale).round(3)
    (array([[1.]]), array([[[0.75]]]))
    """
    row = _row(model, given)
    observed = incomplete(model)
    check_values(observed, row[None])
    weights = np.maximum(responsibilities(observed, params, row[None])[0], SMALLEST_WEIGHT)
    family, components = conditional_cells.conditional(observed.family, params.components, row)
    found = MixtureParams(weights / weights.sum(), components)
    return _like(model, family, model.d - len(given)), found


def conditional_means(model: MixtureModel, params: MixtureParams, x: NDArray[Any]) -> Array:
    """Rows whose missing cells hold their conditional means given the observed ones.

    For every row, E[x_m | x_o] = sum_k p(k | x_o) E[x_m | x_o, k], a mixture of regressions. NaN
    marks the cells to predict; the others are returned as they are. A row of nothing but NaN gets
    the means of the mixture. Categories have no mean, and get the most probable level; angles get
    the mean direction; a mean that does not exist is infinite.
    """
    observed, rows = incomplete(model), np.asarray(x, dtype=np.float64)
    check_values(observed, rows)
    r = responsibilities(observed, params, rows)
    return conditional_cells.expected_cells(observed.family, params.components, rows, r)


def conditional_probabilities(
    model: MixtureModel, params: MixtureParams, x: NDArray[Any], column: int
) -> Array:
    """The probability of each level of a column of categories, given the other cells, (n, L).

    A value that the column has in `x` is left out; other cells may be NaN.
    """
    column, observed = _column(column, model.d), incomplete(model)
    family, own, place = conditional_cells.family_of_column(
        model.family.for_complete_rows(), params.components, column
    )
    if not isinstance(family, LevelProbabilities):
        raise InvalidInputError(
            f"column {column} has no categories, but {family!r}: use conditional_means"
        )
    rows = np.array(x, dtype=np.float64)
    check_values(observed, rows)
    rows[:, column] = np.nan
    r = responsibilities(observed, params, rows)
    return np.asarray(r @ family.level_probabilities(own)[:, place])


def contributions(model: MixtureModel, params: MixtureParams, x: NDArray[Any]) -> Array:
    """How much every cell contributes to the log density of its row, (n, d).

    It is the log density of the cell given the other observed cells of the row,
    log p(x_o) - log p(x_o without j): the lower, the more unusual is the value next to the others.
    NaN where the cell is missing. Contributions do not sum to the log density, unless columns are
    independent. The cost is that of d + 1 evaluations.
    """
    observed, rows = incomplete(model), np.asarray(x, dtype=np.float64)
    check_values(observed, rows)
    found, whole = np.full(rows.shape, np.nan), log_density(observed, params, rows)
    for j in range(model.d):
        there = np.flatnonzero(~np.isnan(rows[:, j]))
        without = rows[there]
        without[:, j] = np.nan
        found[there, j] = whole[there] - log_density(observed, params, without)
    return found


def unusualness(model: MixtureModel, params: MixtureParams, row: NDArray[Any]) -> Array:
    """By how many nats every cell of a row is less probable than usual, given the others, (d,).

    It is -log p(x_j | others) less its mean over rows drawn from the components that the others
    suggest, so that it does not depend on the units of columns. NaN where the cell is missing.
    """
    observed = incomplete(model)
    drawn, labels = _drawn_from_each(observed, params)
    drawn[:, np.isnan(row)] = np.nan
    found = -contributions(model, params, np.concatenate([row[None], drawn]))
    usual = np.zeros((model.k, model.d))
    for i in np.unique(labels):
        usual[i] = found[1:][labels == i].mean(axis=0)
    others = np.tile(row, (model.d, 1))
    np.fill_diagonal(others, np.nan)
    r = responsibilities(observed, params, others)
    return np.asarray(found[0] - (r * usual.T).sum(axis=1))


def _drawn_from_each(observed: MixtureModel, params: MixtureParams) -> tuple[Array, np.ndarray]:
    """Rows that are drawn from every component, always the same ones, and their components."""
    labels = np.repeat(np.arange(observed.k), max(MOST_DRAWN // observed.k, LEAST_DRAWN))
    family = observed.family.for_complete_rows()
    drawn = family.sample(params.components, labels, np.random.default_rng(0))
    usable = (np.abs(drawn) < LARGEST).all(axis=1)
    outside = observed.family.out_of_support(drawn)
    if outside is not None:  # draws may be rounded to a limit
        usable &= ~outside.any(axis=1)
    return drawn[usable], labels[usable]


def incomplete(model: MixtureModel) -> MixtureModel:
    """The mixture of rows with missing cells, which has the same parameters."""
    complete = model.family.for_complete_rows()
    refused = find_dependent(complete)
    if refused is not None:
        raise InvalidInputError(
            f"the distribution of some columns given others is not known in {refused.rows}, since "
            f"{refused.why}: use {REMEDY}"
        )
    return MixtureModel(with_missing(complete), model.k, model.d)


def log_density(model: MixtureModel, params: MixtureParams, x: Array) -> Array:
    """log p of the observed cells of every row."""
    from scipy.special import logsumexp

    return np.asarray(logsumexp(model.log_joint(params, x), axis=1))


def responsibilities(model: MixtureModel, params: MixtureParams, x: Array) -> Array:
    """The probability of every component given the observed cells of every row, (n, K)."""
    from scipy.special import softmax

    return np.asarray(softmax(model.log_joint(params, x), axis=1))


def check_values(model: MixtureModel, x: Array) -> None:
    """Refuse rows of another width, and values outside the support of their column."""
    Rows(x).check(model.d, missing=True)
    outside = model.family.out_of_support(x)
    if outside is not None and outside.any():
        i, j = np.argwhere(outside)[0]
        message = model.family.support_message_of(int(j))
        raise InvalidInputError(f"column {j} has the value {x[i, j]:g}: {message}")


def _like(model: MixtureModel, family: Family, d: int) -> MixtureModel:
    """The mixture of fewer columns, which accepts missing cells if the model does."""
    accepts = model.family.accepts_missing
    return MixtureModel(family if accepts else family.for_complete_rows(), model.k, d)


def _column(column: object, d: int) -> int:
    if not isinstance(column, Integral) or isinstance(column, bool) or not 0 <= int(column) < d:
        raise InvalidInputError(
            f"there is no column {column!r}: give whole numbers from 0 to {d - 1}"
        )
    return int(column)


def _row(model: MixtureModel, given: Mapping[int, float]) -> Array:
    """A row (d,) with the given values, NaN elsewhere."""
    row = np.full(model.d, np.nan)
    for column, number in given.items():
        if not isinstance(number, Real) or not np.isfinite(float(number)):
            raise InvalidInputError(
                f"the value of column {column!r} is {number!r}: give a finite number, or leave the "
                "column out if its value is not known"
            )
        row[_column(column, model.d)] = float(number)
    if np.isnan(row).all():
        raise InvalidInputError("given is empty: give the value of at least one column")
    if not np.isnan(row).any():
        raise InvalidInputError(
            f"given has values of all {model.d} columns: leave out those whose distribution is "
            "asked for"
        )
    return row
