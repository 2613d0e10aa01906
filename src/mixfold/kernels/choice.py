"""The choice of a kernel for a model."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from mixfold.core.backend import Assignment, Model
from mixfold.core.rows import Array, Rows
from mixfold.kernels.factor import FactorKernel
from mixfold.kernels.labelled_rows import LabelledRowsKernel
from mixfold.kernels.native import NativeKernel
from mixfold.kernels.noise_mixture import NoiseMixtureKernel
from mixfold.kernels.patterned_rows import PatternedRowsKernel
from mixfold.kernels.product import ProductKernel
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.noise_mixture import NoiseMixture


class Kernel(Protocol):
    """Computes expectations of a model; `prepare` converts parameters for the other methods.

    Optional methods are in the protocols of `core/backend_capabilities.py`.
    """

    def prepare(self, params: Any) -> Any: ...
    def expect(self, prepared: Any, rows: Rows) -> Array: ...
    def posterior(
        self, prepared: Any, x: Array, responsibilities: bool = True, /
    ) -> tuple[Array, Array | None]: ...
    def moments(self, prepared: Any, rows: Rows, responsibilities: Array) -> Array: ...
    def simulate(
        self, prepared: Any, rows: Rows, assignment: Assignment
    ) -> tuple[Array, Array]: ...


ELEMENTS_PER_TILE = 2**18
MOST_ELEMENTS = 2**22
MIXTURE_KERNELS: tuple[Any, ...] = (  # fastest first
    FactorKernel,
    NativeKernel,
    ProductKernel,
    PatternedRowsKernel,
    ReferenceKernel,
)


def kernel_for(model: Model) -> Kernel:
    """The fastest kernel for the model on this machine.

    The kernel of `Name` in models/file.py is `NameKernel` in kernels/file.py.
    """
    if LabelledRowsKernel.supports(model):
        return LabelledRowsKernel(model, kernel_for)
    if isinstance(model, NoiseMixture):
        return NoiseMixtureKernel(model, kernel_for(model.of_components(model.k)))
    for kernel in MIXTURE_KERNELS:
        if kernel.supports(model):
            chosen: Kernel = kernel(model)
            return chosen
    file = import_module(type(model).__module__.replace(".models.", ".kernels."))
    found: Kernel = getattr(file, f"{type(model).__name__}Kernel")(model)
    return found


def tile_length(d: int) -> int:
    """Rows per tile: depends on d alone, so that sums do not depend on the machine."""
    power = max(10, (ELEMENTS_PER_TILE // d).bit_length() - 1)
    widest = max(1, MOST_ELEMENTS // d).bit_length() - 1
    return int(2 ** min(15, power, widest))
