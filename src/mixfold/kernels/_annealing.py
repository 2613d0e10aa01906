"""Annealed stochastic gradients on a device: nothing comes back between two looks at the loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mixfold.families.gaussian import LOG_2PI
from mixfold.kernels._products import Whitened, chunk_length, stretches, upload
from mixfold.kernels._torch import Tensor, torch
from mixfold.models.annealed import Annealed, AnnealingRule, bumps, heard, looked


class Moving:
    """Logits, means and roots on the device, moved batch by batch under a fixed sigma and eps."""

    def __init__(self, state: Annealed, device: Any) -> None:
        self.logits = upload(state.logits, device)
        self.means = torch().tensor(state.means, device=device)
        self.roots = torch().tensor(state.roots, device=device)
        self.chunk = chunk_length(*state.means.shape)

    def state(self, before: Annealed) -> Annealed:
        """Where annealing stands, here again."""
        return replace(
            before,
            logits=self.logits.numpy(force=True).copy(),
            means=self.means.numpy(force=True).copy(),
            roots=self.roots.numpy(force=True).copy(),
        )

    def log_joint(self, x: Tensor) -> Tensor:
        """log w_k N_k(x), (n, K)."""
        roots = self.roots.double()
        constant = torch().log_softmax(self.logits, dim=0) + roots.log().sum(dim=1)
        offset = (constant - 0.5 * x.shape[1] * LOG_2PI)[:, None]
        form = Whitened(self.means.double()[:, None], roots[:, None], offset)
        chunks = (x[cut] for cut in stretches(len(x), self.chunk))
        return torch().cat([form.log_joint(some, form.local(some)) for some in chunks], dim=1).T

    def step(self, x: Tensor, weight: Tensor, g: Tensor, epsilon: float, limits: Any) -> Tensor:
        """One step with the mean of a batch; sums of its log densities and of its losses."""
        joint = self.log_joint(x)
        smooth = joint @ g.T
        loss, best = smooth.max(dim=1)
        share = g[best] * (weight / len(x))[:, None]
        means, roots = self.means.double(), self.roots.double()
        held = share.sum(dim=0)[:, None]
        first, second = share.T @ x, share.T @ x.square()
        step = first - held * means
        square = second - 2.0 * means * first + held * means.square()
        odds = self.logits.softmax(dim=0)
        self.logits = self.logits + epsilon * (held[:, 0] - held.sum() * odds)
        self.means = (means + epsilon * roots.square() * step).to(self.means.dtype)
        moved = roots + epsilon * (held / roots - roots * square)
        self.roots = moved.clip(*limits).to(self.roots.dtype)
        return torch().stack([weight @ joint.logsumexp(dim=1), weight @ loss])


def anneal(
    state: Annealed, x: Tensor, weight: Tensor | None, rule: AnnealingRule, batch_size: int
) -> tuple[Annealed, float, float]:
    """Batches of any size, those that weigh nothing passed over.

    Also the sums of log densities and of what is raised.
    """
    weight = x.new_ones(len(x), dtype=torch().float64) if weight is None else weight
    cuts = list(stretches(len(x), batch_size))
    weights = torch().stack([weight[cut].sum() for cut in cuts]).tolist() if cuts else []
    batches = [(cut, w) for cut, w in zip(cuts, weights, strict=True) if w > 0.0]
    moving, log_density, bound = Moving(state, x.device), 0.0, 0.0
    limits = rule.least_root, rule.most_root
    while batches:
        some, batches = batches[: state.wait], batches[state.wait :]
        g = upload(bumps(len(state.logits), rule.rows_of_grid, state.sigma), x.device)
        shown = [
            moving.step(x[cut].double(), weight[cut], g, state.epsilon, limits) for cut, _ in some
        ]
        for (density, loss), (_, held) in zip(torch().stack(shown).tolist(), some, strict=True):
            state = heard(state, loss / held)
            log_density, bound = log_density + density, bound + loss
        state = looked(state, rule)
    return moving.state(state), log_density, bound
