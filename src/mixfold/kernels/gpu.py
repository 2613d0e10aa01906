"""E-steps of mixtures on a torch device."""

from __future__ import annotations

from typing import Any

from mixfold.core.errors import InvalidInputError
from mixfold.families.exponential import Exponential
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.kernels._annealing import anneal
from mixfold.kernels._products import Products
from mixfold.kernels._torch import Tensor
from mixfold.models.annealed import Annealed, AnnealingRule
from mixfold.models.mixture_model import MixtureModel, MixtureParams


def serves(model: Any) -> bool:
    """Whether there is a kernel for the model."""
    families = Gaussian | Poisson | Exponential
    return isinstance(model, MixtureModel) and isinstance(model.family, families)


class GpuKernel:
    """What `Kernel` in `kernels/choice.py` does, of many tiles at once and without leaving.

    Rows are (n, d) tensors, float32 or float64; all that is made of them is float64. The bits of
    the sums of a tile depend on its rows alone.
    """

    def __init__(self, model: MixtureModel, device: Any) -> None:
        if not serves(model):
            raise InvalidInputError(
                f"{getattr(model, 'family', model)!r} has no kernel for GPUs: use engine='cpu'"
            )
        self.model, self.device = model, device
        self._products = Products(model, device)

    def prepare(self, params: MixtureParams) -> Any:
        """What the others want of parameters; made once for many rows."""
        return self._products.prepare(params)

    def sums(self, prepared: Any, x: Tensor, weight: Tensor | None, tile: int) -> Tensor:
        """The sums of each stretch of `tile` rows, (tiles, n_sums); the last may be short."""
        return self._products.sums(prepared, x, weight, tile)

    def posterior(self, prepared: Any, x: Tensor, latent: bool = True) -> tuple[Tensor, Tensor]:
        """log p(x) of every row and, if wanted, its responsibilities (n, K)."""
        return self._products.posterior(prepared, x, latent)

    def moments(
        self, prepared: Any, x: Tensor, weight: Tensor | None, latent: Tensor, tile: int
    ) -> Tensor:
        """The sums of each tile under given responsibilities, of any sign, without likelihood."""
        return self._products.moments(prepared, x, weight, latent, tile)

    def anneal(
        self,
        state: Annealed,
        x: Tensor,
        weight: Tensor | None,
        rule: AnnealingRule,
        batch_size: int,
    ) -> tuple[Annealed, float]:
        """Stochastic gradients, batch by batch, and the sum of what they rise."""
        return anneal(state, x, weight, rule, batch_size)
