"""Gaussian mixtures as stochastic gradients see them: softmax weights and precision roots.

What rows raise is max_k sum_j g_kj(sigma) log w_j N_j(x): the best of the log joint densities,
smoothed by a bump of width sigma over a periodic grid of components. It needs no exponentials of
data.

Precisions are D'D, and a cap keeps the diagonal of D in bounds: no column has a deviation, given
the columns after it, below that of the cap. Where D is diagonal this bounds the precision, so that
steps of length epsilon < 1 / cap cannot overshoot. Where it is triangular the largest eigenvalue
of D'D has no bound, and steps are shortened instead, to what an implicit step along the gradient
is. With e = x - mu and g = D'D e they are divided by 1 + epsilon |Dg|^2 / |g|^2 for mu and by
1 + epsilon |e|^2 for D.
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

    Weights are softmax(logits), precisions D'D with the `roots` D: (K, d) where they are diagonal,
    (K, d, d) where they are upper triangular. `loss` is smoothed over 1 / epsilon steps; `before`
    is what it was at the last look, `first` at the first step, and after `wait` more is the next
    look.
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
        """The same mixture by weights, means and factors of covariances."""
        odds = np.exp(self.logits - self.logits.max())
        components = GaussianParams(self.means.astype(np.float64), factors(self.roots))
        return MixtureParams(odds / odds.sum(), components)


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


def factors(roots: NDArray[np.floating]) -> Array:
    """Deviations, or lower Cholesky factors L of covariances: LL' = (D'D)^-1."""
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
    peak = state.logits.max()
    log_weights = state.logits - peak - np.log(np.exp(state.logits - peak).sum())
    log_roots = np.log(diagonals(state.roots)).sum(axis=1)
    constant = log_weights + log_roots - 0.5 * x.shape[1] * LOG_2PI
    x = x.astype(np.float64, copy=False)
    pairs = zip(state.means, state.roots.astype(np.float64), strict=True)
    squares = [np.square(whitened(x - mean, root)).sum(axis=1) for mean, root in pairs]
    return np.asarray(constant - 0.5 * np.stack(squares, axis=1))


def whitened(away: Array, root: Array) -> Array:
    """D e for every row e."""
    return away * root if root.ndim == 1 else away @ root.T


def anneal_batch(state: Annealed, rows: Rows, rule: AnnealingRule) -> tuple[Annealed, Array, Array]:
    """One gradient step with the mean of a batch; the log density and the loss of each row."""
    k = len(state.logits)
    g = bumps(k, rule.rows_of_grid, state.sigma)
    joint = log_joint(state, rows.x)
    smooth = joint @ g.T
    best = smooth.argmax(axis=1)
    loss = smooth[np.arange(len(rows)), best]
    weight = rows.weights()
    share = g[best] * (weight / len(rows))[:, None]
    held = share.sum(axis=0)
    odds = np.exp(state.logits - state.logits.max())
    follow = follow_diagonal if state.roots.ndim == 2 else follow_triangular
    means, roots = follow(state, rows.x.astype(np.float64, copy=False), share, rule)
    moved = replace(
        state,
        logits=state.logits + state.epsilon * (held - held.sum() * odds / odds.sum()),
        means=means.astype(state.means.dtype),
        roots=roots.astype(state.roots.dtype),
    )
    after = looked(heard(moved, float(weight @ loss / weight.sum())), rule)
    return after, log_sum_exp(joint), loss


def log_sum_exp(joint: Array) -> Array:
    """log p(x) of every row."""
    peak = joint.max(axis=1)
    return np.asarray(peak + np.log(np.exp(joint - peak[:, None]).sum(axis=1)))


def follow_diagonal(
    state: Annealed, x: Array, share: Array, rule: AnnealingRule
) -> tuple[Array, Array]:
    """Means and roots after a step; components have `share`, (n, K), of the rows."""
    means, roots = state.means.astype(np.float64), state.roots.astype(np.float64)
    held = share.sum(axis=0)[:, None]
    first, second = share.T @ x, share.T @ np.square(x)
    step = first - held * means  # sum of share (x - mean), and of its square
    square = second - 2.0 * means * first + held * np.square(means)
    new_means = means + state.epsilon * np.square(roots) * step
    new_roots = roots + state.epsilon * (held / roots - roots * square)
    return new_means, np.clip(new_roots, rule.least_root, rule.most_root)


def follow_triangular(
    state: Annealed, x: Array, share: Array, rule: AnnealingRule
) -> tuple[Array, Array]:
    """As `follow_diagonal`, with shortened steps: see above."""
    means, roots = state.means.astype(np.float64), state.roots.astype(np.float64)
    for k in np.flatnonzero(share.sum(axis=0)):
        away, s, d = x - means[k], share[:, k], roots[k]
        held, diagonal = s.sum(), np.diagonal(d)
        gradient = d.T @ (d @ (s @ away))
        square = gradient @ gradient
        bent = np.square(d @ gradient).sum() / square if square > 0.0 else 0.0
        spread = s @ np.square(away).sum(axis=1)
        rise = np.diag(held / diagonal) - np.triu((s[:, None] * whitened(away, d)).T @ away)
        means[k] += state.epsilon / (1.0 + state.epsilon * held * bent) * gradient
        roots[k] += state.epsilon / (1.0 + state.epsilon * spread) * rise
        np.fill_diagonal(roots[k], np.clip(np.diagonal(d), rule.least_root, rule.most_root))
    return means, roots


def heard(state: Annealed, *losses: float) -> Annealed:
    """With the losses of steps taken in."""
    smooth, first = state.loss, state.first
    for loss in losses:
        if first == UNSEEN:
            smooth = first = loss
        smooth = (1.0 - state.epsilon) * smooth + state.epsilon * loss
    return replace(state, loss=smooth, first=first, wait=state.wait - len(losses))


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
