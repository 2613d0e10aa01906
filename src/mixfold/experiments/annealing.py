"""Gaussian mixtures of pictures: fitting, evaluation and tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from mixfold.backends.threads import available_cores
from mixfold.core.arrays import largest_log_joint
from mixfold.core.learner import Learner
from mixfold.estimators.mixture import Mixture
from mixfold.experiments.pixels import Pictures, Pixels
from mixfold.families.gaussian import Gaussian
from mixfold.learners.annealed_sgd import AnnealedSGD
from mixfold.learners.stepwise_em import StepwiseEM
from mixfold.schedules.floored import Floored

K = 64
CAP = 20.0
BATCH = 100
SGD, SEM = "SGD", "sEM"

Result = dict[str, Any]
Part = TypeVar("Part")
Returned = TypeVar("Returned")


def methods() -> dict[str, Learner]:
    """The two methods, with three epochs each."""
    return {SGD: AnnealedSGD(cap=CAP), SEM: stepwise()}


def stepwise() -> StepwiseEM:
    """The paper's sEM with batches of 100 rows, and as long steps per row as with single rows."""
    row = Floored()
    return StepwiseEM(
        cap=CAP,
        batch_size=BATCH,
        schedule=Floored(
            first=min(1.0, row.first * BATCH ** (0.5 - row.alpha)),
            alpha=row.alpha,
            least=BATCH * row.least,
        ),
    )


def learned(x: Pixels, learner: Learner, seed: int, k: int = K, init: Any = "auto") -> Mixture:
    """A mixture of diagonal Gaussians whose precisions do not pass the cap."""
    family = Gaussian("diag", cap=CAP)
    mixture = Mixture(family, k, learner=learner, init=init, random_state=seed, n_threads=1)
    return mixture.fit(x)


def judged(mixture: Mixture, x: Pixels) -> Result:
    """Mean log-likelihood and its bound, mean largest responsibility, components that have rows."""
    log_density, r = mixture.score_samples(x), mixture.predict_proba(x)
    return {
        "bound": float(largest_log_joint(log_density, r).mean()),
        "log_likelihood": float(log_density.mean()),
        "responsibility": float(r.max(axis=1).mean()),
        "used": len(np.unique(r.argmax(axis=1))),
    }


def trial(pictures: Pictures, learner: Learner, seed: int, **settings: Any) -> Result:
    """The results of a learner on the test rows, and its time."""
    began = time.thread_time()
    mixture = learned(pictures.learned, learner, seed, **settings)
    seconds = time.thread_time() - began
    return {**judged(mixture, pictures.judged), "cpu_seconds": seconds}


def together(work: Callable[[Part], Returned], parts: Iterable[Part]) -> list[Returned]:
    """Apply `work` to every part, on all cores."""
    with ThreadPoolExecutor(available_cores()) as pool:
        return list(pool.map(work, parts))


def gathered(results: list[Result], measure: str, *keys: str) -> dict[tuple[Any, ...], list[float]]:
    """The values of a measure over replications, by the other columns."""
    values: dict[tuple[Any, ...], list[float]] = {}
    for result in results:
        values.setdefault(tuple(result[key] for key in keys), []).append(result[measure])
    return values


def spread(values: list[float], digits: int = 2) -> str:
    """Mean and standard deviation."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def titled(pictures: Pictures) -> str:
    """The set's name and size, with a mark where it is not the published one."""
    n, d = pictures.learned.shape
    return f"{pictures.name}{'' if pictures.whole else '*'} ({n:,} x {d})"
