"""Gaussian mixtures as stochastic gradients see them: softmax weights and precision roots.

What rows raise is max_k sum_j g_kj(sigma) log w_j N_j(x): the best of the log joint densities,
smoothed by a bump of width sigma over a periodic grid of components. It needs no exponentials of
data.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array, Rows
from mixfold.core.value import value
from mixfold.families.gaussian import LOG_2PI, GaussianParams
from mixfold.models.mixture_model import MixtureParams

UNSEEN = -np.inf  # before the first row
REACH = 1e-4  # of the bump's height: components farther off are not moved


@value
class Annealed:
    """Parameters and where annealing stands.

    Weights are softmax(logits), precisions the squares of `roots`, (K, d). `loss` is smoothed over
    1 / epsilon rows; `before` is what it was at the last look, `first` at the first row, and after
    `wait` more rows is the next look.
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

    def params(self) -> MixtureParams:
        """The same mixture by weights, means and standard deviations."""
        odds = np.exp(self.logits - self.logits.max())
        means, roots = self.means.astype(np.float64), self.roots.astype(np.float64)
        return MixtureParams(odds / odds.sum(), GaussianParams(means, 1.0 / roots))


@value
class AnnealingRule:
    """What does not change while learning; `decay` is of sigma and epsilon at a look."""

    rows_of_grid: int
    sigma_end: float
    epsilon_end: float
    delta: float
    decay: float
    least_root: float
    most_root: float


def grid_rows(k: int) -> int:
    """Rows of the most nearly square grid of k components."""
    return max(r for r in range(1, isqrt(k) + 1) if k % r == 0)


def bumps(k: int, rows: int, sigma: float) -> Array:
    """g, (K, K): a normalised Gaussian bump around every component on the periodic grid."""
    columns = k // rows
    line = [np.minimum(np.arange(m), m - np.arange(m)) for m in (rows, columns)]
    square = np.square(line[0])[:, None] + np.square(line[1])[None, :]
    bump = np.exp(-0.5 * square / sigma**2)
    bump = np.where(bump < REACH, 0.0, bump) / bump[bump >= REACH].sum()
    i, j = np.divmod(np.arange(k), columns)
    return np.asarray(bump[(i[:, None] - i) % rows, (j[:, None] - j) % columns])


def log_joint(state: Annealed, x: NDArray[np.floating]) -> Array:
    """log w_k N_k(x), (n, K)."""
    roots = state.roots.astype(np.float64)
    peak = state.logits.max()
    log_weights = state.logits - peak - np.log(np.exp(state.logits - peak).sum())
    constant = log_weights + np.log(roots).sum(axis=1) - 0.5 * x.shape[1] * LOG_2PI
    x = x.astype(np.float64, copy=False)
    squares = [np.square((x - m) * r).sum(axis=1) for m, r in zip(state.means, roots, strict=True)]
    return np.asarray(constant - 0.5 * np.stack(squares, axis=1))


def anneal_batch(state: Annealed, rows: Rows, rule: AnnealingRule) -> tuple[Annealed, Array]:
    """One gradient step with the mean of a batch; and the loss of each row."""
    k = len(state.logits)
    g = bumps(k, rule.rows_of_grid, state.sigma)
    smooth = log_joint(state, rows.x) @ g.T
    best = smooth.argmax(axis=1)
    loss = smooth[np.arange(len(rows)), best]
    weight = rows.weights()
    share = g[best] * (weight / len(rows))[:, None]
    means, roots = state.means.astype(np.float64), state.roots.astype(np.float64)
    x = rows.x.astype(np.float64, copy=False)
    held = share.sum(axis=0)[:, None]
    first, second = share.T @ x, share.T @ np.square(x)
    step = first - held * means  # sum of share (x - mean), and of its square
    square = second - 2.0 * means * first + held * np.square(means)
    odds = np.exp(state.logits - state.logits.max())
    new_means = means + state.epsilon * np.square(roots) * step
    new_roots = roots + state.epsilon * (held / roots - roots * square)
    moved = replace(
        state,
        logits=state.logits + state.epsilon * (held[:, 0] - held.sum() * odds / odds.sum()),
        means=new_means.astype(state.means.dtype),
        roots=np.clip(new_roots, rule.least_root, rule.most_root).astype(state.roots.dtype),
    )
    return looked(heard(moved, float(weight @ loss / weight.sum())), rule), loss


def heard(state: Annealed, loss: float) -> Annealed:
    """With the loss of a step taken in."""
    if state.first == UNSEEN:
        state = replace(state, loss=loss, first=loss)
    smooth = (1.0 - state.epsilon) * state.loss + state.epsilon * loss
    return replace(state, loss=smooth, wait=state.wait - 1)


def looked(state: Annealed, rule: AnnealingRule) -> Annealed:
    """Every 1 / epsilon steps: sigma and epsilon fall if the loss has settled."""
    if state.wait > 0:
        return state
    gained, since = state.loss - state.before, state.before - state.first
    settled = state.looks > 0 and gained < rule.delta * since
    sigma = max(rule.sigma_end, rule.decay * state.sigma) if settled else state.sigma
    epsilon = max(rule.epsilon_end, rule.decay * state.epsilon) if settled else state.epsilon
    return replace(
        state,
        before=state.loss,
        sigma=sigma,
        epsilon=epsilon,
        wait=round(1.0 / epsilon),
        looks=state.looks + 1,
    )
