"""One EM iteration of a linear mixed-effects model against one optimiser iteration of statsmodels.

A million groups of ten rows, a random intercept and slope, two threads. statsmodels is timed on
fewer groups and scaled: its cost is a Python loop over groups.

python benchmarks/linear_mixed.py [GROUPS]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from _timing import best_alternating
from mixfold import LinearMixedModel
from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.learners.em import EM
from mixfold.models.linear_mixed import LinearMixed
from mixfold.models.subject_rows import subject_rows

THREADS, PER_GROUP, THEIR_GROUPS, WANTED = 2, 10, 1000, 50.0


def example(groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A response with random intercepts and slopes in x, and the groups of its rows."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(groups), PER_GROUP)
    x = rng.normal(size=len(group))
    z = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.2], [0.2, 0.5]], size=groups)[group]
    y = 4.0 + 9.0 * x + z[:, 0] + z[:, 1] * x + rng.normal(size=len(group))
    return np.column_stack([np.ones(len(group)), x]), y, group


def our_iteration(groups: int) -> Callable[[], object]:
    """One E and M step."""
    a, y, _ = example(groups)
    units = subject_rows(a, a, y - a @ [4.0, 9.0], np.arange(0, len(y), PER_GROUP))
    model = LinearMixed(2, 2)
    backend, learner = Threads(model, THREADS), EM(tol=0.0)
    state = learner.init(backend, model.initial_params(units))

    def iterate() -> None:
        learner.end_pass(backend, learner.step(backend, state, Rows(units))[0])

    return iterate


def our_fit(groups: int) -> tuple[float, int, Any]:
    """Seconds and passes of a whole fit from arrays."""
    a, y, group = example(groups)
    began = time.perf_counter()
    model = LinearMixedModel(fit_intercept=False, n_threads=THREADS).fit(a, y, group, a)
    return time.perf_counter() - began, len(model.history_), model


def their_iteration(groups: int) -> Callable[[], object]:
    """One likelihood and one gradient, the least an iteration of BFGS needs."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    a, y, group = example(groups)
    model = MixedLM(y, a, groups=group, exog_re=a)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = model.fit(reml=False, maxiter=2).params_object

    def iterate() -> None:
        model.loglike(params)
        model.score(params)

    return iterate


def main() -> None:
    """Print the two and their ratio."""
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rivals = {"ours": our_iteration(groups), "theirs": their_iteration(THEIR_GROUPS)}
    best = best_alternating(rivals, 6)
    ours, theirs = best["ours"], best["theirs"] * groups / THEIR_GROUPS
    print(f"{groups:,} groups of {PER_GROUP} rows, seconds per iteration on {THREADS} threads:")
    print(f"mixfold {ours:.3f}; statsmodels {theirs:.1f}, scaled from {THEIR_GROUPS:,} groups")
    verdict = "" if theirs >= WANTED * ours else f" (wanted {WANTED:.0f})"
    print(f"{theirs / ours:.0f} times faster{verdict}")
    seconds, passes, model = our_fit(groups)
    print(f"a whole fit from arrays: {seconds:.1f} s, {passes} passes, coef {model.coef_}")


if __name__ == "__main__":
    main()
