"""JSON in place of tables, and intervals of `inspect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixfold
from command_line import Run
from mixfold import datasets
from mixfold.datasets import faithful_path


def found(run: Run, *arguments: str) -> Any:
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_fit_and_inspect(run: Run) -> None:
    fit = found(run, "fit", "@faithful", "-k", "2", "--learner", "em", "-o", "m.mixfold")
    model = mixfold.load("m.mixfold")
    x = faithful_path()
    assert fit["log_likelihood"] == pytest.approx(model.score(x), abs=1e-4)
    assert (fit["rows"], fit["passes"], fit["saved_in"]) == (272, model.n_iter_, "m.mixfold")
    weights = [one["weight"] for one in fit["components"]]
    assert weights == model.weights_.tolist()
    column = fit["components"][1]["columns"]["waiting"]
    assert column["mean"] == model.means_[1, 1]
    assert column["standard_deviation"] == pytest.approx(np.sqrt(model.covariances_[1, 1, 1]))
    inspected = found(run, "inspect", "m.mixfold")
    assert inspected["components"] == fit["components"]
    assert inspected["family"] == "gaussian (covariance=full)"
    assert inspected["columns"] == ["eruptions", "waiting"]
    assert inspected["n_parameters"] == 11
    assert "intervals" not in inspected


def test_models_of_rows_with_missing_cells_have_spreads(run: Run, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(200, 2))
    x[::5, 1] = np.nan
    np.save(tmp_path / "gaps.npy", x)
    fit = found(run, "fit", "gaps.npy", "-k", "1", "-o", "m.mixfold")
    (one,) = fit["components"]
    covariance = mixfold.load("m.mixfold").covariances_[0]
    _, second = one["columns"].values()
    assert second["standard_deviation"] == pytest.approx(np.sqrt(covariance[1, 1]))
    assert "±" in run("inspect", "m.mixfold")[1]


def test_tables_of_mixed_columns(run: Run) -> None:
    rng = np.random.default_rng(0)
    kinds = rng.integers(2, size=80)
    lines = [f"{5 * k + rng.normal():.3f},{['no', 'yes'][k]}" for k in kinds]
    with open("t.csv", "w") as file:  # noqa: PTH123
        file.write("x,answer\n" + "\n".join(lines) + "\n")
    fit = found(run, "fit", "t.csv", "-k", "2", "--family", "auto")
    families = {one["column"]: one["family"] for one in fit["chosen_families"]}
    assert families["x"] == "gaussian"
    levels = [one["columns"]["answer"] for one in fit["components"]]
    assert all(sum(one.values()) == pytest.approx(1.0) for one in levels)
    assert {"no", "yes"} <= set(levels[0])


def test_merge_score_and_select(run: Run) -> None:
    run("fit", "@faithful", "-k", "2", "-o", "start")
    rows = datasets.load_faithful()
    for name, part in {"a": rows[:100], "b": rows[100:]}.items():
        np.save(f"{name}.npy", part)
        learner = ("--learner", "online-em", "--init", "start")
        assert run("fit", f"{name}.npy", "-k", "2", *learner, "-o", name)[0] == 0
    merged = found(run, "merge", "a", "b", "-o", "both")
    assert (merged["models"], merged["rows"], len(merged["components"])) == (2, 272, 2)
    score = found(run, "score", "start", "@faithful", "-o", "s.csv")
    model = mixfold.load("start")
    x = faithful_path()
    assert score["log_likelihood"] == pytest.approx(model.score(x))
    assert score["best_component_alone"] == pytest.approx(model.score_bound(x))
    chosen = found(run, "select", "@faithful", "-k", "1:2", "--covariance", "EEE,VVV")
    assert chosen["best"] == {"n_components": 2, "covariance": "VVV"}
    assert len(chosen["candidates"]) == 4
    numbers = [one["bic"] for one in chosen["candidates"]]
    assert numbers == sorted(numbers)
    assert chosen["saved_in"] is None


def test_inspect_with_the_rows_of_the_fit(run: Run) -> None:
    assert run("fit", "@faithful", "-k", "2", "--learner", "em")[0] == 0
    model, x = mixfold.load("model.mixfold"), faithful_path()
    estimates = model.estimates(x)
    shown = found(run, "inspect", "model.mixfold", "@faithful", "--level", "0.9")
    assert shown["level"] == 0.9
    low, _ = estimates.ends(0.9)
    np.testing.assert_allclose([one["low"] for one in shown["intervals"]], low)
    errors = [one["standard_error"] for one in shown["intervals"]]
    np.testing.assert_allclose(errors, estimates.errors)
    code, out, err = run("inspect", "model.mixfold", "@faithful")
    assert (code, err) == (0, "")
    line = next(line.split() for line in out.splitlines() if "weights[0]" in line)
    assert line == ["weights[0]", "0.3559", "0.02909", "0.3011", "0.4147"]
    assert "95% from" in out


def test_credible_intervals_need_no_rows(run: Run) -> None:
    assert run("fit", "@faithful", "-k", "2", "--learner", "moment-matching")[0] == 0
    shown = found(run, "inspect", "model.mixfold", "--level", "0.9")["intervals"]
    model = mixfold.load("model.mixfold")
    low, high = model.credible_intervals(0.9)["covariances"]
    one = next(row for row in shown if row["name"] == "covariances[1, eruptions, waiting]")
    assert (one["low"], one["high"]) == (low[1, 0, 1], high[1, 0, 1])
    assert one["estimate"] == model.covariances_[1, 0, 1]
    assert len(shown) == 2 + 4 + 6


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--level", "0.9"), "--level needs FILES with the rows of the fit"),
        (("--level", "95"), "--level is 95"),
        (("@faithful", "--kind", "observd"), "Did you mean 'observed'"),
        (("none.csv",), "there is no file 'none.csv'"),
    ],
)
def test_mistakes(run: Run, model: str, arguments: tuple[str, ...], says: str) -> None:
    code, out, err = run("inspect", model, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
