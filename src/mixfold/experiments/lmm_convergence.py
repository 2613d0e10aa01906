"""EM, mini-batch EM and incremental EM on a linear mixed-effects model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.learner import Learner
from mixfold.core.rows import Array, Rows
from mixfold.experiments._writing import new_figure, write_csv, write_markdown
from mixfold.experiments.wanted import Wanted
from mixfold.fitting.loop import fit_rows, iter_fits
from mixfold.learners.em import EM
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.models.linear_mixed import LinearMixed
from mixfold.models.subject_rows import subject_rows

TRUTH = np.array([4.0, 9.0])
STARTS = ((1.0, 5.0), (3.0, 7.0))
GROUPS, OBSERVATIONS, PASSES = 10_000, 10, 20
CLOSE = 1e-3
# evaluations per pass, except for EM, which makes one update
LOOKS = 20

Result = dict[str, Any]


def methods() -> dict[str, tuple[Learner, int]]:
    """Every method, and the number of evaluations per pass."""

    def incremental(batch_size: float) -> Learner:
        return IncrementalEM(batch_size=batch_size, tol=0.0, max_iter=PASSES)

    return {
        "EM": (EM(tol=0.0, max_iter=PASSES), 1),
        "MBEM, half": (incremental(0.5), 2),
        "MBEM, 1%": (incremental(0.01), LOOKS),
        "incremental EM": (incremental(1), LOOKS),
    }


class LmmConvergence:
    """beta against passes, from two starts; covariances are known, as in the paper."""

    reps = 1

    def run(self, wanted: Wanted) -> None:
        """Run all replications with `n` groups; results go to the folder `out`."""
        out = wanted.folder()
        results = list[Result]()
        for rep in range(wanted.reps or self.reps):
            subjects = simulate(wanted.n or GROUPS, rep)
            for start in STARTS:
                results += compare(subjects, start, rep)
                wanted.tell(f"lmm-convergence: start {start}")
            write_csv(out / "lmm-convergence.csv", results)
        write_summary(out / "lmm-convergence.md", results)
        draw(out / "lmm-convergence.png", results)


def model() -> LinearMixed:
    """Two fixed and two random effects, covariances known."""
    return LinearMixed(2, 2, omega=np.eye(2), noise_variance=1.0)


def simulate(n: int, seed: int) -> Array:
    """Groups as subjects, with design matrices uniform in (0, 1)."""
    rng = np.random.default_rng([seed, n])
    a, b = rng.random((2, n * OBSERVATIONS, 2))
    group = np.repeat(np.arange(n), OBSERVATIONS)
    effects = (b * rng.standard_normal((n, 2))[group]).sum(axis=1)
    y = a @ TRUTH + effects + rng.standard_normal(len(group))
    return subject_rows(a, b, y, np.arange(0, len(group), OBSERVATIONS))


def compare(subjects: Array, start: tuple[float, float], rep: int) -> list[Result]:
    """The path of every method to the maximum."""
    backend = Threads(model())
    best = maximum(backend, subjects)
    results: list[Result] = []
    for name, (learner, looks) in methods().items():
        for passes, beta in path(backend, learner, subjects, start, looks):
            results.append(
                {
                    "replication": rep,
                    "start": f"({start[0]:g}, {start[1]:g})",
                    "method": name,
                    "passes": passes,
                    "beta_1": float(beta[0]),
                    "beta_2": float(beta[1]),
                    "error": float(np.abs(beta - best).max()),
                }
            )
    return results


def path(
    backend: Threads, learner: Learner, subjects: Array, start: tuple[float, float], looks: int
) -> list[tuple[float, Array]]:
    """Passes made so far and beta, at every evaluation."""
    resolved = learner.resolve(len(subjects), backend.model.d, False)
    begin = replace(backend.model.initial_params(subjects), beta=np.array(start))
    found = {0.0: np.array(start)}
    for fit in iter_fits(backend, resolved, begin, Rows(subjects), -(-len(subjects) // looks)):
        # what a pass ends with takes the place of what its last rows gave
        found[fit.passes + fit.row / len(subjects)] = resolved.estimate(backend, fit.state).beta
    return [*found.items()]


def maximum(backend: Threads, subjects: Array) -> Array:
    """beta of highest likelihood: weighted least squares, since covariances are known."""
    learner = EM(tol=1e-15, max_iter=500, accelerate=True)
    fit = fit_rows(backend, learner, backend.model.initial_params(subjects), Rows(subjects))
    beta: Array = learner.estimate(backend, fit.state).beta
    return beta


def write_summary(path: Path, results: list[Result]) -> None:
    """Passes until both coefficients stay within 1e-3 of the maximum."""
    starts = sorted({r["start"] for r in results})
    rows = []
    for name in methods():
        cells = [_passes_needed(results, name, start) for start in starts]
        rows.append([name, *cells])
    write_markdown(path, ["method", *(f"passes from {start}" for start in starts)], rows)


def _passes_needed(results: list[Result], method: str, start: str) -> str:
    chosen = [r for r in results if r["method"] == method and r["start"] == start]
    needed = []
    for rep in sorted({r["replication"] for r in chosen}):
        far = [r["passes"] for r in chosen if r["replication"] == rep and r["error"] >= CLOSE]
        later = [r["passes"] for r in chosen if r["passes"] > max(far, default=-1.0)]
        needed.append(min(later, default=float("inf")))
    middle = float(np.median(needed))
    return f"{middle:.2f}" if np.isfinite(middle) else f"over {PASSES}"


def draw(path: Path, results: list[Result]) -> None:
    """Both coefficients and the distance from the maximum against passes."""
    figure = new_figure(11.0, 5.5)
    starts = sorted({r["start"] for r in results})
    panels = figure.subplots(len(starts), 3, sharex=True, squeeze=False)
    for row, start in zip(panels, starts, strict=True):
        for axis, key in zip(row, ("beta_1", "beta_2", "error"), strict=True):
            for name in methods():
                points = [
                    (r["passes"], r[key])
                    for r in results
                    if r["method"] == name and r["start"] == start and r["replication"] == 0
                ]
                axis.plot(*zip(*points, strict=True), label=name, linewidth=1.3)
            label = "distance from the maximum" if key == "error" else key.replace("_", " ")
            axis.set_title(f"{label}, start {start}", fontsize=9)
            axis.set_xlabel("passes", fontsize=8)
            axis.tick_params(labelsize=8)
            axis.grid(linewidth=0.4, alpha=0.6)
            if key == "error":
                axis.set_yscale("log")
    panels[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=90)
