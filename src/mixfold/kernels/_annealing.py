"""Annealed stochastic gradients on a device, without transfers between tests of the loss."""

from __future__ import annotations

from typing import Any, Protocol

from mixfold.core.rows import Array, stretches
from mixfold.core.value import at_home, replace
from mixfold.families.gaussian import LOG_2PI
from mixfold.kernels._products import Whitened, chunk_length, upload
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.models.annealed import (
    Annealed,
    AnnealingOptions,
    bumps,
    maybe_decay,
    tempered,
    update_loss,
)

Cut = tuple[slice, float]  # the rows of a batch, and their weight


class Movable(Protocol):
    """Parameters on a device that batches update, for given sigma and epsilon."""

    def follow(self, cuts: list[Cut], g: Array, epsilon: float) -> Tensor:
        """Take batches; the sums of their log densities and of their losses, (batches, 2)."""

    def arrays(self) -> tuple[Array, Any, Any]:
        """Logits, means and roots, here again."""


def steps(cuts: list[Cut], epsilon: float, options: AnnealingOptions) -> list[tuple[float, float]]:
    """The step sizes of components and of logits in each batch."""
    return [tempered(epsilon, weight / (cut.stop - cut.start), options) for cut, weight in cuts]


class Moving:
    """Gradient steps with batches of any size, in float64."""

    def __init__(
        self, state: Annealed, x: Tensor, weight: Tensor, options: AnnealingOptions
    ) -> None:
        self.x, self.weight, self.options = x, weight, options
        self.logits = upload(state.logits, x.device)
        self.means = torch().tensor(state.means, device=x.device)
        self.roots = torch().tensor(state.roots, device=x.device)
        self.chunk = chunk_length(state.means.size)

    def arrays(self) -> tuple[Array, Any, Any]:
        """Logits, means and roots, here again."""
        return at_home([self.logits, self.means, self.roots])  # type: ignore[return-value]

    def follow(self, cuts: list[Cut], g: Array, epsilon: float) -> Tensor:
        """Take batches; the sums of their log densities and of their losses, (batches, 2)."""
        there, found = upload(g, self.x.device), []
        for (cut, _), lengths in zip(cuts, steps(cuts, epsilon, self.options), strict=True):
            found.append(self.step(self.x[cut].double(), self.weight[cut], there, *lengths))
        return torch().stack(found)

    def log_joint(self, x: Tensor) -> Tensor:
        """log w_k N_k(x), (n, K)."""
        roots = self.roots.double()
        constant = torch().log_softmax(self.logits, dim=0) + roots.log().sum(dim=1)
        offset = (constant - 0.5 * x.shape[1] * LOG_2PI)[:, None]
        form = Whitened(self.means.double()[:, None], roots[:, None], offset)
        chunks = (x[cut] for cut in stretches(len(x), self.chunk))
        return torch().cat([form.log_joint(some, form.local(some)) for some in chunks], dim=1).T

    def step(
        self, x: Tensor, weight: Tensor, g: Tensor, epsilon: float, of_logits: float
    ) -> Tensor:
        """One step with the mean of a batch; sums of its log densities and of its losses."""
        joint = self.log_joint(x)
        smooth = joint @ g.T
        loss, best = smooth.max(dim=1)
        responsibilities = g[best] * (weight / len(x))[:, None]
        means, roots = self.means.double(), self.roots.double()
        total = responsibilities.sum(dim=0)[:, None]
        first, second = responsibilities.T @ x, responsibilities.T @ x.square()
        step = first - total * means
        square = second - 2.0 * means * first + total * means.square()
        odds = self.logits.softmax(dim=0)
        self.logits = self.logits + of_logits * (total[:, 0] - total.sum() * odds)
        self.means = (means + epsilon * roots.square() * step).to(self.means.dtype)
        moved = roots + epsilon * (total / roots - roots * square)
        self.roots = moved.clip(self.options.least_root, self.options.most_root).to(
            self.roots.dtype
        )
        return torch().stack([weight @ joint.logsumexp(dim=1), weight @ loss])


def anneal(
    state: Annealed,
    x: Tensor,
    weight: Tensor | None,
    options: AnnealingOptions,
    batch_size: int,
    fused: Any = None,
) -> tuple[Annealed, float, float]:
    """Gradient steps with batches of any size; batches of weight zero are skipped.

    Also returns the sums of log densities and of the bound. `fused(state, x, weight, options)`, if
    given, takes whole batches of positive weight.
    """
    given = x.new_ones(len(x), dtype=torch().float64) if weight is None else weight
    cuts = list(stretches(len(x), batch_size))
    number = len(x) // batch_size
    weights = given[: number * batch_size].view(number, batch_size).sum(dim=1).tolist()
    if len(cuts) > number:
        weights.append(float(given[cuts[-1]].sum()))
    batches = list(zip(cuts, weights, strict=True))
    whole = number if fused is not None and min(weights, default=0.0) > 0.0 else 0
    log_density = bound = 0.0
    for moving, some in ((fused, batches[:whole]), (Moving, batches[whole:])):
        with_weight = [batch for batch in some if batch[1] > 0.0]
        if with_weight:
            state, *shown = followed(moving(state, x, given, options), state, with_weight, options)
            log_density, bound = log_density + shown[0], bound + shown[1]
    return state, log_density, bound


def followed(
    moving: Movable, state: Annealed, batches: list[Cut], options: AnnealingOptions
) -> tuple[Annealed, float, float]:
    """The state after batches, with a test of the loss whenever one is due."""
    log_density = bound = 0.0
    while batches:
        some, batches = batches[: state.wait], batches[state.wait :]
        g = bumps(len(state.logits), options.rows_of_grid, state.sigma)
        shown = moving.follow(some, g, state.epsilon).tolist()
        losses = [loss / weight for (_, loss), (_, weight) in zip(shown, some, strict=True)]
        log_density = sum((density for density, _ in shown), log_density)
        bound = sum((loss for _, loss in shown), bound)
        state = maybe_decay(update_loss(state, *losses), options)
    logits, means, roots = moving.arrays()
    return replace(state, logits=logits, means=means, roots=roots), log_density, bound
