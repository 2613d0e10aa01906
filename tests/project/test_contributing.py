"""Every skeleton of CONTRIBUTING, pasted into a copy of the package, passes its own commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

import mixfold

ROOT = Path(__file__).parents[2]
IGNORED = shutil.ignore_patterns("*.so")  # but bytecode is copied, and is valid there

# the package that is installed for development must not be found, only its copy
RUNNER = """
import os, shlex, sys

sys.meta_path = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
sys.path.insert(0, os.path.join(os.getcwd(), "src"))
import mixfold
assert mixfold.__file__.startswith(os.getcwd()), mixfold.__file__
import pandas, polars, pyarrow.parquet, pytest, scipy.stats
from mixfold.cli.main import main

for command in sys.argv[1:]:
    program, *arguments = shlex.split(command)
    child = os.fork()  # so that what is imported is imported once
    if child == 0:
        quiet = ["-q", "--no-header", "-p", "no:cacheprovider"]
        code = pytest.main([*quiet, *arguments]) if program == "pytest" else main(arguments)
        sys.stdout.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"{command} ended with {code}"
"""


class Skeleton(NamedTuple):
    """One section "Add a ..."."""

    path: str
    text: str
    commands: list[str]


def skeletons(document: str) -> dict[str, Skeleton]:
    """What the sections of CONTRIBUTING say: where a file goes, what is in it, how to test it."""
    found = {}
    for section in re.split(r"^## ", document, flags=re.MULTILINE):
        title, _, body = section.partition("\n")
        if title.startswith("Add "):
            (path,) = set(re.findall(r"Copy this to\s+`(src/mixfold/(?:\w+/)+\w+\.py)`", body))
            (text,) = re.findall(r"```python\n(.*?)```", body, re.DOTALL)
            shell = "".join(re.findall(r"```sh\n(.*?)```", body, re.DOTALL))
            commands = shell.replace("\\\n", "").splitlines()
            found[title] = Skeleton(path, text, commands)
    return found


KINDS = {
    "families",
    "learners",
    "sources",
    "schedules",
    "initializers",
    "detectors",
    "experiments",
    "report",
}
SKELETONS = skeletons((ROOT / "CONTRIBUTING.md").read_text())


def test_there_is_a_skeleton_for_each_kind() -> None:
    packages = {skeleton.path.split("/")[2] for skeleton in SKELETONS.values()}
    assert packages == KINDS
    for skeleton in SKELETONS.values():
        assert skeleton.commands, skeleton.path
        assert all(c.split()[0] in ("pytest", "mixfold") for c in skeleton.commands)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, its tests of laws and their settings, with all skeletons pasted."""
    folder = tmp_path_factory.mktemp("copy")
    package = Path(mixfold.__file__).parent
    shutil.copytree(package, folder / "src" / "mixfold", ignore=IGNORED)
    compiled = Path(import_module("mixfold._native").__file__ or "")
    (folder / "src" / "mixfold" / compiled.name).symlink_to(compiled)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=IGNORED)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for skeleton in SKELETONS.values():
        file = folder / skeleton.path
        assert not file.exists(), f"{skeleton.path} exists already: the skeleton needs another name"
        file.write_text(skeleton.text)
    return folder


if sys.platform != "win32":  # where processes do not fork

    def test_skeletons_pass_their_own_commands(copy: Path) -> None:
        commands = [command for skeleton in SKELETONS.values() for command in skeleton.commands]
        done = subprocess.run(
            [sys.executable, "-c", RUNNER, *commands],
            cwd=copy,
            env={
                **os.environ,
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # which takes long
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        tests = [c for c in commands if c.startswith("pytest")]
        assert len(re.findall(r"^\d+ passed", done.stdout, re.MULTILINE)) == len(tests)


def test_skeletons_are_of_our_style(copy: Path) -> None:
    for arguments in (["check"], ["format", "--check"]):
        for skeleton in SKELETONS.values():
            done = subprocess.run(
                [sys.executable, "-m", "ruff", *arguments, skeleton.path],
                cwd=copy,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
