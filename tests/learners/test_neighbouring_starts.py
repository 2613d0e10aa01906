"""Initial parameters from those of one component fewer or more."""

from __future__ import annotations

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.family import Family
from mixfold.core.rows import Rows
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.learners.neighbouring_starts import Start, best_start, merge_starts, split_starts
from mixfold.models.assignment import from_labels
from mixfold.models.mixture_model import MixtureModel

CENTERS = np.array([[5.0, 5.0], [30.0, 5.0], [5.0, 60.0]])
LABELS = np.random.default_rng(0).integers(3, size=600)
X = np.random.default_rng(1).poisson(CENTERS[LABELS]).astype(float)
FAMILIES = [Gaussian(), Gaussian("diag"), Gaussian("EEE"), Gaussian("VEI"), Poisson()]


def backend(family: Family, k: int) -> Threads:
    return Threads(MixtureModel(family, k, 2), 1)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_a_split_finds_the_third_group(family: Family) -> None:
    two, three = backend(family, 2), backend(family, 3)
    rows = Rows(X)
    params = from_labels(two.model, rows, np.array([0, 0, 1])[LABELS])
    drawn = [found.params for found in split_starts(two, params, three, rows, [0])]
    assert drawn
    for one in drawn:
        assert len(one.weights) == 3
        assert one.weights.sum() == pytest.approx(1.0)
        three.model.check_params(one)
    best = best_start(three, None, "split", drawn, rows, 0.0, True)
    expected = from_labels(three.model, rows, LABELS)
    assert best is not None
    log_density, _ = three.posterior(expected, rows)
    assert best.score >= float(np.mean(log_density))


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_a_merge_joins_the_halves_of_a_group(family: Family) -> None:
    four, three = backend(family, 4), backend(family, 3)
    rows = Rows(X)
    halved = np.where((LABELS == 2) & (np.arange(len(X)) % 2 == 0), 3, LABELS)
    params = from_labels(four.model, rows, halved)
    drawn = [found.params for found in merge_starts(four, params, three, rows, [0])]
    expected = from_labels(three.model, rows, LABELS)
    weights = np.sort(expected.weights)
    np.testing.assert_allclose(np.sort(drawn[0].weights), weights, atol=1e-3)
    # the new component has the statistics of all rows of the group
    found = three.model.expected(drawn[0]).blocks[0].mean
    whole = three.model.expected(expected).blocks[0].mean
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(whole, axis=0), rtol=0.01)
    best = best_start(three, None, "merge", drawn[:1], rows, 0.0, True)
    assert best is not None
    assert best.score >= float(np.mean(three.posterior(expected, rows)[0]))


def test_the_better_start_is_kept() -> None:
    three, rows = backend(Gaussian(), 3), Rows(X)
    good = from_labels(three.model, rows, LABELS)
    bad = from_labels(three.model, rows, np.arange(len(X)) % 3)
    known = best_start(three, None, "search", [good], rows, 0.0, True)
    assert known is not None
    assert best_start(three, known, "split", [bad], rows, 0.0, False) is known
    assert best_start(three, known, "merge", [], rows, 0.0, True) is known
    worse = Start("search", bad, -100.0)
    better = best_start(three, worse, "split", [bad, good], rows, 0.0, True)
    assert better is not None
    assert better.kind == "split"
    assert better.score == pytest.approx(known.score, abs=1e-9)
