"""Bad weights, counts and settings get a clear error, and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from bad_input import COUNTS, LEARN, NAMED, X, fitted, mixture, refuses, spoiled, write
from mixfold import GaussianMixture, Mixture
from mixfold.core.errors import (
    InvalidInputError,
)
from mixfold.families.exponential import Exponential
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.online_em import OnlineEM
from mixfold.schedules.constant import Constant

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")


# weights


@pytest.mark.parametrize(
    ("weight", "says"),
    [
        (-np.ones(200), "Negative"),
        (np.where(np.arange(200) == 150, np.nan, 1.0), "NaN"),
        (np.full(200, np.inf), "infinity"),
        (np.zeros(200), "non-zero"),
        (np.ones(201), "(201,)"),
        (np.ones((200, 2)), "1D"),
        (["heavy"] * 200, "heavy"),
        ("w", "'w'"),
    ],
)
@pytest.mark.parametrize("method", LEARN)
@pytest.mark.parametrize("estimator", [Mixture(), GaussianMixture()], ids=["Mixture", "GM"])
def test_weights_of_arrays(estimator: Any, method: str, weight: Any, says: str) -> None:
    refuses(fitted(estimator, X), method, X, says, sample_weight=weight)


@pytest.mark.parametrize(
    ("weight", "says"),
    [
        (spoiled(np.ones((200, 2)), -1.0)[:, 1], ["-1.0", ">= 0"]),
        (spoiled(np.ones((200, 2)), np.nan)[:, 1], ["w"]),
        (spoiled(np.ones((200, 2)), np.inf)[:, 1], ["w"]),
        (np.zeros(200), ["zero"]),
    ],
    ids=["negative", "nan", "infinite", "zero"],
)
@pytest.mark.parametrize("learner", ["auto", "em", "online-em", "mini-batch-em"])
@pytest.mark.parametrize("method", LEARN)
def test_weights_in_files(
    method: str, learner: str, weight: np.ndarray, says: list[str], tmp_path: Path
) -> None:
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "w": weight})
    model = fitted(mixture(learner=learner), NAMED)
    file = write(tmp_path, "x.parquet", table)
    refuses(model, method, file, *says, sample_weight="w")
    refuses(model, method, file, "no column 'q'", sample_weight="q")
    refuses(model, method, file, "name of a column", sample_weight=np.ones(200))
    refuses(model, method, iter([X]), "'w'", sample_weight="w")


def test_a_stream_may_begin_with_rows_of_no_weight(tmp_path: Path) -> None:
    weight = (np.arange(200) >= 150).astype(float)
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "w": weight})
    file = write(tmp_path, "x.parquet", table)
    for method in LEARN:
        model = getattr(mixture(), method)(file, sample_weight="w")
        assert np.isfinite(model.score_samples(file)).all()
        np.testing.assert_allclose(model.weights_ @ model.means_, X[150:].mean(axis=0), atol=0.2)


# parameters


@pytest.mark.parametrize("k", [0, -1, True, False, 2.0, "2", None])
@pytest.mark.parametrize("method", LEARN)
def test_numbers_of_components(method: str, k: Any) -> None:
    says = ("n_components", repr(k), "whole number >= 1")
    refuses(fitted(mixture(), X).set_params(n_components=k), method, X, *says)


@pytest.mark.parametrize("name", ["n_init", "max_iter", "n_threads"])
@pytest.mark.parametrize("number", [0, -3, True, 1.5, "1"])
def test_other_counts(name: str, number: Any) -> None:
    model = fitted(mixture(), X).set_params(**{name: number})
    refuses(model, "fit", X, name, repr(number), "whole number >= 1")


@pytest.mark.parametrize("number", [0, -1, 1.5, "2"])
def test_threads_of_gaussian_mixture(number: Any) -> None:
    model = fitted(GaussianMixture(), X).set_params(n_threads=number)
    refuses(model, "fit", X, "n_threads", repr(number))


@pytest.mark.parametrize("every", ["often", None, float("nan")])
def test_seconds_between_checkpoints(every: Any, tmp_path: Path) -> None:
    model = fitted(mixture(), X).set_params(checkpoint=tmp_path / "c", checkpoint_every=every)
    refuses(model, "fit", X, "checkpoint_every", repr(every))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"family": "gausian"}, ["family 'gausian'", "Did you mean 'gaussian'?", "poisson"]),
        ({"family": "Poison"}, ["family 'Poison'", "Did you mean 'poisson'?"]),
        ({"family": 3}, ["family is 3", "Mixture(n_components=3)"]),
        ({"learner": "onlin-em"}, ["learner 'onlin-em'", "Did you mean 'online-em'?"]),
        ({"learner": 3}, ["learner is 3", "name"]),
        ({"init": "kmean"}, ["'kmean'", "Did you mean 'k-means'?", "k-mle++", "random-from-data"]),
        ({"init": "random_row"}, ["'random_row'", "Did you mean 'random-rows'?"]),
        ({"init": 5}, ["init", "shape ()", "(2, 2) is needed"]),
        ({"init": np.ones((3, 2))}, ["init", "(3, 2)", "(2, 2) is needed"]),
        ({"init": np.full((2, 2), np.nan)}, ["init", "not finite"]),
        ({"init": "zzz"}, ["'zzz'", "Known:"]),
        ({"init": [["a", "b"], ["c", "d"]]}, ["init"]),
        ({"init": Mixture()}, ["init", "not fitted"]),
        ({"init": fitted(mixture("poisson"), COUNTS)}, ["init", "Gaussian"]),
        ({"init": Mixture(Gaussian("diag"), 2, random_state=1).fit(X)}, ["init", "Gaussian"]),
        (
            {"init": Mixture(n_components=3, random_state=0).fit(X)},
            ["init", "(3, 2)", "(2, 2) is needed"],
        ),
        ({"random_state": "seed"}, ["'seed'"]),
    ],
)
@pytest.mark.parametrize("method", LEARN)
def test_settings(method: str, settings: dict[str, Any], says: list[str]) -> None:
    model = Mixture(n_components=2)
    refuses(fitted(model, X).set_params(**settings), "fit", X, *says)
    with pytest.raises(ValueError) as caught:
        getattr(
            Mixture(n_components=2, **settings)
            if "family" not in settings
            else Mixture(settings["family"], 2),
            method,
        )(X)
    assert all(part in str(caught.value) for part in says)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Gaussian("ful"), ["covariance 'ful'", "Did you mean 'full'?", "spherical"]),
        (lambda: Gaussian(3), ["covariance", "3", "full"]),  # type: ignore[arg-type]
        (lambda: Gaussian(floor=-1.0), ["floor", "-1.0"]),
        (lambda: Gaussian(reg_covar=-1.0), ["reg_covar", "-1.0"]),
        (lambda: Poisson(floor=-1.0), ["floor", "-1.0"]),
        (lambda: Exponential(floor=float("nan")), ["floor", "nan"]),
        (lambda: MiniBatchEM(sampling="with_replacement"), ["Did you mean 'with-replacement'?"]),
        (lambda: MiniBatchEM(batch_size=0), ["batch_size is 0"]),
        (lambda: MiniBatchEM(batch_size=-5), ["batch_size is -5"]),
        (lambda: MiniBatchEM(batch_size=1.5), ["batch_size is 1.5"]),
        (lambda: MiniBatchEM(batch_size=float("inf")), ["batch_size is inf"]),
        (lambda: MiniBatchEM(batch_size=float("nan")), ["batch_size is nan"]),
        (lambda: MiniBatchEM(batch_size="a"), ["batch_size is 'a'"]),  # type: ignore[arg-type]
        (lambda: MiniBatchEM(max_iter=0), ["max_iter is 0"]),
        (lambda: MiniBatchEM(warmup=-1), ["warmup is -1"]),
        (lambda: MiniBatchEM(average_from=0), ["average_from is 0"]),
        (lambda: MiniBatchEM(truncation=0.0), ["truncation is 0.0"]),
        (lambda: MiniBatchEM(schedule=0.1), ["schedule is 0.1"]),  # type: ignore[arg-type]
        (lambda: OnlineEM(batch_size=0.5), ["batch_size is 0.5"]),  # type: ignore[arg-type]
        (lambda: OnlineEM(max_iter=0), ["max_iter is 0"]),
        (lambda: OnlineEM(warmup=-1), ["warmup is -1"]),
        (lambda: Constant(0.0), ["step is 0.0"]),
        (lambda: Constant(1.5), ["step is 1.5"]),
        (lambda: EM(tol=-1.0), ["tol is -1.0"]),
        (lambda: EM(max_iter=-1), ["max_iter is -1"]),
    ],
)
def test_hyper_parameters(make: Callable[[], Any], says: list[str]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        make()
    assert all(part in str(caught.value) for part in says)


def test_fewer_rows_than_components(tmp_path: Path) -> None:
    model = fitted(mixture(), NAMED).set_params(n_components=5)
    file = write(tmp_path, "x.csv", pa.table({"a": X[:3, 0], "b": X[:3, 1]}))
    says = ("n_components = 5", "n_samples = 3")
    for data in (NAMED[:3], file, iter([X[:3]]), [X[:2], X[:1]]):
        refuses(model, "fit", data, *says)
    again = GaussianMixture(n_components=5, max_iter=1000)
    with pytest.raises(ValueError, match="n_components = 5, n_samples = 3"):
        again.fit(X[:3])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 99, 100, 101])
@pytest.mark.parametrize("family", ["gaussian", "poisson", "exponential"])
@pytest.mark.parametrize("learner", ["auto", "em", "mini-batch-em", "online-em"])
def test_a_stream_begins_with_any_number_of_rows(learner: str, family: str, n: int) -> None:
    model = Mixture(family, 3, learner=learner, random_state=0).partial_fit(COUNTS[:n])
    assert model.n_seen_ == n
    np.testing.assert_allclose(model.predict_proba(COUNTS).sum(axis=1), 1.0)
    assert np.isfinite(model.score_samples(COUNTS)).all()
    assert model.partial_fit(COUNTS[n:]).n_seen_ == len(COUNTS)


@pytest.mark.parametrize("method", LEARN)
def test_a_fraction_of_an_unknown_length(method: str, tmp_path: Path) -> None:
    model = fitted(mixture(), X).set_params(learner=MiniBatchEM(batch_size=0.1))
    file = write(tmp_path, "x.csv", pa.table({"a": X[:, 0], "b": X[:, 1]}))
    for data in (iter([X]), file):
        refuses(model, method, data, "batch_size=0.1", "give a number of rows")


@pytest.mark.parametrize("order", ["with-replacement", "without-replacement"])
def test_sampling_what_cannot_be_indexed(order: str, tmp_path: Path) -> None:
    model = fitted(mixture(), X).set_params(learner=MiniBatchEM(sampling=order))
    file = write(tmp_path, "x.csv", pa.table({"a": X[:, 0], "b": X[:, 1]}))
    for data in (file, [X, X], iter([X])):
        refuses(model, "fit", data, f"sampling={order!r}", "use sampling='stream'")


@pytest.mark.parametrize(
    "changed", [{"n_components": 3}, {"family": "poisson"}, {"family": Gaussian("diag")}]
)
def test_a_stream_does_not_change_its_model(changed: dict[str, Any]) -> None:
    for model in (fitted(mixture(), COUNTS), mixture().partial_fit(COUNTS)):
        refuses(model.set_params(**changed), "partial_fit", COUNTS, "fit", next(iter(changed)))
