"""Draws of random effects, for many units at once.

Every unit has random numbers of its own and is computed by itself, so its draws do not depend on
which units it is computed with.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log, pi

import numpy as np
from scipy.special import logsumexp, ndtri

from mixfold.core.noise import uniforms
from mixfold.core.problem import Assignment
from mixfold.core.rows import Array
from mixfold.models._random_effects import Conditional

MODE_STEPS, MODE_ENOUGH = 25, 1e-4  # the mode only shapes proposals
BURN_IN = 5
FREEDOM = 4  # of the t proposals: its chi-square is then the logarithm of two uniform numbers
WALK = 2.4  # over sqrt(q): the random walk's best step for a Gaussian
SMALLEST = 2.0**-54
ELEMENTS = 2**20  # numbers evaluated at one go


@dataclass(frozen=True)
class Shape:
    """The mode (n, q) of every unit's log joint density, and roots of its precision there."""

    mode: Array
    root: Array
    spread: Array

    def at(self, white: Array) -> Array:
        """From white coordinates (..., n, q) to effects."""
        return self.mode + _times(self.spread, white)

    def log_proposal(self, z: Array) -> Array:
        """log density of the t proposal at effects, (..., n)."""
        q = z.shape[-1]
        white = _times(np.swapaxes(self.root, -1, -2), z - self.mode)
        constant = lgamma((FREEDOM + q) / 2) - lgamma(FREEDOM / 2) - q / 2 * log(FREEDOM * pi)
        scale = np.log(np.diagonal(self.root, axis1=-2, axis2=-1)).sum(axis=-1)
        tail = np.log1p(np.square(white).sum(axis=-1) / FREEDOM)
        return np.asarray(constant + scale - (FREEDOM + q) / 2 * tail)


@dataclass(frozen=True)
class Chains:
    """Draws (m, n, q) of every unit, and its log marginal density by importance sampling."""

    draws: Array
    log_density: Array


def draw(target: Conditional, assignment: Assignment) -> Chains:
    """Metropolis-Hastings from the mode: independent t proposals and random-walk steps in turn.

    The t proposals are at the same time the importance sample of the marginal density.
    """
    shape = shape_at_mode(target)
    n, q = shape.mode.shape
    steps = BURN_IN + assignment.draws
    noise = uniforms(assignment.seed, assignment.first, n, steps * (2 * q + 4))
    noise = np.maximum(np.moveaxis(noise.reshape(n, steps, -1), 0, 1), SMALLEST)
    normal = ndtri(np.ascontiguousarray(noise[..., : 2 * q]))
    chi_square = -2.0 * np.log(noise[..., 2 * q] * noise[..., 2 * q + 1])
    threshold = np.log(noise[..., 2 * q + 2 :])
    white = normal[..., :q] * np.sqrt(FREEDOM / chi_square)[..., None]
    proposed = shape.at(white)
    joint = _joint(target, proposed)
    log_weight = joint - shape.log_proposal(proposed)
    walks = _times(shape.spread, normal[..., q:]) * (WALK / np.sqrt(q))
    draws = _walk(target, shape, proposed, joint, log_weight, walks, threshold)
    return Chains(draws[BURN_IN:], logsumexp(log_weight, axis=0) - np.log(steps))


def _walk(
    target: Conditional,
    shape: Shape,
    proposed: Array,
    joint: Array,
    log_weight: Array,
    walks: Array,
    threshold: Array,
) -> Array:
    """The chain of every unit: at each step an independent proposal, then a random walk."""
    z = shape.mode
    here = target.log_joint(z)
    weight = here - shape.log_proposal(z)
    draws = np.empty_like(proposed)
    for t in range(len(proposed)):
        taken = threshold[t, :, 0] < log_weight[t] - weight
        z = np.where(taken[:, None], proposed[t], z)
        here = np.where(taken, joint[t], here)
        candidate = z + walks[t]
        there = target.log_joint(candidate)
        taken = threshold[t, :, 1] < there - here
        z = np.where(taken[:, None], candidate, z)
        here = np.where(taken, there, here)
        weight = here - shape.log_proposal(z)
        draws[t] = z
    return draws


def _joint(target: Conditional, z: Array) -> Array:
    """log p(y, z), a few draws at a time so that memory stays bounded."""
    several = max(1, ELEMENTS // max(1, target.size))
    return np.concatenate([target.log_joint(z[i : i + several]) for i in range(0, len(z), several)])


def shape_at_mode(target: Conditional) -> Shape:
    """Damped Newton steps to each unit's mode; a unit that has arrived stays where it is."""
    z = np.repeat(target.effects.mean[None], target.n, axis=0)
    value, gradient, information = target.joint_curvature(z)
    damping = np.zeros(target.n)
    moving = np.ones(target.n, dtype=bool)
    for _ in range(MODE_STEPS):
        step = _damped(information, gradient, damping)
        moving = moving & ((gradient * step).sum(axis=-1) > MODE_ENOUGH)
        if not moving.any():
            break
        tried, slope, curvature = target.joint_curvature(z + step)
        better = moving & (tried >= value)
        z = np.where(better[:, None], z + step, z)
        value = np.where(better, tried, value)
        gradient = np.where(better[:, None], slope, gradient)
        information = np.where(better[:, None, None], curvature, information)
        damping = np.where(better, np.where(damping < 0.01, 0.0, damping / 4), 4 * damping + 0.05)
    root = np.asarray(np.linalg.cholesky(information), dtype=np.float64)
    return Shape(z, root, np.swapaxes(np.linalg.inv(root), -1, -2))


def _damped(information: Array, gradient: Array, damping: Array) -> Array:
    """The step of Levenberg and Marquardt."""
    diagonal = np.einsum("nii->ni", information) * damping[:, None]
    return np.linalg.solve(
        information + diagonal[:, :, None] * np.eye(gradient.shape[-1]), gradient[..., None]
    )[..., 0]


def _times(matrices: Array, vectors: Array) -> Array:
    """Each unit's matrix times its vector, summed in an order that no neighbour changes."""
    return np.asarray((matrices * vectors[..., None, :]).sum(axis=-1))
