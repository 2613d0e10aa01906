"""Learning from rows that arrive in blocks."""

from __future__ import annotations

from typing import Any

from mixfold.core.backend import Backend
from mixfold.core.learner import Info, Learner
from mixfold.core.rows import Rows


def fold(
    backend: Backend,
    learner: Learner,
    params: Any,
    rows: Rows,
    cuts: list[int],
    passes: int = 2,
    seen: int = 0,
) -> tuple[Any, list[Info]]:
    """The state after whole passes over rows that arrive in blocks."""
    state, infos = learner.init(backend, params, seen), []
    for _ in range(passes):
        for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            state, more = learner.step(backend, state, rows.cut(start, stop))
            infos += more
        state, more = learner.end_pass(backend, state)
        infos += more
    return state, infos
