"""What README and CONTRIBUTING show works when pasted; the house takes one-file additions."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import mixfold
from mixfold.core import registry
from mixfold.core.rows import Rows
from mixfold.testing import families, learners

ROOT = Path(__file__).parents[2]


def python_blocks(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def test_the_readme_example_works_when_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = python_blocks("README.md")
    assert len([line for line in example.splitlines() if line.strip()]) <= 5
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert mixfold.load(tmp_path / "faithful.mixfold").n_seen_ > 272


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The skeletons of CONTRIBUTING as new files of their packages."""
    family, learner, *_ = python_blocks("CONTRIBUTING.md")
    for package, name, text in (
        ("families", "shifted_geometric", family),
        ("learners", "plain_em", learner),
    ):
        (tmp_path / package).mkdir()
        (tmp_path / package / f"{name}.py").write_text(text)
        path = import_module(f"mixfold.{package}").__path__
        monkeypatch.setattr(
            import_module(f"mixfold.{package}"), "__path__", [*path, str(tmp_path / package)]
        )
    registry.clear_caches()
    yield
    registry.clear_caches()
    for name in ("families.shifted_geometric", "learners.plain_em"):
        sys.modules.pop(f"mixfold.{name}", None)


@pytest.mark.usefixtures("added")
def test_a_family_is_one_new_file() -> None:
    family = registry.find("families", "shifted-geometric")()
    for law in families.LAWS:
        law(family, 3, 2, np.random.default_rng(0))
    rows = np.random.default_rng(0).geometric(0.2, size=(500, 1)).astype(np.float64)
    fitted = mixfold.Mixture("shifted-geometric", 2, random_state=0).fit(rows)
    assert fitted.score(rows) > mixfold.Mixture("poisson", 1).fit(rows).score(rows)


@pytest.mark.usefixtures("added")
def test_a_learner_is_one_new_file(tmp_path: Path) -> None:
    learner = registry.find("learners", "plain-em")()
    family = registry.find("families", "gaussian")()
    model, params, x = families.example_mixture(family, 3, 2, 300, np.random.default_rng(0))
    for law in learners.LAWS:
        law(model, params, learner, Rows(x), [10, 100])
    fitted = mixfold.Mixture(n_components=3, learner="plain-em", random_state=0).fit(x)
    fitted.save(tmp_path / "plain.mixfold")
    assert (mixfold.load(tmp_path / "plain.mixfold").means_ == fitted.means_).all()


def test_every_class_is_a_name_of_the_package() -> None:
    for name in dir(mixfold):
        assert getattr(mixfold, name) is not None
    assert {"Mixture", "GaussianMixture", "Poisson", "OnlineEM", "Power"} <= set(dir(mixfold))
    with pytest.raises(AttributeError, match="no attribute 'Mixtur'"):
        mixfold.Mixtur  # noqa: B018


def test_importing_mixfold_imports_nothing_heavy() -> None:
    program = (
        "import sys, mixfold; heavy = {'sklearn', 'scipy', 'pyarrow', 'numpy'} & set(sys.modules);"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
