"""Fit one learner and score it on held-out rows, in a separate process.

A separate process is needed to measure the peak memory of this learner alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any

from mixfold.cli._bar import Watch, budget_of
from mixfold.cli._csv_options import with_csv
from mixfold.cli._held_out import Part
from mixfold.cli._settings import Settings
from mixfold.cli._terminal import one_line, usable_streams
from mixfold.cli._termination import INTERRUPTED
from mixfold.core.errors import LearningWarning
from mixfold.sources.array_source import ArraySource
from mixfold.sources.csv_files import CsvFiles
from mixfold.sources.opening import open_files
from mixfold.sources.paths import Paths
from mixfold.sources.table import Codes


def count(data: Paths | CsvFiles, settings: Settings, weights: str | None) -> int:
    """The number of rows in files; files that do not store it are read once."""
    numbers = None if settings.chooses_families else dict[str, Any]()
    codes = Codes(known=numbers, missing=True, dates=settings.chooses_families)
    source = open_files(data, settings.columns, weights, codes)
    if source.length is not None:
        return source.length
    return sum(len(rows) for rows in source.blocks())


def in_another_process(trial: dict[str, Any]) -> dict[str, Any]:
    """The result of `run`, or a dict whose "error" is the message."""
    done = subprocess.run(
        # a module in the working folder must not take the place of an installed one
        [sys.executable, "-P", "-m", "mixfold.cli._trial"],
        env=without_working_folder(os.environ),
        input=json.dumps(trial),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"error": f"the process ended with exit code {done.returncode}"}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def without_working_folder(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without empty entries of PYTHONPATH, which mean the working folder."""
    entries = environment.get("PYTHONPATH", "").split(os.pathsep)
    named = os.pathsep.join(entry for entry in entries if entry)
    return {**environment, "PYTHONPATH": named}


def run(trial: dict[str, Any]) -> dict[str, Any]:
    """Fit on one part, score the other."""
    settings = Settings(**trial["settings"])
    model = settings.estimator()
    # the files were opened before, and their warnings were shown then
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)
        source = model.open_training(with_csv(trial["data"], trial["csv"]), trial["weights"])
    train = Part(source, trial["length"], trial["every"], held_out=False)
    held_out = Part(source, trial["length"], trial["every"], held_out=True)
    model.set_params(cluster=trial["cluster"], engine=trial["engine"])
    budget = budget_of(model.learner, settings.max_iter)
    model.progress = watch = Watch(trial["show"], budget, name=settings.learner)
    began = time.monotonic()
    try:
        model.fit(train)
    finally:
        watch.close()
    seconds, memory = time.monotonic() - began, peak_memory()
    return {
        "log_likelihood": mean_log_density(model, held_out),
        "seconds": seconds,
        "passes": model.n_seen_ / train.length,
        "memory": memory,
    }


def mean_log_density(model: Any, source: Part) -> float:
    """Weighted mean of the log-density of rows."""
    total = weight = 0.0
    for rows in source.blocks():
        log_density = model.score_samples(ArraySource(rows.x, None, source.columns))
        total += float(rows.weights() @ log_density)
        weight += rows.total_weight()
    return total / weight


def peak_memory() -> int | None:
    """Peak memory of this process in bytes, where the system reports it."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def main() -> int:
    """Read a trial from stdin, write its result to stdout."""
    try:
        with usable_streams():
            result = run(json.load(sys.stdin))
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ValueError, OSError, ImportError, MemoryError) as error:
        result = {"error": one_line(error)}
    json.dump(result, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
