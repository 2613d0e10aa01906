"""The strength of the prior, chosen by cross-validation on small tables."""

from __future__ import annotations

import numpy as np
import pytest

from mixfold import Auto, Gaussian, Mixture
from mixfold.backends.threads import Threads
from mixfold.core.rows import Array, Rows
from mixfold.learners.prior_choice import with_chosen_prior
from mixfold.learners.search import kinds_for
from mixfold.models.limits_from_data import limited
from mixfold.models.mixture_model import MixtureModel


def clusters(n: int, d: int, k: int, apart: float, seed: int) -> Array:
    """Rows of K Gaussians with covariances that differ."""
    rng = np.random.default_rng(seed)
    means = apart * rng.normal(size=(k, d))
    factors = 0.3 * rng.normal(size=(k, d, d)) + np.eye(d)
    labels = rng.integers(k, size=n)
    noise = np.einsum("nij,nj->ni", factors[labels], rng.normal(size=(n, d)))
    return np.asarray(means[labels] + noise)


def share(x: Array, k: int, weight: Array | None = None, strength: float = 1.0) -> float:
    rows = Rows(x, weight)
    backend = limited(Threads(MixtureModel(Gaussian(), k, x.shape[1]), 1), lambda: rows)
    kinds = kinds_for(backend.model.family)
    family = with_chosen_prior(backend, kinds, rows, [0, 0], strength).model.family
    assert isinstance(family, Gaussian)
    return float(family.prior_share)


def test_components_that_are_far_apart_have_little_of_the_prior() -> None:
    assert share(clusters(300, 10, 5, 3.0, 4), 5) <= 0.1


def test_rows_of_one_distribution_have_all_of_it() -> None:
    assert share(clusters(250, 12, 1, 1.0, 5), 4) == 1.0


@pytest.mark.parametrize("n", [1700, 5000])
def test_many_rows_need_none(n: int) -> None:
    assert share(clusters(n, 2, 3, 3.0, 6), 3) == 0.0


def test_very_few_rows_keep_it() -> None:
    assert share(clusters(11, 3, 3, 3.0, 7), 3) == 1.0


def test_there_is_no_choice_without_a_prior() -> None:
    assert share(clusters(300, 10, 5, 3.0, 4), 5, strength=0.0) == 1.0


def test_weights_count_rows() -> None:
    x = clusters(150, 6, 3, 2.0, 8)
    times = np.random.default_rng(9).integers(1, 4, size=len(x))
    assert share(x, 3, times.astype(float)) == share(np.repeat(x, times, axis=0), 3)


def test_held_out_rows_score_as_with_the_better_of_both() -> None:
    """With the prior, and without it: each is worse by far on one of the two tables."""
    for x, k in ((clusters(500, 10, 5, 3.0, 4), 5), (clusters(450, 12, 1, 1.0, 5), 4)):
        kept, held_out = x[:300], x[300:]
        auto, full, none = (
            Mixture(Gaussian(), k, learner=learner, random_state=0).fit(kept).score(held_out)
            for learner in (Auto(), Auto(prior_strength=1.0), Auto(prior_strength=0.0))
        )
        assert abs(full - none) > 0.3
        assert auto > max(full, none) - 0.1
