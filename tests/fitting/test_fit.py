"""Fits: threads, history, and learners that do not suit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cluster_rows import clusters
from mixfold import Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.core.value import equal
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.fitting.initialization import Initialization
from mixfold.learners.online_em import OnlineEM


def test_threads_do_not_show() -> None:
    x = clusters(40_000)
    models = [Mixture(n_components=3, n_threads=n, random_state=0).fit(x) for n in (1, 2, 3)]
    assert all(equal(models[0].params_, model.params_) for model in models[1:])


def test_history_is_bounded() -> None:
    x = np.zeros((30, 1)) + np.arange(30.0)[:, None]
    model = Mixture(learner=OnlineEM(batch_size=1, average_from=1, max_iter=150), random_state=0)
    model.fit(x)
    assert 2000 <= len(model.history_) <= 4096
    assert model.history_.rows[-1] == model.n_seen_ == 4500
    assert (np.diff(model.history_.rows) > 0).all()


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("family", "learner", "why"),
    [
        (Poisson(), "annealed-sgd", "no annealed gradients"),
        (Gaussian("factor", rank=1), "recursive-em", "depend on the parameters too: use 'em'"),
        (Gaussian("tied"), "moment-matching", "no conjugate prior"),
    ],
)
def test_a_learner_is_refused_before_a_start_is_drawn(
    family: Any, learner: str, why: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Initialization, "draw", lambda *given: pytest.fail("a start was drawn"))
    with pytest.raises(InvalidInputError, match=why):
        getattr(Mixture(family, 2, learner=learner), method)(np.ones((30, 2)))
