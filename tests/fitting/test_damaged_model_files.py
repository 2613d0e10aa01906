"""Model files that are damaged, cut short or of another kind are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as save_tensors

import mixfold
from mixfold import Mixture
from mixfold.core.errors import ModelFileError
from mixfold.core.value import equal
from mixfold.families.poisson import Poisson
from mixfold.fitting.checkpoint import Checkpoint
from mixfold.fitting.files import VERSION, write
from saved_models import COUNTS, NAMED, same

# damage


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, bytes, Path]:
    model = Mixture(Poisson(), 2, random_state=0).partial_fit(NAMED[:120])
    path = tmp_path_factory.mktemp("files") / "model"
    model.save(path)
    return model, path.read_bytes(), path


def refused_or_same(data: bytes, example: tuple[Any, bytes, Path]) -> bool:
    """Whether a file is refused; if it is not, it must hold the saved model."""
    model, _, path = example
    path.write_bytes(data)
    try:
        loaded = mixfold.load(path)
    except ModelFileError:
        return True
    same(loaded, model)
    assert loaded.get_params().keys() == model.get_params().keys()
    assert all(equal(loaded.get_params()[n], part) for n, part in model.get_params().items())
    return False


@settings(max_examples=300, deadline=None)
@given(where=st.integers(0, 10**9), mask=st.integers(1, 255))
def test_a_flipped_byte(example: tuple[Any, bytes, Path], where: int, mask: int) -> None:
    data = bytearray(example[1])
    data[where % len(data)] ^= mask
    refused_or_same(bytes(data), example)


def test_every_byte_of_the_numbers_counts(example: tuple[Any, bytes, Path]) -> None:
    data = example[1]
    header = 8 + int.from_bytes(data[:8], "little")
    assert len(data) > header + 200
    for where in range(header, len(data), 7):
        spoiled = bytearray(data)
        spoiled[where] ^= 1
        assert refused_or_same(bytes(spoiled), example), where


@settings(max_examples=100, deadline=None)
@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_a_truncated_file(example: tuple[Any, bytes, Path], share: float) -> None:
    data = example[1]
    assert refused_or_same(data[: int(share * len(data))], example)


@settings(max_examples=100, deadline=None)
@given(more=st.binary(min_size=1, max_size=40))
def test_a_file_with_more_behind_it(example: tuple[Any, bytes, Path], more: bytes) -> None:
    assert refused_or_same(example[1] + more, example)


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=400))
def test_random_bytes(example: tuple[Any, bytes, Path], data: bytes) -> None:
    assert refused_or_same(data, example)
    assert refused_or_same(len(data).to_bytes(8, "little") + data, example)


@settings(max_examples=200, deadline=None)
@given(
    header=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["__metadata__", "mixfold", "dtype", "a"]), inner)
        ),
        max_leaves=8,
    )
)
def test_random_headers(example: tuple[Any, bytes, Path], header: Any) -> None:
    text = json.dumps(header).encode()
    assert refused_or_same(len(text).to_bytes(8, "little") + text, example)


def test_whitespace_in_the_header_does_no_harm(example: tuple[Any, bytes, Path]) -> None:
    data = example[1]
    length = int.from_bytes(data[:8], "little")
    text = json.dumps(json.loads(data[8 : 8 + length]), indent=1).encode()
    assert not refused_or_same(len(text).to_bytes(8, "little") + text + data[8 + length :], example)


def test_another_version(example: tuple[Any, bytes, Path]) -> None:
    old, new = f'\\"version\\": {VERSION}', f'\\"version\\": {VERSION + 1}'
    data = example[1]
    assert data.count(old.encode()) == 1
    example[2].write_bytes(data.replace(old.encode(), new.encode()))
    with pytest.raises(ModelFileError, match=f"version {VERSION + 1}.*reads version {VERSION}"):
        mixfold.load(example[2])


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for arrays, metadata in (({}, None), ({"a": np.ones(3)}, None), ({}, {"mixfold": "{}"})):
        path.write_bytes(save_tensors(arrays, metadata=metadata))
        with pytest.raises(ModelFileError, match="not a mixfold file"):
            mixfold.load(path)
    np.save(tmp_path / "x.npy", COUNTS)
    with pytest.raises(ModelFileError, match="not a mixfold file"):
        mixfold.load(tmp_path / "x.npy")
    write(path, "model", [1, 2.5, "three", None, np.ones(2)])
    with pytest.raises(ModelFileError, match="holds no model"):
        mixfold.load(path)
    write(path, "checkpoint", [1])
    with pytest.raises(ModelFileError, match="checkpoint file: a model file is needed"):
        mixfold.load(path)
    with pytest.raises(ModelFileError, match="holds no fit"):
        Checkpoint(path, {}, 1.0).read()


def test_values_no_program_can_smuggle_in(tmp_path: Path) -> None:
    """Only declared values come out of a file, whatever class its schema names."""
    model = Mixture().fit(COUNTS)
    model.save(tmp_path / "model")
    data = (tmp_path / "model").read_bytes()
    assert data.count(b"EMState") >= 1
    (tmp_path / "model").write_bytes(data.replace(b"EMState", b"os_exit"))
    with pytest.raises(ModelFileError):
        mixfold.load(tmp_path / "model")


# a full disk

FULL = """
import resource, signal, sys, warnings
import numpy as np
from mixfold import Mixture
from mixfold.core.errors import LearningWarning, OutputError
from mixfold.core.value import equal

folder = sys.argv[1]
x = np.random.default_rng(0).normal(size=(300, 2))
model = Mixture(n_components=2, random_state=0).fit(x)
other = Mixture(n_components=2, random_state=0).fit(x + 1.0)
model.save(folder + "/model")
model.set_params(checkpoint=folder + "/checkpoint", checkpoint_every=0.0)
model.fit(x)
learned = model._learned
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    model.save(folder + "/model")
except OutputError as error:
    print(error)
    assert model._learned is learned
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model.fit(x + 1.0)
(warning,) = caught
assert warning.category is LearningWarning
print(warning.message)
assert equal(model.params_, other.params_)
"""


if sys.platform != "win32":  # which knows no limit on the size of files

    def test_a_full_disk(tmp_path: Path) -> None:
        """A limit on the size of files stands for a full disk: it needs no privileges."""
        script = subprocess.run(
            [sys.executable, "-c", FULL, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        assert script.returncode == 0, script.stderr
        said = script.stdout.splitlines()
        assert said[0].startswith(f"cannot write {tmp_path}/model: File too large")
        assert f"fit continues: cannot write {tmp_path}/checkpoint: File too large" in said[1]
        assert sorted(file.name for file in tmp_path.iterdir()) == ["checkpoint", "model"]
        x = np.random.default_rng(0).normal(size=(300, 2))
        left = Mixture(n_components=2, random_state=0).fit(x)
        same_rows = mixfold.load(tmp_path / "model").score_samples(x)
        np.testing.assert_array_equal(same_rows, left.score_samples(x))
        resumed = Mixture(
            n_components=2, random_state=0, checkpoint=tmp_path / "checkpoint", resume=True
        ).fit(x)
        assert equal(resumed.params_, left.params_)
