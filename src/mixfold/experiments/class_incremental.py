"""Digits in a stream, class by class: what is learned, and what is forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.learner import Learner
from mixfold.estimators.mixture import Mixture
from mixfold.experiments._writing import draw_boxes, write_csv, write_markdown
from mixfold.experiments.templates import data_file
from mixfold.experiments.wanted import Wanted
from mixfold.families.gaussian import Gaussian
from mixfold.learners.annealed_sgd import AnnealedSGD
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.online_em import OnlineEM
from mixfold.schedules.constant import Constant

K = 64
PASSES = 3
# one over the largest precision of annealed gradients
NOISE = 0.05
TASKS = {"0, then 1-9": ((0,), tuple(range(1, 10))), "0-8, then 9": (tuple(range(9)), (9,))}
SGD = "annealed SGD"
ALONE = "{}, new classes alone"

Result = dict[str, Any]


@dataclass(frozen=True)
class Digits:
    """Pictures in [0, 1] and what they show."""

    x: np.ndarray
    y: np.ndarray

    def stream(self, classes: Sequence[int], passes: int, rng: np.random.Generator) -> np.ndarray:
        """The pictures of some classes, in a new random order in every pass."""
        chosen = np.flatnonzero(np.isin(self.y, classes))
        order = np.concatenate([rng.permutation(chosen) for _ in range(passes)])
        return np.asarray(self.x[order])


class ClassIncremental:
    """Log-likelihood of every digit before and after other digits were learned."""

    n = 24_000
    reps = 3

    def run(self, wanted: Wanted) -> None:
        """All tasks and methods on the first `n` digits; results go to the folder `out`."""
        learned, judged = mnist(data_file("mnist.npz", wanted.data), wanted.n or self.n)
        reps = wanted.reps or self.reps
        out = wanted.folder()
        results = list[Result]()
        for rep in range(reps):
            for task in TASKS:
                results += replicate(task, rep, learned, judged)
                write_csv(out / "class-incremental.csv", results)
                wanted.tell(f"class-incremental: {task}, {rep + 1} of {reps}")
        write_summary(out / "class-incremental.md", results)
        title = f"MNIST class by class, K = {K}, {reps} replications: nats per row on test digits"
        draw_boxes(out / "class-incremental.png", title, panels(results))


def mnist(path: Path, n: int) -> tuple[Digits, Digits]:
    """Digits to learn from and to judge by."""
    with np.load(path) as arrays:
        parts = [(arrays[f"X_{p}"][:n], arrays[f"y_{p}"][:n]) for p in ("train", "test")]
    learned, judged = (Digits((x / 255.0).astype(np.float32), y) for x, y in parts)
    return learned, judged


def methods() -> dict[str, Learner]:
    """Annealed gradients, with and without drift detection; online EM with constant steps."""
    return {
        SGD: AnnealedSGD(),
        f"{SGD}, drift-aware": DriftAware(AnnealedSGD()),
        "online EM": OnlineEM(batch_size=64, schedule=Constant(0.02)),
    }


def replicate(task: str, rep: int, learned: Digits, judged: Digits) -> list[Result]:
    """All methods on one stream, and each plain one on the second part of it alone."""
    rng, (first, second) = np.random.default_rng(rep), TASKS[task]
    parts = [learned.stream(classes, PASSES, rng) for classes in (first, second)]
    results: list[Result] = []
    for name, learner in methods().items():
        model = fresh(learner, rep).partial_fit(parts[0])
        before = dict(scores(model, judged))
        after = dict(scores(model.partial_fit(parts[1]), judged))
        drifts = getattr(model, "drifts_", np.empty(0))
        common = {"task": task, "replication": rep, "method": name}
        noticed = {"boundary": len(parts[0]), "drifts": " ".join(map(str, drifts))}
        results += [
            {**common, "class": c, "before": before[c], "after": after[c], **noticed}
            for c in before
        ]
        if not isinstance(learner, DriftAware):
            alone = dict(scores(fresh(learner, rep).partial_fit(parts[1]), judged))
            common["method"] = ALONE.format(name)
            nothing = {"before": float("nan"), "boundary": 0, "drifts": ""}
            results += [{**common, "class": c, "after": alone[c], **nothing} for c in alone]
    return results


def fresh(learner: Learner, seed: int) -> Mixture:
    """A mixture that has not been fitted."""
    family = Gaussian("diag", reg_covar=NOISE)
    start = learner.default_initializer(family) or "random-rows"
    return Mixture(family, K, learner=learner, init=start, random_state=seed)


def scores(model: Mixture, judged: Digits) -> Iterator[tuple[int, float]]:
    """Mean log-likelihood of the test digits of every class."""
    for digit in np.unique(judged.y):
        yield int(digit), float(model.score(judged.x[judged.y == digit]))


def means(results: list[Result], task: str, method: str, old: bool, when: str) -> list[float]:
    """For every replication the mean over the first classes, or over those that came later."""
    classes = TASKS[task][0 if old else 1]
    of: dict[int, list[float]] = {}
    for r in results:
        if (r["task"], r["method"]) == (task, method) and r["class"] in classes:
            of.setdefault(r["replication"], []).append(r[when])
    return [float(np.mean(values)) for values in of.values()]


def panels(results: list[Result]) -> dict[str, dict[str, list[float]]]:
    """For every task: the first classes before and after, and the new ones after."""
    shown = {}
    for task in TASKS:
        for label, old, when in (
            ("first, before", True, "before"),
            ("first, after", True, "after"),
            ("new, after", False, "after"),
        ):
            shown[f"{task}\n{label}"] = {
                name: means(results, task, name, old, when) for name in methods()
            }
    return shown


def delays(results: list[Result], task: str, method: str) -> str:
    """Rows from the change to the first alarm after it, and alarms in all, per replication."""
    found = {r["replication"]: r for r in results if (r["task"], r["method"]) == (task, method)}
    cells = []
    for r in found.values():
        rows = [int(row) for row in r["drifts"].split()]
        late = [row - r["boundary"] for row in rows if row > r["boundary"]]
        cells.append(f"{late[0]} ({len(rows)})" if late else f"none ({len(rows)})")
    return ", ".join(cells)


def write_summary(path: Path, results: list[Result]) -> None:
    """A line per task and method: means over replications, nats per row."""
    header = ["task", "method", "first, before", "first, after", "forgotten", "new, after", "alarm"]
    rows = []
    names = list(dict.fromkeys(r["method"] for r in results))
    for task in TASKS:
        for name in names:
            before, after, new = (
                float(np.mean(means(results, task, name, old, when)))
                for old, when in ((True, "before"), (True, "after"), (False, "after"))
            )
            numbers = [before, after, before - after, new]
            shown = ["" if np.isnan(number) else f"{number:.1f}" for number in numbers]
            alarm = delays(results, task, name) if "drift" in name else ""
            rows.append([task, name, *shown, alarm])
    write_markdown(path, header, rows)
