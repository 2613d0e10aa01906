"""The one-compartment estimator: every setting, hard data, data in files."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixfold import OneCompartmentModel
from mixfold.core.errors import InvalidInputError
from mixfold.core.value import equal
from mixfold.estimators import _nonlinear
from mixfold.kernels.simulation import SimulationKernel
from mixfold.learners.monte_carlo_em import MonteCarloEM
from mixfold.models._one_compartment import OneCompartment
from mixfold.models.residual_errors import ERRORS
from mixfold.schedules.settling import Settling
from mixfold.sources import grouped

TIMES = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0])
TRUTH = np.array([1.5, 30.0, 3.0, 0.5])
DEVIATIONS = np.array([0.4, 0.2, 0.3, 0.2])
FAIR: dict[str, Any] = {
    "learner": MonteCarloEM(draws=5, schedule=Settling(40), max_iter=70),
    "evaluation_draws": 100,
    "random_state": 0,
}
QUICK: dict[str, Any] = {"max_iter": 3, "evaluation_draws": 20, "random_state": 0}

Table = dict[str, np.ndarray]


def events(
    n: int = 12,
    seed: int = 0,
    additive: float = 0.1,
    proportional: float = 0.0,
    doses: Any = (0.0,),
    times: np.ndarray = TIMES,
    lag: bool = False,
) -> Table:
    """Doses of 100 and concentrations of n subjects, each subject's doses first."""
    rng = np.random.default_rng(seed)
    q = 4 if lag else 3
    psi = np.log(TRUTH[:q]) + DEVIATIONS[:q] * rng.normal(size=(n, q))
    given, seen = np.tile(doses, (n, 1)).astype(float), np.tile(times, (n, 1))
    c = OneCompartment(seen, given, np.full(given.shape, 100.0)).concentration(psi)
    c = c * (1 + proportional * rng.normal(size=c.shape)) + additive * rng.normal(size=c.shape)
    return {
        "subject": np.repeat(np.arange(n), len(doses) + len(times)),
        "time": np.hstack([given, seen]).ravel(),
        "dose": np.hstack([np.full(given.shape, 100.0), np.zeros(seen.shape)]).ravel(),
        "concentration": np.hstack([np.zeros(given.shape), c]).ravel(),
    }


# residual errors


@pytest.mark.parametrize("size", [1.0, 1e-6])
@pytest.mark.parametrize(("a", "b"), [(0.5, 0.0), (0.0, 0.2), (0.3, 0.1)])
def test_combined_noise_climbs_to_the_maximum(a: float, b: float, size: float) -> None:
    rng = np.random.default_rng(0)
    f = np.linspace(0.1, 3.0, 400)[None]
    y = f + np.hypot(a, b * f) * rng.normal(size=f.shape)
    f, y, error = size * f, size * y, ERRORS["combined"]
    least, there = np.zeros((1, 1)), np.ones_like(f)

    def log_likelihood(noise: np.ndarray) -> float:
        v = error.variance(noise, f, least)[0]
        return -0.5 * float((np.log(v) + np.square(y - f) / v).sum())

    noise = np.array([0.25 * size, 0.15])
    for _ in range(60):
        noise, _ = error.maximize(error.statistics(noise, y, f, least, there)[0])
    grid = np.exp(np.linspace(-8, 1, 91))
    best = max(log_likelihood(np.array([size * i, j])) for i in grid for j in grid)
    assert log_likelihood(noise) > best - 1e-3


@pytest.mark.parametrize("seed", [1, 4])
@pytest.mark.parametrize(
    ("simple", "noise"),
    [
        ("additive", {"additive": 0.1}),
        ("proportional", {"additive": 0.0, "proportional": 0.15}),
    ],
)
def test_combined_errors_are_no_worse_than_those_they_hold(
    simple: Any, noise: dict[str, Any], seed: int
) -> None:
    table = events(15, seed, **noise)
    nested = OneCompartmentModel(error=simple, **FAIR).fit(table)
    combined = OneCompartmentModel(error="combined", **FAIR).fit(table)
    assert combined.log_likelihood_ > nested.log_likelihood_ - 0.5


@pytest.mark.parametrize("error", list(ERRORS))
def test_data_without_noise_leave_a_floor_that_is_counted(error: Any) -> None:
    table = events(additive=0.0)
    settings: dict[str, Any] = {"max_iter": 40, "evaluation_draws": 50, "random_state": 0}
    model = OneCompartmentModel(error=error, **settings).fit(table)
    assert np.isfinite(model.log_likelihood_)
    assert model.log_likelihood_ > 0
    assert model.noise_.min() > 1e-8
    assert model.n_degenerate_ > 0


def test_a_deviation_that_is_not_there_leaves_the_other_standard_errors() -> None:
    table = events(15, 4, additive=0.0, proportional=0.15)
    model = OneCompartmentModel(error="combined", **FAIR).fit(table)
    assert model.noise_[0] < 1e-4
    assert model.n_degenerate_ > 0
    assert np.isnan(model.noise_std_errors_[0])
    assert 0 < model.noise_std_errors_[1] < 0.1
    assert np.all(model.population_std_errors_ < 0.5 * model.population_)


def test_one_subject_has_no_standard_errors() -> None:
    model = OneCompartmentModel(max_iter=20, evaluation_draws=100, random_state=0)
    with pytest.warns(RuntimeWarning, match="no standard errors"):
        model.fit(events(1))
    assert np.isnan(model.population_std_errors_).all()
    assert np.isfinite(model.log_likelihood_)


# where learning begins


@pytest.mark.parametrize("lag", [False, True])
def test_the_clock_does_not_matter(lag: bool) -> None:
    times = np.array([0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0])
    table = events(12, times=times, lag=lag)
    late = {**table, "time": table["time"] + 1000.0}
    found = [OneCompartmentModel(lag=lag, **FAIR).fit(t).population_ for t in (table, late)]
    assert np.allclose(found[1], found[0], rtol=1e-3)


@pytest.mark.parametrize("error", list(ERRORS))
def test_units_do_not_matter(error: Any) -> None:
    table = events(12, additive=0.05, proportional=0.1)
    small = {**table, "concentration": 1e-9 * table["concentration"]}
    found = [OneCompartmentModel(error=error, **FAIR).fit(t).population_ for t in (table, small)]
    assert np.allclose(found[1] * [1.0, 1e-9, 1e-9], found[0], rtol=1e-3)


def test_many_doses_with_a_lag() -> None:
    last = 84.0
    times = last + np.array([0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 8.0, 12.0])
    table = events(12, doses=np.arange(0.0, last + 1, 12.0), times=times, lag=True)
    model = OneCompartmentModel(lag=True, **FAIR).fit(table)
    assert np.all(np.abs(model.population_ - TRUTH) < 4 * model.population_std_errors_)
    assert np.all(np.abs(model.population_ / TRUTH - 1) < 0.3)


@pytest.mark.filterwarnings("ignore:the observed information")
def test_most_subjects_without_a_concentration() -> None:
    table = events(12)
    zero = {**table, "concentration": np.where(table["subject"] < 7, 0, table["concentration"])}
    model = OneCompartmentModel(**QUICK).fit(zero)
    assert np.isfinite(model.population_).all()


# what is refused, and what is not


def single(n: int = 6) -> Table:
    """Rows that carry the dose, without rows of doses."""
    table = events(n)
    return {name: column[table["dose"] == 0] for name, column in table.items()} | {
        "dose": np.full(n * len(TIMES), 100.0)
    }


def test_bad_rows_are_refused_by_name() -> None:
    model = OneCompartmentModel(dosing="single", **QUICK)
    table = single()
    first = table["subject"] == 0
    for weight in (-5.0, np.nan, np.inf):
        weighted = {**table, "w": np.where(first, weight, 1.0)}
        with pytest.raises(InvalidInputError, match=f"group_weight has {weight}"):
            model.fit(weighted, group_weight="w")
    varying = {**table, "weight": np.where(np.arange(len(first)) == 9, 60.0, 70.0)}
    with pytest.raises(InvalidInputError, match="'weight' of subject 1 changes from row to row"):
        OneCompartmentModel(dosing="single", weight="weight", **QUICK).fit(varying)
    with pytest.raises(InvalidInputError, match="'concentration' is nowhere above 0"):
        model.fit({**table, "concentration": -np.abs(table["concentration"])})
    zero = {**table, "concentration": np.where(first, 0.0, np.abs(table["concentration"]))}
    with pytest.raises(InvalidInputError, match="subject 0 has no concentration other than 0"):
        OneCompartmentModel(dosing="single", error="proportional", **QUICK).fit(zero)
    for lag in ("no", None, 1):
        with pytest.raises(InvalidInputError, match="lag is"):
            OneCompartmentModel(dosing="single", lag=lag).fit(table)  # type: ignore[arg-type]
    for column in (table["time"][:-1], table["time"][:, None]):
        with pytest.raises(InvalidInputError, match="column 'time' has shape"):
            model.fit({**table, "time": column})
    assert not hasattr(model, "population_")


def test_a_failed_fit_leaves_a_fitted_model_as_it_was() -> None:
    table = single()
    model = OneCompartmentModel(dosing="single", **QUICK).fit(table)
    before = dict(model.__dict__)
    for name, value in (("time", np.nan), ("dose", -1.0), ("concentration", 0.0)):
        with pytest.raises(InvalidInputError):
            model.fit({**table, name: np.full(len(table["time"]), value)})
    assert model.__dict__.keys() == before.keys()
    assert all(model.__dict__[name] is before[name] for name in before)


def test_prediction_keeps_to_what_was_learned() -> None:
    table = {**events(), "weight": np.full(12 * 9, 60.0)}
    model = OneCompartmentModel(weight="weight", **QUICK).fit(table)
    before = model.predict(table)
    model.set_params(reference_weight=10.0, lag=True, error="combined", covariance="full")
    assert equal(model.predict(table), before)
    with pytest.raises(InvalidInputError, match="learned with body weights"):
        model.set_params(weight=None).predict(table)
    model.set_params(weight="weight")
    seen = {name: column[table["dose"] == 0] for name, column in table.items()}
    with pytest.raises(InvalidInputError, match="subject 0 has no dose above 0"):
        model.predict(seen)


@pytest.mark.parametrize("junk", [np.nan, 1e200, None])
def test_concentrations_of_dose_rows_are_not_read(junk: float | None) -> None:
    import pyarrow as pa

    table = events()
    given = table["dose"] > 0

    def with_junk(where: np.ndarray) -> Any:
        c = table["concentration"].tolist()
        values = [junk if bad else one for bad, one in zip(where, c, strict=True)]
        return pa.table({**table, "concentration": pa.array(values)})

    plain = OneCompartmentModel(**QUICK).fit(table)
    other = OneCompartmentModel(**QUICK).fit(with_junk(given))
    assert equal(other.params_, plain.params_)
    if junk != 1e200:
        with pytest.raises(InvalidInputError, match=r"row 2 .*, column 'concentration' is NaN"):
            OneCompartmentModel(**QUICK).fit(with_junk(~given))


# data in files, weights, threads


def test_files_that_are_not_kept_give_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr(_nonlinear, "TOGETHER", 4)
    table = events(11)
    whole = OneCompartmentModel(**QUICK).fit(table)
    for kept in (grouped.KEPT_BYTES, 0):
        monkeypatch.setattr(grouped, "KEPT_BYTES", kept)
        for rows in (7, 1000):
            file = tmp_path / f"{rows}.parquet"
            pq.write_table(pa.table(table), file, row_group_size=rows)
            model = OneCompartmentModel(**QUICK).fit(file)
            assert equal(model.params_, whole.params_)
            assert equal(model.parameter_covariance_, whole.parameter_covariance_)
            assert equal(model.random_effects_, whole.random_effects_)
            assert model.log_likelihood_ == whole.log_likelihood_
            assert equal(model.predict(file), whole.predict(table))


def test_threads_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_nonlinear, "TOGETHER", 4)
    names, summarize = set(), SimulationKernel.summarize

    def noted(kernel: Any, *given: Any) -> Any:
        names.add(threading.current_thread().name.partition("_")[0])
        return summarize(kernel, *given)

    monkeypatch.setattr(SimulationKernel, "summarize", noted)
    one, three = (OneCompartmentModel(n_threads=n, **QUICK).fit(events(11)) for n in (1, 3))
    assert names == {"MainThread", "mixfold"}
    assert equal(one.parameter_covariance_, three.parameter_covariance_)
    assert equal(one.random_effects_, three.random_effects_)
    assert one.log_likelihood_ == three.log_likelihood_


def test_a_subject_of_weight_two_is_there_twice() -> None:
    table = events(10)
    heavy = table["subject"] < 5
    twice = {n: np.concatenate([c, c[heavy] + 100 * (n == "subject")]) for n, c in table.items()}
    weighted = OneCompartmentModel(**FAIR).fit({**table, "w": 1.0 + heavy}, group_weight="w")
    doubled = OneCompartmentModel(**FAIR).fit(twice)
    errors = doubled.population_std_errors_
    assert np.allclose(weighted.population_, doubled.population_, atol=0.3 * errors)
    assert np.allclose(weighted.population_std_errors_, errors, rtol=0.25)
    assert weighted.log_likelihood_ == pytest.approx(doubled.log_likelihood_, abs=1.0)
    penalty = weighted.bic() + 2 * weighted.log_likelihood_
    assert penalty == pytest.approx(doubled.bic() + 2 * doubled.log_likelihood_)


@pytest.mark.parametrize(
    "settings",
    [
        {"error": "proportional"},
        {"error": "combined", "covariance": "full"},
        {"covariance": "full"},
        {"doses": (0.0, 24.0, 30.0)},
    ],
    ids=str,
)
def test_the_truth_is_found(settings: dict[str, Any]) -> None:
    settings = dict(settings)
    error = settings.get("error", "additive")
    noise = {"additive": (0.1, 0.0), "proportional": (0.0, 0.1), "combined": (0.05, 0.1)}[error]
    doses = settings.pop("doses", (0.0,))
    times = np.concatenate([TIMES, 24.0 + TIMES]) if len(doses) > 1 else TIMES
    table = events(30, 1, *noise, doses=doses, times=times)
    model = OneCompartmentModel(**settings, **FAIR).fit(table)
    gap = np.abs(model.population_ - TRUTH[:3])
    assert np.all(gap < 3 * model.population_std_errors_)
    assert np.all(model.population_std_errors_ < 0.15 * model.population_)
    # as a sample variance of 30 scatters
    share = np.diag(model.random_covariance_) / DEVIATIONS[:3] ** 2
    assert np.all(np.abs(share - 1.0) < 3 * np.sqrt(2 / 30))
    off = model.random_covariance_[np.tril_indices(3, -1)]
    assert np.all(off != 0) == (model.covariance == "full")
    truth = np.array([size for size in noise if size > 0])
    assert np.all(np.abs(model.noise_ - truth) < 3 * model.noise_std_errors_)
