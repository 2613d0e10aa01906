"""The commands that read models, compare learners and reproduce studies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import mixfold
from command_line import Run, table
from mixfold.experiments.wanted import Wanted
from mixfold.families._covariance import STRUCTURES

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")


# score, inspect, sample


def test_score_is_what_the_estimator_does(run: Run, rows: str, model: str) -> None:
    code, out, err = run("score", model, rows, "-o", "scores.parquet")
    assert (code, err) == (0, "")
    assert "600 rows" in out
    bound = mixfold.load(model).score_bound(rows)
    assert f"of the best component alone {bound:.6g} per row" in out
    scores, fitted = pyarrow.parquet.read_table("scores.parquet"), mixfold.load(model)
    assert scores.column_names == ["log_density", "label", "responsibility_0", "responsibility_1"]
    assert (scores["log_density"].to_numpy() == fitted.score_samples(rows)).all()
    assert (scores["label"].to_numpy() == fitted.predict(rows)).all()
    assert (scores["responsibility_1"].to_numpy() == fitted.predict_proba(rows)[:, 1]).all()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npy"])
def test_tables_are_written_block_by_block(
    run: Run, model: str, tmp_path: Path, suffix: str
) -> None:
    n = 300_000
    code, _, err = run("sample", model, "-n", str(n), "-o", f"drawn{suffix}", "--seed", "3")
    assert (code, err) == (0, "")
    if suffix == ".npy":
        x = np.load("drawn.npy")
    else:
        read = pyarrow.parquet.read_table if suffix == ".parquet" else pyarrow.csv.read_csv
        drawn = read(f"drawn{suffix}")
        assert drawn.column_names == ["length", "wait"]
        x = np.stack([column.to_numpy() for column in drawn.columns], axis=1)
    assert x.shape == (n, 2)
    np.testing.assert_allclose(x.mean(axis=0), [3.0, 65.0], atol=1.5)
    if suffix == ".parquet":
        assert run("score", model, "drawn.parquet", "-o", "scores.parquet")[0] == 0
        assert pyarrow.parquet.ParquetFile("scores.parquet").num_row_groups == 2
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_sample_depends_on_the_seed_alone(run: Run, model: str) -> None:
    for name, seed in (("a.npy", "1"), ("b.npy", "1"), ("c.npy", "2")):
        assert run("sample", model, "-n", "20", "-o", name, "--seed", seed)[0] == 0
    assert (np.load("a.npy") == np.load("b.npy")).all()
    assert (np.load("a.npy") != np.load("c.npy")).all()


def test_a_model_that_is_no_mixture_is_refused(run: Run, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 1))
    other = mixfold.LinearMixedModel().fit(x, x[:, 0] ** 2, np.repeat(np.arange(8), 5))
    other.save(tmp_path / "other.mixfold")
    code, _, err = run("inspect", "other.mixfold")
    assert code != 0
    assert "holds a LinearMixedModel, not a mixture" in " ".join(err.split())


def test_inspect_tells_all(run: Run, model: str) -> None:
    code, out, err = run("inspect", model)
    assert (code, err) == (0, "")
    fitted = mixfold.load(model)
    for text in (
        "gaussian (covariance=full)",
        "auto",
        "rows ",
        f"{fitted.n_seen_ // fitted.n_iter_:,} ",
    ):
        assert text in out
    for text in ("log-likelihood", "n_degenerate", "length, wait", "±", "converged", "weight"):
        assert text in out
    assert f"{fitted.weights_[0]:.4f}" in out


@pytest.mark.parametrize("covariance", [*sorted(STRUCTURES), "factor"])
def test_spread_is_the_standard_deviation(run: Run, rows: str, covariance: str) -> None:
    from mixfold.cli._tables import standard_deviations

    rank = ("--rank", "1") if covariance == "factor" else ()
    chosen = ("--columns", "length,wait", "--covariance", covariance, *rank)
    assert run("fit", rows, "-k", "2", *chosen)[0] == 0
    fitted = mixfold.load("model.mixfold")
    x = fitted.sample(200_000)
    spread = standard_deviations(fitted)
    assert spread is not None
    for k in range(2):
        np.testing.assert_allclose(spread[k], x[0][x[1] == k].std(axis=0), rtol=0.02)


def test_wide_models_are_cut_and_shown_whole_on_request(run: Run, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(300, 15))
    np.save(tmp_path / "wide.npy", x)
    code, out, _ = run("fit", "wide.npy", "-k", "25", "--covariance", "diag", "--max-iter", "2")
    assert code == 0
    assert "5 more components and" in out
    whole = run("inspect", "model.mixfold", "--all")[1]
    assert "more" not in whole
    assert all(f" x{i} " in whole for i in range(15))


# compare, reproduce


def test_compare_judges_by_rows_held_out(run: Run, rows: str) -> None:
    code, out, err = run(
        "compare", rows, "-k", "2", "--learners", "em,online-em", "-O", "online-em.batch_size=5"
    )
    assert (code, err) == (0, "")
    assert "on 60 rows held out of 600" in out
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    held = table(600).take(np.arange(9, 600, 10))
    train = table(600).take([i for i in range(600) if i % 10 != 9])
    expected = mixfold.Mixture(n_components=2, learner="em", random_state=0).fit(train).score(held)
    assert float(lines["em"][1]) == pytest.approx(expected, abs=1e-4)
    assert float(lines["online-em"][4]) == 1.0
    assert lines["em"][-1] == "MB"


def test_compare_goes_on_when_a_learner_fails(run: Run, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(table(40), tmp_path / "few.parquet")
    sampling = "mini-batch-em.sampling=with-replacement"
    code, out, err = run(
        "compare", "few.parquet", "-k", "2", "--learners", "em,mini-batch-em", "-O", sampling
    )
    assert (code, err) == (0, "")
    assert "failed" in out
    assert "use sampling='stream'" in out


@pytest.mark.parametrize("every", [2, 3, 10])
def test_the_two_parts_are_the_whole(every: int) -> None:
    from mixfold.cli._held_out import Part
    from mixfold.sources.array_source import ArraySource

    x = np.arange(47.0)[:, None]
    whole = ArraySource(x, weight=x[:, 0])
    train = Part(whole, 47, every, held_out=False)
    held = Part(whole, 47, every, held_out=True)
    assert train.length + held.length == 47
    for part in (train, held):
        everything = part.head(47)
        assert len(everything) == part.length
        for start in range(part.length):
            assert (part._stretch(start, 47).x == everything.x[start:]).all()
        taken = part.take(np.arange(part.length))
        assert (taken.x == everything.x).all()
        assert taken.weight is not None
        assert (taken.weight == everything.x[:, 0]).all()
    assert sorted([*train.head(47).x[:, 0], *held.head(47).x[:, 0]]) == list(range(47))


def test_reproduce_runs_a_study(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Study:
        def run(self, wanted: Wanted) -> None:
            wanted.report(f"{wanted.reps} times {wanted.n}, {wanted.data}")
            (wanted.folder() / "table.csv").write_text("done")

    monkeypatch.setattr("mixfold.cli.reproduce.find_study", lambda name: Study())
    code, out, err = run(
        "reproduce", "x", "--reps", "2", "--n", "30", "--data", ".", "--out", "a/b"
    )
    assert (code, err) == (0, "")
    assert "2 times 30, ." in out
    assert Path("a/b/table.csv").read_text() == "done"
