"""`mixfold compare` on other backends and engines, and the sources it makes for them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import mixfold
from mixfold.cli._held_out import Part
from mixfold.cli.main import main
from mixfold.core.source import Source
from mixfold.sources.array_source import ArraySource
from mixfold.sources.opening import open_files

EVERY = 7


def rows(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.asarray(rng.normal(size=(n, 2)) + rng.choice([0.0, 6.0], size=(n, 1)))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "80")
    x = rows(700)
    table = pa.table({"a": x[:, 0], "b": x[:, 1]})
    pa.parquet.write_table(table, tmp_path / "x.parquet", row_group_size=97)
    return tmp_path / "x.parquet"


@pytest.mark.parametrize("place", [("--engine", "torch:cpu"), ("--cluster", "serial")])
def test_a_comparison_elsewhere_is_the_same(
    place: tuple[str, str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["compare", str(file), "-k", "2", "--learners", "em", *place])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    x, number = rows(700), np.arange(700)
    model = mixfold.Mixture(n_components=2, learner="em", random_state=0)
    expected = model.fit(x[number % 10 != 9]).score(x[9::10])
    line = next(line.split() for line in out.splitlines() if line.strip().startswith("em "))
    assert float(line[1]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("--engine", "abacus"), "engine is 'abacus'"),
        (("--cluster", "abacus://here"), "cluster is 'abacus://here'"),
        (("--cluster", "serial", "--engine", "torch:cpu"), "cluster"),
    ],
)
def test_places_that_are_none_are_named(
    place: tuple[str, ...], words: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["compare", str(file), "-k", "2", "--learners", "em", *place])
    assert code != 0
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("held", [False, True])
def test_partitions_make_up_the_part(held: bool, file: Path) -> None:
    x = rows(700)
    of_array, of_file = ArraySource(x), open_files([file], None, None)
    for source, length in ((of_array, 64), (of_file, 100)):
        part = Part(source, 700, EVERY, held)
        partitions = part.partitions(length)
        assert len(partitions) > 3
        assert sum(one.length for one in partitions) == part.length
        for one in partitions:
            assert one.length == len(everything(one))
            for start in (0, 1, one.length // 2, one.length - 1):
                assert (one._stretch(start, 700).x == everything(one)[start:]).all()
        found = np.concatenate([everything(one) for one in partitions])
        assert (found == everything(part)).all()
        assert (found == x[(np.arange(700) % EVERY == EVERY - 1) == held]).all()


def test_workers_read_their_part_of_a_file(file: Path) -> None:
    part = Part(open_files([file], None, None), 700, EVERY, held_out=False)
    assert part.is_remote_readable
    for one in part.partitions(100):
        assert (everything(pickle.loads(pickle.dumps(one))) == everything(one)).all()
    assert not Part(ArraySource(rows(70)), 70, EVERY, held_out=False).is_remote_readable


def everything(source: Source) -> np.ndarray:
    return source.head(700).x
