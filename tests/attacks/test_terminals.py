"""Terminals, streams and machines of every kind: no control characters, one line of error."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from mixfold import Mixture
from mixfold.cli._terminal import shown, usable_streams
from mixfold.cli.main import main
from outputs import SCRIPT, Run, X, content

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

    monkeypatch.setattr("mixfold.cli._files.load_model", short)
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
