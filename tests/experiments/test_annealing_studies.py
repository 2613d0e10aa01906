"""The studies of annealed gradients run end to end, on pictures of nine pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixfold.core.errors import SourceError
from mixfold.experiments import annealing, find_study
from mixfold.experiments.grids import grid_of
from mixfold.experiments.pixels import SETS, pictures
from mixfold.experiments.sgd_table2 import dunn_indices
from mixfold.experiments.sgd_table3 import contest
from mixfold.experiments.wanted import Wanted

D = 9
N = 900


def stand_in(rng: np.random.Generator, n: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n) % classes
    centres = np.random.default_rng(5).integers(256, size=(classes, D))
    x = np.clip(centres[y] + rng.normal(scale=30.0, size=(n, D)), 0, 255)
    return x.astype(np.uint8), y.astype(np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One set in two parts, one with more classes than are used, one of numbers around zero."""
    rng = np.random.default_rng(0)
    x, y = stand_in(rng, N, 10)
    other, z = stand_in(rng, 200, 10)
    np.savez(tmp_path / "mnist.npz", X_train=x, y_train=y, X_test=other, y_test=z)
    x, y = stand_in(rng, 2 * N, 20)
    other, z = stand_in(rng, 200, 20)
    np.savez(tmp_path / "devanagari.npz", X_train=x, y_train=y, X_test=other, y_test=z)
    spoken: dict[str, Any] = {
        f"X_isolet{i}": stand_in(rng, 300, 26)[0] / 127.5 - 1.0 for i in (1, 5)
    }
    labels: dict[str, Any] = {f"y_isolet{i}": 1 + np.arange(300) % 26 for i in (1, 5)}
    np.savez(tmp_path / "isolet_part_1_5.npz", **spoken, **labels)
    return tmp_path


def run(name: str, data: Path, reps: int = 1) -> list[list[str]]:
    """The cells of the table that a study writes."""
    lines: list[str] = []
    out = data / "out"
    find_study(name).run(Wanted(out, lines.append, reps, N, data))
    assert lines
    assert (out / f"{name}.csv").is_file()
    table = (out / f"{name}.md").read_text(encoding="utf-8").splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_sets_are_scaled_shuffled_and_cut(folder: Path) -> None:
    mnist, letters, spoken = pictures(folder, None, tuple(SETS))
    for found in (mnist, letters, spoken):
        assert found.learned.dtype == np.float32
        assert 0.0 <= found.learned.min() < 0.1
        assert 0.9 < found.learned.max() <= 1.0
        assert not (np.diff(found.learned_class.astype(int)) >= 0).all()
    assert (len(mnist.learned), len(mnist.judged), mnist.whole) == (N, 200, True)
    assert (len(letters.learned), len(letters.judged)) == (900, 100)
    assert set(letters.learned_class) == set(range(10))
    assert (spoken.whole, spoken.learned_class.min(), spoken.learned_class.max()) == (False, 0, 25)
    part = mnist.only(range(1, 10))
    assert set(part.learned_class) == set(part.judged_class) == set(range(1, 10))
    assert len(part.learned) == 0.9 * N
    with pytest.raises(SourceError, match="has none of svhn"):
        list(pictures(folder, None, ("svhn_crop_5k",)))


def test_table_1_has_a_line_per_start(folder: Path) -> None:
    lines = run("sgd-table1", folder, reps=2)
    assert len(lines) == 15
    assert [line[1] for line in lines[:5]] == [
        "radius 0.1",
        "radius 0.3",
        "radius 0.5",
        "class 0",
        "no annealing",
    ]
    assert [line[4] for line in lines[:5]] == ["205.5", "205.5", "205.7", "205.4", "124.1"]
    assert "isolet_part_1_5* (" in lines[-1][0]
    assert all("±" in line[2] and "±" in line[3] for line in lines)


def test_table_2_has_both_measures(folder: Path) -> None:
    lines = run("sgd-table2", folder)
    assert [line[0] for line in lines] == ["mnist (900 x 9)", "devanagari (900 x 9)"]
    assert [line[1] for line in lines] == ["200", "100"]
    assert [cell.split()[1] for cell in lines[0][2:]] == ["(2.50)", "(2.47)", "(0.18)", "(0.16)"]
    assert all(float(cell.split()[0]) > 0.0 for cell in lines[0][2:])


def test_table_3_has_a_line_per_method_and_draws_means(folder: Path) -> None:
    lines = run("sgd-table3", folder)
    assert [line[1] for line in lines] == 3 * list(contest())
    assert [line[3] for line in lines[:4]] == ["216.60", "216.82", "", ""]
    for line in lines:
        assert float(line[2]) <= float(line[4])
        assert 0.0 < float(line[5]) <= 1.0
    drawn = sorted(path.name for path in (folder / "out").glob("*.png"))
    assert drawn == ["sgd-table3-devanagari.png", "sgd-table3-mnist.png"]


def test_table_4_has_a_column_per_number_of_components(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixfold.experiments.sgd_table4.EPOCHS", 2)
    lines = run("sgd-table4", folder)
    assert [line[1] for line in lines] == 2 * ["bound", "log-likelihood"]
    assert all(len(line) == 7 for line in lines)
    assert lines[0][2].endswith("(205.4)")


def test_batches_take_steps_as_long_per_row_as_single_rows() -> None:
    from mixfold.schedules.floored import Floored

    rows, batches = Floored(), annealing.stepwise().schedule
    r = np.array([1.0, 50.0, 5000.0])
    np.testing.assert_allclose(batches(r), annealing.BATCH * rows(annealing.BATCH * r))


def test_dunn_indices_are_the_definition() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((60, 4), dtype=np.float32)
    labelings = [rng.integers(3, size=60), (x[:, 0] > 0.5).astype(int)]
    distance = np.sqrt(np.square(x[:, None].astype(float) - x).sum(axis=2))
    for labels, found in zip(labelings, dunn_indices(x, labelings), strict=True):
        same = labels[:, None] == labels
        assert found == pytest.approx(distance[~same].min() / distance[same].max(), rel=1e-4)


def test_grids_keep_the_places_of_components() -> None:
    means = np.linspace(0.0, 1.0, 6)[:, None] * np.ones((6, 4))
    grid = grid_of(means)
    assert grid.shape == (2 * 3 - 1, 3 * 3 - 1, 4)
    assert (grid[:2, 3:5, :3] == means[1, 0]).all()
    assert (grid[3:, :2, :3] == means[3, 0]).all()
    assert (grid[2, :, 3] == 0.0).all()
    colours = grid_of(np.ones((4, 12)))
    assert colours.shape == (5, 5, 4)
