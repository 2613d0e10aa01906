"""A checkpoint is resumed with the data it was made from, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks import resuming, run_some
from mixfold import EM, LinearMixedModel
from mixfold.core import fingerprint
from mixfold.core.errors import InvalidInputError, ModelFileError
from mixfold.core.value import equal

CASES = [(source, what) for source in resuming.SOURCES for what in resuming.changes_of(source)]


@pytest.mark.parametrize(("source", "what"), CASES)
def test_a_change_of_the_data_is_noticed(source: str, what: str, tmp_path: Path) -> None:
    resuming.attack(source, what, np.random.default_rng(0), tmp_path / "case", 2)


@pytest.mark.parametrize("source", resuming.SOURCES)
def test_the_same_data_elsewhere_resume_to_the_same_bits(source: str, tmp_path: Path) -> None:
    for passes in (2, 4):
        folder = tmp_path / f"after {passes}"
        resuming.attack(source, "nothing", np.random.default_rng(1), folder, passes)


@pytest.mark.parametrize("what", resuming.SETTINGS)
def test_a_change_of_a_setting_is_noticed(what: str, tmp_path: Path) -> None:
    resuming.attack("array", what, np.random.default_rng(2), tmp_path / "case", 4)


def test_random_attacks(tmp_path: Path) -> None:
    run_some("resuming", 20, tmp_path, seed=3)


def parquet_case(tmp_path: Path) -> resuming.Case:
    return resuming.Case("parquet", np.random.default_rng(0), tmp_path / "case", 2)


def test_the_message_says_what_differs(tmp_path: Path) -> None:
    case = parquet_case(tmp_path)
    size = (case.before / "x.parquet").stat().st_size
    x, weight, names = case.data
    with pytest.raises(ModelFileError) as told:
        case.resume((x + 1.0, weight, names))
    words = f"it was made from x.parquet of {size:,} bytes, modified 20"
    assert words in str(told.value)
    assert "and now there is x.parquet of" in str(told.value)
    assert "--force-resume" in str(told.value)
    for change, words in (
        ({"n_components": 3}, "the model was MixtureModel(family=Gaussian("),
        ({"random_state": 5}, "random_state was 0 and is 5 now"),
        ({"n_init": 2}, "n_init was 1 and is 2 now"),
        ({"init": "random-rows"}, "init was "),
        ({"learner": EM(tol=0.5)}, "learner was EM(tol=0.0"),
        ({"columns": ["a", "c"]}, "the number of columns was 3 and is 2 now"),
        ({"columns": ["a", "c", "b"]}, "number 1 of the list of columns was 'b' and is 'c' now"),
        ({"cluster": "serial"}, "the number of partitions was None and is 1 now"),
    ):
        with pytest.raises(ModelFileError) as told:
            case.resume(case.data, **change)
        assert words in str(told.value), str(told.value)


def test_weights_from_another_column_are_other_data(tmp_path: Path) -> None:
    case = parquet_case(tmp_path)
    path = case.before / "x.parquet"
    kept: dict[str, Any] = {"checkpoint": case.kept, "resume": True, "columns": ["a", "b", "c"]}
    with pytest.raises(ModelFileError, match="made with weights in column 'w'"):
        resuming.mixture(**kept).fit(path)


def test_large_files_are_known_by_time_and_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "PIECE", 64)
    path, copy = tmp_path / "x", tmp_path / "folder" / "y"
    path.write_bytes(np.random.default_rng(0).bytes(10_000))
    known = fingerprint.file_fingerprint(path, 100)
    copy.parent.mkdir()
    shutil.copy2(path, copy)
    assert fingerprint.difference(known, fingerprint.file_fingerprint(copy, 100)) is None
    os.utime(copy, (0, 0))
    assert fingerprint.difference(known, fingerprint.file_fingerprint(copy, 100)) is not None
    facts = path.stat()
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    found = fingerprint.difference(known, fingerprint.file_fingerprint(path, 100))
    assert found is not None
    assert found.endswith("which has other contents now")


def test_a_generator_is_known_by_its_first_rows(tmp_path: Path) -> None:
    x = resuming.some(np.random.default_rng(0))[0]

    def blocks(x: np.ndarray) -> Iterator[np.ndarray]:
        yield from (x[:30], x[30:])

    model = resuming.mixture(learner="online-em", checkpoint=tmp_path / "kept").fit(blocks(x))
    model.set_params(resume=True).fit(blocks(x))
    with pytest.raises(ModelFileError, match="first rows"):
        model.fit(blocks(x + 1.0))


def test_a_dask_collection_is_known_by_its_name(tmp_path: Path) -> None:
    import dask.array

    x = resuming.some(np.random.default_rng(0))[0]
    kept: dict[str, Any] = {"checkpoint": tmp_path / "kept", "cluster": "serial"}
    resuming.mixture(max_iter=2, **kept).fit(dask.array.from_array(x, chunks=(20, 3)))
    again = resuming.mixture(resume=True, **kept)
    again.fit(dask.array.from_array(x.copy(), chunks=(20, 3)))
    assert again.n_seen_ == 4 * 60
    with pytest.raises(ModelFileError, match="made from the Dask collection"):
        again.fit(dask.array.from_array(x + 1.0, chunks=(20, 3)))


def test_groups_of_a_mixed_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, groups = rng.normal(size=(400, 1)), np.repeat(np.arange(100), 4)
    y = x[:, 0] + rng.normal(size=100)[groups] + rng.normal(size=400)
    kept: dict[str, Any] = {"checkpoint": tmp_path / "kept", "resume": True, "random_state": 0}
    model = LinearMixedModel(**kept).fit(x, y, groups)
    same = model.coef_.copy()
    other = y.copy()
    other[-1] += 1.0
    with pytest.raises(ModelFileError, match=r"another fit: .*other contents"):
        model.fit(x, other, groups)
    np.testing.assert_array_equal(model.coef_, same)
    with pytest.raises(ModelFileError, match="response_scale"):  # which belongs to the model
        model.set_params(resume="force").fit(x, other, groups)


def test_resume_is_a_truth_or_force() -> None:
    with pytest.raises(InvalidInputError, match=r"'always'.*'force'"):
        resuming.mixture(resume="always").fit(resuming.some(np.random.default_rng(0))[0])


def test_equal_rows_have_one_fingerprint_however_they_lie() -> None:
    from mixfold.sources.array_source import ArraySource

    x = np.random.default_rng(0).normal(size=(5000, 7))
    wanted = ArraySource(x).fingerprint()
    assert ArraySource(np.asfortranarray(x)).fingerprint() == wanted
    assert ArraySource(np.repeat(x, 2, axis=0)[::2]).fingerprint() == wanted
    assert equal(ArraySource(x, np.ones(5000)).fingerprint()[0], wanted[0])
