"""The command line, as a person uses it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import mixfold
from mixfold.cli.main import main
from mixfold.core import registry
from mixfold.core.registry import names
from mixfold.experiments import study_names
from mixfold.experiments.wanted import Wanted
from mixfold.families._covariance import STRUCTURES

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")

COMMANDS = ("compare", "fit", "inspect", "merge", "reproduce", "sample", "score")
SCRIPT = str(Path(sys.executable).with_name("mixfold"))

Run = Callable[..., tuple[int, str, str]]


def table(n: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    label = rng.integers(2, size=n)
    x = rng.normal(size=(n, 2)) + np.array([[0.0, 50.0], [6.0, 80.0]])[label]
    return pa.table({"length": x[:, 0], "wait": x[:, 1], "w": np.ones(n)})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process, in an empty folder, in a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def rows(tmp_path: Path) -> str:
    pyarrow.parquet.write_table(table(600), tmp_path / "rows.parquet")
    return "rows.parquet"


@pytest.fixture
def model(run: Run, rows: str) -> str:
    code, _, err = run("fit", rows, "-k", "2", "--columns", "length,wait", "-o", "a.mixfold")
    assert (code, err) == (0, "")
    return "a.mixfold"


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
    assert all(name in text for name in names("families"))
    listed = run("fit", "@faithful", "-k", "2", "--learner", "?")[2]
    assert all(name in listed for name in names("learners"))
    listed = run("fit", "@faithful", "-k", "2", "--init", "?")[2]
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
    from mixfold.sources.array import Array

    x = np.arange(47.0)[:, None]
    whole = Array(x, weight=x[:, 0])
    train = Part(whole, 47, every, held=False)
    held = Part(whole, 47, every, held=True)
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


# interrupts


def start_fit(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    """A fit in another process that has learned something already."""
    # a child of a shell's background job would inherit that Ctrl-C is ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [SCRIPT, "fit", "rows.parquet", "-k", "2", "--learner", "em", "--progress", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("mixfold: pass 1")
    return process


def test_an_interrupt_keeps_what_was_learned_and_the_fit_resumes(
    run: Run, rows: str, tmp_path: Path
) -> None:
    rule = ("-O", "tol=0", "-O", "max_iter=1000")
    keep = ("--checkpoint", "fit.checkpoint")
    process = start_fit(tmp_path, *rule, *keep, "-o", "stopped.mixfold")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    said = [line for line in err.splitlines() if "interrupted" in line]
    assert len(said) == 1
    assert "is saved in stopped.mixfold" in said[0]
    assert "Traceback" not in err
    stopped = mixfold.load("stopped.mixfold")
    assert 0 < stopped.n_seen_ < 1000 * 600

    fit = ("fit", rows, "-k", "2", "--learner", "em", *rule)
    assert run(*fit, *keep, "--resume", "-o", "resumed.mixfold")[0] == 0
    assert run(*fit, "-o", "whole.mixfold")[0] == 0
    resumed, whole = mixfold.load("resumed.mixfold"), mixfold.load("whole.mixfold")
    assert resumed.n_seen_ == whole.n_seen_ == 1000 * 600
    assert (resumed.means_ == whole.means_).all()
    assert (resumed.covariances_ == whole.covariances_).all()


def test_an_interrupt_before_learning_saves_nothing(
    run: Run, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mixfold.sources.parquet.Parquet.blocks", interrupted)
    code, out, err = run("fit", rows, "-k", "2")
    assert (code, out) == (130, "")
    assert err == "mixfold: interrupted before anything was learned; nothing is saved\n"
    assert not Path("model.mixfold").exists()


def test_an_interrupted_score_leaves_the_old_file(
    run: Run, rows: str, model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    Path("scores.csv").write_text("old")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("mixfold.cli._output.ArrowWriter.close", interrupted)
    command = ("score", model, rows, "-o", "scores.csv", "--force")
    assert run(*command) == (130, "", "mixfold: interrupted\n")
    assert Path("scores.csv").read_text() == "old"
    assert sorted(tmp_path.iterdir()) == before


# mistakes


def write_mistakes(folder: Path) -> None:
    (folder / "ragged.csv").write_text("a,b\n1,2\n3\n")
    (folder / "words.csv").write_text("a,b\n1,x\n2,y\n")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("a,b\n")
    (folder / "holes.csv").write_text("a,b\n1,2\n,3\n")
    (folder / "infinite.csv").write_text("a,b\n1,2\ninf,3\n")
    (folder / "negative.csv").write_text("a,b\n1,2\n-1,3\n")
    (folder / "other.csv").write_text("a,b\n1,2\n3,4\n")
    (folder / "rows.txt").write_text("1 2\n")
    (folder / "damaged.mixfold").write_bytes((folder / "a.mixfold").read_bytes()[:-100])
    (folder / "cut.parquet").write_bytes((folder / "rows.parquet").read_bytes()[:-200])


FIT = ("-k", "2", "-o", "new.mixfold")
MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "no such file": (("fit", "nowhere.csv", *FIT), "there is no file 'nowhere.csv'"),
    "no such glob": (("fit", "*.feather", *FIT), "no files match '*.feather'"),
    "kind of file": (("fit", "rows.txt", *FIT), "unknown kind of file"),
    "bundled data": (("fit", "@faith", *FIT), "Did you mean '@faithful'?"),
    "family": (("fit", "rows.parquet", *FIT, "--family", "gausian"), "Did you mean 'gaussian'?"),
    "field of a family": (
        ("fit", "rows.parquet", *FIT, "--family", "gaussian:cup=2"),
        "Did you mean 'cap'?",
    ),
    "learner": (
        ("fit", "rows.parquet", *FIT, "--learner", "onlin-em"),
        "Did you mean 'online-em'?",
    ),
    "covariance": (("fit", "rows.parquet", *FIT, "--covariance", "ful"), "Did you mean 'full'?"),
    "no rank": (
        ("fit", "rows.parquet", *FIT, "--covariance", "factor"),
        "the number of factors, rank=8 or --rank 8",
    ),
    "rank": (("fit", "rows.parquet", *FIT, "--rank", "2"), "use covariance='factor'"),
    "rank of counts": (
        ("fit", "rows.parquet", *FIT, "--family", "poisson", "--rank", "2"),
        "--rank: the poisson family has none",
    ),
    "no covariance": (
        ("fit", "rows.parquet", *FIT, "--family", "poisson", "--covariance", "full"),
        "the poisson family has none",
    ),
    "start": (("fit", "rows.parquet", *FIT, "--init", "kmean"), "Did you mean 'k-means'?"),
    "start that needs an object": (
        ("fit", "rows.parquet", *FIT, "--init", "given"),
        "unknown initializer 'given'",
    ),
    "option name": (
        ("fit", "rows.parquet", *FIT, "--learner", "em", "-O", "tool=1"),
        "Did you mean 'tol'? Known: accelerate, criterion, max_iter, tol",
    ),
    "option value": (
        ("fit", "rows.parquet", *FIT, "--learner", "em", "-O", "max_iter=a"),
        "max_iter=a: int is needed",
    ),
    "option without value": (("fit", "rows.parquet", *FIT, "-O", "tol"), "name=value"),
    "flag": (("fit", "rows.parquet", *FIT, "--sed", "1"), "No such option: --sed"),
    "no k": (("fit", "rows.parquet"), "Missing option '-k'"),
    "k of 0": (("fit", "rows.parquet", "-k", "0", "-o", "new.mixfold"), "-k"),
    "more components than rows": (
        ("fit", "other.csv", "-k", "9", "-o", "new.mixfold"),
        "n_components = 9",
    ),
    "no such command": (("fitt", "rows.parquet"), "Did you mean 'fit'?"),
    "column": (("fit", "rows.parquet", *FIT, "--columns", "size"), "no column 'size'"),
    "weights": (("fit", "rows.parquet", *FIT, "--weights", "v"), "no column 'v'"),
    "words": (("fit", "words.csv", *FIT), "column 'b' is string, not numeric"),
    "ragged": (("fit", "ragged.csv", *FIT), "ragged.csv"),
    "empty": (("fit", "empty.csv", *FIT), "empty.csv is empty"),
    "header only": (("fit", "header.csv", *FIT), "header.csv"),
    "holes": (("fit", "holes.csv", *FIT), "missing value in row 2 (counted from 1)"),
    "infinite": (("fit", "infinite.csv", *FIT), "row 2 (counted from 1), column 'a' is inf"),
    "negative": (("fit", "negative.csv", *FIT, "--family", "poisson"), "whole numbers >= 0"),
    "truncated": (("fit", "cut.parquet", *FIT), "cannot read cut.parquet"),
    "different columns": (("fit", "rows.parquet", "other.csv", *FIT), "other.csv has columns"),
    "resume from nothing": (("fit", "rows.parquet", *FIT, "--resume"), "--resume needs"),
    "resume from a model": (
        ("fit", "rows.parquet", *FIT, "--checkpoint", "a.mixfold", "--resume"),
        "is a model file",
    ),
    "no folder": (("fit", "rows.parquet", "-k", "2", "-o", "no/m"), "there is no folder no"),
    "a folder": (("fit", "rows.parquet", "-k", "2", "-o", "."), "it is a folder"),
    "unwritable": (("fit", "rows.parquet", "-k", "2", "-o", "/proc/m"), "cannot write /proc/m"),
    "output is input": (("fit", "rows.parquet", "-k", "2", "-o", "rows.parquet"), "both"),
    "no model": (("inspect", "nothing.mixfold"), "cannot read nothing.mixfold"),
    "damaged model": (("inspect", "damaged.mixfold"), "damaged.mixfold is damaged"),
    "foreign model": (("inspect", "rows.parquet"), "rows.parquet is damaged or not"),
    "score damaged": (("score", "damaged.mixfold", "rows.parquet", "-o", "n.csv"), "damaged"),
    "score columns": (("score", "a.mixfold", "other.csv", "-o", "n.csv"), "no column 'length'"),
    "score kind": (("score", "a.mixfold", "rows.parquet", "-o", "n.xls"), ".parquet, .csv, .npy"),
    "score unwritable": (("score", "a.mixfold", "rows.parquet", "-o", "/proc/n.csv"), "/proc"),
    "score truncated": (("score", "a.mixfold", "cut.parquet", "-o", "n.csv"), "cut.parquet"),
    "sample none": (("sample", "a.mixfold", "-n", "0", "-o", "n.csv"), "-n"),
    "sample kind": (("sample", "a.mixfold", "-n", "5", "-o", "n"), ".parquet, .csv, .npy"),
    "sample unwritable": (("sample", "a.mixfold", "-n", "5", "-o", "no/n.csv"), "no folder no"),
    "compare learner": (
        ("compare", "rows.parquet", "-k", "2", "--learners", "em,onlin-em"),
        "Did you mean 'online-em'?",
    ),
    "compare none": (("compare", "rows.parquet", "-k", "2", "--learners", ","), "known are"),
    "compare option": (("compare", "rows.parquet", "-k", "2", "-O", "tol=1"), "learner.name"),
    "compare file": (("compare", "nowhere.csv", "-k", "2"), "there is no file"),
    "compare too few": (
        ("compare", "other.csv", "-k", "1", "--learners", "em"),
        "2 rows are too few",
    ),
    "study": (("reproduce", "elki3"), "unknown study 'elki3'"),
    "study data": (("reproduce", study_names()[0], "--data", "no"), "does not exist"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(run: Run, model: str, tmp_path: Path, mistake: str) -> None:
    write_mistakes(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    arguments, says = MISTAKES[mistake]
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("mixfold: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert says in err
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


# the installed script


def test_the_script_from_end_to_end(tmp_path: Path) -> None:
    def script(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    for arguments in (
        ("fit", "@faithful", "-k", "2"),
        ("inspect", "model.mixfold"),
        ("sample", "model.mixfold", "-n", "10", "-o", "drawn.csv"),
        ("score", "model.mixfold", "drawn.csv", "-o", "scores.npy"),
    ):
        done = script(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
    assert np.load(tmp_path / "scores.npy").shape == (10, 4)
    failed = script("inspect", "drawn.csv")
    assert (failed.returncode, failed.stdout, failed.stderr.count("\n")) == (2, "", 1)


@pytest.mark.filterwarnings("default")
def test_a_learner_that_raises_a_bound_shows_it_beside_the_likelihood(run: Run) -> None:
    rule = ["--learner", "annealed-sgd", "-O", "scale=true", "--covariance", "diag"]
    code, out, err = run("fit", "@faithful", "-k", "3", *rule, "-o", "b.mixfold")
    assert code == 0
    assert "n_components=3 is laid out as 1 x 3, a ring" in err
    assert " per row (bound -" in out
    assert " per row (bound -" in run("inspect", "b.mixfold")[1]
