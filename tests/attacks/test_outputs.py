"""Outputs destroy nothing, and nothing that was learned is lost for want of a place."""

from __future__ import annotations

import io
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixfold
from attacks import run_some
from mixfold import IncrementalEM, LinearMixedModel, Mixture
from mixfold.cli._terminal import shown, usable_streams
from mixfold.cli.main import main
from mixfold.core.errors import LearningWarning, ModelFileError, OutputError
from mixfold.core.value import equal
from mixfold.fitting.atomic_files import SUFFIX, replacing
from mixfold.fitting.fit import Fit

SCRIPT = str(Path(sys.executable).with_name("mixfold"))
X = np.random.default_rng(0).normal(size=(60, 2))

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in a folder with in/a.csv, in/b.csv and m.mixfold."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for name, rows in (("a", X), ("b", X + 1.0)):
        np.savetxt(f"in/{name}.csv", rows, "%.6f", ",", header="u,v", comments="")
    Mixture(n_components=2, columns=["u", "v"], random_state=0).fit("in/a.csv").save("m.mixfold")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


def content() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


REFUSED: dict[str, tuple[str, str]] = {
    "a glob that matches it": ("fit in/*.csv -k 1 -o in/a.csv", "both input and output"),
    "a folder that holds it": ("fit in -k 1 -o in/a.csv --force", "both input and output"),
    "a scored glob": ("score m.mixfold in/b*.csv -o in/b.csv --force", "both input and output"),
    "the scored model": ("score m.mixfold in -o m.csv --force", "both input and output"),
    "a checkpoint over data": ("fit in -k 1 --checkpoint in/a.csv", "both input and output"),
    "a memory over data": (
        "fit in/a.csv in/b.csv.0.csv -k 1 --learner incremental-em -O memory=in/b.csv",
        "both input and output",
    ),
    "the start": ("fit in -k 2 --init m.mixfold -o m.mixfold", "both input and output"),
    "one path twice": ("fit in -k 1 --checkpoint X -o X", "one file"),
    "one path by another name": ("fit in -k 1 --checkpoint ./in/../X -o X", "one file"),
    "a table": ("score m.mixfold in -o scores.csv", "exists"),
    "a sample": ("sample m.mixfold -n 3 -o scores.csv", "exists"),
    "a thesis": ("fit in -k 1 -o thesis.docx", "not a model file"),
    "a thesis as a checkpoint": (
        "fit in -k 1 --checkpoint thesis.docx --force",
        "not a checkpoint",
    ),
    "a checkpoint in a model": ("fit in -k 1 --checkpoint m.mixfold -o n", "is a model file"),
    "a merged model": ("merge m.mixfold n.mixfold -o m.mixfold", "both input and output"),
    "a merged thesis": ("merge m.mixfold n.mixfold -o thesis.docx", "not a model file"),
    "a folder": ("fit in -k 1 -o in", "it is a folder"),
    "a checkpoint in a folder that is not there": ("fit in -k 1 --checkpoint no/c", "no folder"),
    "a checkpoint in a device": ("fit in -k 1 --checkpoint /dev/null", "device or a FIFO"),
    "a memory in a device": (
        "fit in -k 1 --learner incremental-em -O memory=/dev/null",
        "device or a FIFO",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_anything_is_lost(run: Run, case: str) -> None:
    shutil.copy("m.mixfold", "n.mixfold")
    for name in ("scores.csv", "thesis.docx"):
        Path(name).write_text("years of work")
    Path("m.csv").symlink_to("m.mixfold")
    Path("in/b.csv.0").symlink_to("a.csv")
    Path("in/b.csv.0.csv").symlink_to("a.csv")
    before = content()
    command, says = REFUSED[case]
    code, out, err = run(*command.split(" "))
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert content() == before


def test_force_replaces(run: Run) -> None:
    for name in ("scores.csv", "thesis.docx"):
        Path(name).write_text("old")
    assert run("score", "m.mixfold", "in", "-o", "scores.csv", "--force")[0] == 0
    assert Path("scores.csv").read_text().startswith('"log_density"')
    assert run("fit", "in", "-k", "1", "-o", "thesis.docx", "--force")[0] == 0
    assert mixfold.load("thesis.docx").n_seen_ > 0


def test_random_outputs(tmp_path: Path) -> None:
    run_some("outputs", 16, tmp_path)


# links, devices and FIFOs


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    model = Mixture(n_components=1).fit(X)
    (tmp_path / "far").mkdir()
    for name, target in (("link", "far/model"), ("again", "link")):
        (tmp_path / name).symlink_to(target)
        model.save(tmp_path / name)
        assert (tmp_path / name).is_symlink()
        assert mixfold.load(tmp_path / "far" / "model").n_seen_ == model.n_seen_
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "lost").symlink_to("no/model")
    for name, says in (("loop", "symbolic links"), ("lost", "no folder|No such file")):
        with pytest.raises(OutputError, match=says):
            model.save(tmp_path / name)
    assert (tmp_path / "loop").is_symlink()


def test_a_fifo_receives_the_bytes_and_stays(tmp_path: Path) -> None:
    model, fifo = Mixture(n_components=1).fit(X), tmp_path / "fifo"
    os.mkfifo(fifo)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(fifo.read_bytes()))
    reader.start()
    model.save(fifo)
    reader.join()
    model.save(tmp_path / "file")
    assert received == [(tmp_path / "file").read_bytes()]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_devices_stay(run: Run) -> None:
    before = os.stat("/dev/null")  # noqa: PTH116
    Path("null.csv").symlink_to("/dev/null")
    assert run("sample", "m.mixfold", "-n", "3", "-o", "null.csv")[0] == 0
    assert run("fit", "in", "-k", "1", "-o", "/dev/null")[0] == 0
    after = os.stat("/dev/null")  # noqa: PTH116
    assert (after.st_ino, after.st_rdev) == (before.st_ino, before.st_rdev)
    assert Path("null.csv").is_symlink()


def test_tables_go_to_standard_output(run: Run, tmp_path: Path) -> None:
    done = subprocess.run(
        [SCRIPT, "sample", "m.mixfold", "-n", "3", "-o", "/dev/stdout"],
        capture_output=True,
        text=True,
        check=True,
    )
    header, *rows = done.stdout.splitlines()
    assert header == '"u","v"'
    assert len(rows) == 3
    assert "3 rows saved" in done.stderr


def test_permissions(tmp_path: Path) -> None:
    """A new file has those of the umask, an old one keeps its own, and nobody changes the umask."""
    new, old, plain = (tmp_path / name for name in ("new", "old", "plain"))
    for path in (old, plain):
        path.touch()
    old.chmod(0o640)
    for path in (new, old):
        with replacing(path) as file:
            file.write(b"1")
    assert stat.S_IMODE(new.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    sources = Path(mixfold.__file__).parent.rglob("*.py")
    assert not [path for path in sources if "umask(" in path.read_text(encoding="utf-8")]


def test_files_and_folders_are_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []

    def sync(handle: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(handle).st_mode))

    monkeypatch.setattr(os, "fsync", sync)
    with replacing(tmp_path / "file") as file:
        file.write(b"1")
    assert synced == [False, True]


def test_left_overs_of_killed_runs_are_removed(tmp_path: Path) -> None:
    def left_over(name: str, number: int) -> Path:
        path = tmp_path / f".{name}.{number}-{number:016x}{SUFFIX}"
        path.touch()
        return path

    dead = [left_over("file", number) for number in (1, 12345, os.getpid())]
    other = [left_over("file.b", 7), left_over("b", 7), tmp_path / ".file.mine"]
    other[-1].touch()
    with replacing(tmp_path / "file") as one:  # while another writes, its file is no left-over
        one.write(b"1")
        with replacing(tmp_path / "file") as two:
            two.write(b"22")
    assert not any(path.exists() for path in dead)
    assert all(path.exists() for path in other)
    assert (tmp_path / "file").read_bytes() == b"1"


@pytest.mark.parametrize("name", ["n" * 255, "ä" * 127, "\x1b[31m\n", "\udcff"])
def test_names_of_any_length_and_character(tmp_path: Path, name: str) -> None:
    with replacing(tmp_path / name) as file:
        file.write(b"1")
    assert [path.name for path in tmp_path.iterdir()] == [name]


# checkpoints that cannot be written


class At:
    """Does something at the first sign of progress."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.acts = [act]

    def update(self, fit: Fit, length: int | None) -> None:
        if self.acts:
            self.acts.pop()()

    def close(self) -> None:
        return None


def kept_in(folder: Path, **more: Any) -> Mixture:
    folder.mkdir(exist_ok=True)
    settings: dict[str, Any] = {"n_components": 2, "random_state": 0, "learner": "em", **more}
    return Mixture(checkpoint=folder / "c", checkpoint_every=0.0, **settings)


def test_a_folder_that_goes_away_costs_a_warning(tmp_path: Path) -> None:
    model = kept_in(tmp_path / "f")
    model.progress = At(lambda: shutil.rmtree(tmp_path / "f"))
    with pytest.warns(LearningWarning, match="the fit goes on: cannot write") as caught:
        model.fit(X)
    assert len(caught) == 1
    assert equal(model.params_, Mixture("gaussian", 2, learner="em", random_state=0).fit(X).params_)


def test_an_interrupt_without_a_checkpoint_keeps_the_model(tmp_path: Path) -> None:
    def act() -> None:
        shutil.rmtree(tmp_path / "f")
        raise KeyboardInterrupt

    model = kept_in(tmp_path / "f")
    model.progress = At(act)
    with (
        pytest.warns(LearningWarning, match="the fit goes on: cannot write"),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(X)
    assert model.n_seen_ > 0
    assert np.isfinite(model.score(X))


def test_a_checkpoint_that_needs_an_overwritten_memory_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Better none than one from which a fit goes on to a wrong result."""
    rule = IncrementalEM(memory=str(tmp_path / "memory"), max_iter=4, tol=0.0)
    model = kept_in(tmp_path, learner=rule)
    monkeypatch.setattr("mixfold.fitting.checkpoint.write", failing_after(2))
    with pytest.warns(LearningWarning, match="No space left"):
        model.fit(X)
    assert not (tmp_path / "c").exists()


def failing_after(calls: int) -> Callable[..., None]:
    """A function that writes so many files, and then none."""
    from mixfold.fitting.files import write

    left = [None] * calls

    def failing(path: Path, kind: str, content: Any) -> None:
        if not left:
            raise OutputError(f"cannot write {path}: No space left on device")
        left.pop()
        write(path, kind, content)

    return failing


def test_mixed_models_go_on_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    y, groups = X @ [1.0, 2.0], np.repeat(np.arange(12), 5)
    expected = LinearMixedModel().fit(X, y, groups)
    monkeypatch.setattr("mixfold.fitting.checkpoint.write", failing_after(0))
    model = LinearMixedModel(checkpoint=tmp_path / "c", checkpoint_every=0.0)
    with pytest.warns(LearningWarning, match="No space left"):
        model.fit(X, y, groups)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    for path, error in ((tmp_path, OutputError), (tmp_path / "no" / "c", OutputError)):
        with pytest.raises(error, match="cannot write"):
            LinearMixedModel(checkpoint=path).fit(X, y, groups)


def test_impossible_places_are_found_before_the_fit(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    os.mkfifo(tmp_path / "fifo")
    seen: list[int] = []

    def rows() -> Any:
        seen.append(1)
        yield X

    for path in (tmp_path, tmp_path / "no" / "c", tmp_path / "fifo", "/dev/full", ""):
        for settings in ({"checkpoint": path}, {"learner": IncrementalEM(memory=path)}):
            with pytest.raises(OutputError, match="cannot write"):
                Mixture(n_components=1, **settings).fit(rows())
    with pytest.raises(ModelFileError, match="not a checkpoint"):
        Mixture(n_components=1, checkpoint=tmp_path / "data.csv").fit(rows())
    assert not seen
    assert (tmp_path / "data.csv").read_text() == "a,b\n1,2\n"


def test_a_model_that_cannot_be_saved_is_saved_elsewhere(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", "elsewhere")
    code, _, err = run("fit", "in", "-k", "1", "-o", "/dev/full")
    assert code == 2
    assert "cannot write /dev/full: No space left on device; the model is saved in " in err
    (saved,) = Path("elsewhere").rglob("full")
    assert str(saved) in err
    assert mixfold.load(saved).n_seen_ > 0


# SIGTERM


def terminating(monkeypatch: pytest.MonkeyPatch, where: str, before: bool = True) -> None:
    """Send this process a SIGTERM whenever a function is called."""
    module, name = where.rsplit(".", 1)
    owner: Any = sys.modules.get(module) or getattr(
        sys.modules[module.rsplit(".", 1)[0]], module.rsplit(".", 1)[1]
    )
    called = getattr(owner, name)

    def call(*arguments: Any, **more: Any) -> Any:
        if before:
            signal.raise_signal(signal.SIGTERM)
        found = called(*arguments, **more)
        if not before:
            signal.raise_signal(signal.SIGTERM)
        return found

    monkeypatch.setattr(owner, name, call)


def test_sigterm_saves_like_an_interrupt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from mixfold.cli import _bar

    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(_bar.Watch, "_title", lambda *_: signal.raise_signal(signal.SIGTERM))
    # one more SIGTERM while what was learned is saved does no harm
    terminating(monkeypatch, "mixfold.fitting.files.replacing", before=False)
    keep = ("--checkpoint", "c", "-o", "t.mixfold")
    code, out, err = run("fit", "in", "-k", "2", "--learner", "em", *keep)
    assert (code, out) == (143, "")
    assert err.startswith("mixfold: terminated in pass 1; what was learned from ")
    assert err.endswith("saved in t.mixfold; go on with --checkpoint c --resume\n")
    assert mixfold.load("t.mixfold").n_seen_ > 0
    assert signal.getsignal(signal.SIGTERM) is handler


def test_sigterm_when_a_fit_is_done_changes_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminating(monkeypatch, "mixfold.cli._files.save_model")
    code, _, err = run("fit", "in", "-k", "1", "-o", "t.mixfold")
    assert (code, err) == (0, "")
    assert mixfold.load("t.mixfold").n_seen_ > 0


@pytest.mark.parametrize(
    "command",
    [
        ("score", "m.mixfold", "in", "-o", "new.csv"),
        ("sample", "m.mixfold", "-n", "9", "-o", "new.csv"),
    ],
)
def test_sigterm_leaves_no_temporary_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    from mixfold.cli import _output

    before = content()
    monkeypatch.setattr(_output.ArrowWriter, "close", lambda _: signal.raise_signal(signal.SIGTERM))
    assert run(*command) == (143, "", "mixfold: terminated\n")
    assert content() == before


# modules in the working folder


def test_compare_runs_no_module_of_the_working_folder(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("numpy", "mixfold", "json", "pyarrow"):
        Path(f"{name}.py").write_text("open('executed', 'w').close()")
    monkeypatch.setenv("PYTHONPATH", os.pathsep)
    code, out, err = run("compare", "in", "-k", "1", "--learners", "em")
    assert (code, err) == (0, "")
    assert "held out" in out
    assert not Path("executed").exists()


def test_workers_of_a_local_cluster_begin_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mixfold.engines.dask import _safe_path

    (tmp_path / "multiprocessing.py").write_text("open('executed', 'w').close()")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    command = [sys.executable, "-c", "import multiprocessing"]
    with _safe_path():
        subprocess.run(command, cwd=tmp_path, check=True)
    assert not (tmp_path / "executed").exists()
    assert "PYTHONSAFEPATH" not in os.environ


# terminals

HOSTILE = "\x1b[31mred\x07\x9b\u202e"


def test_control_characters_never_reach_the_terminal(run: Run) -> None:
    data = f"rows{HOSTILE}.csv"
    Path(data).write_text(f"{HOSTILE},v\n" + "\n".join(f"{a},{b}" for a, b in X))
    Path("words.csv").write_text(f"{HOSTILE}\nx\n")
    for command in (
        ("fit", data, "-k", "1", "-o", HOSTILE),
        ("inspect", HOSTILE),
        ("inspect", HOSTILE, "--all"),
        ("sample", HOSTILE, "-n", "3", "-o", f"{HOSTILE}.csv"),
        ("score", HOSTILE, data, "-o", "s.npy"),
        ("score", HOSTILE, "in", "-o", "t.npy"),
        ("fit", "words.csv", "-k", "1"),
        ("fit", f"no{HOSTILE}.csv", "-k", "1"),
        ("fit", data, "-k", "1", "--columns", "\x1b"),
        ("fit", data, "-k", "1", f"--{HOSTILE}"),
        ("inspect", f"no{HOSTILE}"),
        ("compare", data, "-k", "1", "--learners", "em", "--hold-out", "10000"),
    ):
        _, out, err = run(*command)
        for character in "\x1b\x07\x9b\u202e":
            assert character not in out + err, command


def test_control_characters_in_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    with usable_streams():
        warnings.simplefilter("always")
        warnings.warn(f"column {HOSTILE}\nis odd", stacklevel=1)
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"mixfold: warning: column {shown(HOSTILE)} is odd\n")
    assert shown(HOSTILE) == r"\x1b[31mred\x07\x9b\u202e"
    assert shown("größe 量 e\u0301") == "größe 量 e\u0301"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_every_command_writes_to_every_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    Path("größe.csv").write_text("größe,量\n" + "\n".join(f"{a},{b}" for a, b in X))
    Mixture(n_components=2, random_state=1).fit("größe.csv").save("m.mixfold")
    expected = "+/-" if encoding == "ascii" else "±"
    for command in (
        ("fit", "größe.csv", "-k", "2", "-o", "ü.mixfold"),
        ("inspect", "ü.mixfold"),
        ("score", "ü.mixfold", "größe.csv", "-o", "ä.csv"),
        ("sample", "ü.mixfold", "-n", "3", "-o", "ö.csv"),
        ("merge", "ü.mixfold", "m.mixfold", "--align", "-o", "two.mixfold"),
        ("fit", "--help"),
        ("fit", "größe", "-k", "2"),
    ):
        written = io.BytesIO()
        stream = io.TextIOWrapper(written, encoding=encoding)
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        code = main(list(command))
        text = written.getvalue().decode(encoding)
        assert code == (2 if command[1] == "größe" else 0), text
        assert "codec" not in text
        if command[0] == "inspect":
            assert expected in text


def test_closed_and_full_streams(run: Run) -> None:
    """No traceback, and no file is opened in the place of a stream."""
    for redirection, expected in ((">&- <&-", 0), (">/dev/full", 2)):
        done = subprocess.run(
            f"exec {SCRIPT} inspect m.mixfold {redirection}",
            shell=True,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expected
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


# too much


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".parquet"])
def test_more_rows_than_the_disk_has_room_for(run: Run, suffix: str) -> None:
    before = content()
    for rows in (10**20, 10**400):
        code, out, err = run("sample", "m.mixfold", "-n", str(rows), "-o", f"n{suffix}")
        assert (code, out) == (2, "")
        assert "GB are free" in err
    assert content() == before


def test_too_little_memory_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: Any) -> None:
        raise MemoryError("Unable to allocate 7.28 TiB")

    monkeypatch.setattr("mixfold.cli._files.load_mixture", short)
    code, out, err = run("inspect", "m.mixfold")
    assert (code, out) == (1, "")
    assert err == "mixfold: there is not enough memory: Unable to allocate 7.28 TiB\n"


def test_a_cluster_that_is_not_there_is_one_line(run: Run) -> None:
    done = subprocess.run(
        [SCRIPT, "fit", "in", "-k", "1", "--cluster", "nope"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mixfold: cluster is 'nope', where no Dask scheduler answers")
    assert done.stderr.count("\n") == 1
