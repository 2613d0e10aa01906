"""Two Gaussians of which only the means are not known: the mixture of the incremental EM papers."""

from __future__ import annotations

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.learner import Learner
from mixfold.core.rows import Array, Rows
from mixfold.families.gaussian import Gaussian, GaussianParams
from mixfold.fitting.loop import fit_rows
from mixfold.learners.em import EM
from mixfold.models.means_only import MeansOnly
from mixfold.models.mixture_model import MixtureParams

WEIGHTS = np.array([0.2, 0.8])
TRUTH = np.array([[0.5], [-0.5]])
START = np.array([[1.0], [-1.0]])


def backend() -> Threads:
    """0.2 N(0.5, 1) + 0.8 N(-0.5, 1), means to be learned."""
    return Threads(MeansOnly(Gaussian("spherical"), 2, 1, WEIGHTS, np.ones((2, 1))))


def start() -> MixtureParams:
    """Means 1 and -1."""
    return MixtureParams(WEIGHTS, GaussianParams(START.copy(), np.ones((2, 1))))


def simulate(n: int, seed: int) -> Array:
    """Rows of the mixture, in random order."""
    rng = np.random.default_rng([seed, n])
    labels = (rng.random(n) >= WEIGHTS[0]).astype(int)
    return np.asarray(TRUTH[labels] + rng.standard_normal((n, 1)))


def maximum(backend: Threads, x: Array, passes: int = 300) -> float:
    """The first mean of highest likelihood, where EM comes to rest."""
    learner = EM(tol=0.0, max_iter=passes)
    return first_mean(backend, learner, fit_rows(backend, learner, start(), Rows(x)).state)


def first_mean(backend: Threads, learner: Learner, state: object) -> float:
    """The mean of the lighter component."""
    return float(learner.estimate(backend, state).components.means[0, 0])
