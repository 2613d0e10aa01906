"""The command line, as a person uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import mixfold
from command_line import SCRIPT, Run, table
from mixfold.core import registry
from mixfold.core.registry import names
from mixfold.experiments import study_names
from mixfold.families._covariance import STRUCTURES

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
COMMANDS = ("compare", "fit", "inspect", "merge", "reproduce", "sample", "score")


# help


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("width", ["80", "100"])
def test_help_fits_a_screen_and_has_an_example(
    run: Run, command: str, width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    assert f"Example: mixfold {command} " in " ".join(out.split())
    assert len(out.splitlines()) <= 30
    assert max(map(len, out.splitlines())) <= int(width)


def test_help_offers_whatever_the_registry_finds(run: Run) -> None:
    text = "".join(run("fit", "--help")[1].split())
    listed = run("fit", "@faithful", "-k", "2", "--family", "?")[1]
    assert all(name in listed for name in names("families"))
    listed = run("fit", "@faithful", "-k", "2", "--learner", "?")[1]
    assert all(name in listed for name in names("learners"))
    listed = run("fit", "@faithful", "-k", "2", "--init", "?")[1]
    assert all(name in listed for name in names("initializers"))
    assert all(name in text for name in STRUCTURES)
    studies = "".join(run("reproduce", "--help")[1].split())
    assert all(name in studies for name in study_names())


def test_without_arguments_it_shows_its_commands(run: Run) -> None:
    code, out, err = run()
    assert (code, err) == (0, "")
    assert all(f"  {command} " in out for command in COMMANDS)
    assert "..." not in out.partition("Commands:")[2]


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"mixfold {mixfold.__version__}\n", "")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from mixfold.cli.main import main; main(['--help']);"
        "heavy = {'numpy', 'scipy', 'sklearn', 'pyarrow'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_without_typer_one_line_names_the_extra(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mixfold.cli._app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    code, out, err = run("--help")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "pip install 'mixfold[cli]'" in err


# fit


def test_fit_says_what_it_learned_and_saves_it(run: Run, rows: str) -> None:
    code, out, err = run("fit", rows, "-k", "2", "--weights", "w", "--n-init", "2")
    assert (code, err) == (0, "")
    for word in ("weight", "length", "wait", "log-likelihood", "passes", "model.mixfold"):
        assert word in out
    fitted = mixfold.load("model.mixfold")
    assert sorted(fitted.means_[:, 1].round(-1)) == [50.0, 80.0]
    assert list(fitted.feature_names_in_) == ["length", "wait"]


def test_fit_is_what_the_estimator_does(run: Run, rows: str) -> None:
    settings = ("--learner", "mini-batch-em", "-O", "batch_size=50", "-O", "average-from=20")
    start = ("--init", "random-rows", "--seed", "7", "--threads", "1", "--max-iter", "3")
    chosen = ("--columns", "length,wait", "--covariance", "diag")
    assert run("fit", rows, "-k", "2", *settings, *start, *chosen)[0] == 0
    expected = mixfold.Mixture(
        mixfold.Gaussian(covariance="diag"),
        2,
        learner=mixfold.MiniBatchEM(batch_size=50, average_from=20),
        init="random-rows",
        random_state=7,
        max_iter=3,
        columns=["length", "wait"],
    ).fit(rows)
    assert (mixfold.load("model.mixfold").means_ == expected.means_).all()


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".arrow"])
def test_fit_reads_every_kind_of_file(run: Run, tmp_path: Path, suffix: str) -> None:
    data, path = table(300).drop_columns(["w"]), tmp_path / f"rows{suffix}"
    if suffix == ".csv":
        pyarrow.csv.write_csv(data, path)
    elif suffix == ".npy":
        np.save(path, np.stack([column.to_numpy() for column in data.columns], axis=1))
    else:
        with pa.ipc.new_file(path, data.schema) as file:
            file.write_table(data)
    assert run("fit", f"*{suffix}", "-k", "2")[0] == 0


def test_bundled_data_and_other_families(run: Run) -> None:
    assert run("fit", "@faithful", "-k", "2", "--family", "exponential")[0] == 0
    code, out, _ = run("inspect", "model.mixfold")
    assert code == 0
    assert "exponential" in out
    assert "±" not in out


@pytest.mark.parametrize("init", ["auto", *registry.names("initializers")])
def test_every_start_can_be_had_by_its_name(run: Run, init: str) -> None:
    code, _, err = run("fit", "@faithful", "-k", "2", "--init", init)
    assert (code, err) == (0, "")


def test_learners_and_detectors_are_options_too(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    means = np.repeat([0.0, 0.0, 9.0], 1000)[:, None]
    np.save(tmp_path / "x.npy", means + rng.normal(size=(3000, 2)))
    inner = ("-O", "learner=online-em:batch_size=4,schedule=constant:step=0.05")
    detector = ("-O", "detector=robust-cusum:min-instances=8,threshold=5", "-O", "window=64")
    fit = ("fit", str(tmp_path / "x.npy"), "-k", "1", "--init", "random-labels")
    code, out, err = run(*fit, "--learner", "drift-aware", *inner, *detector)
    assert (code, err) == (0, "")
    model = mixfold.load("model.mixfold")
    assert model.learner.learner.schedule.step == 0.05
    assert model.learner.detector.min_instances == 8
    (row,) = model.drifts_
    assert 2000 < row < 2300
    assert f"after row {row:,}" in out


def test_schedules_are_options_too(run: Run) -> None:
    option = ("-O", "schedule=constant:step=0.05", "-O", "truncation=none")
    assert run("fit", "@faithful", "-k", "2", "--learner", "online-em", *option)[0] == 0
    assert "Constant(step=0.05)" in run("inspect", "model.mixfold")[1]


def test_fields_of_a_family_are_options_too(run: Run) -> None:
    family = ("--family", "gaussian:cap=0.001,floor=1e-6", "--covariance", "diag")
    assert run("fit", "@faithful", "-k", "2", *family)[0] == 0
    fitted = mixfold.load("model.mixfold")
    assert (fitted.covariances_ >= 999.0).all()
    assert "cap=0.001" in run("inspect", "model.mixfold")[1]


def test_progress_is_shown_when_asked_for(run: Run, rows: str) -> None:
    code, _, err = run("fit", rows, "-k", "2", "--learner", "em", "--progress")
    assert code == 0
    assert err.startswith("mixfold: pass 1 of at most 1000, 600 of 600 rows")


# the installed script


def test_the_script_from_end_to_end(run: Run, tmp_path: Path) -> None:
    """Fresh processes for a fit and a failure; pages of docs run the other commands in theirs."""

    def script(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    done = script("fit", "@faithful", "-k", "2")
    assert (done.returncode, done.stderr) == (0, "")
    for arguments in (
        ("inspect", "model.mixfold"),
        ("sample", "model.mixfold", "-n", "10", "-o", "drawn.csv"),
        ("score", "model.mixfold", "drawn.csv", "-o", "scores.npy"),
    ):
        code, _, err = run(*arguments)
        assert (code, err) == (0, "")
    assert np.load(tmp_path / "scores.npy").shape == (10, 4)
    failed = script("inspect", "drawn.csv")
    assert (failed.returncode, failed.stdout, failed.stderr.count("\n")) == (2, "", 1)


@pytest.mark.filterwarnings("default")
def test_a_learner_that_raises_a_bound_shows_it_beside_the_likelihood(run: Run) -> None:
    learner = ["--learner", "annealed-sgd", "-O", "scale=true", "--covariance", "diag"]
    code, out, err = run("fit", "@faithful", "-k", "3", *learner, "-o", "b.mixfold")
    assert code == 0
    assert "n_components=3 is laid out as 1 x 3, a ring" in err
    assert " per row (bound -" in out
    assert " per row (bound -" in run("inspect", "b.mixfold")[1]
