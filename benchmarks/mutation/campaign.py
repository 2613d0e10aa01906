"""Trying mutants: tests are collected once, and every mutant runs those that reach its line.

It is a plugin of pytest, whose `runtestloop` forks a child for every mutant. The child puts the
changed code into the imported module and runs tests until one fails.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import pickle
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from mutation.changes import Change, changes
from mutation.lines import Measured, Recorder
from mutation.processes import Report, Task, limit_processor_time, run_all
from mutation.swap import swap

KILLED, STOPPED, SURVIVED, UNREACHED = "killed", "stopped", "survived", "unreached"
LONGEST = 20.0  # seconds of a test that is still used
CHUNK = 5  # tests that are measured in one process
WALL = 300.0


class Mutant(NamedTuple):
    """The n-th change of a file."""

    file: str
    number: int


class Plan(NamedTuple):
    """What is to be tried, and what it may cost."""

    root: Path
    files: Sequence[str]
    mutants: list[Mutant]
    jobs: int
    seconds: float  # of tests for one mutant
    ends: float
    kept: Path  # what was measured before, if its tests and modules are the same


class Result(NamedTuple):
    """What became of a mutant; `test` is the one that killed it."""

    file: str
    line: int
    column: int
    before: str
    after: str
    outcome: str
    test: str
    seconds: float


class Campaign:
    """Measures tests, then tries mutants; what becomes of each is told as soon as it is known."""

    def __init__(self, plan: Plan, tell: Callable[[Result], None]) -> None:
        self.plan, self.tell = plan, tell
        self.items: dict[str, pytest.Item] = {}
        self.measured: dict[str, Measured] = {}
        self.failed: Callable[[str], None] = lambda test: None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running the tests."""
        self.items = {item.nodeid: item for item in session.items}
        for file in self.plan.files:
            import_module(module_of(file))
        gc.collect()
        gc.freeze()
        self.measure()
        self.try_mutants()
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Whatever is to happen when a test fails."""
        if report.failed:
            self.failed(report.nodeid)

    def path(self, file: str) -> Path:
        """Where a module is."""
        return self.plan.root / "src" / "mixfold" / file

    def measure(self) -> None:
        """Find the lines that every test runs; those that fail or take long are left out."""
        stamp = {file: self.path(file).read_text() for file in self.plan.files}
        known: dict[str, Measured | None] = {}
        if self.plan.kept.exists():
            before, found = pickle.loads(self.plan.kept.read_bytes())
            known = found if before == stamp else {}
        todo = [test for test in self.items if test not in known]
        print(f"{len(self.items)} tests, of which {len(todo)} are measured", flush=True)
        chunks = [todo[i : i + CHUNK] for i in range(0, len(todo), CHUNK)]
        random.Random(0).shuffle(chunks)  # slow files are not the last

        def task(index: int) -> Task | None:
            return self._measuring(chunks[index]) if index < len(chunks) else None

        saved = time.monotonic()
        for ended in run_all(task, self.plan.jobs, WALL, float("inf")):
            found = dict.fromkeys(chunks[ended.number])
            for line in ended.report.splitlines():
                test, seconds, lines = json.loads(line)
                found[test] = None if lines is None else Measured(seconds, lines)
            known.update(found)
            if time.monotonic() - saved > 20.0:
                saved = time.monotonic()
                print(f"{len(known)} tests are measured", flush=True)
                self.plan.kept.write_bytes(pickle.dumps((stamp, known)))
        if todo:
            self.plan.kept.write_bytes(pickle.dumps((stamp, known)))
        self.measured = {
            test: one
            for test, one in known.items()
            if test in self.items and one is not None and one.seconds <= LONGEST
        }
        for test in self.items:
            if known[test] is None:
                print(f"left out, it fails as things are: {test}")
            elif test not in self.measured:
                print(f"left out, it takes too long: {test}")
        total = sum(one.seconds for one in self.measured.values())
        print(f"{len(self.measured)} tests of {total:.0f} seconds are used", flush=True)

    def _measuring(self, tests: Sequence[str]) -> Task:
        def run(report: Report) -> None:
            files = {str(self.path(file)): file for file in self.plan.files}
            recorder, wrong = Recorder(files), set[str]()
            self.failed = wrong.add
            for i, test in enumerate(tests):
                recorder.start()
                self.run_test(test, tests[i + 1] if i + 1 < len(tests) else None)
                seconds, lines = recorder.stop()
                shown = None if test in wrong else {files[path]: lines[path] for path in lines}
                report(json.dumps([test, seconds, shown]).encode() + b"\n")

        return run

    def run_test(self, test: str, following: str | None) -> None:
        """Run one test; fixtures that the following test needs are kept."""
        item = self.items[test]
        item.config.hook.pytest_runtest_protocol(
            item=item, nextitem=self.items[following] if following else None
        )

    def try_mutants(self) -> None:
        """Try all mutants of the plan, in the order given, after as many controls as jobs."""
        trees = {file: changes(file, self.path(file).read_text()) for file in self.plan.files}
        reaching = self._reaching()
        chosen = self.plan.mutants[: self.plan.jobs] + self.plan.mutants
        controls = len(chosen) - len(self.plan.mutants)

        def task(index: int) -> Task | None:
            if index >= len(chosen):
                return None
            tree, found = trees[chosen[index].file]
            change = found[chosen[index].number]
            tests = self.choose(reaching[change.file], change.line)
            return self._trying(change, tree if index >= controls else None, tests)

        for ended in run_all(task, self.plan.jobs, WALL, self.plan.ends):
            change = trees[chosen[ended.number].file][1][chosen[ended.number].number]
            outcome, _, test = ended.report.decode().partition("\n")
            outcome = STOPPED if ended.stopped else outcome
            if not outcome:
                raise RuntimeError(f"nothing was reported of {change[:5]}")
            if ended.number >= controls:
                self.tell(Result(*change[:5], outcome, test, round(ended.seconds, 2)))
            elif outcome in (KILLED, STOPPED):
                print(f"CONTROL: without a change it is {outcome} by {test}", flush=True)

    def _trying(self, change: Change, tree: ast.Module | None, tests: Sequence[str]) -> Task:
        def run(report: Report) -> None:
            if tree is not None:
                change.apply()
                module = import_module(module_of(change.file))
                try:
                    found = swap(module, tree, change.line)
                except Exception as error:
                    report(f"{KILLED}\nimport: {error}".encode())
                    return
                if not found:
                    report(UNREACHED.encode())
                    return
            self.failed = lambda test: _end(report, test)
            for i, test in enumerate(tests):
                limit_processor_time(10.0 + 4.0 * self.measured[test].seconds)
                self.run_test(test, tests[i + 1] if i + 1 < len(tests) else None)
            report((SURVIVED if tests else UNREACHED).encode())

        return run

    def _reaching(self) -> dict[str, dict[int, list[str]]]:
        """The tests that run each line of each file."""
        reaching: dict[str, dict[int, list[str]]] = {file: {} for file in self.plan.files}
        for test, one in self.measured.items():
            for file, lines in one.lines.items():
                for line in lines:
                    reaching.setdefault(file, {}).setdefault(line, []).append(test)
        return reaching

    def choose(self, reaching: dict[int, list[str]], line: int) -> list[str]:
        """Tests of a line, as many as may be run: fast ones first, of all kinds in turn.

        A line that is run while modules are imported has the tests of all lines.
        """
        tests = reaching.get(line) or sorted({test for some in reaching.values() for test in some})
        kinds: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda test: self.measured[test].seconds):
            kinds[self.kind(test)].append(test)
        turns = sorted(
            (turn, self.measured[test].seconds, test)
            for some in kinds.values()
            for turn, test in enumerate(some)
        )
        chosen, spent = list[str](), 0.0
        for _, seconds, test in turns:
            spent += seconds
            if spent > self.plan.seconds and chosen:
                break
            chosen.append(test)
        return chosen

    def kind(self, test: str) -> str:
        """Function of a test, with the names of functions it is given, such as laws."""
        item = self.items[test]
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        names = [value.__name__ for value in values if hasattr(value, "__name__")]
        return " ".join([test.partition("[")[0], *names])


def _end(report: Report, test: str) -> None:
    report(f"{KILLED}\n{test}".encode())
    os._exit(0)


def module_of(file: str) -> str:
    """The name by which a file of the package is imported."""
    return "mixfold." + file.removesuffix(".py").replace("/", ".")


def draw(root: Path, files: Sequence[str], most: int | None, seed: int) -> list[Mutant]:
    """Changes of all files in an order by chance, so that the first of them are a sample."""
    everything = []
    for file in files:
        count = len(changes(file, (root / "src" / "mixfold" / file).read_text())[1])
        everything += [Mutant(file, i) for i in range(count)]
    random.Random(seed).shuffle(everything)
    return everything[:most]


def run(plan: Plan, tests: Sequence[Path], tell: Callable[[Result], None]) -> None:
    """Collect the tests and try the mutants."""
    _prepare_hypothesis()
    began = time.monotonic()
    campaign = Campaign(plan, tell)
    options = ["-q", "-s", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    pytest.main([*options, *map(str, tests)], plugins=[campaign])
    print(f"{time.monotonic() - began:.0f} seconds in all", flush=True)


def _prepare_hypothesis() -> None:
    """Examples that fail are not made simpler and not kept: the next mutant is another program."""
    try:
        from hypothesis import Phase, settings
    except ImportError:
        return
    settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], database=None)
    settings.load_profile("mutants")
