"""Gradients of components by roots of their precisions D'D, D diagonal or upper triangular.

A cap bounds the diagonal of D: no column has a standard deviation, given the columns after it,
below that of the cap. If D is diagonal this bounds the precision, so that steps of length epsilon <
1 / cap cannot overshoot. If it is triangular the largest eigenvalue of D'D has no bound, and steps
are shortened to the length of an implicit step along the gradient. With e = x - mu and g = D'D e
they are divided by 1 + epsilon |Dg|^2 / |g|^2 for mu and by 1 + epsilon |e|^2 for D.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array
from mixfold.families.gaussian import LOG_2PI


class RootedRows:
    """Log densities and gradients of rows for components with roots of precisions."""

    def __init__(self, means: Array, roots: Array, x: Array) -> None:
        self.means, self.roots, self.x = means, roots, x

    def log_density(self) -> Array:
        """log N_k(x), (n, K)."""
        constant = np.log(diagonals(self.roots)).sum(axis=1) - 0.5 * self.x.shape[1] * LOG_2PI
        pairs = zip(self.means, self.roots, strict=True)
        squares = [np.square(whitened(self.x - mean, root)).sum(axis=1) for mean, root in pairs]
        return np.asarray(constant - 0.5 * np.stack(squares, axis=1))

    def follow(
        self, responsibilities: Array, epsilon: float, limits: tuple[float, float]
    ) -> dict[str, Array]:
        """Means and roots after a gradient step; `responsibilities` are (n, K)."""
        move = self._diagonal if self.roots.ndim == 2 else self._triangular
        means, roots = move(responsibilities, epsilon, limits)
        return {"means": means, "roots": roots}

    def _diagonal(
        self, responsibilities: Array, epsilon: float, limits: tuple[float, float]
    ) -> tuple[Array, Array]:
        means, roots, x = self.means, self.roots, self.x
        total = responsibilities.sum(axis=0)[:, None]
        first, second = responsibilities.T @ x, responsibilities.T @ np.square(x)
        step = first - total * means  # sum of responsibilities times (x - mean), and of its square
        square = second - 2.0 * means * first + total * np.square(means)
        new_means = means + epsilon * np.square(roots) * step
        new_roots = roots + epsilon * (total / roots - roots * square)
        return new_means, np.clip(new_roots, *limits)

    def _triangular(
        self, responsibilities: Array, epsilon: float, limits: tuple[float, float]
    ) -> tuple[Array, Array]:
        """The step for triangular roots, which is shortened: see the module docstring."""
        means, roots = self.means.copy(), self.roots.copy()
        for k in np.flatnonzero(responsibilities.sum(axis=0)):
            away, s, d = self.x - means[k], responsibilities[:, k], roots[k]
            total, diagonal = s.sum(), np.diagonal(d)
            gradient = d.T @ (d @ (s @ away))
            square = gradient @ gradient
            bent = np.square(d @ gradient).sum() / square if square > 0.0 else 0.0
            spread = s @ np.square(away).sum(axis=1)
            rise = np.diag(total / diagonal) - np.triu((s[:, None] * whitened(away, d)).T @ away)
            means[k] += epsilon / (1.0 + epsilon * total * bent) * gradient
            roots[k] += epsilon / (1.0 + epsilon * spread) * rise
            np.fill_diagonal(roots[k], np.clip(np.diagonal(d), *limits))
        return means, roots


def factors(roots: NDArray[np.floating]) -> Array:
    """Standard deviations, or lower Cholesky factors L of covariances: LL' = (D'D)^-1."""
    if roots.ndim == 2:
        return np.asarray(np.divide(1.0, roots, dtype=np.float64))
    diagonal = diagonals(roots)
    inverse = np.linalg.inv(roots / diagonal[:, :, None]) / diagonal[:, None, :]
    _, upper = np.linalg.qr(np.triu(inverse).swapaxes(1, 2))
    signs = np.sign(np.diagonal(upper, axis1=1, axis2=2))
    return np.tril(upper.swapaxes(1, 2) * signs[:, None, :])


def diagonals(roots: NDArray[np.floating]) -> Array:
    """The diagonals of D, (K, d)."""
    found = roots if roots.ndim == 2 else np.diagonal(roots, axis1=1, axis2=2)
    return found.astype(np.float64)


def whitened(away: Array, root: Array) -> Array:
    """D e for every row e."""
    return away * root if root.ndim == 1 else away @ root.T
