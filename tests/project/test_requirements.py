"""The lock file agrees with the project's requirements, and workflows name actions by commit."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements" / "lock.txt").read_text().splitlines()
    pins = [line.partition("==") for line in lines if not line.startswith("#")]
    assert all(version for _, _, version in pins)
    return {canonicalize_name(name): version for name, _, version in pins}


def required() -> list[Requirement]:
    """What the project, its extras and its build ask for on Linux."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists = [project["build-system"]["requires"], project["project"]["dependencies"]]
    lists += project["project"]["optional-dependencies"].values()
    wanted = [Requirement(text) for some in lists for text in some]
    return [r for r in wanted if r.name != "mixfold"]


def test_lock_file_has_a_version_for_every_requirement() -> None:
    pins = locked()
    for requirement in required():
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not in requirements/lock.txt: run .ci/lock"
        assert requirement.specifier.contains(version), (
            f"requirements/lock.txt has {requirement.name} {version}, but pyproject.toml asks for "
            f"{requirement}: run .ci/lock"
        )


def test_actions_are_named_by_commit() -> None:
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    used = [line for file in files for line in file.read_text().splitlines() if "uses:" in line]
    assert used
    for line in used:
        assert re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line
    assert all("\npermissions:\n" in file.read_text() for file in files)
