"""Model files: what is saved is what is loaded, or the file is refused."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as save_tensors

import mixfold
from mixfold import GaussianMixture, Mixture
from mixfold.core.errors import ModelFileError
from mixfold.core.family import Family
from mixfold.core.registry import find_all
from mixfold.core.value import equal, value
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.fitting.checkpoint import Checkpoint
from mixfold.fitting.files import VERSION, write
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.online_em import OnlineEM
from mixfold.schedules.constant import Constant

COUNTS = np.random.default_rng(0).poisson(3.0, size=(300, 2)).astype(float)
NAMED = pd.DataFrame(COUNTS, columns=["a", "b"])
FAMILIES: list[Family] = [v for f in find_all("families").values() for v in f.variants()]

Copier = Callable[[Any], Any]


def through_a_file(model: Any) -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        return mixfold.load(Path(folder) / "model")


def through_joblib(model: Any) -> Any:
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


COPIERS: list[Copier] = [
    through_a_file,
    through_joblib,
    lambda model: pickle.loads(pickle.dumps(model)),
    copy.deepcopy,
]
COPIER_NAMES = ["file", "joblib", "pickle", "deepcopy"]


def fitted(model: Any) -> Any:
    return model.fit(COUNTS)


def fitted_with_names(model: Any) -> Any:
    return model.fit(NAMED)


def before_the_start_of_a_stream(model: Any) -> Any:
    return model.partial_fit(COUNTS[:50])


def in_mid_stream(model: Any) -> Any:
    return model.partial_fit(NAMED[:150])


def after_rows_one_by_one(model: Any) -> Any:
    model.partial_fit(COUNTS[:150])
    for row in COUNTS[150:170]:
        model.learn_one(row)
    return model


STATES = [
    fitted,
    fitted_with_names,
    before_the_start_of_a_stream,
    in_mid_stream,
    after_rows_one_by_one,
]


def shown(model: Any) -> set[str]:
    """Names of the fitted attributes; those of rows learned one by one are made when asked for."""
    names = {*vars(model), *getattr(model, "_shows", ())}
    return {name for name in names if name.endswith("_") and hasattr(model, name)}


def same(a: Any, b: Any) -> None:
    """Two estimators agree to the bit in all they have learned and show."""
    assert type(a) is type(b)
    assert equal(a._now(), b._now())
    assert shown(a) == shown(b)
    assert a.n_features_in_ == b.n_features_in_
    assert [*getattr(a, "feature_names_in_", [])] == [*getattr(b, "feature_names_in_", [])]
    rows = NAMED if hasattr(a, "feature_names_in_") else COUNTS
    np.testing.assert_array_equal(a.score_samples(rows), b.score_samples(rows))


def check_round_trip(model: Any, state: Callable[[Any], Any], copier: Copier) -> None:
    model = state(model)
    other = copier(model)
    same(model, other)
    rows = NAMED[200:] if hasattr(model, "feature_names_in_") else COUNTS[200:]
    for part in (rows[:37], rows[37:]):
        same(model.partial_fit(part), other.partial_fit(part))
    for row in COUNTS[:5]:
        model.learn_one(row)
        other.learn_one(row)
    same(model, other)


@pytest.mark.parametrize("copier", COPIERS, ids=COPIER_NAMES)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_every_family(family: Family, state: Callable[[Any], Any], copier: Copier) -> None:
    check_round_trip(Mixture(family, 2, learner="em", random_state=0), state, copier)


@pytest.mark.parametrize("copier", COPIERS, ids=COPIER_NAMES)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize(
    "learner",
    [
        "auto",
        "mini-batch-em",
        EM(accelerate=True),
        MiniBatchEM(batch_size=40, average_from=2, truncation=3.0),
        OnlineEM(batch_size=7, schedule=Constant(0.05)),
        OnlineEM(warmup=500),
    ],
    ids=repr,
)
def test_every_learner(learner: Any, state: Callable[[Any], Any], copier: Copier) -> None:
    check_round_trip(Mixture(n_components=2, learner=learner, random_state=0), state, copier)


@pytest.mark.parametrize("copier", COPIERS, ids=COPIER_NAMES)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_gaussian_mixture(covariance: str, state: Callable[[Any], Any], copier: Copier) -> None:
    settings: dict[str, Any] = {"tol": 0.1, "random_state": 0, "means_init": [[1, 2], [3, 4]]}
    model = GaussianMixture(2, covariance_type=covariance, **settings)
    check_round_trip(model, state, copier)
    other = copier(state(model))
    for name in ("precisions_", "precisions_cholesky_", "covariances_", "weights_", "means_"):
        np.testing.assert_array_equal(getattr(other, name), getattr(model, name))
    assert other.lower_bounds_ == model.lower_bounds_
    assert (other.n_iter_, other.lower_bound_) == (model.n_iter_, model.lower_bound_)


@pytest.mark.parametrize("copier", COPIERS, ids=COPIER_NAMES)
def test_parameters_assigned_by_hand(copier: Copier) -> None:
    model = GaussianMixture(2).fit(COUNTS)
    model.means_ = model.means_ + 1.0
    other = copier(model)
    np.testing.assert_array_equal(other.means_, model.means_)
    np.testing.assert_allclose(other.score_samples(COUNTS), model.score_samples(COUNTS))


@pytest.mark.parametrize("copier", COPIERS, ids=COPIER_NAMES)
def test_settings(copier: Copier) -> None:
    model = Mixture(
        Gaussian("diag", floor=1e-4),
        2,
        learner=MiniBatchEM(batch_size=0.5, schedule=Constant(0.2)),
        init=np.array([[1.0, 2.0], [3.0, 4.0]]),
        n_init=3,
        max_iter=2,
        columns=("a", "b"),
        random_state=5,
        n_threads=1,
    ).fit(NAMED)
    before, after = model.get_params(), copier(model).get_params()
    assert before.keys() == after.keys()
    assert all(equal(before[name], after[name]) for name in before)


def test_an_init_that_is_a_model_is_kept_as_parameters() -> None:
    first = Mixture(n_components=2, random_state=0).fit(COUNTS)
    second = through_a_file(Mixture(n_components=2, init=first, learner="em").fit(COUNTS))
    assert equal(second.init, first.params_)
    again = Mixture(n_components=2, init=first, learner="em").fit(COUNTS)
    assert equal(second.fit(COUNTS).params_, again.params_)


def test_random_states_that_are_objects_are_not_kept() -> None:
    for state in (np.random.RandomState(0), np.random.default_rng(0)):
        assert through_a_file(Mixture(random_state=state).fit(COUNTS)).random_state is None


def test_the_same_model_gives_the_same_file(tmp_path: Path) -> None:
    model = Mixture("poisson", 2, random_state=0).fit(COUNTS)
    for name in "abc":
        model.save(tmp_path / name)
    assert len({(tmp_path / name).read_bytes() for name in "abc"}) == 1


def test_a_class_that_mixfold_does_not_know(tmp_path: Path) -> None:
    class Mine(Mixture):
        pass

    Mine().fit(COUNTS).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="Mine"):
        mixfold.load(tmp_path / "model")


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
        assert f"fit goes on: cannot write {tmp_path}/checkpoint: File too large" in said[1]
        assert sorted(file.name for file in tmp_path.iterdir()) == ["checkpoint", "model"]
        x = np.random.default_rng(0).normal(size=(300, 2))
        left = Mixture(n_components=2, random_state=0).fit(x)
        same_rows = mixfold.load(tmp_path / "model").score_samples(x)
        np.testing.assert_array_equal(same_rows, left.score_samples(x))
        resumed = Mixture(
            n_components=2, random_state=0, checkpoint=tmp_path / "checkpoint", resume=True
        ).fit(x)
        assert equal(resumed.params_, left.params_)


def test_two_values_cannot_have_one_name() -> None:
    with pytest.raises(
        TypeError, match=r"History is the name of a value in mixfold\.fitting\.history"
    ):
        value(type("History", (), {}))
