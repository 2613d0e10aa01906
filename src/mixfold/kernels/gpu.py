"""E-steps of mixtures on a torch device."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

from mixfold.core.backend import Model
from mixfold.core.capabilities import LowRankKernel
from mixfold.core.errors import InvalidInputError
from mixfold.kernels._annealing import anneal
from mixfold.kernels._device_families import why_unsupported
from mixfold.kernels._forms import form_of, has_form
from mixfold.kernels._products import Form, Products, Whitened
from mixfold.kernels._terms import Terms, fused_types
from mixfold.kernels.native import fits_float32
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.models.annealed import Annealed, AnnealingOptions
from mixfold.models.mixture_model import MixtureModel, MixtureParams


def fused_kernel(model: MixtureModel) -> Any:
    """Fused kernels, which read float32 rows once or twice; None if not supported."""
    if find_spec("triton") is None or isinstance(model.family, LowRankKernel):
        return None
    is_product = not has_form(model)
    if not (is_product or form_of(model.family).gaussians):
        return None
    from mixfold.kernels._triton_diagonal import Diagonal
    from mixfold.kernels._triton_pairs import Pairs
    from mixfold.kernels._triton_quadratic import Quadratic
    from mixfold.kernels._triton_small import Small
    from mixfold.kernels._triton_terms import TermSums

    kinds: list[Any] = [TermSums] if is_product else [Small, Quadratic, Pairs, Diagonal]
    return next((kind(model) for kind in kinds if kind.supports(model)), None)


def types_of(form: Form) -> list[Any]:
    """The types of rows for which fused kernels are precise enough."""
    if isinstance(form, Terms):
        return fused_types(form)
    fits = isinstance(form, Whitened) and fits_float32(form.whiten.numpy(force=True))
    return [torch().float32] if fits else []


class DeviceParams(NamedTuple):
    """Parameters for products of matrices, and for fused kernels of rows of some types, if any."""

    form: Any
    fused: Any
    types: list[Any]


class GpuKernel:
    """The methods of `Kernel` in `kernels/choice.py`, for many tiles at once on a device.

    Rows are (n, d) tensors, float32 or float64; all results are float64. The bits of the sums of a
    tile depend on its rows alone. `fused` kernels need a GPU, or Triton's interpreter.
    """

    def __init__(self, model: MixtureModel, device: Any, fused: bool | None = None) -> None:
        why = why_unsupported(model)
        if why is not None:
            raise InvalidInputError(why)
        self.model, self.device = model, device
        self._products = Products(model, device)
        fused = device.type == "cuda" if fused is None else fused
        self._fused: Any = fused_kernel(model) if fused else None
        self._kept: Any = None

    @staticmethod
    def supports(model: Model) -> bool:
        """Whether the kernel serves a model."""
        return why_unsupported(model) is None

    def prepare(self, params: MixtureParams) -> DeviceParams:
        """Convert parameters for the other methods, once for many rows."""
        form: Any = self._products.prepare(params)
        types = [] if self._fused is None else types_of(form)
        return DeviceParams(form, self._fused.prepare(form) if types else None, types)

    def sums(self, prepared: DeviceParams, x: Tensor, weight: Tensor | None, tile: int) -> Tensor:
        """The sums of each stretch of `tile` rows, (tiles, n_sums); the last may be short."""
        if x.dtype in prepared.types and self._can_fuse(x, tile):
            # Triton launches kernels on the current device, not on that of x
            with torch().cuda.device_of(x):
                return self._fused.sums(prepared.fused, x, weight, tile)
        return self._products.sums(prepared.form, x, weight, tile)

    def _can_fuse(self, x: Tensor, tile: int) -> bool:
        return bool(tile % self._fused.span == 0 and len(x))

    def iterations(self, x: Tensor, weight: Tensor | None, tile: int) -> Any:
        """Passes of EM that stay on the device; None if they are not supported."""
        narrow = x.dtype == torch().float32
        if self._fused is None or not narrow or not self._can_fuse(x, tile):
            return None
        from mixfold.kernels._iterations import iterations

        return iterations(self._fused, x.contiguous(), weight, tile)

    def forget(self) -> None:
        """Free the buffers on the device."""
        self._kept = None

    def posterior(
        self, prepared: Any, x: Tensor, responsibilities: bool = True
    ) -> tuple[Tensor, Tensor]:
        """log p(x) of every row and, if wanted, its responsibilities (n, K)."""
        return self._products.posterior(prepared.form, x, responsibilities)

    def moments(
        self, prepared: Any, x: Tensor, weight: Tensor | None, responsibilities: Tensor, tile: int
    ) -> Tensor:
        """The sums of each tile under given responsibilities, of any sign, without likelihood."""
        return self._products.moments(prepared.form, x, weight, responsibilities, tile)

    def anneal(
        self,
        state: Annealed,
        x: Tensor,
        weight: Tensor | None,
        options: AnnealingOptions,
        batch_size: int,
    ) -> tuple[Annealed, float, float]:
        """Take gradient steps, batch by batch; return sums of log densities and of the bound."""
        with torch().cuda.device_of(x):
            fused = self._batches(state, x, batch_size)
            return anneal(state, x, weight, options, batch_size, fused)

    def _batches(self, state: Annealed, x: Tensor, batch_size: int) -> Any:
        """Fused gradient steps of whole batches on the device; None if not supported."""
        if self._fused is None:
            return None
        from mixfold.kernels._triton_annealing import Batches, serves

        if not serves(state, x, batch_size):
            return None
        kept = self._kept
        if kept is None or kept.size != batch_size or len(kept.x) < len(x):
            self._kept = kept = Batches(state, x.device, batch_size, len(x))
        return kept.load
