"""The E-step in NumPy: readable, the oracle for every faster kernel, and the fallback."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.backend import Assignment, Model
from mixfold.core.backend_capabilities import Candidates
from mixfold.core.noise import uniforms
from mixfold.core.rows import Array, Rows
from mixfold.kernels.candidates import LastCandidates, candidates_of
from mixfold.models.annealed import Annealed, AnnealingOptions, anneal_batch
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.mixture_model import MixtureModel, MixtureParams

NEGLIGIBLE = 1e-30


class ReferenceKernel:
    """L = log w + log p(x|k); R = softmax(L); sums = R' t(x), as the family makes them."""

    def __init__(self, model: MixtureModel) -> None:
        self.model = model
        self._candidates = LastCandidates(lambda params: candidates_of(model, params))

    @staticmethod
    def supports(model: Model) -> bool:
        """Whether the kernel serves a model: it serves any mixture."""
        return isinstance(model, MixtureModel)

    def prepare(self, params: MixtureParams) -> Any:
        """Convert parameters for the other methods, once for many blocks."""
        return params

    def expect(self, prepared: Any, rows: Rows) -> Array:
        """The sums of one block of rows."""
        x = rows.x.astype(np.float64, copy=False)
        log_density, responsibilities = self.posterior(prepared, x)
        assert responsibilities is not None
        sums = self.moments(
            prepared, rows, np.where(responsibilities < NEGLIGIBLE, 0.0, responsibilities)
        )
        sums[0] = rows.weights() @ log_density
        return sums

    def moments(self, prepared: Any, rows: Rows, responsibilities: Array) -> Array:
        """The sums of a block under given responsibilities, of any sign, without likelihood."""
        x = rows.x.astype(np.float64, copy=False)
        responsibilities = responsibilities * rows.weights()[:, None]
        table = self.model.family.sums(prepared.components, x, responsibilities)
        return np.concatenate([[0.0], table.ravel()])

    def simulate(self, prepared: Any, rows: Rows, assignment: Assignment) -> tuple[Array, Array]:
        """log p(x) of every row and the mean of draws of its label."""
        return simulate(self, prepared, rows, assignment)

    def posterior(
        self, prepared: Any, x: Array, responsibilities: bool = True
    ) -> tuple[Array, Array | None]:
        """log p(x) of every row and, if wanted, its responsibilities."""
        joint = self.log_joint(prepared, x)
        largest = joint.max(axis=1, keepdims=True, initial=-np.finfo(np.float64).max)
        odds = np.exp(joint - largest)
        total = odds.sum(axis=1, keepdims=True)
        log_density = largest[:, 0] + np.log(total[:, 0])
        return log_density, odds / total if responsibilities else None

    def log_joint(self, prepared: Any, x: Array) -> Array:
        """log w_k p(x | k), (n, K)."""
        return self.model.log_joint(prepared, x.astype(np.float64, copy=False))

    def candidates(self, params: MixtureParams) -> Candidates | None:
        """The mixture, of which a few components are evaluated for a row."""
        return self._candidates(params)

    def match(self, posterior: MixturePosterior, rows: Rows) -> tuple[MixturePosterior, float, int]:
        """The posterior after rows, their predictive log density, and degenerate components."""
        return match(self.model, posterior, rows)

    def anneal(
        self, state: Annealed, rows: Rows, options: AnnealingOptions, batch_size: int
    ) -> tuple[Annealed, float, float]:
        """Take gradient steps, batch by batch; return sums of log densities and of the bound."""
        return anneal(state, rows, options, batch_size)


def match(
    model: MixtureModel, posterior: MixturePosterior, rows: Rows
) -> tuple[MixturePosterior, float, int]:
    """Bayesian moment matching, row by row."""
    mixture, log_density, n_degenerate = BayesianMixture(model), 0.0, 0
    for x, weight in zip(rows.x.astype(np.float64, copy=False), rows.weights(), strict=True):
        if weight > 0.0:
            posterior, foreseen, more = mixture.match(posterior, x, float(weight))
            log_density, n_degenerate = log_density + foreseen, n_degenerate + more
    return posterior, log_density, n_degenerate


def anneal(
    state: Annealed, rows: Rows, options: AnnealingOptions, batch_size: int
) -> tuple[Annealed, float, float]:
    """Annealed gradient steps; batches of weight zero are skipped."""
    log_density = bound = 0.0
    for first in range(0, len(rows), batch_size):
        batch = rows.cut(first, first + batch_size)
        if batch.total_weight() > 0.0:
            state, density, loss = anneal_batch(state, batch, options)
            log_density += float(batch.weights() @ density)
            bound += float(batch.weights() @ loss)
    return state, log_density, bound


def simulate(kernel: Any, prepared: Any, rows: Rows, assignment: Assignment) -> tuple[Array, Array]:
    """log p(x) and the mean of draws of the label, for any kernel with `posterior`."""
    log_density, responsibilities = kernel.posterior(prepared, rows.x)
    noise = uniforms(assignment.seed, assignment.first, len(rows), assignment.draws)
    drawn = sum(kernel.model.draw(responsibilities, u) for u in noise.T)
    return log_density, drawn / assignment.draws
