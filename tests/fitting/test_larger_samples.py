"""Light components, of which the first sample has too few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixfold import Mixture
from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.families.gaussian import Gaussian
from mixfold.fitting import initialization
from mixfold.fitting.from_params import FromParams
from mixfold.learners._importance_sample import importance_sample
from mixfold.learners.auto import Auto
from mixfold.learners.further_search import search_further
from mixfold.models.assignment import from_labels
from mixfold.models.mixture_model import MixtureModel
from mixfold.sources.array_source import ArraySource

N, LIGHT = 60_000, 60
CENTRES = np.array([[6.0, 0.0], [6.0, 2.5], [-6.0, 0.0]])


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A heavy component and three of 0.1% of the rows, sorted; and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, 2, 3], [N - 3 * LIGHT, LIGHT, LIGHT, LIGHT])
    x = np.vstack([np.zeros(2), CENTRES])[labels]
    return x + rng.normal(size=x.shape) * np.where(labels, 0.25, 1.0)[:, None], labels


def test_candidates_are_compared_on_the_larger_sample() -> None:
    """Of a wrong optimum and the right one the latter is kept.

    In the wrong one two light components are one, and the heavy one is two.
    """
    for seed in range(3):
        x, labels = rows(seed)
        model, larger = MixtureModel(Gaussian(), 4, 2), Rows(x)
        backend = Threads(model, 1)
        wrong = np.where(labels == 2, 1, labels)
        wrong[(labels == 0) & (x[:, 1] > 0.0)] = 2
        first, truth = (from_labels(model, larger, each) for each in (wrong, labels))
        rng = np.random.default_rng(seed)
        sample = importance_sample(backend, first, larger, 2000, rng)
        best = search_further(backend, first, [FromParams(truth)], sample, larger, [seed], 1.0)
        away = np.linalg.norm(best.components.means[:, None] - CENTRES, axis=2)
        assert (away.min(axis=0) < 0.2).all()


def drawings(monkeypatch: pytest.MonkeyPatch, x: Any, **settings: Any) -> list[int]:
    """How many rows a fit asks for at a time."""
    asked: list[int] = []
    sample = ArraySource.sample

    def counted(self: ArraySource, n: int, rng: np.random.Generator) -> Rows:
        asked.append(n)
        return sample(self, n, rng)

    monkeypatch.setattr(ArraySource, "sample", counted)
    Mixture("gaussian", 4, random_state=0, **settings).fit(x)
    return asked


def test_a_larger_sample_is_drawn_only_where_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = rows(0)
    auto = Auto(sample_size=2000)
    even = np.random.default_rng(0).normal(size=(N, 2)) + 8.0 * np.eye(2)[np.arange(N) % 2]
    even[: N // 2] -= 8.0
    assert drawings(monkeypatch, x, learner=auto) == [2000, N]
    assert drawings(monkeypatch, x, learner=auto, n_init=2) == [2000, N]
    assert drawings(monkeypatch, even, learner=auto) == [2000]
    assert drawings(monkeypatch, x, learner=auto, init="k-means") == [2000]
    assert drawings(monkeypatch, x[-3500:], learner=auto) == [2000]
    monkeypatch.setattr(initialization, "MOST_BYTES", 16 * 5000)
    assert drawings(monkeypatch, x, learner=auto) == [2000, 5000]


def test_an_importance_sample_estimates_sums_without_bias() -> None:
    x, labels = rows(0)
    weight = np.random.default_rng(1).integers(0, 3, size=N).astype(float)
    model = MixtureModel(Gaussian(), 4, 2)
    params = from_labels(model, Rows(x, weight), labels)
    backend = Threads(model, 1)
    sums, light = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        drawn = importance_sample(backend, params, Rows(x, weight), 2000, rng)
        assert drawn.weight is not None
        assert 1000 < len(drawn) < 2400
        sums.append([drawn.weight.sum(), *(drawn.weight @ drawn.x)])
        light.append((np.abs(drawn.x) > 5.0).any(axis=1).sum())
    expected = np.array([weight.sum(), *(weight @ x)])
    error = np.std(sums, axis=0) / np.sqrt(len(sums))
    assert (np.abs(np.mean(sums, axis=0) - expected) < 4.0 * error).all()
    # all rows of the light components that have a weight, of which a uniform sample has six
    assert min(light) >= (weight[labels > 0] > 0).sum()
