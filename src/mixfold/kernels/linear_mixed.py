"""The E-step of the linear mixed-effects model in NumPy, all subjects of a tile at once.

Every quantity is an array over subjects, and operations on small matrices are loops over their
entries. So the result of a subject does not depend on the others, and a tile of thousands of
subjects takes a few hundred calls of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from mixfold.core.backend import Assignment
from mixfold.core.noise import uniforms
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import lower_triangle, pack
from mixfold.models.linear_mixed import LinearMixed, LinearMixedParams

SMALLEST_UNIFORM = 2.0**-54


class ScaledEffects(NamedTuple):
    """Parameters in the form of the E-step; `root` is the Cholesky factor of Omega over sigma."""

    beta: Array
    outer: Array  # weights of the packed A'A in beta'A'A beta
    root: Array
    variance: float


class Subjects(NamedTuple):
    """The moments of subjects, each entry an array over them."""

    aa: Array  # packed A'A
    ba: list[Array]  # rows of B'A
    bb: list[list[Array]]  # B'B
    ra: Array  # A'r
    rb: Array  # B'r
    rr: Array
    n: Array


class Posterior(NamedTuple):
    """log p(r), E[z] and a root F of the posterior covariance, Gamma = F'F."""

    log_density: Array
    mean: list[Array]
    root: list[list[Array]]


class LinearMixedKernel:
    """Gamma = (B'B / sigma^2 + Omega^-1)^-1, mu = Gamma B'(r - A beta) / sigma^2.

    With Omega = L L', C = L / sigma and M = I + C'B'B C = R R', nothing is divided by Omega:
    v = C'B'u / sigma, w = R^-1 v, mu = sigma C R^-T w, F = R^-1 L',
    log p = -(n log(2 pi sigma^2) + log det M + u'u / sigma^2 - w'w) / 2.
    """

    def __init__(self, model: LinearMixed) -> None:
        self.model = model

    def prepare(self, params: LinearMixedParams) -> ScaledEffects:
        """Convert parameters for the other methods, once for many blocks."""
        outer = np.outer(params.beta, params.beta)
        outer = pack(outer + np.tril(outer, -1))
        sigma = np.sqrt(params.noise_variance)
        root = np.asarray(np.linalg.cholesky(params.omega) / sigma, dtype=np.float64)
        return ScaledEffects(params.beta, outer, root, params.noise_variance)

    def expect(self, prepared: ScaledEffects, rows: Rows) -> Array:
        """The sums of one block of subjects."""
        subjects = self._subjects_of(rows.x)
        found = self._solve(prepared, subjects)
        weight = rows.weights()
        sums = self._sums(subjects, weight, weight, found.mean, second_moments(found))
        sums[0] = dot(found.log_density, weight)
        return sums

    def posterior(
        self, prepared: ScaledEffects, x: Array, expectations: bool = True
    ) -> tuple[Array, Array | None]:
        """log p(r_i) of every subject and, if wanted, its expectations."""
        found = self._solve(prepared, self._subjects_of(x))
        if not expectations:
            return found.log_density, None
        ones = np.ones(len(x))
        return found.log_density, np.stack([ones, *found.mean, *second_moments(found)], axis=1)

    def moments(self, prepared: ScaledEffects, rows: Rows, expectations: Array) -> Array:
        """The sums of subjects under given expectations, without likelihood."""
        one, *columns = np.ascontiguousarray(expectations.T, dtype=np.float64)
        q, weight = self.model.q, rows.weights()
        subjects = self._subjects_of(rows.x)
        return self._sums(subjects, weight * one, weight, columns[:q], columns[q:])

    def simulate(
        self, prepared: ScaledEffects, rows: Rows, assignment: Assignment
    ) -> tuple[Array, Array]:
        """log p(r_i) of every subject and the mean of draws of its latent variables."""
        q, draws = self.model.q, assignment.draws
        found = self._solve(prepared, self._subjects_of(rows.x))
        noise = uniforms(assignment.seed, assignment.first, len(rows), draws * q)
        normal = ndtri(np.maximum(noise, SMALLEST_UNIFORM))
        expectations = np.zeros((len(rows), self.model.n_expectations))
        for drawn in np.split(normal, draws, axis=1):
            z = [
                m + combine((row[i] for row in found.root), drawn.T)
                for i, m in enumerate(found.mean)
            ]
            expectations += np.stack([np.ones(len(rows)), *z, *products(z)], axis=1)
        return found.log_density, expectations / draws

    def information(self, prepared: ScaledEffects, rows: Rows) -> Array:
        """sum A'V^-1 A, the expected information of the fixed effects."""
        subjects, p = self._subjects_of(rows.x), self.model.p
        root, weight = self._solve(prepared, subjects).root, rows.weights()
        total = np.zeros((p, p))
        seen = [[combine(row, (ba[i] for ba in subjects.ba)) for i in range(p)] for row in root]
        for k, (i, j) in enumerate(np.stack(lower_triangle(p), axis=1)):
            explained = sum_of(row[i] * row[j] for row in seen) / prepared.variance
            total[i, j] = total[j, i] = dot(subjects.aa[k] - explained, weight)
        return total / prepared.variance

    def _subjects_of(self, x: Array) -> Subjects:
        p, q = self.model.p, self.model.q
        g = np.ascontiguousarray(x.T, dtype=np.float64)
        first = [i * (i + 1) // 2 for i in range(p + q + 2)]
        rows = [g[first[i] : first[i + 1]] for i in range(p, p + q + 1)]
        bb = [[rows[max(i, j)][p + min(i, j)] for j in range(q)] for i in range(q)]
        r = rows[q]
        return Subjects(
            g[: first[p]], [row[:p] for row in rows[:q]], bb, r[:p], r[p:-1], r[-1], g[-1]
        )

    def _solve(self, prepared: ScaledEffects, subjects: Subjects) -> Posterior:
        q, (beta, outer, root, variance) = self.model.q, prepared
        sigma = sqrt(variance)
        bu = [subjects.rb[i] - combine(beta, subjects.ba[i]) for i in range(q)]
        uu = subjects.rr - 2.0 * combine(beta, subjects.ra) + combine(outer, subjects.aa)
        v = [combine(root[j:, j] / sigma, bu[j:]) for j in range(q)]
        bc = [[combine(root[j:, j], subjects.bb[i][j:]) for j in range(q)] for i in range(q)]
        inner = [
            [combine(root[i:, i], (bc[h][j] for h in range(i, q))) for j in range(i + 1)]
            for i in range(q)
        ]
        for i in range(q):
            inner[i][i] = 1.0 + inner[i][i]
        tril = cholesky(inner)
        w = forward(tril, v)
        quadratic = np.maximum(uu, 0.0) / variance - sum_of(wi * wi for wi in w)
        half_determinant = sum_of(np.log(tril[i][i]) for i in range(q))
        constant = 0.5 * log(2.0 * pi * variance) + log(self.model.response_scale)
        log_density = -(subjects.n * constant + half_determinant + 0.5 * np.maximum(quadratic, 0.0))
        columns = [forward(tril, list(sigma * root[h, :, None])) for h in range(q)]
        gamma_root = [[columns[h][i] for h in range(q)] for i in range(q)]
        mean = [sum_of(columns[h][i] * w[i] for i in range(q)) for h in range(q)]
        return Posterior(log_density, mean, gamma_root)

    def _sums(
        self, subjects: Subjects, one: Array, weight: Array, z: list[Array], zz: list[Array]
    ) -> Array:
        """Sums of subjects; `one` is the weight of terms that do not depend on random effects."""
        bb = [subjects.bb[i][j] for i, j in np.stack(lower_triangle(self.model.q), axis=1)]
        weighted, moments = [weight * zk for zk in z], [weight * value for value in zz]
        parts: list[Any] = [
            [0.0, one.sum(), dot(subjects.n, one)],
            dots(subjects.aa, [one]),
            dots(bb, [one]),
            dots(subjects.ra, [one]),
            [dot(subjects.rr, one)],
            [dots([row[i] for row in subjects.ba], weighted) for i in range(self.model.p)],
            dots(subjects.rb, weighted),
            dots(bb, moments),
            [moment.sum() for moment in moments],
        ]
        return np.concatenate([np.ravel(part) for part in parts])


def dot(a: Array, b: Array) -> float:
    """A sum of products whose rounding does not depend on the threads of a BLAS."""
    return float(np.einsum("n,n->", a, b))


def dots(rows: Iterable[Array], columns: Sequence[Array]) -> Array:
    """`dot` of every row with every column."""
    return np.array([[dot(row, column) for column in columns] for row in rows])


def combine(weights: Iterable[Any], columns: Iterable[Array]) -> Array:
    """sum_j weights_j columns_j, in this order."""
    return sum_of(weight * column for weight, column in zip(weights, columns, strict=True))


def sum_of(terms: Iterable[Array]) -> Array:
    """The sum of arrays, in this order; zero if there are none."""
    total: Array = np.zeros(1)
    for i, term in enumerate(terms):
        if i == 0:
            total = term
        else:
            total += term
    return total


def cholesky(matrix: list[list[Array]]) -> list[list[Array]]:
    """The lower factor of matrices whose entries are arrays."""
    tril: list[list[Array]] = []
    for i, row in enumerate(matrix):
        done: list[Array] = []
        for j in range(i):
            rest = row[j] - combine(done[:j], tril[j][:j])
            done.append(rest / tril[j][j])
        done.append(np.sqrt(row[i] - sum_of(entry * entry for entry in done)))
        tril.append(done)
    return tril


def forward(tril: list[list[Array]], right: list[Array]) -> list[Array]:
    """tril^-1 right."""
    solved: list[Array] = []
    for i, row in enumerate(tril):
        solved.append((right[i] - combine(row[:i], solved)) / row[i])
    return solved


def products(z: list[Array]) -> list[Array]:
    """Entries of z z' in packed order."""
    return [z[i] * z[j] for i in range(len(z)) for j in range(i + 1)]


def second_moments(found: Posterior) -> list[Array]:
    """Entries of E[z z'] = mu mu' + F'F in packed order."""
    q = len(found.mean)
    return [
        found.mean[i] * found.mean[j] + sum_of(row[i] * row[j] for row in found.root)
        for i in range(q)
        for j in range(i + 1)
    ]
