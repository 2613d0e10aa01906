"""A fit is planned once: names are looked up once, and one loop does the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixfold import GaussianMixture, Mixture
from mixfold.backends.threads import Threads
from mixfold.core import registry
from mixfold.core.errors import InvalidInputError, ModelFileError
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.families.gaussian import Gaussian
from mixfold.fitting import initialization as starting
from mixfold.fitting.fit import Fit
from mixfold.fitting.history import no_history
from mixfold.fitting.loop import Loop, fit_rows
from mixfold.fitting.plan import FitPlan, GivenParams
from mixfold.learners.auto import Auto
from mixfold.learners.em import EM
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.models.mixture_model import MixtureModel
from mixfold.sources.array_source import ArraySource
from mixfold.sources.block_source import BlockSource

Asked = Counter[Any]


def rows(n: int = 400) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)) + np.where(rng.random((n, 1)) < 0.5, 0.0, 5.0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Which names are looked up, and how often."""
    found = Asked()

    def find(package: str, name: str) -> Any:
        found[package, name] += 1
        return ask(package, name)

    ask = registry.find
    monkeypatch.setattr(registry, "find", find)  # which `make` uses
    monkeypatch.setattr(starting, "find", find)
    return found


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """How often a learner is made ready for the data."""
    found = Asked()

    def counted(kind: type, resolve: Callable[..., Any]) -> Callable[..., Any]:
        def counting(self: Any, *given: Any) -> Any:
            found[kind] += 1
            return resolve(self, *given)

        return counting

    for kind in (Auto, EM):
        monkeypatch.setattr(kind, "resolve", counted(kind, kind.resolve))
    return found


@pytest.mark.parametrize("learner", ["auto", "em"])
@pytest.mark.parametrize("n_init", [1, 3])
def test_a_fit_asks_once(learner: str, n_init: int, asked: Asked, resolved: Asked) -> None:
    model = Mixture("gaussian", 2, learner=learner, init="random-rows", n_init=n_init)
    model.fit(rows())
    assert asked == {
        ("families", "gaussian"): 1,
        ("learners", learner): 1,
        ("initializers", "random-rows"): 1,
    }
    assert sum(resolved.values()) == 1


def test_a_call_of_partial_fit_asks_once(asked: Asked) -> None:
    model = Mixture("gaussian", 2, learner="online-em", random_state=0)
    for call in (1, 2, 3):
        model.partial_fit([rows(150), rows(200)])
        assert set(asked.values()) == {call}
        assert len(asked) == 3


def test_rows_learned_one_by_one_do_not_ask(asked: Asked) -> None:
    model = Mixture("gaussian", 2, learner="online-em", random_state=0).partial_fit(rows())
    model.learn_one(rows()[0])
    before = asked.copy()
    for row in rows()[:20]:
        model.learn_one(row)
        assert np.isfinite(model.means_).all()
    assert asked == before


def backend() -> Threads:
    return Threads(MixtureModel(Gaussian(), 2, 2), 1)


def start() -> Any:
    return Mixture("gaussian", 2, learner="em", max_iter=1, random_state=0).fit(rows()).params_


def test_a_plan_refuses_what_cannot_be_fitted() -> None:
    params = start()
    once = BlockSource(iter([rows()]), lambda block, names: (Rows(block), None))
    with pytest.raises(InvalidInputError, match="only once"):
        FitPlan(backend(), IncrementalEM(), once, GivenParams(params))
    beyond = Fit(None, no_history(), start=1)
    with pytest.raises(ModelFileError, match="initialisation number 1, of 1"):
        FitPlan(backend(), EM(), ArraySource(rows()), GivenParams(params), resumed=beyond)


def test_a_plan_may_be_run_again() -> None:
    params = start()
    plan = FitPlan(backend(), EM(tol=0.0, max_iter=5), ArraySource(rows()), GivenParams(params))
    one, two = Loop(plan).run(), Loop(plan).run()
    assert equal(one.state, two.state)
    assert one.passes == 5


def test_rows_in_memory_are_learned_by_the_same_loop() -> None:
    params = start()
    learner = EM(tol=1e-6, max_iter=50, accelerate=True)
    found = fit_rows(backend(), learner, params, Rows(rows()))
    state = learner.init(backend(), params)
    while not learner.finished(state):
        state, _ = learner.step(backend(), state, Rows(rows()))
        state, _ = learner.end_pass(backend(), state)
    assert equal(found.state, state)
    assert found.done


def test_the_drop_in_asks_once_too(resolved: Asked) -> None:
    GaussianMixture(2, random_state=0, max_iter=50).fit(rows())
    assert sum(resolved.values()) == 1


def test_a_checkpoint_is_written_by_the_loop(tmp_path: Path) -> None:
    file = tmp_path / "fit.mixfold"
    model = Mixture("gaussian", 2, learner=EM(max_iter=3), checkpoint=file, random_state=0)
    model.fit(rows())
    longer = Mixture(
        "gaussian", 2, learner=EM(max_iter=3), checkpoint=file, random_state=0, resume=True
    )
    assert equal(longer.fit(rows()).params_, model.params_)
