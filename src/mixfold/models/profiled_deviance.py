"""The deviance of linear mixed models as a function of the variances alone.

With V = sum_j Z_j Omega_j Z_j' + sigma^2 I for the grouping factors j, the fixed effects that are
best for given variances are those of generalised least squares, so that the deviance, minus twice
the log-likelihood, is

    log det V + r'V^-1 r + n log(2 pi),   r = y - A beta,   beta = C A'V^-1 y,   C = (A'V^-1 A)^-1,

and the restricted deviance is that less log det C + p log(2 pi).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log, pi
from typing import NamedTuple

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.statistics import unpack
from mixfold.models.gaussian_effects import Structure, entries

LEAST_LOG = -11.5  # of the deviation of the noise, in scaled data
GRADIENT = 1e-8  # largest slope at the minimum, relative to the deviance


class Moments(NamedTuple):
    """log det(V / sigma^2), and [A y]'(V / sigma^2)^-1 [A y]."""

    log_determinant: float
    gram: Array


class Variances(NamedTuple):
    """Factors L_j with Omega_j = L_j L_j', and the noise variance sigma^2."""

    roots: list[Array]
    noise: float


class Profiled(NamedTuple):
    """The deviance of variances, the best fixed effects, and their covariance C."""

    deviance: float
    beta: Array
    covariance: Array


@dataclass(frozen=True)
class ProfiledDeviance:
    """The deviance in the entries of L_1, L_2, ..., then log sigma.

    `moments` computes those of V / sigma^2 from the factors L_j / sigma, and `n` is the number of
    observations. Factors in `known`, and a noise variance that is given, are not coordinates.
    """

    moments: Callable[[list[Array]], Moments]
    n: float
    sizes: Sequence[int]
    restricted: bool
    structure: Structure = "full"
    known: Sequence[Array] | None = None
    noise: float | None = None

    def variances(self, coordinates: Array) -> Variances:
        """The variances at some coordinates."""
        noise = self.noise
        if noise is None:  # where rows are fitted exactly, the best variance is zero
            noise = exp(2.0 * min(max(coordinates[-1], LEAST_LOG), -LEAST_LOG))
        if self.known is not None:
            return Variances(list(self.known), noise)
        roots, first = [], 0
        for q in self.sizes:
            root, (i, j) = np.zeros((q, q)), entries(q, self.structure)
            root[i, j] = coordinates[first : first + len(i)]
            roots.append(root)
            first += len(i)
        return Variances(roots, noise)

    def coordinates(self, variances: Variances) -> Array:
        """The inverse of `variances`."""
        parts: list[Array] = []
        if self.known is None:
            parts += [root[entries(len(root), self.structure)] for root in variances.roots]
        if self.noise is None:
            parts.append(np.array([0.5 * log(variances.noise)]))
        return np.concatenate(parts) if parts else np.zeros(0)

    def profile(self, coordinates: Array) -> Profiled:
        """The deviance and the best fixed effects at some coordinates."""
        roots, noise = self.variances(coordinates)
        determinant, gram = self.moments([root / noise**0.5 for root in roots])
        p = len(gram) - 1
        inverse = np.asarray(np.linalg.inv(gram[:p, :p]))
        beta = inverse @ gram[:p, p]
        residual = max(float(gram[p, p] - gram[:p, p] @ beta), 0.0)
        deviance = determinant + self.n * log(2.0 * pi * noise) + residual / noise
        if self.restricted:
            information = float(np.linalg.slogdet(gram[:p, :p])[1])
            deviance += information - p * log(2.0 * pi * noise)
        return Profiled(deviance, beta, noise * inverse)

    def minimize(self, start: Array) -> tuple[Array, bool]:
        """Coordinates of the smallest deviance, and whether the slope there is zero."""
        from scipy.optimize import minimize

        if not len(start):
            return start, True
        tol = GRADIENT * max(abs(self.profile(start).deviance), 1e3)
        found = minimize(
            lambda x: self.profile(x).deviance,
            start,
            method="BFGS",
            jac="3-point",
            options={"gtol": tol},
        )
        # where rounding ends the search the slope may be a little larger than was asked for
        return np.asarray(found.x), bool(np.abs(found.jac).max() <= 100.0 * tol)


def eliminate(squares: Array, cross: Array, root: Array) -> tuple[Array, Array, Array]:
    """Cholesky factors of I + L'B'B L for groups of one factor, their log det, and R^-1 L'B'W.

    `squares` are B'B, (m, q, q), and `cross` are B'W, (m, q, c), for any other columns W.
    """
    inner = np.eye(len(root)) + root.T @ squares @ root
    tril = np.asarray(np.linalg.cholesky(inner), dtype=np.float64)
    log_determinant = 2.0 * np.log(np.diagonal(tril, axis1=1, axis2=2)).sum(axis=1)
    return tril, log_determinant, forward(tril, root.T @ cross)


def forward(tril: Array, right: Array) -> Array:
    """tril^-1 right for many small matrices at once, (m, q, q) and (m, q, c)."""
    solved = np.empty_like(right)
    for i in range(tril.shape[1]):
        rest = right[:, i].copy()
        for j in range(i):
            rest -= tril[:, i, j, None] * solved[:, j]
        solved[:, i] = rest / tril[:, i, i, None]
    return solved


def subject_moments(x: Array, weight: Array, p: int, root: Array) -> Moments:
    """The moments of subjects, the rows of `LinearMixed`, of which each counts `weight` times."""
    q = len(root)
    products = unpack(x[:, :-1], p + q + 1)
    rest = np.array([*range(p), p + q])
    effects = slice(p, p + q)
    _, logs, solved = eliminate(products[:, effects, effects], products[:, effects, rest], root)
    own = products[:, rest[:, None], rest] - solved.transpose(0, 2, 1) @ solved
    return Moments(float((weight * logs).sum()), (weight[:, None, None] * own).sum(axis=0))
