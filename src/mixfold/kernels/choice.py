"""Which kernel serves a model."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from mixfold.core.problem import Assignment, Model
from mixfold.core.rows import Array, Rows
from mixfold.kernels import native
from mixfold.kernels.factor import FactorKernel
from mixfold.kernels.native import NativeKernel
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.mixture_model import MixtureModel


class Kernel(Protocol):
    """Expectations of one model; `prepare` turns parameters into what the others want.

    What else a kernel can do it offers by the protocols of `core/capabilities.py`.
    """

    def prepare(self, params: Any) -> Any: ...
    def expect(self, prepared: Any, rows: Rows) -> Array: ...
    def posterior(
        self, prepared: Any, x: Array, latent: bool = True, /
    ) -> tuple[Array, Array | None]: ...
    def moments(self, prepared: Any, rows: Rows, latent: Array) -> Array: ...
    def simulate(
        self, prepared: Any, rows: Rows, assignment: Assignment
    ) -> tuple[Array, Array]: ...


ELEMENTS_PER_TILE = 2**18
MOST_ELEMENTS = 2**22


def kernel_for(model: Model) -> Kernel:
    """The fastest kernel for the model on this machine.

    The kernel of `Name` in models/file.py is `NameKernel` in kernels/file.py.
    """
    if isinstance(model, MixtureModel):
        return mixture_kernel(model)
    file = import_module(type(model).__module__.replace(".models.", ".kernels."))
    kernel: Kernel = getattr(file, f"{type(model).__name__}Kernel")(model)
    return kernel


def mixture_kernel(model: MixtureModel) -> Kernel:
    """The compiled kernel of a mixture where there is one; factors have BLAS."""
    if model.family.form == "factor":
        return FactorKernel(model)
    if native.serves(model):
        return NativeKernel(model)
    if native._native is None:
        warn_once()
    return ReferenceKernel(model)


@cache
def warn_once() -> None:
    """Say once that no compiled kernel was built."""
    message = "mixfold was built without a compiler: using NumPy kernels, which are slower"
    warnings.warn(message, RuntimeWarning, stacklevel=4)


def tile_length(d: int) -> int:
    """Rows summed at one go: depends on d alone, so that sums do not depend on the machine."""
    power = max(10, (ELEMENTS_PER_TILE // d).bit_length() - 1)
    widest = max(1, MOST_ELEMENTS // d).bit_length() - 1
    return int(2 ** min(15, power, widest))
