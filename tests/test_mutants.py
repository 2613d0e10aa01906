"""The runner of mutants changes one thing at a time, and tells tests that fail from others."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from mutation.changes import changes
from mutation.trial import FAILED, PASSED, STOPPED, trial

SOURCE = '''
LIMIT = 2.0

class Thing:
    size: int = 3

    def grow(self, x: float) -> float:
        """Not 1 + 1."""
        if x < LIMIT and not self.size == 4:
            raise ValueError("1" * 2)
        return -max(x, 0.0) + abs(x) // 2
'''


def test_every_change_is_one_and_is_taken_back() -> None:
    tree, found = changes("mixfold.thing", SOURCE)
    before = ast.dump(tree)
    assert sorted(change.words for change in found) == [
        "0.0 -> 1.0",
        "2 -> 3",
        "2.0 -> 3.0",
        "4 -> 5",
        "Add -> Sub",
        "And -> Or",
        "Eq -> NotEq",
        "FloorDiv -> Mult",
        "Lt -> LtE",
        "USub -> UAdd",
        "condition negated",
        "max -> min",
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

    @pytest.mark.parametrize(
        ("source", "outcome"),
        [
            ("def f(): return 1", PASSED),
            ("def f(): return 2", FAILED),
            ("while True: pass", STOPPED),
        ],
    )
    def test_outcomes(source: str, outcome: str, tmp_path: Path) -> None:
        test = tmp_path / "test_f.py"
        test.write_text("import changed_module as m\n\ndef test_f():\n    assert m.f() == 1\n")
        command = f"{test} --rootdir {tmp_path} -c /dev/null"
        assert trial("changed_module", "changed.py", ast.parse(source), command, 2.0) == outcome
