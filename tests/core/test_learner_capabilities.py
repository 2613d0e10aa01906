"""Which learners have which capabilities, and what holds for the others.

A member that is renamed takes a capability away without an error, so learners are listed here.
"""

from __future__ import annotations

import pytest

from mixfold.core.learner import Learner, rows_before_start
from mixfold.core.learner_capabilities import (
    ChoosesComponents,
    KeepsNoRows,
    KeepsRows,
    LearnsInOnePass,
    MonitorsDrift,
    PlainSearch,
    SearchesStarts,
    for_one_pass,
    most_components,
    row_keeping,
    search_of,
)
from mixfold.core.value import equal
from mixfold.families.gaussian import Gaussian
from mixfold.initializers.random_rows import RandomRows
from mixfold.learners.annealed_sgd import AnnealedSGD
from mixfold.learners.auto import Auto
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.em import EM
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.reservoir_em import ReservoirEM
from mixfold.learners.split_merge_em import SplitMergeEM
from mixfold.models.mixture_model import MixtureModel

MODEL = MixtureModel(Gaussian(), 3, 2)


@pytest.mark.parametrize(
    ("capability", "having", "lacking"),
    [
        (
            SearchesStarts,
            [Auto(), EM(), ReservoirEM(), SplitMergeEM()],
            [OnlineEM(), AnnealedSGD()],
        ),
        (LearnsInOnePass, [Auto(), DriftAware()], [EM(), OnlineEM(), ReservoirEM()]),
        (KeepsRows, [ReservoirEM(), DriftAware(), SplitMergeEM()], [Auto(), EM(), OnlineEM()]),
        (ChoosesComponents, [SplitMergeEM()], [ReservoirEM(), DriftAware(), Auto()]),
        (MonitorsDrift, [DriftAware()], [ReservoirEM(), OnlineEM()]),
    ],
)
def test_learners_of_a_capability(
    capability: type, having: list[Learner], lacking: list[Learner]
) -> None:
    assert all(isinstance(learner, capability) for learner in having)
    assert not any(isinstance(learner, capability) for learner in lacking)


def test_the_search_of_a_learner() -> None:
    assert search_of(OnlineEM()) == PlainSearch(varied_starts=False, prior_strength=0.0)
    for learner, varied, strength in ((Auto(), True, None), (EM(prior_strength=0.3), False, 0.3)):
        found = search_of(learner)
        assert (found.varied_starts, found.prior_strength) == (varied, strength)


def test_the_learner_of_one_pass() -> None:
    online = OnlineEM()
    assert for_one_pass(online) is online
    found = for_one_pass(Auto(starts=3, prior_strength=0.5))
    assert equal(found, ReservoirEM(starts=3, prior_strength=0.5))


def test_a_learner_that_keeps_no_rows() -> None:
    learner = AnnealedSGD()
    state = object()
    keeping = row_keeping(learner)
    assert not keeping.settles_late
    assert keeping.searching_from((RandomRows(),)) is learner
    assert keeping.model_learned(MODEL, state) is MODEL
    assert keeping.without_rows(state) is state
    for k, d in ((2, 2), (30, 2), (2, 300), (30_000, 2)):
        expected = min(rows_before_start(k, d), max(learner.sample_size, k))
        assert keeping.rows_to_start(k, d) == expected


def test_a_learner_that_keeps_rows_is_its_own_capability() -> None:
    learner = ReservoirEM()
    assert row_keeping(learner) is learner
    assert row_keeping(learner).settles_late


def test_the_default_has_all_members_of_the_capability() -> None:
    assert isinstance(KeepsNoRows(OnlineEM()), KeepsRows)
    assert isinstance(PlainSearch(), SearchesStarts)


def test_the_number_of_components_that_a_learner_was_given() -> None:
    assert most_components(ReservoirEM(), object(), 3) == 3
    assert most_components(SplitMergeEM(), None, 3) == 3
