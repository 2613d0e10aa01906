"""Gaussian mixtures in the coordinates of gradients: softmax weights and precision roots.

The gradient is that of max_k sum_j g_kj(sigma) log w_j N_j(x): the largest of the log joint
densities, smoothed by a Gaussian kernel of width sigma over a periodic grid of components. It needs
no exponentials of data. Steps of components are in `models/_annealed_roots.py` and, if they have
factors, in `models/_annealed_factors.py`.
"""

from __future__ import annotations

from functools import lru_cache
from math import expm1, isqrt, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import LOWEST, check_above, check_array, check_count
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array, Rows
from mixfold.core.value import replace, value
from mixfold.families.gaussian import FactorParams, GaussianParams
from mixfold.models._annealed_factors import FactoredRows
from mixfold.models._annealed_roots import RootedRows, diagonals, factors
from mixfold.models.mixture_model import MixtureParams

UNSEEN = -np.inf  # before the first row
LEAST_SIGMA, WIDEST = 1e-100, 1e100
REACH = 1e-4  # relative to the kernel's maximum: components with smaller values are not changed


@value
class Annealed:
    """Parameters and the state of annealing.

    Weights are softmax(logits), precisions D'D with the `roots` D: (K, d) where they are diagonal,
    (K, d, d) where they are upper triangular. With `loadings`, (K, q, d), they are those of the
    noise. `loss` is smoothed over 1 / epsilon steps; `before` is its value at the last test,
    `first` at the first step, and the next test is after `wait` more steps.
    """

    logits: Array
    means: NDArray[np.floating]
    roots: NDArray[np.floating]
    sigma: float
    epsilon: float
    loss: float
    before: float
    first: float
    wait: int
    looks: int
    loadings: NDArray[np.floating] | None = None

    def check(self, roots: tuple[int, ...], n_factors: int, k: int, d: int) -> None:
        """Raise an error for other shapes, numbers that are not finite, and too long steps."""
        check_array("logits", self.logits, (k,))
        check_array("means", self.means, (k, d))
        check_array("roots", self.roots, (k, *roots))
        pivots = diagonals(self.roots)
        check_array("the diagonal of roots", pivots, (k, d), LOWEST)
        if len(roots) == 2 and np.tril(self.roots, -1).any():
            raise InvalidInputError("roots are not upper triangular")
        if (self.loadings is not None) != (n_factors > 0):
            raise InvalidInputError(f"loadings are {self.loadings!r}, and {n_factors} are needed")
        if self.loadings is not None:
            check_array("loadings", self.loadings, (k, n_factors, d))
        check_above("sigma", self.sigma, LEAST_SIGMA, WIDEST)
        check_above("epsilon", self.epsilon, LEAST_SIGMA, 2.0 / float(pivots.max()) ** 2)
        for name in ("loss", "before", "first"):
            if not getattr(self, name) < np.inf:
                raise InvalidInputError(f"{name} is {getattr(self, name)}: a number is needed")
        check_count("wait", self.wait)
        check_count("looks", self.looks)

    def params(self) -> MixtureParams:
        """The same mixture by weights, means and scales, or loadings and noise."""
        odds = np.exp(self.logits - self.logits.max())
        return MixtureParams(odds / odds.sum(), self._components())

    def _components(self) -> GaussianParams | FactorParams:
        means, deviations = self.means.astype(np.float64), factors(self.roots)
        if self.loadings is None:
            return GaussianParams(means, deviations)
        return FactorParams(means, self.loadings.astype(np.float64), np.square(deviations))


@value
class AnnealingOptions:
    """Constant settings; `decay` is the factor by which sigma and epsilon are reduced."""

    rows_of_grid: int
    sigma_end: float
    epsilon_end: float
    delta: float
    decay: float
    least_root: float
    most_root: float


def grid_rows(k: int) -> int:
    """The number of rows of the most nearly square grid of k components."""
    return max(r for r in range(1, isqrt(k) + 1) if k % r == 0)


@lru_cache(1)  # it stays the same between two tests of the loss
def bumps(k: int, rows: int, sigma: float) -> Array:
    """g, (K, K): a normalised Gaussian kernel around every component on the periodic grid."""
    columns = k // rows
    line = [np.minimum(np.arange(m), m - np.arange(m)) for m in (rows, columns)]
    square = np.square(line[0])[:, None] + np.square(line[1])[None, :]
    bump = np.exp(-0.5 * square / sigma**2)
    bump = np.where(bump < REACH, 0.0, bump) / bump[bump >= REACH].sum()
    i, j = np.divmod(np.arange(k), columns)
    g = np.asarray(bump[(i[:, None] - i) % rows, (j[:, None] - j) % columns])
    g.flags.writeable = False
    return g


def seen(state: Annealed, x: NDArray[np.floating]) -> RootedRows | FactoredRows:
    """Log densities and gradients of rows."""
    means, roots, x = (double(part) for part in (state.means, state.roots, x))
    if state.loadings is None:
        return RootedRows(means, roots, x)
    return FactoredRows(means, roots, double(state.loadings), x)


def double(part: NDArray[np.floating]) -> Array:
    """The array as float64, copied only if it is not."""
    return part.astype(np.float64, copy=False)


def log_weights(logits: Array) -> Array:
    """log softmax."""
    peak = logits.max()
    return np.asarray(logits - peak - np.log(np.exp(logits - peak).sum()))


def anneal_batch(
    state: Annealed, rows: Rows, options: AnnealingOptions
) -> tuple[Annealed, Array, Array]:
    """One gradient step with the mean of a batch; the log density and the loss of each row."""
    there = seen(state, rows.x)
    g = bumps(len(state.logits), options.rows_of_grid, state.sigma)
    logs = log_weights(state.logits)
    joint = logs + there.log_density()
    smooth = joint @ g.T
    best = smooth.argmax(axis=1)
    loss = smooth[np.arange(len(rows)), best]
    weight = rows.weights()
    responsibilities = g[best] * (weight / len(rows))[:, None]
    total = responsibilities.sum(axis=0)
    epsilon, of_logits = tempered(state.epsilon, float(weight.mean()), options)
    moved = there.follow(responsibilities, epsilon, (options.least_root, options.most_root))
    parts: Any = {name: part.astype(state.means.dtype) for name, part in moved.items()}
    logits = state.logits + of_logits * (total - total.sum() * np.exp(logs))
    after = replace(state, logits=logits, **parts)
    after = maybe_decay(update_loss(after, float(weight @ loss / weight.sum())), options)
    return after, log_sum_exp(joint), loss


def tempered(epsilon: float, weight: float, options: AnnealingOptions) -> tuple[float, float]:
    """Step sizes of components and logits for a batch of mean weight v, which counts as v batches.

    The curvature is at most the cap for means, and at most one for logits.
    """
    if weight == 1.0:
        return epsilon, epsilon
    curvatures = options.most_root**2, 1.0
    found = [-expm1(weight * log1p(-epsilon * c)) / (c * weight) for c in curvatures]
    return found[0], found[1]


def log_sum_exp(joint: Array) -> Array:
    """log p(x) of every row."""
    peak = joint.max(axis=1)
    return np.asarray(peak + np.log(np.exp(joint - peak[:, None]).sum(axis=1)))


def update_loss(state: Annealed, *losses: float) -> Annealed:
    """The state with the smoothed loss after some steps."""
    smooth, first = state.loss, state.first
    for loss in losses:
        if first == UNSEEN:
            smooth = first = loss
        smooth = (1.0 - state.epsilon) * smooth + state.epsilon * loss
    return replace(state, loss=smooth, first=first, wait=state.wait - len(losses))


def maybe_decay(state: Annealed, options: AnnealingOptions) -> Annealed:
    """Every 1 / epsilon steps, reduce sigma and epsilon if the loss has stopped improving."""
    if state.wait > 0:
        return state
    gained, since = state.loss - state.before, state.before - state.first
    settled = state.looks > 0 and gained < options.delta * since
    sigma = max(options.sigma_end, options.decay * state.sigma) if settled else state.sigma
    epsilon = max(options.epsilon_end, options.decay * state.epsilon) if settled else state.epsilon
    return replace(
        state,
        before=state.loss,
        sigma=sigma,
        epsilon=epsilon,
        wait=round(1.0 / epsilon),
        looks=state.looks + 1,
    )
