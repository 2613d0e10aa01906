"""Expectations of a logistic mixed model."""

from __future__ import annotations

from mixfold.core.backend import Assignment
from mixfold.core.rows import Array, Rows
from mixfold.kernels._quadrature import quadrature
from mixfold.kernels.simulation import SimulationKernel, Summary, summary
from mixfold.models.logistic_mixed import LogisticMixed, LogisticMixedParams


class LogisticMixedKernel(SimulationKernel):
    """Statistics of (y, z), averaged over quadrature points of z, or over draws.

    Quadrature is for models with few random effects; its result does not depend on a seed.
    """

    model: LogisticMixed

    def posterior(
        self, params: LogisticMixedParams, x: Array, responsibilities: bool = True
    ) -> tuple[Array, Array | None]:
        """log p(y) of every subject and, if wanted, its expected statistics."""
        if not self.model.has_quadrature:
            return super().posterior(params, x, responsibilities)
        target = self.model.conditional(params, x)
        nodes = quadrature(target, self.model.n_points)
        if not responsibilities:
            return nodes.log_density, None
        return nodes.log_density, target.mean_statistics(nodes.z, nodes.weight)

    def expect(self, params: LogisticMixedParams, rows: Rows) -> Array:
        """The sums of subjects, with their likelihood."""
        log_density, expectations = self.posterior(params, rows.x)
        assert expectations is not None
        sums = self.moments(params, rows, expectations)
        sums[0] = rows.weights() @ log_density
        return sums

    def summarize(self, params: LogisticMixedParams, rows: Rows, assignment: Assignment) -> Summary:
        """Results of quadrature where there are few effects, else of draws."""
        if not self.model.has_quadrature:
            return super().summarize(params, rows, assignment)
        target = self.model.conditional(params, rows.x)
        nodes = quadrature(target, self.model.n_points)
        return summary(self.model, params, target, rows.weights(), *nodes)
