"""Gradients of components with latent factors: Sigma = L'L + diag(psi), psi = 1 / root^2.

With e = x - mu, the posterior mean z and covariance G of the factors, the residual r = e - L'z and
P = diag(root^2), Woodbury's identity gives the gradients of a log density

    Pr for mu,  (zr' - GL) P for L,  (1 - diag(L'GL) P) / root - root r^2 for the roots.

That of L is also the gradient of the expected complete log-likelihood, which is quadratic in a
column of L, with curvature A = zz' + G times an entry of P. So steps of L are divided by 1 +
epsilon P tr(A), and a batch of typical rows cannot overshoot. Because of outliers, no step of L is
longer than L.
"""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array
from mixfold.families.factor_analysis import FactorParams, spread
from mixfold.families.gaussian import LOG_2PI

AT_ONCE = 2**15  # loadings that are updated at once, so that intermediate results stay in the cache


class FactoredRows:
    """Log densities and gradients of rows for components with factors."""

    def __init__(self, means: Array, roots: Array, loadings: Array, x: Array) -> None:
        k, q, d = loadings.shape
        origin = means.mean(axis=0)
        self.means, self.roots, self.loadings = means, roots, loadings
        self.precision = np.square(roots)
        self.offset = means - origin
        # the memory layout of rows must not change the rounding of products
        self.centred = np.subtract(x, origin, order="C")
        self.square = np.square(self.centred)
        self.unknown = spread(FactorParams(means, loadings, 1.0 / self.precision))  # G
        slope = loadings * self.precision[:, None]
        shift = (slope @ self.offset[:, :, None])[:, :, 0]
        seen = (self.centred @ slope.reshape(k * q, d).T).reshape(len(x), k, q) - shift
        self._seen = seen.swapaxes(0, 1)  # LPe, (K, n, q)
        self.factors = self._seen @ self.unknown  # z

    def log_density(self) -> Array:
        """log N_k(x), (n, K)."""
        slope = self.precision * self.offset
        squares = self.square @ self.precision.T - 2.0 * (self.centred @ slope.T)
        squares += (slope * self.offset).sum(axis=1)
        squares -= (self._seen * self.factors).sum(axis=2).T
        logs = np.log(self.roots).sum(axis=1) + 0.5 * np.linalg.slogdet(self.unknown)[1]
        return np.asarray(logs - 0.5 * self.roots.shape[1] * LOG_2PI - 0.5 * squares)

    def follow(
        self, responsibilities: Array, epsilon: float, limits: tuple[float, float]
    ) -> dict[str, Array]:
        """Parameters after a gradient step; `responsibilities` are (n, K)."""
        means, roots, loadings = self.means.copy(), self.roots.copy(), self.loadings.copy()
        members = np.flatnonzero(responsibilities.any(axis=0))
        step = max(1, AT_ONCE // loadings[0].size)
        for some in (members[i : i + step] for i in range(0, len(members), step)):
            means[some], roots[some], loadings[some] = self._moved(
                some, responsibilities[:, some], epsilon
            )
        return {"means": means, "roots": np.clip(roots, *limits), "loadings": loadings}

    def _moved(
        self, some: np.ndarray, responsibilities: Array, epsilon: float
    ) -> tuple[Array, ...]:
        """The components `some` after the step; roots may leave their limits."""
        means, roots, loadings = self.means[some], self.roots[some], self.loadings[some]
        offset, precision = self.offset[some], self.precision[some]
        total, z = responsibilities.sum(axis=0), self.factors[some]
        weighted = responsibilities.T[:, :, None] * z
        sum_z, sum_zz = weighted.sum(axis=1), weighted.swapaxes(1, 2) @ z
        first = responsibilities.T @ self.centred
        k, n, q = z.shape
        sum_ze = weighted.swapaxes(1, 2).reshape(k * q, n) @ self.centred
        sum_ze = sum_ze.reshape(loadings.shape) - sum_z[:, :, None] * offset[:, None]
        sum_e = first - total[:, None] * offset
        sum_ee = responsibilities.T @ self.square - offset * (first + sum_e)
        explained = sum_zz @ loadings
        sum_rr = np.maximum(sum_ee + (loadings * (explained - 2.0 * sum_ze)).sum(axis=1), 0.0)
        sum_r = sum_e - (sum_z[:, None] @ loadings)[:, 0]
        rest = self.unknown[some] @ loadings
        known = precision * (loadings * rest).sum(axis=1)
        curvature = np.trace(sum_zz + total[:, None, None] * self.unknown[some], axis1=1, axis2=2)
        length = epsilon * precision / (1.0 + epsilon * precision * curvature[:, None])
        step = length[:, None] * (sum_ze - explained - total[:, None, None] * rest)
        return (
            means + epsilon * precision * sum_r,
            roots + epsilon * (total[:, None] * (1.0 - known) / roots - roots * sum_rr),
            loadings + no_longer_than(loadings, step),
        )


def no_longer_than(loadings: Array, step: Array) -> Array:
    """Steps of each component, shortened to at most the length of its loadings."""
    longest, length = (np.sqrt(np.square(a).sum(axis=(1, 2))) for a in (loadings, step))
    responsibilities = np.divide(longest, length, out=np.ones_like(length), where=length > longest)
    return np.asarray(step * responsibilities[:, None, None])
