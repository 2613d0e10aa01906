"""The M-step of full Gaussians in few columns as one kernel: components are lanes, numbers float64.

Triangles are lists of d (d + 1) / 2 lanes, row by row. Parameters of all components are one list:
weights (K), means (K, d), Cholesky factors (K, d, d).
"""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def totals(sums, tiles, lane, real, K: tl.constexpr, S: tl.constexpr):
    """The sums of every component over all tiles, and the log-likelihood."""
    total = ()
    for _ in tl.static_range(S):
        total = total + (tl.zeros_like(lane).to(tl.float64),)
    log_likelihood = tl.zeros_like(lane).to(tl.float64)
    for tile in range(tiles):
        at = sums + tile * (1 + K * S)
        after = ()
        for i in tl.static_range(S):
            after = after + (total[i] + tl.load(at + 1 + lane * S + i, real, other=0.0),)
        total = after
        log_likelihood += tl.load(at + lane * 0)
    return total, log_likelihood


@triton.jit
@no_type_check
def scattered(tril, local, D: tl.constexpr):
    """tril local tril', of triangles; `local` is symmetric."""
    half = ()
    for i in tl.static_range(D):
        for j in tl.static_range(D):
            value = tril[i * (i + 1) // 2] * local[j * (j + 1) // 2]
            for a in tl.static_range(1, i + 1):
                if a >= j:
                    value += tril[i * (i + 1) // 2 + a] * local[a * (a + 1) // 2 + j]
                else:
                    value += tril[i * (i + 1) // 2 + a] * local[j * (j + 1) // 2 + a]
            half = half + (value,)
    found = ()
    for i in tl.static_range(D):
        for j in tl.static_range(i + 1):
            value = half[i * D] * tril[j * (j + 1) // 2]
            for a in tl.static_range(1, j + 1):
                value += half[i * D + a] * tril[j * (j + 1) // 2 + a]
            found = found + (value,)
    return found


@triton.jit
@no_type_check
def floors(proportion, mean, scatter, real, limits, D: tl.constexpr):
    """`Gaussian.variance_floor`: a fraction of the data's variance in each column."""
    found = ()
    for i in tl.static_range(D):
        centre = tl.sum(proportion * mean[i], 0)
        gap = mean[i] - centre
        spread = tl.sum(
            tl.where(real, proportion * (scatter[i * (i + 3) // 2] + gap * gap), 0.0), 0
        )
        lowest = tl.maximum(tl.load(limits + 2) * centre * centre, tl.load(limits + 3 + i))
        found = found + (tl.maximum(tl.load(limits) * spread, lowest),)
    return found


@triton.jit
@no_type_check
def factored(scatter, floor, reg, real, D: tl.constexpr):
    """Cholesky factors of scatter + reg I, and whether all pivots are above the floor."""
    tril = ()
    healthy = tl.min(real.to(tl.int32), 0) >= 0
    for i in tl.static_range(D):
        for j in tl.static_range(i + 1):
            value = scatter[i * (i + 1) // 2 + j]
            for a in tl.static_range(j):
                value -= tril[i * (i + 1) // 2 + a] * tril[j * (j + 1) // 2 + a]
            if i == j:
                value += reg
                healthy = healthy & (tl.min(tl.where(real, value - floor[i], 1.0), 0) > 0.0)
                value = tl.sqrt(tl.where(real & (value > 0.0), value, 1.0))
            else:
                value = value / tril[j * (j + 3) // 2]
            tril = tril + (value,)
    return tril, healthy


@triton.jit
@no_type_check
def inverted(tril, D: tl.constexpr):
    """The inverse of a triangle."""
    inverse = ()
    for i in tl.static_range(D):
        for j in tl.static_range(i):
            value = tril[i * (i + 1) // 2 + j] * inverse[j * (j + 3) // 2]
            for a in tl.static_range(j + 1, i):
                value += tril[i * (i + 1) // 2 + a] * inverse[a * (a + 1) // 2 + j]
            inverse = inverse + (-value / tril[i * (i + 3) // 2],)
        inverse = inverse + (1.0 / tril[i * (i + 3) // 2],)
    return inverse


@triton.jit
@no_type_check
def maximize_small(
    sums,
    tiles,
    before,
    after,
    theta,
    log_likelihood,
    healthy,
    limits,
    D: tl.constexpr,
    K: tl.constexpr,
    KP: tl.constexpr,
):
    """Parameters `after` from those `before` and the sums made under them, and their `theta`."""
    T: tl.constexpr = D * (D + 1) // 2
    lane = tl.arange(0, KP)
    real = lane < K
    total, log_likelihoods = totals(sums, tiles, lane, real, K, 1 + D + T)
    weight = total[0]
    count = tl.sum(weight, 0)
    some = tl.where(real & (weight > 0.0), weight, 1.0)
    mean = ()
    old = ()
    local = ()
    for i in tl.static_range(D):
        value = tl.load(before + K + lane * D + i, real, other=0.0)
        for j in tl.static_range(i + 1):
            at = before + K + K * D + (lane * D + i) * D + j
            old = old + (tl.load(at, real, other=0.0),)
            value += old[i * (i + 1) // 2 + j] * (total[1 + j] / some)
            second = total[1 + D + i * (i + 1) // 2 + j] / some
            local = local + (second - (total[1 + i] / some) * (total[1 + j] / some),)
        mean = mean + (value,)
    scatter = scattered(old, local, D)
    proportion = weight / count
    floor = floors(proportion, mean, scatter, real, limits, D)
    tril, good = factored(scatter, floor, tl.load(limits + 1), real, D)
    good = good & (tl.min(tl.where(real, weight, 1.0), 0) > 0.0)
    root = inverted(tril, D)
    constant = tl.log(tl.where(real & (proportion > 0.0), proportion, 1.0)) - 0.9189385332046727 * D
    tl.store(after + lane, proportion, real)
    at = theta + lane * (1 + 2 * D + T)
    for i in tl.static_range(D):
        constant -= tl.log(tril[i * (i + 3) // 2])
        tl.store(after + K + lane * D + i, mean[i], real)
        high = mean[i].to(tl.float32)
        tl.store(at + 1 + i, high, real)
        tl.store(at + 1 + D + i, (mean[i] - high.to(tl.float64)).to(tl.float32), real)
        for j in tl.static_range(i + 1):
            place = after + K + K * D + (lane * D + i) * D
            tl.store(place + j, tril[i * (i + 1) // 2 + j], real)
            tl.store(
                at + 1 + 2 * D + i * (i + 1) // 2 + j,
                root[i * (i + 1) // 2 + j].to(tl.float32),
                real,
            )
    tl.store(at, constant.to(tl.float32), real)
    tl.store(log_likelihood + lane * 0, log_likelihoods / count, lane == 0)
    tl.store(healthy + lane * 0, tl.zeros_like(lane) + good.to(tl.int32), lane == 0)
