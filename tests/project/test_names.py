"""Names that users of scikit-learn and river expect, however they are spelt."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.mixture import GaussianMixture as Original

import mixfold
from mixfold import EM, DriftAware, GaussianMixture, KMeans, Mixture, OnlineEM, PageHinkley, Power
from mixfold.cli.main import main
from mixfold.core import errors, registry
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.errors import InvalidInputError
from mixfold.families.gaussian import Gaussian
from mixfold.models.mixture_model import MixtureModel

PACKAGES = ("detectors", "estimators", "families", "learners", "schedules", "initializers")


def blobs(n: int = 300, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    return np.asarray(centers[rng.integers(3, size=n)] + rng.normal(size=(n, 2)))


# one name, spelt in several ways


@pytest.mark.parametrize("package", PACKAGES)
def test_every_spelling_of_a_name_is_one(package: str) -> None:
    for name, cls in registry.find_all(package).items():
        snake = name.replace("-", "_")
        for spelt in (name, snake, cls.__name__, cls.__name__.lower(), name.upper()):
            assert registry.find(package, spelt) is cls
            assert registry.canonical(package, spelt) == name


def test_unknown_names_list_what_there_is() -> None:
    with pytest.raises(InvalidInputError, match=r"unknown learner 'onlin'.*mini-batch-em"):
        Mixture(learner="onlin").fit(blobs())
    with pytest.raises(
        InvalidInputError, match=r"unknown initializer 'best'.*k-means.*random-from-data"
    ):
        Mixture(init="best").fit(blobs())


@pytest.mark.parametrize(
    "spelt",
    [
        {"learner": "OnlineEM"},
        {"learner": "online_em"},
        {"family": "Gaussian", "learner": "ONLINE-EM", "init": "KMeansPlusPlus"},
        {"learner": OnlineEM(schedule="power")},
        {"learner": OnlineEM(schedule="Power")},
    ],
)
def test_estimators_take_any_spelling(spelt: dict[str, Any]) -> None:
    plain = Mixture("gaussian", 2, learner="online-em", random_state=0).fit(blobs())
    other = Mixture(**{"n_components": 2, "random_state": 0, **spelt}).fit(blobs())
    assert equal(other.params_, plain.params_)


def test_estimators_know_their_own_learner_in_any_spelling() -> None:
    plain = GaussianMixture(2, max_iter=100, tol=1e-7, random_state=0).fit(blobs())
    other = GaussianMixture(2, max_iter=100, tol=1e-7, learner="EM", random_state=0).fit(blobs())
    assert other.n_iter_ == plain.n_iter_ > 2
    assert mixfold.LinearMixedModel(learner="Auto").get_params()["tol"] == 1e-13


# river's detector


def stream(seed: int) -> Iterator[float]:
    """Noise about a level that jumps; Python promises the same numbers in every version."""
    rng, level = random.Random(seed), 0.0
    for _ in range(1000):
        if rng.random() < 0.005:
            level += rng.choice([-4.0, 4.0])
        yield level + rng.gauss(0.0, 1.0)


# settings, seed of the stream, and where river 0.26.1 detects changes
DETECTED_BY_RIVER: list[tuple[dict[str, Any], int, list[int]]] = [
    ({}, 0, [32, 264, 315, 374, 503, 589, 638, 697, 777, 831]),
    ({"threshold": 10.0}, 1, [37, 93, 140, 191, 234, 285, 378, 458, 494, 577, 607, 743, 792, 889]),
    ({"mode": "up", "threshold": 10.0}, 1, [92]),
    ({"mode": "down", "threshold": 10.0}, 1, [37, 219, 249, 578, 815]),
    ({"min_instances": 100, "threshold": 5.0}, 2, [99, 199, 300, 400, 500, 600, 700, 800, 900]),
    ({"delta": 1.0, "threshold": 4.0}, 3, [95, 348, 855]),
    ({"alpha": 0.9, "threshold": 12.0}, 4, [71, 224, 336, 827, 857, 916]),
    (
        {"delta": 0.0, "alpha": 1.0, "threshold": 20.0, "min_instances": 1},
        5,
        [26, 212, 387, 580, 733, 757, 841, 903],
    ),
]


@pytest.mark.parametrize(("settings", "seed", "detected"), DETECTED_BY_RIVER)
def test_page_hinkley_detects_what_river_detects(
    settings: dict[str, Any], seed: int, detected: list[int]
) -> None:
    detector, found = PageHinkley(**settings), []
    assert not detector.drift_detected
    for i, x in enumerate(stream(seed)):
        detector.update(x)
        if detector.drift_detected:
            found.append(i)
    assert found == detected


def test_defaults_of_page_hinkley_are_rivers() -> None:
    assert repr(PageHinkley()) == (
        "PageHinkley(min_instances=30, delta=0.005, threshold=50.0, alpha=0.9999, mode='both')"
    )


def test_a_detector_without_updates_is_not_changed_by_those_of_another() -> None:
    one, other = PageHinkley(threshold=1.0), PageHinkley(threshold=1.0)
    for x in [0.0] * 40 + [9.0]:
        one.update(x)
    assert one.drift_detected
    assert not other.drift_detected
    assert equal(one, other)  # what it has seen is no hyper-parameter


@pytest.mark.parametrize("mode", ["sideways", None])
def test_bad_settings_of_page_hinkley_are_refused(mode: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"unknown mode .* Known: both, down, up"):
        PageHinkley(mode=mode)
    for name, value in (("delta", -1.0), ("threshold", 0.0), ("alpha", 1.5), ("min_instances", 0)):
        with pytest.raises(InvalidInputError, match=f"{name} is"):
            PageHinkley(**{name: value})
    with pytest.raises(InvalidInputError, match="NaN"):
        PageHinkley().update(float("nan"))


def test_a_learner_that_is_named_can_be_watched() -> None:
    named: Any = DriftAware
    assert equal(named("online-em", "self-starting-cusum"), DriftAware(OnlineEM()))
    x = np.concatenate([blobs(6000), blobs(3000, 1) + 12.0])
    learner = named("OnlineEM", PageHinkley(threshold=5.0, mode="down"), window=64)
    model = Mixture(n_components=3, learner=learner, random_state=0).partial_fit(x)
    (row,) = model.drifts_
    assert 6000 < row <= 6500


def test_the_command_line_takes_any_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    watched = ("--learner", "DriftAware", "-O", "learner=OnlineEM:batch-size=4")
    fit = ["fit", "@faithful", "-k", "2", "--family", "Gaussian", "--init", "random_from_data"]
    detector = "detector=PageHinkley:mode=down,threshold=2"
    assert main([*fit, *watched, "-O", detector]) == 0
    rule = mixfold.load("model.mixfold").learner
    assert equal(rule.learner, OnlineEM(batch_size=4))
    assert equal(rule.detector, PageHinkley(mode="down", threshold=2.0))
    capsys.readouterr()
    assert main([*fit, *watched, "-O", "detector=page-hinkley:mode=left"]) == 2
    assert "option mode=left: up or down or both is needed" in capsys.readouterr().err


# scikit-learn's names


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("kmeans", "k-means"),
        ("k-means++", "k-means++"),
        ("random", "random-labels"),
        ("random_from_data", "random-rows"),
    ],
)
def test_init_takes_scikit_learns_names(theirs: str, ours: str) -> None:
    Original(init_params=theirs)._validate_params()  # it is one of theirs
    a = Mixture(n_components=3, init=theirs, learner="em", random_state=0).fit(blobs())
    b = Mixture(n_components=3, init=ours, learner="em", random_state=0).fit(blobs())
    assert equal(a.params_, b.params_)


def test_k_means_finds_the_clusters_that_scikit_learn_finds() -> None:
    x = blobs() / blobs().std(axis=0)  # ours measures columns in their deviations
    theirs = SklearnKMeans(3, n_init=10, random_state=0).fit(x).cluster_centers_
    model = MixtureModel(Gaussian(), 3, 2)
    ours = KMeans().draw(model, Rows(x), np.random.default_rng(0)).components.means
    assert np.abs(np.sort(ours, axis=0) - np.sort(theirs, axis=0)).max() < 1e-12
    twice = KMeans().draw(model, Rows(x, np.full(len(x), 2.0)), np.random.default_rng(0))
    np.testing.assert_allclose(twice.components.means, ours, rtol=1e-12)


def test_max_iter_bounds_the_passes() -> None:
    for settings in ({"learner": EM(0.0, max_iter=4)}, {"learner": EM(0.0), "max_iter": 4}):
        model = Mixture(n_components=2, random_state=0, **settings).fit(blobs())
        assert model.n_iter_ == 4
        assert not model.converged_
        assert model.n_seen_ == 4 * 300


def test_a_number_in_place_of_the_family_is_explained() -> None:
    with pytest.raises(InvalidInputError, match=r"family is 3.*Mixture\(n_components=3\)"):
        Mixture(3).fit(blobs())  # type: ignore[arg-type]


# public names


def test_a_star_import_gives_public_names_and_nothing_else() -> None:
    program = "from mixfold import *\nprint(*[n for n in dir() if not n.startswith('__')])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    classes = {c.__name__ for p in PACKAGES for c in registry.find_all(p).values()}
    others = {"CsvFiles", "Fixed", "Prior", "RemoteFiles", "bootstrap_test", "datasets"}
    others |= {"errors", "load", "merge"}
    assert set(done.stdout.split()) == classes | others


def test_all_errors_and_warnings_are_public() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)]
    assert {kind.__name__ for kind in kinds} == set(mixfold.errors.__all__)
    for kind in kinds:
        assert getattr(mixfold.errors, kind.__name__) is kind


def test_power_is_found_by_its_name() -> None:
    assert equal(registry.make("schedules", "power"), Power())
