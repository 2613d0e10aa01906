"""The files that paths, folders and patterns name, and no others."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import numpy as np
import pytest

from mixfold import Mixture, load
from mixfold.cli.main import main
from mixfold.core.errors import SourceError
from mixfold.sources.paths import expand


def write_rows(path: Path, mean: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = mean + np.random.default_rng(0).normal(size=(20, 2))
    np.savetxt(path, rows, "%.6f", ",", header="a,b", comments="")


def fitted_mean(data: str | list[str]) -> float:
    model = Mixture(n_components=1, random_state=0).fit(data)
    return float(model.means_[0].mean())


def test_an_existing_path_is_never_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(Path("x[1].csv"), 100.0)
    write_rows(Path("x1.csv"), 0.0)
    write_rows(Path("day[1]/a.csv"), 200.0)
    write_rows(Path("day1/a.csv"), 0.0)
    assert fitted_mean("x[1].csv") == pytest.approx(100.0, abs=1.0)
    assert fitted_mean("day[1]/*.csv") == pytest.approx(200.0, abs=1.0)
    assert fitted_mean(["day[1]", "x[1].csv"]) == pytest.approx(150.0, abs=1.0)
    assert main(["fit", "x[1].csv", "-k", "1"]) == 0
    assert load("model.mixfold").means_.mean() == pytest.approx(100.0, abs=1.0)
    Path("x[1].csv").unlink()
    assert fitted_mean("x[1].csv") == pytest.approx(0.0, abs=1.0)
    Path("x[1].csv").symlink_to("nowhere")
    with pytest.raises(SourceError, match="there is no file"):
        expand("x[1].csv")


@pytest.mark.parametrize(
    "given", ["", ["x.csv", ""], "  ", "\t", ["x.csv", " "], "\0", "no\x1b[31m.csv"]
)
def test_paths_that_name_nothing(
    given: str | list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(Path("x.csv"), 0.0)
    with pytest.raises(SourceError, match=r"the path is empty|there is no file|no files match"):
        Mixture().fit(given)


def test_an_empty_path_does_not_read_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(Path("x.csv"), 0.0)
    assert main(["fit", "", "-k", "1"]) == 2
    assert "the path is empty" in capsys.readouterr().err
    assert not Path("model.mixfold").exists()


def test_links_that_lead_round_in_circles(tmp_path: Path) -> None:
    """Every folder has links to all, so that there are more ways through than anybody can walk."""
    folders = [tmp_path / f"f{i}" for i in range(12)]
    for folder in folders:
        write_rows(folder / "x.csv", 0.0)
    for folder in folders:
        for i, other in enumerate(folders):
            (folder / f"to{i}").symlink_to(other)
        (folder / "up").symlink_to(tmp_path)
    files = [folder / "x.csv" for folder in folders]
    assert expand(tmp_path) == sorted(files)
    assert expand(str(tmp_path / "**" / "*.csv")) == sorted(files)
    assert expand(str(tmp_path / "f0" / "to3" / "*.csv")) == [tmp_path / "f0" / "to3" / "x.csv"]


def test_hidden_files_and_folders_called_like_files(tmp_path: Path) -> None:
    for name in ("a.csv", ".hidden.csv", "_part.csv", "b.csv/inside.csv", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a\n1\n")
    found = [str(Path(str(path)).relative_to(tmp_path)) for path in expand(tmp_path)]
    assert found == ["a.csv", "b.csv/inside.csv"]


NAMES = ["a", "b", "ab", "a1", ".a", "[a]", "a.csv", "b.csv", ".c.csv", "x[1].csv", "x1.csv"]
PARTS = [*NAMES, "*", "**", "?", "a*", "*.csv", "[ab]*", "[!a]*", ".*", "x[1].csv", "[[]a]"]


def test_patterns_match_what_glob_matches(tmp_path: Path) -> None:
    """As long as no part of the pattern exists as it is written."""
    rng = np.random.default_rng(0)
    tried = 0
    for tree in range(12):
        root = tmp_path / str(tree)
        for _ in range(25):
            path = root.joinpath(*rng.choice(NAMES, rng.integers(1, 4)))
            if not any(parent.is_file() for parent in path.parents) and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("")
        for _ in range(40):
            parts = [str(part) for part in rng.choice(PARTS, rng.integers(1, 4))]
            pattern = str(root.joinpath(*parts))
            magic = [part for part in parts if glob.has_magic(part)]
            written = {name for _, folders, files in os.walk(root) for name in [*folders, *files]}
            if not magic or written & set(magic):
                continue
            names = glob.glob(pattern, recursive=True)  # noqa: PTH207
            expected = sorted({Path(p) for p in names if os.path.isfile(p)})  # noqa: PTH113
            tried += 1
            if expected:
                assert expand(pattern) == expected, pattern
            else:
                with pytest.raises(SourceError, match="no files match"):
                    expand(pattern)
    assert tried > 100
