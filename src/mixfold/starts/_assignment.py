"""From responsibilities, labels or centres to parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.rows import Array, Rows
from mixfold.core.source import block_length
from mixfold.core.statistics import Statistics, pack
from mixfold.core.value import field_names
from mixfold.families._factor_analysis import principal
from mixfold.families.gaussian import Gaussian
from mixfold.models.mixture_model import MixtureModel, MixtureParams

MEAN_SHRINKAGE = 0.2
ENOUGH_FOR_CENTERS = 5000


def statistics_of(model: MixtureModel, rows: Rows, responsibilities: Array) -> Statistics:
    """Statistics of rows under given responsibilities (n, K)."""
    x = rows.x.astype(np.float64, copy=False)
    r = responsibilities if rows.weight is None else responsibilities * weights_of(rows)[:, None]
    weight = r.sum(axis=0)
    hidden = np.zeros(model.family.hidden)
    mean = np.tile(np.append(r.sum(axis=1) @ x / weight.sum(), hidden), (model.k, 1))
    scatter = np.zeros((model.k, model.n_products))
    for k in np.flatnonzero(weight):
        held = np.flatnonzero(r[:, k])
        share, own = r[held, k] / weight[k], x[held]
        centre = share @ own
        mean[k] = np.append(centre, hidden)
        scatter[k] = _scatter(model.family, own - centre, share)
    return Statistics(weight, mean, scatter, float(weight.sum()), 0.0)


def _scatter(family: Family, centred: Array, share: Array) -> Array:
    if family.scatter == "none":
        return np.empty(0)
    if family.scatter == "diag":
        return np.asarray(share @ np.square(centred))
    if family.scatter == "factor":
        return principal(centred, share, family.hidden)
    return pack((share[:, None] * centred).T @ centred)


def from_labels(
    model: MixtureModel, rows: Rows, labels: np.ndarray, pull: float = 0.0
) -> MixtureParams:
    """The maximiser of the groups that labels make, small ones shrunk towards the whole.

    A group of n rows in d columns keeps n / (n + d + 1) of its own scatter, so that groups of
    one row have a sensible size. Means move a share `pull` of the way to the common mean. Rows
    are counted by their weight in units of its mean, so that a common factor does not matter.
    """
    if rows.weight is not None:
        weight = weights_of(rows)
        rows = Rows(rows.x, weight / weight[weight > 0.0].mean())
    groups = statistics_of(model, rows, np.equal.outer(labels, np.arange(model.k)).astype(float))
    whole = statistics_of(replace(model, k=1), rows, np.ones((len(rows), 1)))
    own = (groups.weight / (groups.weight + model.d + 1.0))[:, None]
    scatter = own * groups.scatter + (1.0 - own) * whole.scatter
    weight = groups.weight + groups.count / (groups.count + model.k) / model.k
    mean = (1.0 - pull) * groups.mean + pull * whole.mean
    return model.maximize(Statistics(weight, mean, scatter, float(weight.sum()), 0.0))[0]


def from_centers(model: MixtureModel, rows: Rows, centers: Array) -> MixtureParams:
    """Parameters of the groups of rows nearest to each centre."""
    x = rows.x.astype(np.float64, copy=False)
    scale = model.family.scale(x, weights_of(rows))
    labels = model.family.divergence(x, centers, scale).argmin(axis=1)
    # a group of zeros would stay a point mass where the mean is the only parameter
    pull = MEAN_SHRINKAGE if model.family.scatter == "none" else 0.0
    params = from_labels(model, rows, labels, pull)
    empty = np.bincount(labels, minlength=model.k) == 0
    if not empty.any():
        return params
    statistics = model.expected(params)
    mean = statistics.mean.copy()
    mean[empty, : model.d] = centers[empty]
    return model.maximize(replace(statistics, mean=mean))[0]


def spread_centers(family: Family, k: int, rows: Rows, rng: np.random.Generator) -> Array:
    """K rows, each drawn with probability proportional to its divergence from those before.

    Of a few such draws the one that leaves the least divergence in all is taken, as scikit-learn
    does: a single draw too often puts two centres into one cluster.
    """
    if len(rows) > ENOUGH_FOR_CENTERS:
        chosen_rows = np.sort(rng.choice(len(rows), ENOUGH_FOR_CENTERS, replace=False))
        rows = Rows(rows.x[chosen_rows], weights_of(rows)[chosen_rows])
    # sorted, the draws depend neither on the order of rows nor on weight 2 against row twice
    order = np.lexsort(rows.x.T[::-1])
    x, weight = rows.x[order].astype(np.float64, copy=False), weights_of(rows)[order]
    scale = family.scale(x, weight)
    chosen = [_draw(weight, rng)]
    nearest = family.divergence(x, x[chosen], scale)[:, 0]
    for _ in range(k - 1):
        drawn = [_draw(weight * nearest, rng) for _ in range(2 + int(np.log(k)))]
        left = np.minimum(nearest[:, None], family.divergence(x, x[drawn], scale))
        best = int((weight @ left).argmin())
        chosen.append(drawn[best])
        nearest = left[:, best]
    return np.asarray(x[chosen])


def of_one_spread(model: MixtureModel, rows: Rows, centers: Array) -> MixtureParams:
    """Equal components but for their centres: all have the covariance of all rows."""
    if not isinstance(model.family, Gaussian):
        raise InvalidInputError(
            f"init draws means without regard to what {model.family!r} can have: use 'k-mle++'"
        )
    some = rows.cut(0, block_length(model.d))
    whole = statistics_of(MixtureModel(model.family, 1, model.d), some, np.ones((len(some), 1)))
    # two whose means are as far apart stand for all: K d numbers are many where d is large
    mean, scatter = (np.repeat(part, 2, axis=0) for part in (whole.mean, whole.scatter))
    mean[:, : model.d] = centers.mean(axis=0) + np.outer([-1.0, 1.0], centers.std(axis=0))
    two, _ = model.family.maximize(Statistics(np.full(2, 0.5), mean, scatter, 1.0, 0.0))
    number = 1 if model.family.covariance == "tied" else model.k
    parts = {
        name: np.repeat(getattr(two, name)[:1], number, axis=0)
        for name in field_names(two)
        if name != "means"
    }
    return MixtureParams(np.full(model.k, 1.0 / model.k), replace(two, means=centers, **parts))


def weights_of(rows: Rows) -> Array:
    """The weights; ones where none are given or none counts."""
    return rows.weight if rows.weight is not None and rows.weight.any() else np.ones(len(rows))


def _draw(mass: Array, rng: np.random.Generator) -> int:
    """An index with probability proportional to mass; uniform where all mass is zero."""
    largest = mass.max()
    if not (largest > 0 and np.isfinite(largest)):
        return int(rng.integers(len(mass)))
    cumulative = np.cumsum(mass / largest)
    return int(min(np.searchsorted(cumulative, rng.random() * cumulative[-1]), len(mass) - 1))
