"""How many wrong programs the tests notice: families, learners and schedules, changed once each.

Every mutant has one operator, comparison, constant, condition or function changed; what is never
changed, since no test need notice it, is told in `mutation/changes.py`. The tests that run the
changed line, fast ones first, must kill it: one of them fails or does not end. Mutants that survive
are listed in RESULTS.md. Some are the same program written otherwise, or differ in nothing that is
promised: `equivalent_mutants.toml` gives the reasons.

    PYTHONPATH=src python benchmarks/mutants.py --jobs 16 --minutes 8 --seed 1 --out mutants-out

Results are kept in the folder given by --out, and a later call goes on where this one ended;
--again tries the survivors of that folder anew.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from mutation.campaign import KILLED, STOPPED, SURVIVED, UNREACHED, Plan, Result, draw, run
from mutation.changes import changes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SOURCES = ROOT / "src" / "mixfold"
HEADING = "## Mutants"
PACKAGES = ("families", "learners", "schedules")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")

# besides the tests in folders of the packages; found by name wherever they are
TESTS = [
    "annealed_factors",
    "annealed_scaling",
    "bad_input",
    "block_lengths",
    "component_order",
    "core_families",
    "fit",
    "gaussian_mixture",
    "gaussian_mixture_errors",
    "hard_data",
    "initializer_laws",
    "initializers",
    "kernel_laws",
    "learning_after_a_fit",
    "linear_mixed",
    "logistic_quadrature",
    "merging",
    "model_files",
    "nonlinear_mixed",
    "one_compartment",
    "sample_weights",
]


def modules(names: Sequence[str]) -> list[str]:
    """The files of packages, or those that are named, relative to the sources."""
    found = []
    for name in names:
        path = SOURCES / name
        found += sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return [str(path.relative_to(SOURCES)) for path in found if path.name != "__init__.py"]


def test_files(names: Sequence[str] | None) -> list[Path]:
    """Files of tests that may notice a mutant, or those of the names given."""
    wanted = {f"test_{name}.py" for name in names or TESTS}
    every = sorted((ROOT / "tests").rglob("test_*.py"))
    for name in sorted(wanted - {path.name for path in every}):
        print(f"there is no {name}")
    folders = () if names else PACKAGES
    return [path for path in every if path.name in wanted or path.parent.name in folders]


class Results:
    """What became of mutants, kept in a file."""

    def __init__(self, folder: Path, again: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "results.jsonl"
        self.found: dict[tuple[object, ...], Result] = {}
        self.hashes: dict[str, str] = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                stamp, *fields = json.loads(line)
                result = Result(*fields)
                if stamp == self.stamp(result.file):
                    self.found[result[:5]] = result
        self.done = {
            key
            for key, result in self.found.items()
            if not (again and result.outcome in (SURVIVED, UNREACHED))
        }

    def stamp(self, file: str) -> str:
        """A number for the text of a module, so that results of others are not used."""
        if file not in self.hashes:
            path = SOURCES / file
            text = path.read_bytes() if path.exists() else b""
            self.hashes[file] = sha256(text).hexdigest()[:16]
        return self.hashes[file]

    def add(self, result: Result) -> None:
        """Keep and show one more."""
        self.found[result[:5]] = result
        with self.path.open("a") as file:
            file.write(json.dumps([self.stamp(result.file), *result]) + "\n")
        if result.outcome in (KILLED, STOPPED):
            return
        print(f"{result.outcome} {result.file}:{result.line}:{result.column}")
        print(f"  - {result.before}\n  + {result.after}", flush=True)


def equivalents() -> dict[tuple[str, str, str], str]:
    """Reasons why mutants that survive do no harm, by file and by the line before and after."""
    listed = tomllib.loads((HERE / "equivalent_mutants.toml").read_text()).get("mutant", [])
    return {(one["file"], one["before"], one["after"]): one["reason"] for one in listed}


def report(results: Sequence[Result], command: str) -> str:
    """The section of RESULTS.md."""
    reasons = equivalents()

    def reason(result: Result) -> str | None:
        return reasons.get((result.file, result.before, result.after))

    left = [r for r in results if r.outcome in (SURVIVED, UNREACHED)]
    harmless = [r for r in left if reason(r)]
    harmful = [r for r in left if not reason(r)]
    share = len(harmful) / max(1, len(results) - len(harmless))
    lines = [
        HEADING,
        "",
        "Wrong programs that tests must notice: one operator, comparison, constant, condition or",
        "function of a module changed at a time. Killed: a test fails; stopped: tests do not end.",
        "",
        f"`{command}`",
        "",
        f"{len(results)} mutants: {len(harmless)} of the survivors are equivalent, and",
        f"{len(harmful)} survive, which is {share:.1%} of the others.",
        "",
        "| module | mutants | killed | stopped | equivalent | survived |",
        "|---|---|---|---|---|---|",
    ]
    for file in sorted({r.file for r in results}):
        own = [r for r in results if r.file == file]
        counts = Counter(r.outcome for r in own)
        equal = sum(1 for r in harmless if r.file == file)
        alive = counts[SURVIVED] + counts[UNREACHED] - equal
        lines.append(
            f"| {file} | {len(own)} | {counts[KILLED]} | {counts[STOPPED]} | {equal} | {alive} |"
        )
    for title, some in (("Survivors:", harmful), ("Equivalent:", harmless)):
        if some:
            lines += ["", title, ""]
        for r in sorted(some):
            why = reason(r)
            lines.append(f"- {r.file}: `{r.before}` -> `{r.after}`" + (f": {why}" if why else ""))
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
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="packages or modules")
    parser.add_argument("--most", type=int, help="mutants to draw; default all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at the same time")
    parser.add_argument(
        "--minutes", type=float, default=1e6, help="no mutant begins later; 0: report only"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests for one mutant")
    parser.add_argument("--out", type=Path, default=Path("mutants-out"), help="folder of results")
    parser.add_argument("--tests", nargs="+", help="names of files of tests, without test_")
    parser.add_argument("--again", action="store_true", help="try the survivors anew")
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    given = parser.parse_args()
    for name in ONE_THREAD:
        os.environ[name] = "1"  # children run at the same time; NumPy is not imported yet
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    ends = time.monotonic() + 60.0 * given.minutes
    results = Results(given.out.absolute(), given.again)
    os.chdir(ROOT)
    files = modules(given.packages)
    found = {file: changes(file, (SOURCES / file).read_text())[1] for file in files}
    drawn = draw(ROOT, files, given.most, given.seed)
    todo = [m for m in drawn if found[m.file][m.number][:5] not in results.done]
    kept = results.path.with_name("measured.pickle")
    plan = Plan(ROOT, modules(PACKAGES), todo, given.jobs, given.seconds, ends, kept)
    print(f"{len(drawn)} mutants, of which {len(todo)} are to be tried", flush=True)
    if todo and given.minutes > 0:
        run(plan, test_files(given.tests), results.add)
    keys = [found[m.file][m.number][:5] for m in drawn]
    tried = [results.found[key] for key in keys if key in results.found]
    command = " ".join(["python benchmarks/mutants.py", *sys.argv[1:]])
    section = report(tried, command)
    print(section)
    if given.write:
        write(section)


if __name__ == "__main__":
    main()
