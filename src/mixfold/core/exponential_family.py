"""The base class of exponential families."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from mixfold.core.capabilities import IdentityKernel, KernelTerm
from mixfold.core.family import groups
from mixfold.core.params import ParamsT
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks
from mixfold.core.weighted_means import WeightedMeans


class ExponentialFamily(WeightedMeans[ParamsT]):
    """log p(x|k) = <eta_k, t(x)> - A(eta_k) + log h(x), for k = 1..K at once.

    Abstract methods are the sufficient statistics t, the base measure h, the natural parameters
    eta, the log-normaliser A, its gradient (the mean of t), the maximum-likelihood estimate, and
    sampling. All other methods have defaults that follow from these, and can be overridden by
    better ones, such as moments about means.
    """

    # the mathematics

    @abstractmethod
    def n_statistics(self, d: int) -> int:
        """Length p of t(x) for rows of d columns."""

    @abstractmethod
    def sufficient_statistics(self, x: Array) -> Array:
        """t(x), (n, p)."""

    @abstractmethod
    def log_base_measure(self, x: Array) -> Array:
        """log h(x), (n,)."""

    @abstractmethod
    def to_natural(self, params: ParamsT) -> Array:
        """eta, (K, p)."""

    @abstractmethod
    def log_normalizer(self, eta: Array) -> Array:
        """A(eta), (K,)."""

    @abstractmethod
    def mean(self, params: ParamsT) -> Array:
        """E[t(x)] = grad A(eta), (K, p)."""

    # from rows to blocks and back

    def sums(self, params: ParamsT, x: Array, responsibilities: Array) -> Array:
        """The table of sums (K, n_sums) of rows with responsibilities (n, K) of any sign."""
        t = np.ascontiguousarray(self.sufficient_statistics(x))
        weighted = responsibilities.T[:, :, None] * t
        return np.hstack([responsibilities.sum(axis=0)[:, None], weighted.sum(axis=1)])

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        """Blocks of rows with responsibilities (n, K), which must not be negative.

        No parameters are needed: this is for initializers. A component without rows gets the mean
        of all rows.
        """
        t = self.sufficient_statistics(x)
        weight = responsibilities.sum(axis=0)
        mean = np.tile(responsibilities.sum(axis=1) @ t / weight.sum(), (len(weight), 1))
        for k, members, normalized in groups(responsibilities, weight):
            mean[k] = normalized @ t[members]
        return (Block.of_means(weight, mean),)

    def expected(self, params: ParamsT, weights: Array) -> Blocks:
        """The blocks whose maximiser is `params`; `weights` are (K,)."""
        return (Block.of_means(weights.copy(), self.mean(params).copy()),)

    # derived methods, which can be overridden

    def log_density(self, params: ParamsT, x: Array) -> Array:
        """log p(x|k), (n, K)."""
        eta = self.to_natural(params)
        linear = self.sufficient_statistics(x) @ eta.T
        return np.asarray(linear - self.log_normalizer(eta) + self.log_base_measure(x)[:, None])

    def symmetric_kl(self, a: ParamsT, b: ParamsT) -> Array:
        """KL(a_i, b_j) + KL(b_j, a_i) = <eta_i - eta_j, mean_i - mean_j>, (K, K)."""
        eta = self.to_natural(a)[:, None] - self.to_natural(b)[None]
        mean = self.mean(a)[:, None] - self.mean(b)[None]
        return np.asarray((eta * mean).sum(axis=2))

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """Divergence (n, c) of rows from centres, for initializers; `weight` is that of the rows.

        The Bregman divergence of the dual log-normaliser: the log density of a row where its mean
        parameter is t(x), less where it is t(c).
        """
        t = self.sufficient_statistics(x)
        own, other = (self._at_means(s) for s in (t, self.sufficient_statistics(centers)))
        best = (t * own).sum(axis=1) - self.log_normalizer(own)
        return np.asarray(best[:, None] - (t @ other.T - self.log_normalizer(other)))

    def _at_means(self, t: Array) -> Array:
        """Natural parameters of components with these means, or as close as possible."""
        params, _ = self.maximize((Block.of_means(np.ones(len(t)), t),))
        return self.to_natural(params)

    # a factor of a product in the compiled kernel

    @property
    def has_linear_form(self) -> bool:
        """Whether densities and sums are those of t(x), and not computed in a way of their own."""
        own, plain = type(self), ExponentialFamily
        return own.sums is plain.sums and own.log_density is plain.log_density

    def kernel_term(self, params: ParamsT) -> KernelTerm | None:
        """The linear form, if the family has it."""
        if not self.has_linear_form:
            return None
        eta = self.to_natural(params)
        coefficients = np.empty((len(eta), 1 + eta.shape[1]))
        coefficients[:, 0], coefficients[:, 1:] = -self.log_normalizer(eta), eta
        if isinstance(self, IdentityKernel):
            return KernelTerm("linear", coefficients, base_measure=self.base_measure)
        return KernelTerm("linear", coefficients, transformed=True, base_measure="own")

    def kernel_values(self, x: Array) -> Array:
        return self.sufficient_statistics(x)

    def n_parameters(self, k: int, d: int) -> int:
        """Free parameters of K components."""
        return k * self.n_statistics(d)

    def sort_keys(self, params: ParamsT) -> Array:
        return self.mean(params)
