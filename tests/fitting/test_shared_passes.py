"""Fits that share the reads of one source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.core.source import no_check
from mixfold.families.gaussian import Gaussian
from mixfold.fitting.loop import fit_rows
from mixfold.fitting.plan import FitPlan, GivenParams
from mixfold.fitting.shared_passes import Member, SharedBlocks, SharedPass, run_together
from mixfold.learners.em import EM
from mixfold.models.assignment import from_labels
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.sources.array_source import ArraySource

X = np.random.default_rng(0).normal(size=(3000, 2)) * [1.0, 3.0]


class Short(ArraySource):
    """Rows in blocks of 700."""

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        return super().blocks(start, 700)


def start(k: int) -> tuple[Threads, MixtureParams]:
    model = MixtureModel(Gaussian(), k, 2)
    return Threads(model, 1), from_labels(model, Rows(X), np.arange(len(X)) % k)


def member(shared: SharedBlocks, k: int, learner: EM) -> Member:
    backend, params = start(k)
    runner = SharedPass(backend, learner, shared, 0, no_check)
    return Member(FitPlan(backend, learner, shared, GivenParams(params), pass_runner=runner))


def nobody(going_on: Sequence[int]) -> list[int]:
    return []


def test_the_fits_are_those_of_each_alone_and_blocks_are_read_once() -> None:
    shared = SharedBlocks(Short(X))
    learners = {1: EM(max_iter=3, tol=0.0), 2: EM(max_iter=9, tol=0.0), 4: EM(max_iter=5, tol=0.0)}
    members = [member(shared, k, learner) for k, learner in learners.items()]
    run_together(members, nobody, ())
    assert shared.n_passes == 9
    for one, (k, learner) in zip(members, learners.items(), strict=True):
        backend, params = start(k)
        alone = fit_rows(backend, learner, params, Rows(X))
        means = one.fit.state.params.components.means
        np.testing.assert_array_equal(means, alone.state.params.components.means)
        assert one.fit.done
        assert one.fit.passes == learner.max_iter
        assert one.seconds > 0.0


def test_a_fit_that_leaves_ends_after_a_pass() -> None:
    shared = SharedBlocks(Short(X))
    members = [member(shared, k, EM(max_iter=6, tol=0.0)) for k in (2, 3)]

    def leaving(going_on: Sequence[int]) -> list[int]:
        return [0] if members[0].fit.passes == 2 and 0 in going_on else []

    run_together(members, leaving, ())
    assert [one.fit.passes for one in members] == [2, 6]
    assert [one.fit.done for one in members] == [False, True]
    assert shared.n_passes == 6


def test_an_expected_error_ends_one_fit_and_others_are_raised() -> None:
    class Failing(EM):
        def end_pass(self, backend: object, state: object) -> object:  # type: ignore[override]
            raise np.linalg.LinAlgError("Singular matrix")

    def members() -> list[Member]:
        shared = SharedBlocks(Short(X))
        return [
            member(shared, 2, Failing(max_iter=3, tol=0.0)),
            member(shared, 2, EM(max_iter=3, tol=0.0)),
        ]

    both = members()
    run_together(both, nobody, (np.linalg.LinAlgError,))
    assert str(both[0].error) == "Singular matrix"
    assert both[1].error is None
    assert both[1].fit.passes == 3
    with pytest.raises(np.linalg.LinAlgError):
        run_together(members(), nobody, (ArithmeticError,))
