"""The compiled kernels: the same sums as the reference, faster."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any, cast

import numpy as np

from mixfold.core.backend import Assignment, Model, RowOptions
from mixfold.core.backend_capabilities import Candidates
from mixfold.core.capabilities import (
    CompiledRowUpdates,
    RowUpdates,
    Whitened,
    conjugate_of,
)
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.limits import SMALLEST
from mixfold.core.noise import words
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Block, Statistics
from mixfold.core.value import field_names, replace
from mixfold.families.gaussian import LOG_2PI
from mixfold.kernels._forms import form_of, has_form
from mixfold.kernels._native_candidates import compiled
from mixfold.kernels.candidates import LastCandidates
from mixfold.kernels.reference import match, simulate
from mixfold.models.annealed import Annealed, AnnealingOptions, bumps, maybe_decay
from mixfold.models.bayesian_mixture import MixturePosterior
from mixfold.models.mixture_model import MixtureModel, MixtureParams

try:
    _native: Any = import_module("mixfold._native")
except ImportError:  # built without a compiler
    _native = None


@cache
def warn_once() -> None:
    """Warn once that no compiled kernel was built."""
    message = "mixfold was built without a compiler: using NumPy kernels, which are slower"
    warnings.warn(message, RuntimeWarning, stacklevel=5)


def is_compiled() -> bool:
    """Whether there are compiled kernels; warns if not."""
    if _native is None:
        warn_once()
    return _native is not None


LEAST_LIKELIHOOD = -1e36  # smallest log-likelihood of a block that was summed in float32


@dataclass(frozen=True, eq=False)
class KernelArguments:
    """Arguments of the compiled functions, and the numbers by which rows are multiplied."""

    arguments: tuple[Any, ...]
    scales: Array

    @cached_property
    def narrow(self) -> bool:
        """Whether float32 can hold them."""
        return fits_float32(self.scales)


def fits_float32(scales: Array) -> bool:
    """Whether products of these scales with rows stay well inside the range of float32."""
    used = np.abs(scales[scales != 0])
    return not used.size or bool(used.max() < 1e15 and used.min() > 1e-34)


def weights_fit_float32(weight: Array | None) -> bool:
    """Whether weights of rows, and products with them, stay well inside the range of float32."""
    return weight is None or fits_float32(weight)


def batches_that_count(rows: Rows, batch_size: int) -> Rows:
    """The rows without batches of weight zero."""
    if rows.weight is None or not len(rows):
        return rows
    total = np.add.reduceat(rows.weight, np.arange(0, len(rows), batch_size))
    if (total > 0.0).all():
        return rows
    return rows.where(np.repeat(total > 0.0, batch_size)[: len(rows)])


class NativeKernel:
    """Blocked, vectorised E-steps; Gaussians through Cholesky factors."""

    def __init__(self, model: MixtureModel) -> None:
        self.model = model
        family = model.family
        self._gaussians, self._factorial = form_of(family)
        updates = family.row_updates if isinstance(family, CompiledRowUpdates) else None
        self._updates = None if model.is_constrained else updates
        form = "linear" if self._gaussians is None else self._gaussians.form
        self._candidates = LastCandidates(lambda params: compiled(model, params, _native))
        self._expect = getattr(_native, f"expect_{form}")
        self._posterior = getattr(_native, f"posterior_{form}")
        self._moments = getattr(_native, f"moments_{form}")

    @staticmethod
    def supports(model: Model) -> bool:
        """Whether the kernel serves a model on this machine."""
        return has_form(model) and is_compiled()

    def prepare(self, params: MixtureParams) -> KernelArguments:
        """Convert parameters for the other methods, once for many blocks."""
        family = cast(ExponentialFamily, self.model.family)
        if self._gaussians is not None:
            known = self._gaussians.whitened(params.components)
            arguments = self._whitened(known, params.weights)
            return KernelArguments(arguments, arguments[2])
        eta = np.ascontiguousarray(family.to_natural(params.components))
        offset = np.log(params.weights) - family.log_normalizer(eta)
        return KernelArguments((eta, offset, self._factorial), eta)

    def _whitened(self, known: Whitened, weights: Array) -> tuple[Any, ...]:
        # float32 rows are shifted before they are multiplied, so the shift must be a float32
        with np.errstate(over="ignore"):
            origin = (weights @ known.means).astype(np.float32).astype(np.float64)
        origin = np.where(np.isfinite(origin), origin, 0.0)
        constant = -0.5 * self.model.d * LOG_2PI - known.log_determinant
        return origin, known.means - origin, known.whiten, np.log(weights) + constant

    def expect(self, prepared: KernelArguments, rows: Rows) -> Array:
        """The sums of one block of rows; float32 rows are computed in float32 if possible."""
        if rows.x.dtype == np.float32 and prepared.narrow and weights_fit_float32(rows.weight):
            result: Array = self._expect(rows.x, rows.weight, *prepared.arguments)
            # otherwise rows are too far from all components for float32
            if np.isfinite(result).all() and result[0] > LEAST_LIKELIHOOD:
                return result
        x = rows.x.astype(np.float64, copy=False)
        return self._expect(x, rows.weight, *prepared.arguments)  # type: ignore[no-any-return]

    def posterior(
        self, prepared: KernelArguments, x: Array, responsibilities: bool = True
    ) -> tuple[Array, Array | None]:
        """log p(x) of every row and, if wanted, its responsibilities; always in float64."""
        result: tuple[Array, Array | None] = self._posterior(
            x, *prepared.arguments, responsibilities
        )
        return result

    def moments(self, prepared: KernelArguments, rows: Rows, responsibilities: Array) -> Array:
        """The sums of a block under given responsibilities, of any sign, without likelihood."""
        result: Array = self._moments(rows.x, rows.weight, responsibilities, *prepared.arguments)
        return result

    def simulate(
        self, prepared: KernelArguments, rows: Rows, assignment: Assignment
    ) -> tuple[Array, Array]:
        """log p(x) of every row and the mean of draws of its label."""
        return simulate(self, prepared, rows, assignment)

    def candidates(self, params: MixtureParams) -> Candidates | None:
        """The mixture, of which a few components are evaluated for a row."""
        return self._candidates(params)

    def match(self, posterior: MixturePosterior, rows: Rows) -> tuple[MixturePosterior, float, int]:
        """The posterior after rows, their predictive log density, and degenerate components."""
        conjugate = conjugate_of(self.model.family)
        kind = None if conjugate is None else conjugate.compiled
        if kind is None:
            return match(self.model, posterior, rows)
        known = posterior.components
        given = (
            rows.x,
            rows.weight,
            posterior.alpha,
            *(getattr(known, n) for n in field_names(known)),
        )
        count_degenerate = 0
        if kind == "normal":
            alpha, *arrays, log_density, count_degenerate = _native.match_gaussian(*given)
        else:
            alpha, *arrays, log_density = _native.match_rates(*given, kind == "poisson")
        return MixturePosterior(alpha, type(known)(*arrays)), log_density, count_degenerate

    def anneal(
        self, state: Annealed, rows: Rows, options: AnnealingOptions, batch_size: int
    ) -> tuple[Annealed, float, float]:
        """Take gradient steps, batch by batch; return sums of log densities and of the bound."""
        there = batches_that_count(rows, batch_size)
        working = replace(
            state, logits=state.logits.copy(), means=state.means.copy(), roots=state.roots.copy()
        )
        log_density = bound = 0.0
        while len(there):
            most = working.wait * batch_size
            some, there = there.cut(0, most), there.cut(most, len(there))
            working, *more = self._anneal_some(working, some, options, batch_size)
            log_density, bound = log_density + more[0], bound + more[1]
        return working, log_density, bound

    def _anneal_some(
        self, state: Annealed, rows: Rows, options: AnnealingOptions, batch_size: int
    ) -> tuple[Annealed, float, float]:
        """Batches up to the next test of the loss; the arrays of the state change in place."""
        move = _native.anneal_single if state.means.dtype == np.float32 else _native.anneal_double
        loss, first, log_density, bound = move(
            rows.x,
            rows.weight,
            batch_size,
            state.logits,
            state.means,
            state.roots,
            bumps(len(state.logits), options.rows_of_grid, state.sigma),
            state.epsilon,
            options.least_root,
            options.most_root,
            state.loss,
            state.first,
        )
        batches = -(-len(rows) // batch_size)
        after = replace(state, loss=loss, first=first, wait=state.wait - batches)
        return maybe_decay(after, options), log_density, bound

    def row_updater(
        self, statistics: Statistics, params: MixtureParams, reference: Statistics | None = None
    ) -> NativeRowUpdater | None:
        """A row updater; `reference` is the mean of the control variate.

        None if the family does not support it.
        """
        if self._updates is None:
            return None
        return NativeRowUpdater(self.model, self._updates, statistics, params, reference)


@cache
def enumerated(assign: str, control: str) -> tuple[Any, Any]:
    """The assignment and the control variate as enumerations of the compiled module."""
    return _native.Assign[assign], _native.Control[control]


class NativeRowUpdater:
    """Updates after every row, on its own memory."""

    def __init__(
        self,
        model: MixtureModel,
        updates: RowUpdates,
        statistics: Statistics,
        params: MixtureParams,
        reference: Statistics | None,
    ) -> None:
        self._family = cast(CompiledRowUpdates, model.family)
        theta = params.weights, *self._family.to_arrays(params.components)
        (block,) = statistics.blocks
        s = block.weight, block.mean, block.scatter
        lowest = updates.lowest
        lowest = np.full(model.d, SMALLEST) if lowest is None else lowest
        limits = updates.floor, updates.reg_covar, updates.least_variance, updates.rounding, lowest
        keep = model.only_means
        self._mixture = _native.OnlineMixture(updates.kind, *s, *theta, *limits, keep, keep)
        if reference is not None:
            (block,) = reference.blocks
            self._mixture.set_reference(block.weight, block.mean, block.scatter)

    @property
    def rows(self) -> int:
        """Rows learned so far; the count is consistent after an interrupt."""
        return self._mixture.rows  # type: ignore[no-any-return]

    @property
    def n_degenerate(self) -> int:
        """Degenerate components so far."""
        return self._mixture.n_degenerate  # type: ignore[no-any-return]

    def draw_from(self, seed: int, first: int) -> None:
        """Set the seed and the number of the next row, which determine its random numbers."""
        self._mixture.set_noise(words(seed, first))

    def fold(
        self,
        rows: Rows,
        gamma: Array,
        hold: int,
        options: RowOptions,
        old: Array | None = None,
        log_likelihood: float = 0.0,
    ) -> tuple[float, int, Array | None]:
        """Learn rows in order, keeping theta fixed for the first `hold` of them.

        Returns the given log-likelihood plus that of the rows, the number of degenerate components,
        and the responsibilities that replace `old`, if the options request them.
        """
        result: tuple[float, int, Array | None] = self._mixture.fold(
            rows.x,
            rows.weight,
            gamma,
            hold,
            *enumerated(options.assign, options.control),
            options.recursive,
            options.narrow,
            options.per_weight,
            old,
            log_likelihood,
        )
        return result

    def evaluate(self, x: Array, responsibilities: bool) -> tuple[Array, Array | None]:
        """log p of every row under the parameters as of now and, if wanted, responsibilities."""
        result: tuple[Array, Array | None] = self._mixture.evaluate(x, responsibilities)
        return result

    def state(self) -> tuple[Statistics, MixtureParams]:
        """The statistics and parameters as of now."""
        weight, mean, scatter, weights, means, scale = self._mixture.state()
        statistics = Statistics(weight.copy(), (Block(weight, mean, scatter),), 1.0, 0.0)
        return statistics, MixtureParams(weights, self._family.from_arrays(means, scale))
