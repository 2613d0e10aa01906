"""Outputs of every command at paths of every kind: no input and nothing foreign is destroyed."""

from __future__ import annotations

import io
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

import mixfold
from attacks import Attack
from mixfold.cli.main import main
from mixfold.fitting.atomic_files import SUFFIX
from mixfold.fitting.files import kind_of

Rng = np.random.Generator
FOREIGN = b"a thesis, not a model"


def attacks(rng: Rng, folder: Path) -> Iterator[Attack]:
    """Commands with an output, and a checkpoint, at random paths."""
    number = 0
    while True:
        place = folder.resolve() / f"outputs-{number}"
        number += 1
        command, output, checkpoint = rng.choice(COMMANDS), rng.choice(PATHS), rng.choice(PATHS)
        force, given = bool(rng.integers(2)), rng.choice(list(DATA))
        seed = int(rng.integers(2**31))
        yield Attack(
            f"{command} {given}, output {output}, checkpoint {checkpoint}, force {force}",
            lambda p=place, c=command, o=output, k=checkpoint, f=force, g=given, s=seed: attack(  # type: ignore[misc]
                p, c, o, k, f, g, s
            ),
        )


COMMANDS = ["fit", "fit with checkpoint", "score", "sample", "merge"]
DATA = {  # and what it names
    "in": {"in/a.csv", "in/b.csv"},
    "in/*.csv": {"in/a.csv", "in/b.csv"},
    "in/[ab].csv": {"in/a.csv", "in/b.csv"},
    "in/a.csv": {"in/a.csv"},
    "*/b.csv": {"in/b.csv"},
}
MODELS = {"score": {"model"}, "sample": {"model"}, "merge": {"model", "other"}}
PATHS = [
    "new",
    "model",
    "checkpoint",
    "foreign",
    "in/a.csv",
    "in/b.csv",
    "in/new.csv",
    "link to model",
    "link to a.csv",
    "link to nothing",
    "link to itself",
    "link to null",
    "hard link to b.csv",
    "fifo",
    "socket",
    "folder",
    "no folder/new",
]


def attack(
    place: Path, command: str, output: str, checkpoint: str, force: bool, given: str, seed: int
) -> None:
    """Run one command in a folder of its own; then look at all that was there before."""
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        _furnish(place, np.random.default_rng(seed))
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        short = os.open(place, os.O_RDONLY)  # paths of sockets must be short
        stack.callback(os.close, short)
        server.bind(f"/proc/self/fd/{short}/socket")
        # a reader, without which a FIFO would block whoever writes into it
        stack.callback(os.close, os.open(place / "fifo", os.O_RDWR | os.O_NONBLOCK))
        before = _snapshot(place)
        table = command in ("score", "sample")
        target = place / (output if not table or output.endswith("csv") else f"{output}.csv")
        code = _silently([*_arguments(place, command, given, checkpoint), "-o", str(target)], force)
        full = {path for path, (_, _, content) in before.items() if content}
        own = {place / "checkpoint"} if "checkpoint" in command else set()
        kept = full - {Path(os.path.realpath(target))} - own
        if not force:
            kept |= full - own - ({place / "model", place / "other"} if not table else set())
        reads = DATA[given] if command.startswith(("fit", "score")) else set()
        kept |= {place / name for name in reads | MODELS.get(command, set())}
        outputs = {target, place / checkpoint} if "checkpoint" in command else {target}
        _check(_snapshot(place), before, code, outputs, kept)
        if code == 0 and not table and target.is_file():
            assert kind_of(target) == "model", f"{output} is no model"


def _furnish(place: Path, rng: Rng) -> None:
    (place / "in").mkdir(parents=True)
    (place / "folder").mkdir()
    for name in ("a", "b"):
        x = rng.normal(size=(20, 2))
        np.savetxt(place / "in" / f"{name}.csv", x, "%.6f", ",", header="u,v", comments="")
    for name in ("other", "model"):
        model = mixfold.Mixture(n_components=1, learner="em", checkpoint=place / "checkpoint")
        model.fit(rng.normal(size=(30, 2)))
        model.save(place / name)
    (place / "foreign").write_bytes(FOREIGN)
    (place / "link to model").symlink_to("model")
    (place / "link to a.csv").symlink_to("in/a.csv")
    (place / "link to nothing").symlink_to("made")
    (place / "link to itself").symlink_to("link to itself")
    (place / "link to null").symlink_to(os.devnull)
    (place / "hard link to b.csv").hardlink_to(place / "in" / "b.csv")
    os.mkfifo(place / "fifo")
    for name in ("foreign", "model", "link to null", "fifo", "link to nothing"):
        (place / f"{name}.csv").symlink_to(name)


def _arguments(place: Path, command: str, given: str, checkpoint: str) -> list[str]:
    data, model = str(place / given), str(place / "model")
    fit = ["fit", data, "-k", "1", "--max-iter", "1", "--threads", "1"]
    return {
        "fit": fit,
        "fit with checkpoint": [*fit, "--checkpoint", str(place / checkpoint)],
        "score": ["score", model, data, "--threads", "1"],
        "sample": ["sample", model, "-n", "5"],
        "merge": ["merge", model, str(place / "other"), "--align"],
    }[command]


def _silently(arguments: list[str], force: bool) -> int:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return main([*arguments, *(["--force"] if force else [])])


Snapshot = dict[Path, tuple[int, str, bytes]]


def _snapshot(place: Path) -> Snapshot:
    """Kind, target and content of everything below a folder."""
    found: Snapshot = {}
    for path in [*place.rglob("*"), Path(os.devnull)]:
        mode = stat.S_IFMT(path.lstat().st_mode)
        leads = str(path.readlink()) if path.is_symlink() else ""
        found[path] = mode, leads, path.read_bytes() if stat.S_ISREG(mode) else b""
    return found


def _check(
    after: Snapshot, before: Snapshot, code: int, outputs: set[Path], kept: set[Path]
) -> None:
    """Nothing but outputs has changed, no file that is to be kept, and no link or device."""
    assert code in (0, 2), f"exit code {code}"
    left = [path.name for path in after if path.name.endswith(SUFFIX)]
    assert not left, f"left over: {left}"
    written = {os.path.realpath(path) for path in outputs}
    for path, (mode, leads, content) in before.items():
        assert path in after, f"{path.name} is gone"
        now = after[path]
        assert now[:2] == (mode, leads), f"{path.name} is something else now"
        if now[2] != content:
            assert code == 0, f"{path.name} has changed, though the command was refused"
            assert os.path.realpath(path) in written, f"{path.name} is no output and has changed"
            assert path not in kept, f"{path.name} is to be kept and has changed"
