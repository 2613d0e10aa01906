"""Every learner on every labelled data set, from one start and within one budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.errors import SourceError
from mixfold.core.learner import Learner
from mixfold.core.registry import find_all
from mixfold.experiments._labelled import DIAG, FULL, Labelled, labelled_sets, standardised
from mixfold.experiments._measures import evaluate
from mixfold.experiments._writing import draw_boxes, write_csv, write_markdown
from mixfold.experiments.wanted import Wanted
from mixfold.families.gaussian import Gaussian
from mixfold.fitting.loop import Loop
from mixfold.fitting.plan import FitPlan, GivenParams
from mixfold.initializers.k_means_plus_plus import KMeansPlusPlus
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.online_k_mle import STRATEGIES
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.schedules.settling import Settling
from mixfold.sources.array_source import ArraySource

PASSES = 10
HELD_OUT = 0.3
# of the column's variance: ties in real data would let a likelihood grow without end
FLOOR = 1e-3
# defaults made for more passes than the budget has
SHORTER: dict[str, dict[str, Any]] = {
    "sem": {"average_from": PASSES // 2 + 1},
    "monte-carlo-em": {"schedule": Settling(full=PASSES // 2)},
}
LEAST_LOSS = 1e-4
LOSS = f"nats per row below the best\n(at least {LEAST_LOSS:g})"
ARI, TIME = "adjusted Rand index", "time, EM = 1"

Result = dict[str, Any]


class WideComparison:
    """Held-out likelihood, agreement with the labels, and time of all learners."""

    n = 5_000
    reps = 3

    def run(self, wanted: Wanted) -> None:
        """All sets of the data folder, at most `n` rows of each; results go to `out`."""
        reps, results = wanted.reps or self.reps, list[Result]()
        out = wanted.folder()
        for labelled in labelled_sets(wanted.data, wanted.n or self.n):
            for rep in range(reps):
                results += replicate(labelled, rep)
                write_csv(out / "wide-comparison.csv", results)
            done = f"{labelled.name} ({len(labelled.x):,} x {labelled.x.shape[1]})"
            wanted.tell(f"wide-comparison: {done} done")
        if not results:
            raise SourceError("the data folder has none of the labelled sets of this study")
        write_summary(out / "wide-comparison.md", results)
        sets = len(medians(results, "seconds"))
        title = f"{sets} data sets, at most {PASSES} passes, medians of {reps} replications"
        draw_boxes(out / "wide-comparison.png", title, panels(results), (LOSS, TIME))


def contestants() -> dict[str, Learner]:
    """Every learner that supports all data sets, with the same number of passes."""
    found: dict[str, Learner] = {}
    for name, kind in find_all("learners").items():
        learner = within_budget(name, kind())
        if isinstance(learner, DriftAware):  # the data sets do not change over time
            continue
        if not all(learner.serves(MixtureModel(Gaussian(c), 2, 2)) for c in (FULL, DIAG)):
            continue
        if name == "online-k-mle":
            found |= {f"{name} {s}": replace(learner, strategy=s) for s in STRATEGIES}
        else:
            found[name] = learner
    # EM first, since the others are compared with it
    return {"em": found.pop("em"), **found}


def within_budget(name: str, learner: Any) -> Any:
    """The learner with its own defaults but for the number of passes."""
    known = {field.name for field in fields(learner)}
    budget = {"max_iter": PASSES} if "max_iter" in known else {}
    return replace(learner, **budget, **SHORTER.get(name, {}))


@dataclass(frozen=True)
class Trial:
    """One split of the rows into those to learn from and those to judge by; one start."""

    backend: Threads
    learned: ArraySource
    judged: ArraySource
    labels: np.ndarray
    start: MixtureParams
    seed: int

    @classmethod
    def of(cls, labelled: Labelled, rep: int) -> Trial:
        """Rows in random order, columns standardised by those that are learned."""
        rng = np.random.default_rng(rep)
        order = rng.permutation(len(labelled.x))
        held_out, rest = np.split(order, [round(HELD_OUT * len(order))])
        learned, judged = standardised(labelled.x[rest], labelled.x[held_out])
        family = Gaussian(labelled.covariance, floor=FLOOR)
        backend = Threads(MixtureModel(family, labelled.k, learned.shape[1]))
        source = ArraySource(learned)
        start = KMeansPlusPlus().draw(backend.model, source.whole(), rng)
        return cls(backend, source, ArraySource(judged), labelled.labels[held_out], start, rep)

    def judge(self, learner: Learner) -> Result:
        """The result of the learner from the initial parameters."""
        model, n = self.backend.model, self.learned.length
        resolved = learner.resolve(n, model.d, False)
        plan = FitPlan(
            self.backend,
            resolved,
            self.learned,
            GivenParams(self.start),
            seed=self.seed,
            prior_count=resolved.prior_count(n, model.k, model.d),
            passes=PASSES,
        )
        fit = Loop(plan).run()
        params = resolved.estimate(self.backend, fit.state)
        log_likelihood, ari = evaluate(self.backend, params, self.judged, self.labels)
        return {
            "log_likelihood": log_likelihood,
            "ari": ari,
            "seconds": fit.seconds,
            "passes": fit.passes,
        }


def replicate(labelled: Labelled, rep: int) -> list[Result]:
    """All learners on one split from one start."""
    trial, d = Trial.of(labelled, rep), labelled.x.shape[1]
    learners = contestants()
    common = {"set": labelled.name, "k": labelled.k, "d": d, "replication": rep}
    return [
        {**common, "learner": name, **trial.judge(learner)} for name, learner in learners.items()
    ]


def medians(results: list[Result], measure: str) -> dict[str, dict[str, float]]:
    """For every set the median of every learner over replications."""
    values: dict[str, dict[str, list[float]]] = {}
    for r in results:
        values.setdefault(r["set"], {}).setdefault(r["learner"], []).append(r[measure])
    return {s: {a: float(np.median(v)) for a, v in of.items()} for s, of in values.items()}


def panels(results: list[Result]) -> dict[str, dict[str, list[float]]]:
    """For every learner the distribution over data sets."""
    boxes: dict[str, dict[str, list[float]]] = {LOSS: {}, ARI: {}, TIME: {}}
    for panel, learner, point in _relative(results):
        boxes[panel].setdefault(learner, []).append(point)
    return boxes


def _relative(results: list[Result]) -> Iterator[tuple[str, str, float]]:
    likelihood, ari, seconds = (medians(results, m) for m in ("log_likelihood", "ari", "seconds"))
    for name, of in likelihood.items():
        for learner, reached in of.items():
            yield LOSS, learner, max(max(of.values()) - reached, LEAST_LOSS)
            yield ARI, learner, ari[name][learner]
            yield TIME, learner, seconds[name][learner] / seconds[name]["em"]


def write_summary(path: Path, results: list[Result]) -> None:
    """A line per set and a column per learner: likelihood against EM's, and Rand index."""
    likelihood, ari = medians(results, "log_likelihood"), medians(results, "ari")
    shapes = {r["set"]: f"{r['set']} (K = {r['k']}, d = {r['d']})" for r in results}
    header = ["data set", *next(iter(likelihood.values()))]
    rows = [[shapes[s], *_cells(likelihood[s], ari[s])] for s in shapes]
    write_markdown(path, header, rows)


def _cells(likelihood: dict[str, float], ari: dict[str, float]) -> Iterator[str]:
    for learner, reached in likelihood.items():
        first = f"{reached:.3f}" if learner == "em" else f"{reached - likelihood['em']:+.3f}"
        yield f"{first} / {ari[learner]:.2f}"
