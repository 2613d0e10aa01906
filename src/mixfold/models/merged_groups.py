"""Model-based hierarchical merging of small groups of rows."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array

PAIRS_TOGETHER = 2048  # whose losses are computed at a time
SMALLEST = -1000.0  # log-determinant of matrices that are singular within rounding


def merged(x: Array, weight: Array, labels: np.ndarray, k: int) -> np.ndarray:
    """Labels of K groups: those whose union loses the least likelihood are merged, one at a time.

    The loss is that of the classification likelihood of Gaussians with covariances of their own,
    n log |S| of the union less that of both parts. Every scatter counts the mean scatter within
    groups for d + 1 more rows, so that small groups have a determinant.

    Reference: Fraley (1998), Algorithms for model-based Gaussian hierarchical clustering.
    """
    labels = np.unique(labels, return_inverse=True)[1].reshape(-1)
    groups = _Groups(x, weight / weight.mean(), labels)
    for _ in range(len(groups.count) - k):
        groups.merge()
    return groups.label[labels]


class _Groups:
    """Moments of groups and the losses of all pairs."""

    def __init__(self, x: Array, weight: Array, labels: np.ndarray) -> None:
        number, d = int(labels.max()) + 1, x.shape[1]
        self.count = np.maximum(np.bincount(labels, weight, number), 1e-9)
        sums = np.stack([np.bincount(labels, weight * column, number) for column in x.T], axis=1)
        self.mean = sums / self.count[:, None]
        away = x - self.mean[labels]
        self.scatter = np.empty((number, d, d))
        for i in range(d):
            for j in range(i + 1):
                products = np.bincount(labels, weight * away[:, i] * away[:, j], number)
                self.scatter[:, i, j] = self.scatter[:, j, i] = products
        self.label = np.arange(number)
        within = self.scatter.sum(axis=0) / self.count.sum()
        self.extra = d + 1.0
        self.prior = self.extra * (within + 1e-6 * np.eye(d) * max(np.trace(within) / d, 1e-12))
        self.value = self._values(self.count, self.scatter)
        self.loss = np.full((number, number), np.inf)
        one, other = np.tril_indices(number, -1)
        for pairs in np.array_split(np.arange(len(one)), 1 + len(one) // PAIRS_TOGETHER):
            self.loss[one[pairs], other[pairs]] = self._losses(one[pairs], other[pairs])

    def _values(self, count: Array, scatter: Array) -> Array:
        """(n + d + 1) log |S|."""
        total = count + self.extra
        covariance = (scatter + self.prior) / total[..., None, None]
        return np.asarray(total * _log_determinants(covariance))

    def _losses(self, one: int | np.ndarray, others: np.ndarray) -> Array:
        """What unions of one group, or of as many, with the others lose."""
        count = self.count[one] + self.count[others]
        delta = self.mean[others] - self.mean[one]
        part = self.count[one] * self.count[others] / count
        outer = part[:, None, None] * delta[:, :, None] * delta[:, None, :]
        scatter = self.scatter[one] + self.scatter[others] + outer
        return np.asarray(self._values(count, scatter) - self.value[one] - self.value[others])

    def merge(self) -> None:
        """Merge the pair with the least loss; the last group takes the place that is freed."""
        number = len(self.count)
        i, j = divmod(int(self.loss.argmin()), number)  # j < i
        total = self.count[i] + self.count[j]
        delta = self.mean[i] - self.mean[j]
        part = self.count[i] * self.count[j] / total
        self.scatter[j] += self.scatter[i] + part * np.outer(delta, delta)
        self.mean[j] += self.count[i] / total * delta
        self.count[j] = total
        self.label[self.label == i] = j
        last = number - 1
        if i != last:
            self.label[self.label == last] = i
            for moments in (self.count, self.mean, self.scatter, self.value):
                moments[i] = moments[last]
            row = self.loss[last, :last].copy()
            self.loss[i, :i], self.loss[i + 1 : last, i] = row[:i], row[i + 1 :]
        self.count, self.mean = self.count[:last], self.mean[:last]
        self.scatter, self.value = self.scatter[:last], self.value[:last]
        self.loss = self.loss[:last, :last]
        self.value[j] = self._values(self.count[j : j + 1], self.scatter[j : j + 1])[0]
        losses = self._losses(j, np.delete(np.arange(last), j))
        self.loss[j, :j], self.loss[j + 1 :, j] = losses[:j], losses[j:]


def _log_determinants(matrices: Array) -> Array:
    """log |S| of positive definite matrices (..., d, d)."""
    d = matrices.shape[-1]
    if d == 1:
        return np.log(matrices[..., 0, 0])
    if d == 2:
        a, b, c = matrices[..., 0, 0], matrices[..., 0, 1], matrices[..., 1, 1]
        return np.asarray(np.log(np.maximum(a * c - b * b, 1e-300)))
    return np.asarray(np.maximum(np.linalg.slogdet(matrices)[1], SMALLEST))
