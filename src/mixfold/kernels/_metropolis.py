"""Metropolis-Hastings draws of random effects, for many subjects at once.

Every subject has its own random numbers, so its draws do not depend on the other subjects that are
computed at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log, pi

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtri

from mixfold.core.backend import Assignment
from mixfold.core.noise import uniforms
from mixfold.core.rows import Array
from mixfold.models.random_effects import Conditional

MODE_STEPS, MODE_ENOUGH = 25, 1e-4  # sufficient for the shape of proposals
FIRST = 20  # proposals from which the initial state is drawn
FAR_SHARE = 0.2
# degrees of freedom of the t proposals; chi-square is then the log of two uniform numbers
FREEDOM = 4
WALK = 2.4  # times 1 / sqrt(q) is the best step of a random walk for a Gaussian
SMALLEST = 2.0**-54
ELEMENTS = 2**20  # numbers evaluated at once


@dataclass(frozen=True)
class Shape:
    """Location (n, q) of the effects of every subject, and roots of precision and covariance."""

    center: Array
    root: Array
    spread: Array

    def at(self, white: Array) -> Array:
        """Effects from standardised numbers, (..., n, q)."""
        return self.center + _times(self.spread, white)

    def log_t(self, z: Array) -> Array:
        """log density at z of a t distribution of this shape, (..., n)."""
        q = z.shape[-1]
        white = _times(np.swapaxes(self.root, -1, -2), z - self.center)
        constant = lgamma((FREEDOM + q) / 2) - lgamma(FREEDOM / 2) - q / 2 * log(FREEDOM * pi)
        scale = np.log(np.diagonal(self.root, axis1=-2, axis2=-1)).sum(axis=-1)
        tail = np.log1p(np.square(white).sum(axis=-1) / FREEDOM)
        return np.asarray(constant + scale - (FREEDOM + q) / 2 * tail)


@dataclass(frozen=True)
class Noise:
    """Random numbers of every step and subject: (m, n, ...)."""

    normal: Array
    walk: Array
    single: Array
    stretch: Array
    choice: Array
    threshold: Array


@dataclass(frozen=True)
class Chains:
    """Draws (m, n, q) of every subject, and its log marginal density by importance sampling.

    `relative_variance` is that of the estimate of the marginal density.
    """

    draws: Array
    log_density: Array
    relative_variance: Array

    @property
    def weight(self) -> Array:
        """The weight (m, n) of every draw in its subject's posterior."""
        return np.full(self.draws.shape[:2], 1.0 / len(self.draws))


class Proposals:
    """Independent proposals from a mixture of a t distribution and the population distribution.

    The second component keeps importance weights bounded, and finds other modes.
    """

    def __init__(self, target: Conditional, shape: Shape, noise: Noise) -> None:
        self.target, self.shape = target, shape
        near = shape.at(noise.normal * noise.stretch[..., None])
        far = target.effects.at(noise.normal)
        self.z = np.where((noise.choice < FAR_SHARE)[..., None], far, near)
        self.joint = joint(target, self.z)
        self.log_weight = self.weigh(self.z, self.joint)

    def weigh(self, z: Array, joint: Array) -> Array:
        """log of p(y, z) over the density of proposing z."""
        near = log(1.0 - FAR_SHARE) + self.shape.log_t(z)
        far = log(FAR_SHARE) + self.target.effects.log_density(z)
        return np.asarray(joint - np.logaddexp(near, far))


def draw(target: Conditional, assignment: Assignment, shape: Shape) -> Chains:
    """Metropolis-Hastings, starting from one of the first proposals, drawn by its weight.

    The proposals are at the same time the importance sample of the marginal density.
    """
    noise = _noise(assignment, *shape.center.shape)
    proposals = Proposals(target, shape, noise)
    # over a contiguous axis, so that the order of the sum is the same for one subject
    log_weight = np.ascontiguousarray(proposals.log_weight.T)
    total = logsumexp(log_weight, axis=1)
    variance = np.square(np.exp(log_weight - total[:, None])).sum(axis=1) - 1.0 / len(noise.choice)
    draws = _walk(target, shape, proposals, noise)
    return Chains(draws, total - log(len(noise.choice)), np.maximum(variance, 0.0))


def _noise(assignment: Assignment, n: int, q: int) -> Noise:
    steps = FIRST + assignment.draws
    numbers = uniforms(assignment.seed, assignment.first, n, steps * (2 * q + 7))
    numbers = np.maximum(np.moveaxis(numbers.reshape(n, steps, -1), 0, 1), SMALLEST)
    normal = ndtri(np.ascontiguousarray(numbers[..., : 2 * q + 1]))
    rest = np.ascontiguousarray(np.moveaxis(numbers[..., 2 * q + 1 :], -1, 0))
    chi_square = -2.0 * np.log(rest[0] * rest[1])
    return Noise(
        normal=np.ascontiguousarray(normal[..., :q]),
        walk=np.ascontiguousarray(normal[..., q : 2 * q]),
        single=np.ascontiguousarray(normal[..., 2 * q]),
        stretch=np.sqrt(FREEDOM / chi_square),
        choice=rest[2],
        threshold=np.log(rest[3:]),
    )


def _walk(target: Conditional, shape: Shape, proposals: Proposals, noise: Noise) -> Array:
    """At each step an independent proposal, a random walk of all effects, and one of one effect."""
    n, q = shape.center.shape
    # no step has used this number, since the first ones only make proposals
    first = _one_of(proposals.log_weight[:FIRST], np.exp(noise.threshold[0, 0]))
    z = proposals.z[first, np.arange(n)]
    here = proposals.joint[first, np.arange(n)]
    walks = _times(shape.spread, noise.walk) * (WALK / np.sqrt(q))
    draws = np.empty((len(noise.choice) - FIRST, n, q))
    for t in range(FIRST, len(noise.choice)):
        rise = proposals.log_weight[t] - proposals.weigh(z, here)
        taken = noise.threshold[0, t] < rise
        z = np.where(taken[:, None], proposals.z[t], z)
        here = np.where(taken, proposals.joint[t], here)
        single = np.zeros((n, q))
        single[:, t % q] = noise.single[t] * target.effects.deviation[t % q]
        for step, threshold in ((walks[t], noise.threshold[1, t]), (single, noise.threshold[2, t])):
            there = target.log_joint(z + step)
            taken = threshold < there - here
            z = np.where(taken[:, None], z + step, z)
            here = np.where(taken, there, here)
        draws[t - FIRST] = z
    return draws


def _one_of(log_weight: Array, uniform: Array) -> NDArray[np.intp]:
    """For every subject the index of one proposal, drawn by its weight."""
    reached = np.exp(log_weight - log_weight.max(axis=0)).cumsum(axis=0)
    return np.asarray((reached < uniform * reached[-1]).sum(axis=0))


def joint(target: Conditional, z: Array) -> Array:
    """log p(y, z), a few draws at a time to bound memory."""
    several = max(1, ELEMENTS // max(1, target.size))
    return np.concatenate([target.log_joint(z[i : i + several]) for i in range(0, len(z), several)])


def shape_at_mode(target: Conditional, enough: float = MODE_ENOUGH) -> Shape:
    """Damped Newton steps to each subject's mode, until it has converged.

    A subject has converged when the next step would gain at most about `enough` nats.
    """
    z = np.repeat(target.effects.mean[None], target.n, axis=0)
    value, gradient, information = target.joint_curvature(z)
    damping = np.zeros(target.n)
    moving = np.ones(target.n, dtype=bool)
    for _ in range(MODE_STEPS):
        step = _damped(information, gradient, damping)
        moving = moving & ((gradient * step).sum(axis=-1) > enough)
        if not moving.any():
            break
        tried, slope, curvature = target.joint_curvature(z + step)
        better = moving & (tried >= value)
        z = np.where(better[:, None], z + step, z)
        value = np.where(better, tried, value)
        gradient = np.where(better[:, None], slope, gradient)
        information = np.where(better[:, None, None], curvature, information)
        damping = np.where(better, np.where(damping < 0.01, 0.0, damping / 4), 4 * damping + 0.05)
    return _shape(z, information)


def shape_of(draws: Array) -> Shape:
    """The mean and the covariance of every subject's draws."""
    mean = draws.mean(axis=0)
    gap = draws - mean
    covariance = np.einsum("mna,mnb->nab", gap, gap) / len(draws)
    q = mean.shape[-1]
    # chains that never moved need a positive definite shape too
    covariance += (1e-6 * np.einsum("nii->n", covariance) + SMALLEST)[:, None, None] * np.eye(q)
    return _shape(mean, np.linalg.inv(covariance))


def _shape(center: Array, precision: Array) -> Shape:
    root = np.asarray(np.linalg.cholesky(precision), dtype=np.float64)
    return Shape(center, root, np.swapaxes(np.linalg.inv(root), -1, -2))


def _damped(information: Array, gradient: Array, damping: Array) -> Array:
    """The step of Levenberg and Marquardt."""
    diagonal = np.einsum("nii->ni", information) * damping[:, None]
    return np.linalg.solve(
        information + diagonal[:, :, None] * np.eye(gradient.shape[-1]), gradient[..., None]
    )[..., 0]


def _times(matrices: Array, vectors: Array) -> Array:
    """Each subject's matrix times its vector; the order of sums does not depend on others."""
    return np.asarray((matrices * vectors[..., None, :]).sum(axis=-1))
