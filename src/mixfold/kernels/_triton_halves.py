"""Products of float32 matrices as three products of halves, of 11 bits each, on tensor cores.

Triton's own tf32x3 divides both factors again whenever they are used; parameters are divided once.
"""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl

from mixfold.kernels.optional_torch import Tensor, torch

UPPER_BITS = -8192  # a mask of sign, exponent and the first 10 bits of the fraction


def halves(a: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers whose sum is `a`: its upper bits, and the rest."""
    a = a.contiguous()
    high = (a.view(torch().int32) & UPPER_BITS).view(torch().float32)
    return high, a - high


@triton.jit
@no_type_check
def product(a, high, low, sums, UPPER_BITS: tl.constexpr):
    """sums + a (high + low)."""
    upper = (a.to(tl.int32, bitcast=True) & UPPER_BITS).to(tl.float32, bitcast=True)
    sums = tl.dot(a - upper, high, sums, input_precision="tf32")
    sums = tl.dot(upper, low, sums, input_precision="tf32")
    return tl.dot(upper, high, sums, input_precision="tf32")
