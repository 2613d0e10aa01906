"""Hierarchical merging of the components of a mixture by the entropy of responsibilities.

Reference: Baudry, Raftery, Celeux, Lo and Gottardo (2010), Combining mixture components for
clustering, Journal of Computational and Graphical Statistics 19, 332-353.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array

NEGLIGIBLE = 1e-15  # all responsibilities but one of rows whose entropy is nearly zero

Weighted = tuple[Array, Array]
"""Responsibilities (n, K) of some rows, and the weights (n,) of these rows."""


class Merges(NamedTuple):
    """Which clusters were merged, and the entropies with K, K - 1, ..., 1 clusters.

    A pair (i, j), i < j, are the numbers of two clusters before the merge; afterwards their union
    has number i, and the clusters after j have numbers that are smaller by one.
    """

    pairs: np.ndarray
    entropies: Array
    n_passes: int


class KeptRows:
    """Responsibilities of uncertain rows, as long as they fit into some bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.left = most_bytes
        self.parts: list[Weighted] = []

    @property
    def complete(self) -> bool:
        """Whether all uncertain rows were kept."""
        return self.left >= 0

    def add(self, r: Array, weight: Array) -> None:
        """Keep the uncertain ones of some rows."""
        if not self.complete:
            return
        uncertain = r.sum(axis=1) - r.max(axis=1) > NEGLIGIBLE
        part = r[uncertain], weight[uncertain]
        self.left -= part[0].nbytes + part[1].nbytes
        self.parts = [*self.parts, part] if self.complete else []


def merge_components(
    read: Callable[[], Iterable[Weighted]], k: int, most_bytes: int, rereadable: bool = True
) -> Merges:
    """Merge the two clusters whose union lowers the entropy most, until there is one cluster.

    The entropy with clusters C is -sum_i w_i sum_c t_ic log t_ic, where t_ic are the
    responsibilities of the components in c, added. `read` reads all rows. Responsibilities of
    uncertain rows are kept if they fit into `most_bytes`, so that rows are read once; otherwise
    they are read again for every merge but the last.
    """
    kept, gains, own, n_passes = KeptRows(most_bytes), np.zeros((k, k)), np.zeros(k), 1
    for r, weight in read():
        kept.add(r, weight)
        own += weight @ xlogy(r, r)
        for i in range(k - 1):
            gains[i, i + 1 :] += gains_with(r[:, i], r[:, i + 1 :], weight)
    if not kept.complete and k > 2 and not rereadable:
        raise InvalidInputError(
            "X can be read only once, and the responsibilities of its rows do not fit into "
            f"{most_bytes // 2**20} MiB: give an array, a table or files, or a sample of the rows"
        )
    members, pairs, entropies = np.eye(k), [], [-float(own.sum())]
    gains[np.tril_indices(k)] = -np.inf
    while len(gains) > 1:
        i, j = divmod(int(gains.argmax()), len(gains))
        pairs.append((i, j))
        entropies.append(max(entropies[-1] - float(gains[i, j]), 0.0))
        members = after_merge(members, i, j)
        gains = np.delete(np.delete(gains, j, axis=0), j, axis=1)
        if len(gains) == 1:
            break
        n_passes += not kept.complete
        _renew(gains, i, _merged(kept.parts if kept.complete else read(), members))
    return Merges(np.array(pairs, dtype=np.intp).reshape(-1, 2), np.array(entropies), n_passes)


def gains_with(one: Array, others: Array, weight: Array) -> Array:
    """By how much the entropy falls if a cluster is merged with each of the others."""
    union = one[:, None] + others
    apart = xlogy(one, one)[:, None] + xlogy(others, others)
    return np.asarray(weight @ (xlogy(union, union) - apart))


def after_merge(members: Array, i: int, j: int) -> Array:
    """Columns of clusters after cluster j was added to cluster i."""
    union = members.copy()
    union[:, i] += union[:, j]
    return np.delete(union, j, axis=1)


def _merged(parts: Iterable[Weighted], members: Array) -> Iterator[Weighted]:
    return ((r @ members, weight) for r, weight in parts)


def _renew(gains: Array, i: int, parts: Iterable[Weighted]) -> None:
    """Compute the gains of merges with cluster i anew, in place."""
    others = np.delete(np.arange(len(gains)), i)
    found = np.zeros(len(others))
    for t, weight in parts:
        found += gains_with(t[:, i], t[:, others], weight)
    gains[np.minimum(i, others), np.maximum(i, others)] = found


def cluster_labels(pairs: np.ndarray, n_clusters: int) -> np.ndarray:
    """The cluster of every component (K,) when so many clusters are left."""
    members = np.eye(len(pairs) + 1)
    for i, j in pairs[: len(pairs) + 1 - n_clusters]:
        members = after_merge(members, i, j)
    return np.asarray(members.argmax(axis=1))


def change_point(entropies: Array) -> int:
    """The number of clusters at which the slope of the entropy changes.

    `entropies` are those of 1, 2, ..., K clusters. Two straight lines are fitted to them by least
    squares, which share the point c; c is that of the smallest sum of squares. With fewer than
    three clusters there is nothing to fit, and it is K.
    """
    number = np.arange(1.0, len(entropies) + 1.0)
    if len(number) < 3:
        return len(number)
    losses = [
        _squares(number[: c + 1], entropies[: c + 1]) + _squares(number[c:], entropies[c:])
        for c in range(1, len(number) - 1)
    ]
    return 2 + int(np.argmin(losses))


def _squares(x: Array, y: Array) -> float:
    """The sum of squared residuals of a straight line."""
    x, y = x - x.mean(), y - y.mean()
    residuals = y - x * (x @ y) / (x @ x)
    return float(residuals @ residuals)
