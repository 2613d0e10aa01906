"""Sums over the results of programs, in an order that depends on their number alone."""

from __future__ import annotations

from typing import Any, no_type_check

import triton
import triton.language as tl

from mixfold.kernels.optional_torch import Tensor, torch

AT_ONCE = 32
AT_MOST = 64  # rows added by one program: one after the other, so more take levels
COLUMNS = 64


@triton.jit
@no_type_check
def add_groups(
    partial, sums, count, length, GROUP: tl.constexpr, AT_ONCE: tl.constexpr, BLOCK: tl.constexpr
):
    """sums[g] = partial[g GROUP] + ... + partial[(g + 1) GROUP - 1], as far as there are any."""
    group = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, GROUP, AT_ONCE):
        row = group * GROUP + first + tl.arange(0, AT_ONCE)
        inside = (row < count)[:, None] & (column < length)[None, :]
        part = tl.load(partial + row[:, None] * length + column[None, :], inside, other=0.0)
        total += tl.sum(part.to(tl.float64), 0)
    tl.store(sums + group * length + column, total, column < length)


def grouped(partial: Tensor, group: int) -> Tensor:
    """Sums of each `group` rows of (count, ...), a power of two, in float64; the last may be of
    fewer."""
    sums: Any = partial.flatten(1)
    while group > 1 or sums.dtype != torch().float64:
        several = min(group, AT_MOST)
        sums, group = _grouped(sums, several), group // several
    return sums.reshape(len(sums), *partial.shape[1:])


def _grouped(partial: Tensor, group: int) -> Tensor:
    count, length = partial.shape
    groups = triton.cdiv(count, group)
    sums = partial.new_empty((groups, length), dtype=torch().float64)
    grid = groups, triton.cdiv(length, COLUMNS)
    add_groups[grid](partial, sums, count, length, group, min(group, AT_ONCE), COLUMNS)
    return sums
