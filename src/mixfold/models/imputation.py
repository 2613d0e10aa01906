"""Missing cells filled from a fitted mixture."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.rows import Array
from mixfold.families import conditional_cells
from mixfold.models.conditioning import check_values, incomplete, responsibilities
from mixfold.models.mixture_model import MixtureModel, MixtureParams

METHODS = ("mean", "mode", "draw")


def impute(
    model: MixtureModel,
    params: MixtureParams,
    x: NDArray[Any],
    method: Literal["mean", "mode", "draw"] | str = "mean",
    rng: np.random.Generator | None = None,
) -> NDArray[Any]:
    """Rows whose missing cells (NaN) are filled from what is observed of the row.

    Observed cells, and so rows without missing cells, are returned to the bit. A row of which
    nothing is observed is filled from the mixture as a whole.

    Parameters
    ----------
    model, params : the mixture
    x : array (n, d)
        Rows, in which NaN is a missing cell.
    method : {"mean", "mode", "draw"}, default="mean"
        "mean" is the conditional mean given the observed cells, over all components. Means of
        counts are not rounded. Categories get their most probable level, angles their mean
        direction.
        "mode" takes the component that is most probable given the observed cells, and its
        conditional mean, level or direction; where values are whole numbers, it is rounded. All
        values of a row are then of one component, and in the support.
        "draw" draws a component from the responsibilities, and the missing cells from its
        conditional distribution. Several draws are multiple imputations, whose differences show
        how uncertain the missing values are.
    rng : numpy.random.Generator, optional
        For "draw"; a new one with an unpredictable seed if it is not given.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold.families.gaussian import Gaussian, GaussianParams
    >>> from mixfold.models.imputation import impute
    >>> from mixfold.models.mixture_model import MixtureModel, MixtureParams
    >>> means, scale = np.array([[0.0, 1.0], [9.0, 5.0]]), np.ones((2, 2))
    >>> params = MixtureParams(np.array([0.5, 0.5]), GaussianParams(means, scale))
    >>> impute(MixtureModel(Gaussian("diag"), 2, 2), params, np.array([[9.0, np.nan]])).round(3)
    array([[9., 5.]])

    References
    ----------
    Little and Rubin (2019), Statistical analysis with missing data.
    """
    if method not in METHODS:
        raise unknown_name("method", str(method), METHODS)
    given = np.asarray(x)
    if not np.issubdtype(given.dtype, np.floating):
        given = given.astype(np.float64)
    observed = incomplete(model)
    check_values(observed, given)
    found, gaps = given.copy(), np.isnan(given).any(axis=1)
    if gaps.any():
        rows = given[gaps].astype(np.float64)
        full = _filled(observed, params, rows, method, rng)
        found[gaps] = np.where(np.isnan(rows), full, given[gaps])
    return found


def _filled(
    model: MixtureModel,
    params: MixtureParams,
    rows: Array,
    method: str,
    rng: np.random.Generator | None,
) -> Array:
    family, components = model.family, params.components
    r = responsibilities(model, params, rows)
    if method == "draw":
        rng = np.random.default_rng() if rng is None else rng
        labels = model.draw(r, rng.random(len(rows))).argmax(axis=1)
        return conditional_cells.sample_cells(family, components, rows, labels, rng)
    r = model.mode(r) if method == "mode" else r
    full = conditional_cells.expected_cells(family, components, rows, r)
    if not np.isfinite(full).all():
        column = int(np.flatnonzero(~np.isfinite(full).all(axis=0))[0])
        raise InvalidInputError(
            f"column {column} has no finite mean in some component: use method='draw'"
        )
    if method == "mode":
        whole = [support.whole for support in family.supports(model.d)]
        full = np.where(whole, np.rint(full), full)
    return full
