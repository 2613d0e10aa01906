"""How often the truth lies within 1.96 standard errors, for nonlinear mixed models.

    python benchmarks/nonlinear_coverage.py [REPLICATIONS]

Wanted is about 95%; with 100 replications, 90% to 99% is what chance alone allows. Intervals of
positive parameters are made on the scale of their logarithms, where estimates are more nearly
normal; maximum likelihood makes variances a little small.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from mixfold import LogisticMixedModel, OneCompartmentModel

GROUPS, ROWS = 200, 10
BETA, OMEGA = np.array([-0.5, 1.0]), 1.0
SUBJECTS, TIMES = 60, np.array([0.25, 0.5, 1.0, 1.5, 2.0, 4.0, 6.0, 9.0, 12.0, 24.0])
POPULATION, DEVIATIONS, NOISE = np.array([1.5, 30.0, 3.0]), np.array([0.4, 0.2, 0.3]), 0.15

Outcome = dict[str, tuple[float, float]]
"""Error and standard error of every parameter."""


def on_log_scale(estimate: float, truth: float, deviation: float) -> tuple[float, float]:
    """Error and standard error of the logarithm of a positive parameter."""
    return float(np.log(estimate / truth)), float(deviation / estimate)


def logistic(seed: int) -> Outcome:
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(GROUPS), ROWS)
    x = rng.normal(size=(GROUPS * ROWS, 1))
    eta = BETA[0] + BETA[1] * x[:, 0] + np.sqrt(OMEGA) * rng.normal(size=GROUPS)[groups]
    y = rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))
    model = LogisticMixedModel(random_state=seed, n_threads=1).fit(x, y, groups)
    error = model.coef_ - BETA
    variance = on_log_scale(
        model.random_covariance_[0, 0], OMEGA, model.random_covariance_std_errors_[0, 0]
    )
    return {
        "logistic: intercept": (error[0], model.coef_std_errors_[0]),
        "logistic: slope": (error[1], model.coef_std_errors_[1]),
        "logistic: variance of intercepts": variance,
    }


def pharmacokinetic(seed: int) -> Outcome:
    rng = np.random.default_rng(seed)
    subject, time_ = np.repeat(np.arange(SUBJECTS), len(TIMES)), np.tile(TIMES, SUBJECTS)
    effects = DEVIATIONS * rng.normal(size=(SUBJECTS, 3))
    ka, v, cl = (POPULATION * np.exp(effects)).T[:, subject]
    c = 100.0 * ka / (v * ka - cl) * (np.exp(-cl / v * time_) - np.exp(-ka * time_))
    table = {
        "subject": subject,
        "time": time_,
        "dose": np.full(len(c), 100.0),
        "concentration": c + NOISE * rng.normal(size=len(c)),
    }
    model = OneCompartmentModel(
        dosing="single", evaluation_draws=300, random_state=seed, n_threads=1
    ).fit(table)
    found: Outcome = {}
    for j, name in enumerate(model.parameter_names_):
        found[f"one compartment: {name}"] = on_log_scale(
            model.population_[j], POPULATION[j], model.population_std_errors_[j]
        )
        found[f"one compartment: variance of log {name}"] = on_log_scale(
            model.random_covariance_[j, j],
            DEVIATIONS[j] ** 2,
            model.random_covariance_std_errors_[j, j],
        )
    found["one compartment: noise"] = on_log_scale(
        model.noise_[0], NOISE, model.noise_std_errors_[0]
    )
    return found


def report(study: Callable[[int], Outcome], replications: int) -> None:
    began = time.perf_counter()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        outcomes = list(pool.map(study, range(replications)))
    seconds = time.perf_counter() - began
    for name in outcomes[0]:
        error, deviation = np.array([outcome[name] for outcome in outcomes]).T
        inside = np.mean(np.abs(error) < 1.96 * deviation)
        print(
            f"| {name} | {100 * inside:.0f}% | {error.mean():+.4f} | {error.std():.4f} "
            f"| {deviation.mean():.4f} |",
            flush=True,
        )
    print(f"\n{study.__name__}: {replications} fits, {seconds:.0f} s\n", flush=True)


if __name__ == "__main__":
    replications = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print("| parameter | within 1.96 standard errors | bias | deviation | mean standard error |")
    print("|---|---|---|---|---|")
    for study in (logistic, pharmacokinetic):
        report(study, replications)
