"""How the simulation studies are run; `_simulation_table.py` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.experiments._measures import evaluate, squared_error
from mixfold.experiments._methods import (
    CONVERGED,
    PARTS,
    TEN_PASSES,
    Contest,
    Outcome,
    random_labels,
)
from mixfold.experiments._simulation_table import SimulationRow
from mixfold.experiments._writing import draw_boxes, write_csv, write_markdown
from mixfold.experiments.templates import Template, find_template
from mixfold.experiments.wanted import Wanted
from mixfold.sources.array_source import ArraySource

MEASURES = {
    "seconds": "time (s)",
    "log_likelihood": "log-likelihood per row",
    "squared_error": "squared error",
    "ari": "adjusted Rand index",
}
LOGARITHMIC = ("squared error",)

Result = dict[str, Any]


@dataclass(frozen=True)
class Simulation:
    """Mini-batch EM against EM on data drawn from a known mixture.

    Every replication draws new rows and one start that all methods share.
    """

    name: str
    row: SimulationRow

    def run(self, wanted: Wanted) -> None:
        """Run all replications; table and box plots go to the folder `out`."""
        template = find_template(self.row.template, wanted.data)
        name, reps, n = self.name, wanted.reps or self.row.reps, wanted.n or self.row.n
        out, results = wanted.folder(), list[Result]()
        for rep in range(reps):
            results += replicate(template, n, rep)
            # kept up to date, so that an interrupted study leaves what it has
            write_csv(out / f"{name}.csv", results)
            wanted.tell(f"{name}: {rep + 1} of {reps} done")
        write_summary(out / f"{name}.md", results)
        title = f"{name}: n = {n:,}, {reps} replications"
        draw_boxes(out / f"{name}.png", title, panels(results), LOGARITHMIC)


def replicate(template: Template, n: int, rep: int) -> list[Result]:
    """All methods on one data set from one start."""
    rng = np.random.default_rng([n, rep])
    x, labels = template.model.sample(template.params, n, rng)
    source, backend = ArraySource(x), Threads(template.model)
    start = random_labels(template.model, source, rng)
    contest = Contest(backend, source, start, rep)
    outcomes = chain(
        [contest.em("EM", TEN_PASSES), contest.em("EM (converged)", CONVERGED)],
        *(contest.truncated_too(part) for part in PARTS),
    )

    def measured(outcome: Outcome) -> Result:
        method, params, fit = outcome
        log_likelihood, ari = evaluate(backend, params, source, labels)
        return {
            "replication": rep,
            "method": method,
            "seconds": fit.seconds,
            "log_likelihood": log_likelihood,
            "squared_error": squared_error(template, params),
            "ari": ari,
            "passes": fit.passes,
            "truncations": getattr(fit.state, "truncations", 0),
        }

    return [measured(outcome) for outcome in outcomes]


def panels(results: list[Result]) -> dict[str, dict[str, list[float]]]:
    """For every measure, the values of every method."""
    chosen: dict[str, dict[str, list[float]]] = {}
    for measure, label in MEASURES.items():
        for result in results:
            boxes = chosen.setdefault(label, {})
            boxes.setdefault(result["method"], []).append(result[measure])
    return chosen


def write_summary(path: Path, results: list[Result]) -> None:
    """Medians over replications, one line per method; truncations are totals."""
    header = ["method", *MEASURES.values(), "passes", "truncations"]
    by_method: dict[str, list[Result]] = {}
    for result in results:
        by_method.setdefault(result["method"], []).append(result)
    rows = [[method, *_summary(group)] for method, group in by_method.items()]
    write_markdown(path, header, rows)


def _summary(group: list[Result]) -> list[str]:
    medians = {key: float(np.median([r[key] for r in group])) for key in (*MEASURES, "passes")}
    return [
        f"{medians['seconds']:.2f}",
        f"{medians['log_likelihood']:.4f}",
        f"{medians['squared_error']:.3g}",
        f"{medians['ari']:.4f}",
        f"{medians['passes']:.0f}",
        str(sum(r["truncations"] for r in group)),
    ]
