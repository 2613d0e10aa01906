"""The E-step of mixtures of factor analysers: a few large products in BLAS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixfold.core.backend import Model
from mixfold.core.capabilities import LowRank, LowRankKernel
from mixfold.core.rows import Array, Rows
from mixfold.families.factor_analysis import Moments, Posterior, packed, posterior
from mixfold.families.gaussian import LOG_2PI
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams

FAR = 2.0**20


class WhitenedFactors(NamedTuple):
    """Parameters, and the products that give all log densities of rows about `origin` at once."""

    params: MixtureParams
    components: LowRank
    known: Posterior
    origin: Array  # (d,)
    linear: Array  # (K q + K, d): W of every component, then P (mu - origin)
    shift: Array  # W (mu - origin), (K q,)
    constant: Array  # (K,)
    near: bool  # whether squares about the origin keep the digits of squares about the means


class FactorKernel(ReferenceKernel):
    """log p = const - (c'Pc - |Wc|^2) / 2, c = x - mu, expanded about an origin among the means.

    If a component is far from the others relative to its size, the expansion would lose digits, and
    rows are centred component by component. Sums are over rows with positive responsibility.
    """

    def __init__(self, model: MixtureModel) -> None:
        super().__init__(model)
        assert isinstance(model.family, LowRankKernel)
        self._family: LowRankKernel = model.family

    @staticmethod
    def supports(model: Model) -> bool:
        """Whether the kernel serves a model: a mixture whose components have factors."""
        return isinstance(model, MixtureModel) and isinstance(model.family, LowRankKernel)

    def prepare(self, params: MixtureParams) -> WhitenedFactors:
        """Convert parameters for the other methods, once for many blocks."""
        components = self._family.low_rank(params.components)
        known = posterior(components)
        origin = params.weights @ components.means
        offset = components.means - origin
        slope = known.precision * offset
        squares = (slope * offset).sum(axis=1)
        signal = np.square(components.loadings).sum(axis=1) * known.precision
        near = bool((squares + signal.sum(axis=1)).max() < FAR)
        logs = np.log(params.weights) - 0.5 * self.model.d * LOG_2PI - known.half_log_determinant
        k, q, d = known.reach.shape
        return WhitenedFactors(
            params,
            components,
            known,
            origin,
            np.concatenate([known.reach.reshape(k * q, d), slope]),
            (known.reach @ offset[:, :, None]).ravel(),
            logs - 0.5 * squares,
            near,
        )

    def log_joint(self, prepared: WhitenedFactors, x: Array) -> Array:
        """log w_k p(x | k), (n, K)."""
        if not prepared.near:
            return super().log_joint(prepared.params, x)
        k, q = prepared.known.reach.shape[:2]
        # the memory layout of rows must not change the rounding of products
        centred = np.subtract(x, prepared.origin, order="C", dtype=np.float64)
        products = centred @ prepared.linear.T
        reached = np.square(products[:, : k * q] - prepared.shift).reshape(len(x), k, q)
        joint = products[:, k * q :] + 0.5 * reached.sum(axis=2)
        joint -= 0.5 * (np.square(centred, out=centred) @ prepared.known.precision.T)
        return np.asarray(joint + prepared.constant)

    def moments(self, prepared: WhitenedFactors, rows: Rows, responsibilities: Array) -> Array:
        """The sums of a block under given responsibilities, of any sign, without likelihood."""
        responsibilities = responsibilities * rows.weights()[:, None]
        table = np.empty((self.model.k, self.model.family.n_sums(self.model.d)))
        for k, responsibility in enumerate(responsibilities.T):
            table[k] = self._component(prepared, k, rows.x, responsibility)
        return np.concatenate([[0.0], table.ravel()])

    def _component(
        self, prepared: WhitenedFactors, k: int, x: Array, responsibility: Array
    ) -> Array:
        """Weight, first and second moments of rows with positive responsibility of component k."""
        members = np.flatnonzero(responsibility)
        responsibility = responsibility[members]
        means = prepared.components.means[k]
        centred = np.subtract(x[members], means, order="C", dtype=np.float64)
        factors = centred @ prepared.known.beta[k].T
        weighted = np.column_stack([responsibility, responsibility[:, None] * factors])
        products, squares = weighted.T @ centred, weighted.T @ factors
        moments = Moments(
            (responsibility @ np.square(centred, out=centred))[None],
            products[None, 1:],
            squares[None, 1:],
        )
        return np.concatenate([[responsibility.sum()], products[0], squares[0], packed(moments)[0]])
