"""Rows in memory are taken in blocks that are long enough to keep the threads busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mixfold import Mixture
from mixfold.core.value import equal
from mixfold.fitting import pass_runner
from mixfold.learners.em import EM
from mixfold.learners.online_em import OnlineEM
from mixfold.sources.array_source import ArraySource

N, FIRST = 1000, 64

Fit = Callable[..., tuple[Mixture, list[int]]]


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.asarray(rng.normal(size=(N, 3)) + rng.choice([0.0, 4.0], size=(N, 1)))


@pytest.fixture
def fit(monkeypatch: pytest.MonkeyPatch) -> Fit:
    """Fits, and lists how many rows each step was given."""

    def fit(learner: Any, busy: float, x: Any) -> tuple[Mixture, list[int]]:
        monkeypatch.setattr(pass_runner, "block_length", lambda d: FIRST)
        monkeypatch.setattr(pass_runner, "BUSY_SECONDS", busy)
        seen: list[int] = []

        step = type(learner).step

        def seeing(self: Any, backend: Any, state: Any, some: Any) -> Any:
            seen.append(len(some))
            return step(self, backend, state, some)

        with monkeypatch.context() as patch:
            patch.setattr(type(learner), "step", seeing)
            model = Mixture(n_components=2, learner=learner, init=rows()[:2]).fit(x)
        return model, seen

    return fit


def test_blocks_grow_while_they_are_done_soon(fit: Fit) -> None:
    _, seen = fit(EM(tol=0.0, max_iter=2), np.inf, rows())
    assert seen == [64, 128, 256, 512, 40, N]


def test_blocks_that_take_a_while_stay(fit: Fit) -> None:
    _, seen = fit(EM(tol=0.0, max_iter=2), 0.0, rows())
    assert seen == 2 * [*15 * [64], 40]


def test_their_length_does_not_show(fit: Fit) -> None:
    learner = EM(tol=1e-8, max_iter=20)
    found = [fit(learner, busy, rows())[0] for busy in (0.0, np.inf)]
    found.append(Mixture(n_components=2, learner=learner, init=rows()[:2]).fit(rows()))
    for model in found:
        assert equal(model.params_, found[0].params_)
        assert (model.history_.table[:, :3] == found[0].history_.table[:, :3]).all()


def test_updates_and_numbers_that_are_converted_come_in_short_blocks(fit: Fit) -> None:
    x = rows()
    assert ArraySource(x).in_memory
    assert ArraySource(x.astype(np.float32)[::2]).in_memory
    for other in (x.astype(int), x.astype(">f8"), x.astype(np.float16)):
        assert not ArraySource(other).in_memory
    _, seen = fit(OnlineEM(), np.inf, x)
    assert seen == [N]
