"""The runner of mutants changes one thing at a time, and tells tests that fail from others."""

from __future__ import annotations

import ast
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from mutation.changes import changes

SOURCE = '''
FEW = 2 * 3
LIMIT = float(2.0)

class Thing:
    size: int = 3

    def grow(self, x: float, most: float = 4.0) -> float:
        """Not 1 + 1."""
        if x < LIMIT and not self.size == 4:
            raise ValueError("1" * 2)
        return -max(x, 0.0) + abs(x) // 2
'''


def test_every_change_is_one_and_is_taken_back() -> None:
    tree, found = changes("thing.py", SOURCE)
    before = ast.dump(tree)
    assert sorted(change.after for change in found) == [
        "LIMIT = float(3.0)",
        "if not (x < LIMIT and (not self.size == 4)):",
        "if x < LIMIT and (not self.size != 4):",
        "if x < LIMIT and (not self.size == 5):",
        "if x < LIMIT or not self.size == 4:",
        "if x <= LIMIT and (not self.size == 4):",
        "return +max(x, 0.0) + abs(x) // 2",
        "return -max(x, 0.0) + abs(x) * 2",
        "return -max(x, 0.0) + abs(x) // 3",
        "return -max(x, 0.0) - abs(x) // 2",
        "return -max(x, 1.0) + abs(x) // 2",
        "return -min(x, 0.0) + abs(x) // 2",
    ]
    seen = {before}
    for change in found:
        change.apply()
        compile(ast.fix_missing_locations(tree), "thing.py", "exec")
        assert ast.dump(tree) not in seen
        seen.add(ast.dump(tree))
        change.revert()
        assert ast.dump(tree) == before


if sys.platform != "win32":  # where processes do not fork
    from mutation.processes import Report, Task, limit_processor_time, run_all
    from mutation.swap import swap

    def test_swapped_code_is_that_of_the_tree(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "swapped_module.py").write_text(SOURCE)
        monkeypatch.syspath_prepend(tmp_path)
        import swapped_module  # type: ignore[import-not-found]

        thing = swapped_module.Thing()
        held = thing.grow
        assert held(3.0) == -2.0
        tree, found = changes("thing.py", SOURCE)
        for after, expected in (
            ("return -max(x, 0.0) - abs(x) // 2", -4.0),
            ("if x < LIMIT or not self.size == 4:", None),
        ):
            change = next(change for change in found if change.after == after)
            change.apply()
            assert swap(swapped_module, tree, change.line)
            change.revert()
            if expected is None:
                with pytest.raises(ValueError, match="11"):
                    held(3.0)
            else:
                assert held(3.0) == expected
        change = next(change for change in found if change.after == "LIMIT = float(3.0)")
        assert swap(swapped_module, tree, 1)  # as it was
        change.apply()
        assert swap(swapped_module, tree, change.line)
        assert swapped_module.LIMIT == 3.0

    def test_outcomes() -> None:
        def says(report: Report) -> None:
            report(b"something")

        def fails(report: Report) -> None:
            report(b"one")
            raise ValueError

        def never_ends(report: Report) -> None:
            limit_processor_time(0.1)
            while True:
                pass

        def sleeps(report: Report) -> None:
            time.sleep(60.0)

        def dies(report: Report) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        tasks: list[Task] = [says, fails, never_ends, sleeps, dies]
        ends = run_all(lambda i: tasks[i] if i < len(tasks) else None, 3, 2.0, float("inf"))
        found = {ended.number: (ended.report, ended.stopped) for ended in ends}
        assert found == {
            0: (b"something", False),
            1: (b"one", False),
            2: (b"", True),
            3: (b"", True),
            4: (b"", True),
        }
        assert not list(run_all(lambda i: says, 3, 2.0, time.monotonic() - 1.0))
