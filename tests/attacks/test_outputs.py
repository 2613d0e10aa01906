"""Outputs replace nothing that they should not, and are written whole."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
from pathlib import Path

import pytest

import mixfold
from attacks import run_some
from mixfold import Mixture
from mixfold.core.errors import OutputError
from mixfold.fitting.atomic_files import SUFFIX, replacing
from outputs import SCRIPT, Run, X, content

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
