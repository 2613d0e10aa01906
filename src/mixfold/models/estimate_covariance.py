"""From the information in free coordinates to the covariance of the parameters that users see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from mixfold.core.errors import unknown_name
from mixfold.core.rows import Array
from mixfold.families.scores import ShownParameter
from mixfold.models.estimates import Estimates, Labels
from mixfold.models.information import InformationSums, MixtureScores
from mixfold.models.mixture_model import MixtureParams

KINDS = ("observed", "empirical", "sandwich")
LEAST_SHARE = 1e-7  # of the information that rows would have if their components were known
TOUCHED = 1e-3  # the share of a parameter's own direction that is not identified


class Inverted(NamedTuple):
    """The inverse of an information matrix on the directions that are identified.

    `null` (p, r) are the others, and `lengths` (p,) the errors of single coordinates of rows with
    known components.
    """

    inverse: Array
    null: Array
    lengths: Array


def inverted(information: Array, complete: Array) -> Inverted:
    """The inverse of a matrix that may be singular.

    `complete` is the information (p,) of single coordinates if components were known; zero is none,
    as of a column without cells. Directions in which hardly any of it is left, or the curvature is
    negative, are not identified.
    """
    lengths = 1.0 / np.sqrt(np.where(complete > 0.0, complete, 1.0))
    shares, vectors = np.linalg.eigh(information * np.outer(lengths, lengths))
    known = shares > LEAST_SHARE
    some, null = vectors[:, known] * lengths[:, None], vectors[:, ~known] * lengths[:, None]
    return Inverted((some / shares[known]) @ some.T, null, lengths)


def shown_parameters(params: MixtureParams, scores: MixtureScores) -> list[ShownParameter]:
    """Weights and the parameters of the components."""
    k = len(params.weights)
    weights = ShownParameter(
        "weights",
        params.weights,
        np.arange(k),
        np.zeros((k, 0), dtype=np.intp),
        np.full(k, -1),
        "logit" if k > 1 else "identity",
        scores.weights_jacobian,
        np.zeros(k, dtype=bool),
    )
    return [weights, *scores.local.shown()]


def _jacobian(shown: list[ShownParameter], scores: MixtureScores) -> csr_array:
    """Derivatives of all parameters in the free coordinates, (m, n_free)."""
    parts = []
    for number, one in enumerate(shown):
        slopes, m = one.jacobian(), len(one.values)
        where = np.maximum(one.components, 0)[:, None] * scores.q + one.first
        where = where + np.arange(slopes.shape[1])
        if number == 0:  # the weights depend on the first free coordinates
            free = np.tile(np.arange(scores.n_weights), (m, 1))
        else:
            index = scores.local.index.ravel()[where]
            free = np.where(index < 0, -1, index + scores.n_weights)
        row, column = np.nonzero((free >= 0) & (slopes != 0.0))
        places = row, free[row, column]
        parts.append(csr_array((slopes[row, column], places), shape=(m, scores.n_free)))
    return csr_array(vstack(parts))


def estimates(sums: InformationSums, kind: str, labels: Labels, log_likelihood: float) -> Estimates:
    """Estimates with errors from the information of the rows that were summed."""
    if kind not in KINDS:
        raise unknown_name("kind", kind, [*KINDS, "bootstrap"])
    scores = sums.scores
    shown = shown_parameters(scores.params, scores)
    jacobian = _jacobian(shown, scores)
    values = np.concatenate([one.values for one in shown])
    errors, lost = np.zeros(len(values)), np.concatenate([one.limited for one in shown])
    unidentified = np.zeros(len(values), dtype=bool)
    blocks = []
    left_to_gain = 0.0
    for group, covariance, found in _covariances(sums, kind):
        some, slope = jacobian[:, group], sums.total[group]
        left_to_gain += 0.5 * float(slope @ found.inverse @ slope)
        entries = np.flatnonzero(np.diff(some.indptr))
        own = some[entries].toarray()
        block = own @ covariance @ own.T
        blocks.append((entries, block))
        errors[entries] = np.sqrt(np.maximum(np.diagonal(block), 0.0))
        unidentified[entries] = _touched(own, found)
    errors[lost | unidentified] = np.nan
    names = [labels.name(one, entry) for one in shown for entry in range(len(one.values))]
    return Estimates(
        names=names,
        values=values,
        errors=errors,
        kind=kind,
        n_rows=sums.n,
        log_likelihood=log_likelihood,
        left_to_gain=left_to_gain,
        by_component=not scores.together,
        not_identified=[names[i] for i in np.flatnonzero(unidentified)],
        blocks=blocks,
        shown=shown,
        labels=labels,
    )


def _covariances(
    sums: InformationSums, kind: str
) -> Iterator[tuple[NDArray[np.intp], Array, Inverted]]:
    """Every group of coordinates with its covariance and the inverse of its information."""
    outer, complete = sums.empirical(), sums.complete()
    information = outer if kind == "empirical" else sums.observed()
    for group, one, square in zip(sums.scores.groups, information, outer, strict=True):
        found = inverted(one, complete[group])
        middle = found.inverse @ square @ found.inverse
        yield group, middle if kind == "sandwich" else found.inverse, found


def _touched(jacobian: Array, found: Inverted) -> NDArray[np.bool_]:
    """Which parameters change in directions that are not identified."""
    change = np.linalg.norm(jacobian @ found.null, axis=1)
    return np.asarray(change > TOUCHED * np.linalg.norm(jacobian * found.lengths, axis=1))


def bootstrap_estimates(
    scores: MixtureScores,
    replicates: list[MixtureParams],
    kind: str,
    labels: Labels,
    n_rows: int,
    log_likelihood: float,
) -> Estimates:
    """Estimates with errors from the parameters of bootstrap samples."""
    shown, drawn = shown_parameters(scores.params, scores), []
    for params in replicates:
        parts = shown_parameters(params, MixtureScores(scores.model, params))
        drawn.append(np.concatenate([part.values for part in parts]))
    found = np.stack(drawn)
    covariance = np.cov(found.T).reshape(found.shape[1], -1)
    return Estimates(
        names=[labels.name(one, entry) for one in shown for entry in range(len(one.values))],
        values=np.concatenate([one.values for one in shown]),
        errors=np.sqrt(np.diagonal(covariance)),
        kind=kind,
        n_rows=n_rows,
        log_likelihood=log_likelihood,
        left_to_gain=0.0,
        by_component=False,
        not_identified=[],
        blocks=[(np.arange(found.shape[1]), covariance)],
        shown=shown,
        labels=labels,
        replicates=found,
    )
