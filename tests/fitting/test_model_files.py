"""Model files: what is saved is what is loaded, or the file is refused."""

from __future__ import annotations

import copy
import io
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pandas as pd
import pytest

import mixfold
import saved_models
from mixfold import GaussianMixture, Mixture
from mixfold.core.errors import ModelFileError
from mixfold.core.family import Family
from mixfold.core.value import equal, value
from mixfold.families.gaussian import Gaussian
from mixfold.learners.auto import Auto
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.online_em import OnlineEM
from mixfold.schedules.constant import Constant
from mixfold.testing.families import all_variants, columns_for
from saved_models import COUNTS, NAMED, named_rows_of, rows_of, same

FAMILIES = all_variants(2)
Copier = Callable[[Any], Any]


def through_a_file(model: Any) -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        return mixfold.load(Path(folder) / "model")


def through_joblib(model: Any) -> Any:
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


COPIERS: list[Copier] = [
    through_a_file,
    through_joblib,
    lambda model: pickle.loads(pickle.dumps(model)),
    copy.deepcopy,
]
COPIER_NAMES = ["file", "joblib", "pickle", "deepcopy"]


def fitted(model: Any) -> Any:
    return model.fit(rows_of(model))


def fitted_with_names(model: Any) -> Any:
    return model.fit(named_rows_of(model))


def before_the_start_of_a_stream(model: Any) -> Any:
    return model.partial_fit(rows_of(model)[:50])


def in_mid_stream(model: Any) -> Any:
    return model.partial_fit(named_rows_of(model)[:150])


def after_rows_one_by_one(model: Any) -> Any:
    model.partial_fit(rows_of(model)[:150])
    for row in rows_of(model)[150:170]:
        model.learn_one(row)
    return model


STATES = [
    fitted,
    fitted_with_names,
    before_the_start_of_a_stream,
    in_mid_stream,
    after_rows_one_by_one,
]


def check_round_trip(model: Any, state: Callable[[Any], Any]) -> None:
    """Every copy is what the model is, and stays so as both learn on."""
    model = state(model)
    others = [copier(model) for copier in COPIERS]
    for other in others:
        same(model, other)
    rows = (named_rows_of if hasattr(model, "feature_names_in_") else rows_of)(model)[200:]
    for one in (model, *others):
        for part in (rows[:37], rows[37:]):
            one.partial_fit(part)
        for row in rows_of(model)[:5]:
            one.learn_one(row)
    for other in others:
        same(model, other)


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")  # counts
@pytest.mark.parametrize("state", [fitted, in_mid_stream], ids=lambda state: state.__name__)
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_every_family(
    family: Family, state: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    d = columns_for(family, 2)
    rows = family.into_support(np.tile(COUNTS, d)[:, :d])
    for module in (sys.modules[__name__], saved_models):
        monkeypatch.setattr(module, "COUNTS", rows)
        monkeypatch.setattr(module, "NAMED", pd.DataFrame(rows, columns=[*"abc"[:d]]))
    learner = Auto(starts=2, prior_strength=0.0)  # EM, on streams too
    check_round_trip(Mixture(family, 2, learner=learner, random_state=0), state)


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")  # counts
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize(
    "learner",
    [
        "auto",
        "mini-batch-em",
        EM(accelerate=True),
        MiniBatchEM(batch_size=40, average_from=2, truncation=3.0),
        OnlineEM(batch_size=7, schedule=Constant(0.05)),
        OnlineEM(warmup=500),
    ],
    ids=repr,
)
def test_every_learner(learner: Any, state: Callable[[Any], Any]) -> None:
    check_round_trip(Mixture(n_components=2, learner=learner, random_state=0), state)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_gaussian_mixture(covariance: str, state: Callable[[Any], Any]) -> None:
    settings: dict[str, Any] = {"tol": 0.1, "random_state": 0, "means_init": [[1, 2], [3, 4]]}
    check_round_trip(GaussianMixture(2, covariance_type=covariance, **settings), state)


@pytest.mark.parametrize("state", [fitted, after_rows_one_by_one], ids=lambda one: one.__name__)
@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_attributes_of_gaussian_mixture(covariance: str, state: Callable[[Any], Any]) -> None:
    settings: dict[str, Any] = {"tol": 0.1, "random_state": 0, "means_init": [[1, 2], [3, 4]]}
    model = state(GaussianMixture(2, covariance_type=covariance, **settings))
    for copier in COPIERS:
        other = copier(model)
        for name in ("precisions_", "precisions_cholesky_", "covariances_", "weights_", "means_"):
            np.testing.assert_array_equal(getattr(other, name), getattr(model, name))
        assert other.lower_bounds_ == model.lower_bounds_
        assert (other.n_iter_, other.lower_bound_) == (model.n_iter_, model.lower_bound_)


@pytest.mark.parametrize("copier", COPIERS, ids=COPIER_NAMES)
def test_parameters_assigned_by_hand(copier: Copier) -> None:
    model = GaussianMixture(2).fit(COUNTS)
    model.means_ = model.means_ + 1.0
    other = copier(model)
    np.testing.assert_array_equal(other.means_, model.means_)
    np.testing.assert_allclose(other.score_samples(COUNTS), model.score_samples(COUNTS))


@pytest.mark.parametrize("copier", COPIERS, ids=COPIER_NAMES)
def test_settings(copier: Copier) -> None:
    model = Mixture(
        Gaussian("diag", floor=1e-4),
        2,
        learner=MiniBatchEM(batch_size=0.5, schedule=Constant(0.2)),
        init=np.array([[1.0, 2.0], [3.0, 4.0]]),
        n_init=3,
        max_iter=2,
        columns=("a", "b"),
        random_state=5,
        n_threads=1,
    ).fit(NAMED)
    before, after = model.get_params(), copier(model).get_params()
    assert before.keys() == after.keys()
    assert all(equal(before[name], after[name]) for name in before)


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")  # counts
def test_an_init_that_is_a_model_is_kept_as_parameters() -> None:
    first = Mixture(n_components=2, random_state=0).fit(COUNTS)
    second = through_a_file(Mixture(n_components=2, init=first, learner="em").fit(COUNTS))
    assert equal(second.init, first.params_)
    again = Mixture(n_components=2, init=first, learner="em").fit(COUNTS)
    assert equal(second.fit(COUNTS).params_, again.params_)


def test_random_states_that_are_objects_are_not_kept() -> None:
    for state in (np.random.RandomState(0), np.random.default_rng(0)):
        assert through_a_file(Mixture(random_state=state).fit(COUNTS)).random_state is None


def test_the_same_model_gives_the_same_file(tmp_path: Path) -> None:
    model = Mixture("poisson", 2, random_state=0).fit(COUNTS)
    for name in "abc":
        model.save(tmp_path / name)
    assert len({(tmp_path / name).read_bytes() for name in "abc"}) == 1


def test_a_class_that_mixfold_does_not_know(tmp_path: Path) -> None:
    class Mine(Mixture):
        pass

    Mine().fit(COUNTS).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="Mine"):
        mixfold.load(tmp_path / "model")


def test_two_values_cannot_have_one_name() -> None:
    with pytest.raises(
        TypeError, match=r"History is the name of a value in mixfold\.fitting\.history"
    ):
        value(type("History", (), {}))
