"""How many wrong programs the tests notice: families, learners and schedules, changed once each.

Every mutant has one operator, comparison, constant, condition or function changed. It is killed if
a test fails or does not end; those that survive are listed in RESULTS.md. Some are the same program
written otherwise: `equivalent_mutants.toml` gives the reasons.

    python benchmarks/mutants.py families schedules --most 150 --seed 0 --write
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from mutation.changes import Change, changes
from mutation.trial import FAILED, PASSED, STOPPED, trial

HERE = Path(__file__).parent
ROOT = HERE.parent
SOURCES = ROOT / "src" / "mixfold"
HEADING = "## Mutants"

# fast tests first: the first that fails is the last that runs; {name} is that of the class
PRIORS = ["tests/test_laws.py -k '(MomentMatching or VB) and domain'", "tests/test_bayesian.py"]
TESTS: dict[str, list[str]] = {
    "families/_normal_wishart": PRIORS,
    "families/_normal_gamma": PRIORS,
    "families/_gamma_rates": PRIORS,
    "families": [
        "tests/test_family_laws.py",
        "tests/test_start_laws.py",
        "tests/test_laws.py -k test_kernel",
        "tests/test_positive_families.py tests/test_caps.py tests/test_factor_parameter_count.py",
        "tests/test_gaussian_components.py tests/test_variance_floors.py",
        "tests/test_factor.py",
        "tests/test_laws.py -k 'test_learner and domain and EM'",
        "tests/test_gaussian_mixture.py",
    ],
    "schedules": ["tests/test_schedule_laws.py"],
    "learners": [
        "tests/test_laws.py -k 'test_learner and {name}'",
        "tests/test_em_family.py",
        "tests/test_starts_and_learners.py tests/test_drift.py tests/test_bayesian.py",
        "tests/test_annealing.py tests/test_merging.py",
    ],
}


class Result(NamedTuple):
    """A mutant and what became of it."""

    change: Change
    outcome: str


def modules(packages: Sequence[str]) -> list[Path]:
    """The files of packages, or those that are named."""
    found = []
    for name in packages:
        path = SOURCES / name
        found += sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return [path for path in found if path.name != "__init__.py"]


def tests_of(path: Path) -> list[str]:
    """Commands of pytest for a module; those of files that exist."""
    package = path.parent.name
    commands = TESTS.get(f"{package}/{path.stem}") or TESTS[package]
    name = "test" if path.stem.startswith("_") else path.stem.replace("_", "")
    kept = []
    for command in commands:
        words = command.replace("{name}", name).split(" ")
        kept.append(" ".join(w for w in words if not w.startswith("tests/") or Path(w).exists()))
    return kept


def preload() -> None:
    """Import what every child needs, but nothing of mixfold, which may be changed."""
    for name in ("pandas", "polars", "pyarrow.parquet", "pytest", "scipy.stats", "sklearn.mixture"):
        import_module(name)
    assert not any(name.startswith("mixfold") for name in sys.modules)


def baseline(paths: Sequence[Path]) -> dict[str, float]:
    """Seconds of processor time that every command may take; all must pass as things are."""
    limits = {}
    for command in dict.fromkeys(command for path in paths for command in tests_of(path)):
        tree, _ = changes("mixfold.nothing", "")
        before = os.times()
        assert trial("mixfold.nothing", "", tree, command, 1e4) == PASSED, f"{command} fails"
        after = os.times()
        spent = after.children_user + after.children_system
        spent -= before.children_user + before.children_system
        limits[command] = 10.0 + 4.0 * spent
        print(f"{spent:6.1f} s  pytest {command}", flush=True)
    return limits


def run(path: Path, chosen: Sequence[int], limits: dict[str, float]) -> list[Result]:
    """Try the chosen changes of one module."""
    module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    tree, found = changes(module, path.read_text())
    results = []
    for index in chosen:
        change = found[index]
        change.apply()
        outcome = PASSED
        for command in tests_of(path):
            outcome = trial(module, str(path), tree, command, limits[command])
            if outcome != PASSED:
                break
        change.revert()
        results.append(Result(change, outcome))
        print(f"{outcome:8} {path.name}:{change.line} {change.words} | {change.text}", flush=True)
    return results


def sample(paths: Sequence[Path], most: int | None, seed: int) -> dict[Path, list[int]]:
    """Indices of changes, all or as many as asked for, drawn over all modules alike."""
    everything = [(path, i) for path in paths for i in range(len(changes("", path.read_text())[1]))]
    if most is not None and most < len(everything):
        everything = sorted(random.Random(seed).sample(everything, most))
    return {path: [i for p, i in everything if p == path] for path in paths}


def equivalents() -> dict[tuple[str, str, str], str]:
    """Reasons why mutants that survive do no harm, by file, line of code and change."""
    listed = tomllib.loads((HERE / "equivalent_mutants.toml").read_text()).get("mutant", [])
    return {(one["file"], one["code"], one["change"]): one["reason"] for one in listed}


def key(change: Change) -> tuple[str, str, str]:
    """By what a mutant is known, wherever its line moves."""
    file = "/".join(change.module.split(".")[1:]) + ".py"
    return file, change.text, change.words


def report(results: Sequence[Result], command: str, seconds: float) -> str:
    """The section of RESULTS.md."""
    reasons = equivalents()
    survivors = [r.change for r in results if r.outcome == PASSED]
    harmless = [c for c in survivors if key(c) in reasons]
    harmful = [c for c in survivors if key(c) not in reasons]
    share = len(harmful) / max(1, len(results) - len(harmless))
    lines = [
        HEADING,
        "",
        "Wrong programs that tests must notice: one operator, comparison, constant, condition or",
        "function of a module changed at a time. Killed: a test fails; stopped: tests do not end.",
        "",
        f"`{command}`",
        "",
        f"{len(results)} mutants in {seconds / 60:.0f} minutes: {len(harmless)} are equivalent,",
        f"and {len(harmful)} survive, which is {share:.1%} of the others.",
        "",
        "| module | mutants | killed | stopped | equivalent | survived |",
        "|---|---|---|---|---|---|",
    ]
    for file in dict.fromkeys(key(r.change)[0] for r in results):
        own = [r for r in results if key(r.change)[0] == file]
        counts = Counter(r.outcome for r in own)
        equal = sum(1 for c in harmless if key(c)[0] == file)
        lines.append(
            f"| {file} | {len(own)} | {counts[FAILED]} | {counts[STOPPED]} | {equal} | "
            f"{counts[PASSED] - equal} |"
        )
    for title, some in (("Survivors:", harmful), ("Equivalent:", harmless)):
        if some:
            lines += ["", title, ""]
        for change in some:
            file, code, words = key(change)
            reason = reasons.get(key(change))
            lines.append(f"- {file}: `{code}`, {words}" + (f": {reason}" if reason else ""))
    return "\n".join(lines) + "\n"


def write(section: str) -> None:
    """Put the section into RESULTS.md in place of the one before."""
    path = HERE / "RESULTS.md"
    before, found, rest = path.read_text().partition(HEADING + "\n")
    _, heading, after = rest.partition("\n## ")
    tail = f"\n## {after}" if found and heading else ""
    path.write_text(before.rstrip("\n") + "\n\n" + section + tail)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("packages", nargs="*", default=["families", "learners", "schedules"])
    parser.add_argument("--most", type=int, help="mutants to draw; default all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    parser.add_argument("--nice", type=int, default=19, help="how far others go first")
    given = parser.parse_args()
    os.chdir(ROOT)
    os.nice(given.nice)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # which takes longer than most tests
    preload()
    paths = modules(given.packages)
    limits = baseline(paths)
    began, results = time.monotonic(), list[Result]()
    for path, chosen in sample(paths, given.most, given.seed).items():
        results += run(path, chosen, limits)
    command = " ".join(["python benchmarks/mutants.py", *sys.argv[1:]])
    section = report(results, command, time.monotonic() - began)
    print(section)
    if given.write:
        write(section)


if __name__ == "__main__":
    main()
