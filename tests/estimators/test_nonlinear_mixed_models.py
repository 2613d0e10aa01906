"""Estimators of nonlinear mixed models: simulated truth, real data, bad input."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import mixfold
from mixfold import LogisticMixedModel, OneCompartmentModel, datasets
from mixfold.core.errors import InvalidInputError, ModelFileError, SourceError
from mixfold.core.rows import Array
from mixfold.core.value import equal
from mixfold.estimators._nonlinear import inverse_information
from mixfold.models._one_compartment import OneCompartment

# estimators


TIMES = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0])


def binary_data(n: int = 120, rows: int = 8, seed: int = 0) -> tuple[Array, Array, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), rows)
    x = 10.0 * rng.normal(size=(n * rows, 1))
    eta = -0.5 + 0.1 * x[:, 0] + rng.normal(size=n)[groups]
    return x, (rng.random(n * rows) < expit(eta)).astype(float), groups


def exact_logistic(x: Array, y: Array, n: int) -> tuple[Array, Array, float]:
    """Maximum likelihood by quadrature: estimates, standard errors, log-likelihood."""
    from scipy.optimize import minimize

    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    x, sign = x.reshape(n, -1, 1), 2 * y.reshape(n, -1, 1) - 1

    def loss(v: Array) -> float:
        eta = v[0] + v[1] * x + np.sqrt(v[2]) * nodes
        log_likelihood = -np.logaddexp(0.0, -sign * eta).sum(axis=1)
        return -float(np.log(np.exp(log_likelihood) @ weights / weights.sum()).sum())

    best = minimize(loss, [0.0, 0.1, 1.0], bounds=[(None, None), (None, None), (0.01, None)])
    step = np.diag([1e-3, 1e-4, 1e-3])
    hessian = np.array(
        [
            [
                (
                    loss(best.x + a + b)
                    - loss(best.x + a - b)
                    - loss(best.x - a + b)
                    + loss(best.x - a - b)
                )
                / (4 * a.sum() * b.sum())
                for a in step
            ]
            for b in step
        ]
    )
    return best.x, np.sqrt(np.diag(np.linalg.inv(hessian))), -float(best.fun)


def test_logistic_fit_is_the_maximum_of_the_likelihood() -> None:
    x, y, groups = binary_data()
    best, errors, log_likelihood = exact_logistic(x, y, 120)
    model = LogisticMixedModel(random_state=0).fit(x, y, groups)
    found = np.append(model.coef_, model.random_covariance_)
    assert np.all(np.abs(found - best) < 0.35 * errors)
    ours = np.append(model.coef_std_errors_, model.random_covariance_std_errors_)
    assert np.allclose(ours, errors, rtol=0.15)
    assert model.log_likelihood_ == pytest.approx(log_likelihood, abs=0.3)
    assert model.aic() == pytest.approx(-2 * model.log_likelihood_ + 6)
    assert model.bic() == pytest.approx(-2 * model.log_likelihood_ + 3 * np.log(120))
    assert model.coef_names_ == ["Intercept", "x0"]
    assert model.random_effects_.shape == (120, 1)
    assert len(model.history_) == model.n_seen_ / 120
    assert np.mean(model.predict(x, groups) == y) > np.mean(model.predict(x) == y) > 0.6
    assert np.allclose(model.predict_proba(x, groups).sum(axis=1), 1.0)


def test_logistic_formula_and_arrays_agree_in_memory_and_from_files(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    x, y, groups = binary_data(40)
    settings: dict[str, Any] = {"max_iter": 4, "evaluation_draws": 10, "random_state": 1}
    arrays = LogisticMixedModel(**settings).fit(x, y, groups)
    table = pa.table({"y": y, "x": x[:, 0], "school": groups})
    pq.write_table(table, tmp_path / "schools.parquet")
    for data in (table, tmp_path / "schools.parquet"):
        model = LogisticMixedModel("y ~ x", group="school", **settings).fit(data)
        assert np.allclose(model.coef_, arrays.coef_)
        assert np.allclose(model.random_effects_, arrays.random_effects_)
        assert np.allclose(model.predict_proba(data), arrays.predict_proba(x, groups))
    shuffled = np.random.default_rng(0).permutation(len(x))
    again = LogisticMixedModel(**settings).fit(x[shuffled], y[shuffled], groups[shuffled])
    assert np.allclose(again.coef_, arrays.coef_)


def test_a_group_of_weight_two_is_there_twice() -> None:
    x, y, groups = binary_data(40)
    twice = [np.concatenate([part, part[groups < 20]]) for part in (x, y)]
    more = np.concatenate([groups, groups[groups < 20] + 100])
    weight = np.where(groups < 20, 2.0, 1.0)
    settings: dict[str, Any] = {"evaluation_draws": 200, "random_state": 0}
    weighted = LogisticMixedModel(**settings).fit(x, y, groups, group_weight=weight)
    doubled = LogisticMixedModel(**settings).fit(twice[0], twice[1], more)
    assert np.allclose(weighted.coef_, doubled.coef_, atol=0.3 * doubled.coef_std_errors_)
    assert np.allclose(weighted.coef_std_errors_, doubled.coef_std_errors_, rtol=0.15)


def concentrations(n: int = 40, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    subject, time = np.repeat(np.arange(n), len(TIMES)), np.tile(TIMES, n)
    effects = np.array([0.4, 0.2, 0.3]) * rng.normal(size=(n, 3))
    ka, v, cl = (np.array([1.5, 30.0, 3.0]) * np.exp(effects)).T[:, subject]
    c = 100.0 * ka / (v * ka - cl) * (np.exp(-cl / v * time) - np.exp(-ka * time))
    return {
        "subject": subject,
        "time": time,
        "dose": np.full(len(c), 100.0),
        "concentration": c + 0.1 * rng.normal(size=len(c)),
    }


def test_pharmacokinetic_truth_is_found() -> None:
    table = concentrations(seed=1)
    model = OneCompartmentModel(dosing="single", random_state=0).fit(table)
    gap = np.abs(model.population_ - [1.5, 30.0, 3.0])
    assert np.all(gap < 3 * model.population_std_errors_)
    assert np.all(model.population_std_errors_ < 0.1 * model.population_)
    spread = np.abs(np.diag(model.random_covariance_) - np.square([0.4, 0.2, 0.3]))
    assert np.all(spread < 3 * np.diag(model.random_covariance_std_errors_))
    assert abs(model.noise_[0] - 0.1) < 3 * model.noise_std_errors_[0]
    predicted = model.predict(table)
    assert np.sqrt(np.mean((predicted - table["concentration"]) ** 2)) < 0.12
    new = {**table, "subject": table["subject"] + 1000}
    assert np.allclose(model.predict(new)[:8], model.predict(new)[8:16])


def test_events_and_single_doses_say_the_same() -> None:
    single = concentrations(12)
    events = {
        name: np.concatenate([np.repeat(first, 12), column])
        for name, first, column in (
            ("time", 0.0, single["time"]),
            ("dose", 100.0, np.zeros(96)),
            ("concentration", 0.0, single["concentration"]),
        )
    }
    events["subject"] = np.concatenate([np.arange(12), single["subject"]])
    settings: dict[str, Any] = {"max_iter": 3, "evaluation_draws": 10, "random_state": 0}
    one = OneCompartmentModel(dosing="single", **settings).fit(single)
    other = OneCompartmentModel(**settings).fit(events)
    assert np.allclose(one.population_, other.population_)
    assert np.allclose(one.predict(single), other.predict(events)[12:])
    named = {**single, "subject": np.array([f"p{i:02d}" for i in single["subject"]])}
    text = OneCompartmentModel(dosing="single", **settings).fit(named)
    assert np.allclose(text.population_, one.population_)
    assert text.subjects_[0] == "p00"
    assert np.allclose(text.predict(named), one.predict(single))


def test_saved_models_come_back(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_iter": 2, "evaluation_draws": 10, "random_state": 0}
    table = concentrations(12)
    pk = OneCompartmentModel(dosing="single", **settings).fit(table)
    x, y, groups = binary_data(20)
    logistic = LogisticMixedModel(**settings).fit(x, y, groups)
    for i, model in enumerate((pk, logistic)):
        model.save(tmp_path / f"{i}.mixfold")
    again = mixfold.load(tmp_path / "0.mixfold")
    assert equal(again.predict(table), pk.predict(table))
    assert equal(again.population_std_errors_, pk.population_std_errors_)
    again = mixfold.load(tmp_path / "1.mixfold")
    assert equal(again.predict_proba(x, groups), logistic.predict_proba(x, groups))


def test_a_resumed_fit_ends_with_the_same_bits(tmp_path: Path) -> None:
    table = concentrations(12)
    settings: dict[str, Any] = {"dosing": "single", "evaluation_draws": 10, "random_state": 0}
    whole = OneCompartmentModel(max_iter=6, **settings).fit(table)
    kept: dict[str, Any] = {"checkpoint": tmp_path / "fit", "resume": True, **settings}
    OneCompartmentModel(max_iter=3, **kept).fit(table)
    resumed = OneCompartmentModel(max_iter=6, **kept).fit(table)
    assert equal(resumed.params_, whole.params_)
    assert resumed.n_seen_ == 72
    with pytest.raises(InvalidInputError, match="checkpoint=PATH"):
        OneCompartmentModel(resume=True).fit(table)


def test_a_fit_is_not_resumed_on_other_data_or_from_another_seed(tmp_path: Path) -> None:
    x, y, groups = binary_data(20)
    kept: dict[str, Any] = {"checkpoint": tmp_path / "logistic", "resume": True}
    model = LogisticMixedModel(max_iter=1, evaluation_draws=5, random_state=np.int64(0), **kept)
    model.fit(x, y, groups)
    for other in ((x + 1.0, y, groups), (x, 1 - y, groups)):
        with pytest.raises(ModelFileError, match="another fit"):
            model.fit(*other)
    with pytest.raises(ModelFileError, match="another fit"):
        model.set_params(random_state=np.int64(1)).fit(x, y, groups)
    model.set_params(random_state=0, max_iter=2).fit(x, y, groups)
    assert model.n_seen_ == 40
    table = concentrations(12)
    settings: dict[str, Any] = {"dosing": "single", "evaluation_draws": 10, "random_state": 0}
    settings["max_iter"] = 3
    pk = OneCompartmentModel(checkpoint=tmp_path / "pk", resume=True, **settings).fit(table)
    with pytest.raises(ModelFileError, match="another fit"):
        pk.fit({**table, "concentration": 1.1 * table["concentration"]})


# real data, where it is at hand; else data like it


def has_data() -> bool:
    return datasets.DATA_HOME in os.environ


def theoph() -> dict[str, np.ndarray]:
    if not has_data():
        rng = np.random.default_rng(1)
        found = concentrations(12)
        psi = np.log([1.58, 0.457, 0.04]) + np.array([0.6, 0.13, 0.25]) * rng.normal(size=(12, 3))
        time = np.tile([0.3, 0.6, 1.0, 2.0, 4.0, 7.0, 12.0, 24.0], (12, 1))
        dose = np.full((12, 1), 4.5)
        c = OneCompartment(time, np.zeros((12, 1)), dose).concentration(psi)
        c += 0.5 * rng.normal(size=c.shape)
        return {**found, "time": time.ravel(), "dose": np.full(96, 4.5), "concentration": c.ravel()}
    import pyarrow.parquet as pq

    table = pq.read_table(datasets.data_home() / "theoph.parquet")
    old = {"subject": "Subject", "time": "Time", "dose": "Dose", "concentration": "conc"}
    return {new: table[name].to_numpy() for new, name in old.items()}


def test_theophylline_agrees_with_published_fits() -> None:
    model = OneCompartmentModel(dosing="single", random_state=0).fit(theoph())
    within = (0.12, 0.03, 0.03) if has_data() else (0.6, 0.15, 0.3)
    assert np.all(np.abs(model.population_ / [1.58, 0.457, 0.0400] - 1) < within)
    if has_data():
        deviations = np.sqrt(np.diag(model.random_covariance_))
        assert np.allclose(deviations, [0.64, 0.13, 0.26], atol=0.05)
        assert model.noise_[0] == pytest.approx(0.69, abs=0.02)
        assert model.log_likelihood_ == pytest.approx(-180.0, abs=1.0)


def warfarin() -> dict[str, np.ndarray]:
    if not has_data():
        rng = np.random.default_rng(2)
        found = concentrations(30)
        psi = np.log([1.3, 7.9, 0.133, 0.8]) + 0.2 * rng.normal(size=(30, 4))
        time = np.tile([0.5, 1.0, 2.0, 3.0, 6.0, 24.0, 72.0, 120.0], (30, 1))
        dose = np.full((30, 1), 100.0)
        c = OneCompartment(time, np.zeros((30, 1)), dose).concentration(psi)
        c += 0.5 * rng.normal(size=c.shape)
        found |= {"time": time.ravel(), "concentration": c.ravel(), "weight": np.full(240, 70.0)}
        doses = {"time": 0.0, "dose": 100.0, "concentration": 0.0, "weight": 70.0}
        found["dose"] = np.zeros(240)
        events = {n: np.concatenate([np.full(30, v), found[n]]) for n, v in doses.items()}
        return {**events, "subject": np.concatenate([np.arange(30), found["subject"]])}
    import pyarrow.parquet as pq

    table = pq.read_table(datasets.data_home() / "warfarin.parquet")
    plasma = table["dvid"].to_numpy() == "cp"
    old = {"subject": "id", "time": "time", "dose": "amt", "concentration": "dv", "weight": "wt"}
    return {new: table[name].to_numpy()[plasma] for new, name in old.items()}


def test_warfarin_agrees_with_published_fits() -> None:
    table = warfarin()
    model = OneCompartmentModel(lag=True, weight="weight", random_state=0).fit(table)
    ka, v, cl, lag = model.population_
    assert v == pytest.approx(8.0, rel=0.1)
    assert cl == pytest.approx(0.134, rel=0.1)
    assert 0.6 < ka < 2.0
    assert 0.6 < lag < 1.1
    assert model.parameter_names_ == ["ka", "V", "CL", "lag"]


# bad input


def test_bad_logistic_input_is_named() -> None:
    x, y, groups = binary_data(10)
    model = LogisticMixedModel(max_iter=1, evaluation_draws=5, random_state=0)
    model.fit(x, y, groups)
    before = dict(model.__dict__)
    for wrong, message in (
        ((x, np.arange(len(y)) % 3, groups), "Only binary classification .* 3 classes"),
        ((x, np.ones_like(y), groups), "1 in every row"),
        ((np.where(x > 9, np.nan, x), y, groups), "NaN"),
        ((x, y, groups[:-1]), "groups has shape"),
        ((x, y, None), "groups is needed"),
        ((x, y, groups, np.zeros_like(x)), "zero in every row"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model.fit(*wrong)
    assert model.__dict__ == before
    for name, value in (
        ("covariance", "spherical"),
        ("max_iter", 0),
        ("evaluation_draws", 1),
        ("learner", "no-such-rule"),
        ("n_threads", -1),
    ):
        with pytest.raises(InvalidInputError, match=name.replace("_", ".")):
            LogisticMixedModel().set_params(**{name: value}).fit(x, y, groups)


def test_a_response_in_a_formula_is_0_or_1() -> None:
    x, y, groups = binary_data(10)
    table = {"y": y + 1, "x": x[:, 0], "g": groups}
    with pytest.raises(InvalidInputError, match=r"row .* response is 2"):
        LogisticMixedModel("y ~ x", group="g").fit(table)


def test_bad_concentrations_are_named() -> None:
    table = concentrations(6)
    model = OneCompartmentModel(dosing="single", max_iter=1, evaluation_draws=5, random_state=0)
    for name, value, message in (
        ("concentration", np.nan, "row 4 .*, column 'concentration' is NaN"),
        ("dose", -1.0, "row 4 .*, column 'dose' is -1"),
        ("time", np.inf, "row 4 .*, column 'time' is infinity"),
        ("dose", 50.0, "subject 0 changes from row to row"),
    ):
        bad = {n: np.array(column, dtype=float) for n, column in table.items()}
        bad[name][3] = value
        with pytest.raises(InvalidInputError, match=message):
            model.fit(bad)
    with pytest.raises(InvalidInputError, match="subject 0 has no observation"):
        OneCompartmentModel().fit(table)
    with pytest.raises(InvalidInputError, match="subject 0 has no dose"):
        OneCompartmentModel().fit({**table, "dose": np.zeros(48)})
    early = {**table, "time": np.where(np.arange(48) == 8, 0.0, table["time"])}
    with pytest.raises(InvalidInputError, match="subject 1 was observed before"):
        OneCompartmentModel(dosing="single", error="proportional").fit(early)
    with pytest.raises(SourceError, match="no column 'weight'"):
        OneCompartmentModel(dosing="single", weight="weight").fit(table)
    with pytest.raises(InvalidInputError, match="column 'weight' is 0"):
        OneCompartmentModel(dosing="single", weight="weight").fit({**table, "weight": np.zeros(48)})
    with pytest.raises(InvalidInputError, match="'time' is not numeric"):
        OneCompartmentModel().fit({**table, "time": np.array(["a"] * 48)})
    with pytest.raises(InvalidInputError, match="a table"):
        OneCompartmentModel().fit(np.ones((3, 4)))
    for name, word in (("dosing", "oral"), ("error", "none"), ("covariance", "no")):
        with pytest.raises(InvalidInputError, match=name):
            OneCompartmentModel().set_params(**{name: word}).fit(table)
    assert not hasattr(model, "population_")


def test_a_parameter_without_information_leaves_the_others_theirs() -> None:
    information = np.array([[4.0, 0.0, 1e-13], [0.0, 2.0, 0.0], [1e-13, 0.0, -1e-24]])
    found = inverse_information(information, np.diag([4.0, 2.0, 1e-24]))
    np.testing.assert_allclose(found[:2, :2], np.diag([0.25, 0.5]))
    assert np.isnan(found[2]).all()
    assert np.isnan(found[:, 2]).all()


def test_standard_errors_that_are_rougher_say_so() -> None:
    indefinite, definite = np.diag([1.0, -1.0]), np.diag([4.0, 2.0])
    with pytest.warns(RuntimeWarning, match="squared scores.*more evaluation_draws"):
        found = inverse_information(indefinite, definite)
    np.testing.assert_allclose(found, np.diag([0.25, 0.5]))
    with pytest.warns(RuntimeWarning, match="no standard errors"):
        assert np.isnan(inverse_information(indefinite, indefinite)).all()
    for broken in (np.diag([1.0, -100.0]), np.array([[1.0, np.nan], [np.nan, 1.0]])):
        with pytest.warns(RuntimeWarning, match="squared scores"):
            found = inverse_information(broken, definite)
        np.testing.assert_allclose(found, np.diag([0.25, 0.5]))
    third = np.diag([1.0, 2.0, -100.0]) + 0.3
    with pytest.warns(RuntimeWarning, match="no standard errors"):
        assert np.isnan(inverse_information(third, np.full((3, 3), np.nan))).all()
    np.testing.assert_allclose(inverse_information(definite, indefinite), np.diag([0.25, 0.5]))
