"""Model files that say what was never learned, or name places, are refused or do no harm."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixfold
from attacks import run_some
from attacks._saved_models import COUNTS, examples, fitted
from attacks.model_files import Arrays, Tree, at, pack, put, use
from crafted_files import example
from mixfold import Gaussian, IncrementalEM, Mixture, OnlineEM
from mixfold.core.errors import ModelFileError
from mixfold.core.value import flatten
from mixfold.estimators.saving import PLACES
from mixfold.fitting.checkpoint import Checkpoint, Saved
from mixfold.fitting.files import write
from mixfold.fitting.reading import read
from mixfold.learners.drift_aware import DriftAware

Change = Callable[[Tree, Arrays], tuple[Tree, Arrays]]


def changed(name: str, change: Change) -> bytes:
    """The bytes of an example with a change, and a correct checksum."""
    one = example(name)
    return pack(*change(copy.deepcopy(one.tree), dict(one.arrays)), one.kind)


def part(path: str, new: Any) -> Change:
    """Another part at a path such as "learned.n_seen"."""
    steps: list[str | int] = []
    for step in path.split("."):
        steps += [int(step)] if step.isdigit() else ["fields", step]
    return lambda tree, arrays: (put(tree, tuple(steps), new), arrays)


def array(path: str, change: Callable[[np.ndarray], Any]) -> Change:
    """Another array at a path."""
    name = f"content.{path}"
    return lambda tree, arrays: (tree, {**arrays, name: np.asarray(change(arrays[name]))})


def setting(name: str, new: Any) -> Change:
    """Another setting, or one more."""

    def change(tree: Tree, arrays: Arrays) -> tuple[Tree, Arrays]:
        fields = tree["fields"]
        if name in fields["names"]:
            fields["settings"][fields["names"].index(name)] = new
        else:
            fields["names"].append(name)
            fields["settings"].append(new)
        return tree, arrays

    return change


def dated(kind: str) -> Change:
    """A column of dates of this type."""

    def change(tree: Tree, arrays: Arrays) -> tuple[Tree, Arrays]:
        tree = put(tree, ("fields", "notes", "fields", "date_columns"), ["a"])
        return put(tree, ("fields", "notes", "fields", "date_types"), [kind]), arrays

    return change


def entry(new: float) -> Callable[[np.ndarray], np.ndarray]:
    """An array with another first number."""

    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.flat[0] = new
        return array

    return change


def no_components(tree: Tree, arrays: Arrays) -> tuple[Tree, Arrays]:
    """K = 0, consistently."""
    tree = put(tree, ("fields", "learned", "fields", "model", "fields", "k"), 0)
    return tree, {name: array[:0] for name, array in arrays.items()}


def extra(tree: Tree, arrays: Arrays) -> tuple[Tree, Arrays]:
    """Attributes besides those that an estimator has."""
    tree["fields"]["extra"] = [["predict", 1], ["means_", 2]]
    return tree, arrays


def another_family(tree: Tree, arrays: Arrays) -> tuple[Tree, Arrays]:
    """Another family, and none of the arrays of the first."""
    tree, arrays = part(CAP, {"value": "Poisson", "fields": {"floor": 0.1}})(tree, arrays)
    taken = (f"content.{LIMITS}", f"content.{LIMITS}".replace("column_floors", "column_variances"))
    return tree, {name: one for name, one in arrays.items() if name not in taken}


def missing(tree: Tree, arrays: Arrays) -> tuple[Tree, Arrays]:
    del at(tree, ("fields", "learned", "fields"))["n_degenerate"]
    return tree, arrays


def unused(tree: Tree, arrays: Arrays) -> tuple[Tree, Arrays]:
    return tree, {**arrays, "more": np.ones(3)}


def used_twice(tree: Tree, arrays: Arrays) -> tuple[Tree, Arrays]:
    fields = at(tree, ("fields", "learned", "fields", "params", "fields"))
    fields["components"]["fields"]["scale"] = fields["components"]["fields"]["means"]
    return tree, arrays


def nested(levels: int) -> Any:
    tree: Any = []
    for _ in range(levels):
        tree = [tree]
    return tree


MEMORY = {
    "value": "IncrementalEM",
    "fields": {
        **{"batch_size": 1, "tol": 1e-6, "max_iter": 2},
        **{"memory": "watched", "precision": "float64"},
    },
}
CAP = "learned.model.family"
LIMITS = f"{CAP}.column_floors"
WEIGHTS, SCALE = "learned.params.weights", "learned.params.components.scale"
STATE = "learned.stream.state"
INIT = [name for name in Mixture().get_params(False) if name not in PLACES].index("init")
FIRST_WEIGHTS = f"settings.{INIT}.weights"
WAITING = "learned.stream.waiting.x"
NOTES = {
    "value": "TableNotes",
    "fields": {"reasons": ["a"], "date_columns": [], "date_types": []},
}
LEVELS = "learned.model.family.factors.1.levels"
REFUSED: dict[str, tuple[str, Change, str]] = {
    "negative weights": ("em", array(WEIGHTS, lambda w: [-0.5, 1.5]), "weights has -0.5"),
    "weights that sum to 2": ("em", array(WEIGHTS, lambda w: [1.0, 1.0]), "sum to 2"),
    "weights of another K": ("em", array(WEIGHTS, lambda w: [1.0]), r"shape \(1,\)"),
    "NaN covariance": ("em", array(SCALE, entry(np.nan)), "scale has nan"),
    "no covariance": ("em", array(SCALE, np.zeros_like), "diagonal of scale has 0"),
    "not triangular": ("em", array(SCALE, lambda f: f + 0.1), "not lower triangular"),
    "other columns": ("em", array(SCALE, lambda f: f[:, :1, :1]), "scale has shape"),
    "float32": ("em", array(SCALE, lambda f: f.astype(np.float32)), "float32"),
    "another family": ("em", another_family, "Mean"),
    "limits of other columns": ("em", array(LIMITS, lambda f: f[1:]), "column_floors has shape"),
    "limits below 0": ("em", array(LIMITS, entry(-1.0)), "column_floors has -1"),
    "no components": ("em", no_components, "k is 0"),
    "no components of beliefs": ("moment matching", no_components, "k is 0"),
    "nu = -inf": ("moment matching", array(f"{STATE}.params.components.nu", entry(-np.inf)), "nu"),
    "nu = d": ("moment matching", array(f"{STATE}.params.components.nu", entry(2.0)), "above 3"),
    "kappa = 0": ("moment matching", array(f"{STATE}.params.components.kappa", entry(0)), "kappa"),
    "alpha = 0": ("gamma", array(f"{STATE}.params.alpha", entry(0)), "alpha"),
    "counts that are negative": (
        "waiting rows",
        array(WAITING, entry(-1)),
        "rows",
    ),
    "waiting rows of NaN": ("waiting rows", array(WAITING, entry(np.nan)), "x"),
    "a mean below 0": ("waiting rows", array("learned.params.components.means", entry(-1)), "-1"),
    "a short history": ("em", array("learned.history.table", lambda t: t[:, :4]), "history"),
    "sums of another length": ("em", array(f"{STATE}.gathered.sums", lambda s: s[1:]), "sums"),
    "True for an integer": ("em", part("learned.n_seen", True), "n_seen of Learned is True"),
    "NaN for an integer": ("em", part("learned.n_seen", float("nan")), "n_seen"),
    "a negative count": ("em", part("learned.n_rows", -1), "n_rows is -1"),
    "half a character": ("em", part("estimator", "\ud800"), "estimator"),
    "another class": ("em", part(STATE, {"value": "os_exit", "fields": {}}), "os_exit"),
    "a missing field": ("em", missing, "are needed"),
    "more fields": ("em", extra, "are needed"),
    "an array that no value uses": ("em", unused, "that no value uses"),
    "an array twice": ("em", used_twice, "uses it twice"),
    "a deep tree": ("em", part("learned", nested(900)), "levels deep"),
    "a learner that is not resolved": ("online em", part("learned.learner.warmup", None), "warmup"),
    "an unknown setting": ("em", setting("predict", 1), "predict"),
    "a setting of another type": ("em", setting("n_components", "2"), "n_components is '2'"),
    "an invalid setting": ("em", setting("n_components", 0), "n_components is 0"),
    "an unknown learner": ("em", setting("learner", "nope"), "unknown learner"),
    "a cluster": ("em", setting("cluster", "tcp://127.0.0.1:1"), "cluster"),
    "a checkpoint": ("em", setting("checkpoint", "watched"), "checkpoint"),
    "an engine": ("em", setting("engine", "gpu"), "engine"),
    "the memory of a learner": ("em", setting("learner", MEMORY), "names a file"),
    "an init of NaN": (
        "given",
        array(FIRST_WEIGHTS, entry(np.nan)),
        "weights has nan",
    ),
    "names of other columns": ("online em", part("columns", ["a"]), "names of columns"),
    "names that are numbers": ("online em", part("columns", [1, 2]), "columns of SavedModel"),
    "reasons for other columns": ("levels", part("notes.reasons", ["a"]), "1 reasons for families"),
    "reasons that are numbers": ("levels", part("notes.reasons", [1, 2]), "reasons of TableNotes"),
    "reasons without families": ("em", part("notes", NOTES), "1 reasons for families"),
    "types of other columns": (
        "levels",
        part("notes.date_types", ["date32[day]"]),
        "types of dates",
    ),
    "a type that is none of dates": ("levels", dated("int64"), "'int64' is no type of dates"),
    "a type without a unit": ("levels", dated("time32[ns]"), "'time32.ns.' is no type of dates"),
    "a state of another covariance": (
        "reservoir em",
        part(f"{STATE}.family.covariance", "full"),
        "that of the model is",
    ),
    "a fit of another covariance": (
        "reservoir em",
        part(f"{STATE}.fit.family.covariance", "full"),
        "that of the model is",
    ),
    "more levels than the family": ("levels", part(LEVELS, [1, 2, 3, 4, 5]), "has 5 levels"),
    "a level twice": ("levels", part(LEVELS, [2, 2, 3]), "levels must differ"),
    "a level that is an array": ("levels", part(LEVELS, [[1], 2]), "levels of Factor"),
    "noise below 0": ("linear", part("learned.params.noise_variance", -1.0), "noise_variance"),
    "omega": ("linear", array("learned.params.omega", lambda o: -o), "positive definite"),
    "effects of other groups": ("linear", array("learned.effects", lambda e: e[1:]), "effects"),
    "omega of effects": ("logistic", array("learned.params.covariance", lambda o: -o), "definite"),
    "residual noise": ("compartment", array("learned.params.noise", entry(0)), "noise has 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_was_never_learned(name: str, tmp_path: Path) -> None:
    which, change, words = REFUSED[name]
    (tmp_path / "model").write_bytes(changed(which, change))
    with pytest.raises(ModelFileError, match=words):
        mixfold.load(tmp_path / "model")


def test_examples_are_accepted(tmp_path: Path) -> None:
    """Else nothing is shown by what is refused."""
    for one in examples():
        assert use(one, pack(one.tree, one.arrays, one.kind), tmp_path), one.name


def test_random_attacks(tmp_path: Path) -> None:
    run_some("model_files", 120, tmp_path, seed=1)


# places


def test_places_are_not_in_a_model_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    model = Mixture(
        n_components=2,
        random_state=0,
        learner=IncrementalEM(memory=str(secret / "memory"), max_iter=3),
        checkpoint=secret / "checkpoint",
        resume=True,
        engine="cpu",
    ).fit(COUNTS)
    model.save(tmp_path / "model")
    assert b"secret" not in (tmp_path / "model").read_bytes()
    for file in secret.iterdir():
        file.unlink()
    monkeypatch.chdir(secret)
    loaded = mixfold.load(tmp_path / "model")
    found = loaded.get_params()
    assert [found[name] for name in ("checkpoint", "resume", "cluster", "engine")] == [
        *(None, False, None, None)
    ]
    assert loaded.learner.memory is None
    loaded.fit(COUNTS)
    assert not [*secret.iterdir()]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fit": "../other"}, "an identifier of a fit is needed"),
        ({"width": 3}, "width 3"),
        ({"length": 10**9}, "checksums"),
        ({"known": np.empty(0, np.uint32)}, "checksums"),
        ({"row": -1}, "row is -1"),
    ],
)
def test_a_checkpoint_cannot_have_another_memory(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path, learner = tmp_path / "checkpoint", IncrementalEM(memory=str(tmp_path / "memory"))
    settings: dict[str, Any] = {"n_components": 2, "random_state": 0, "checkpoint": path}
    Mixture(learner=learner, max_iter=2, **settings).fit(COUNTS)
    saved = read(path, "checkpoint")
    state = saved.fit.state
    other = replace(state, memory=replace(state.memory, **change))
    write(path, "checkpoint", Saved(saved.identity, replace(saved.fit, state=other)))
    with pytest.raises(ModelFileError, match=message):
        Mixture(learner=learner, max_iter=3, resume=True, **settings).fit(COUNTS)


def test_a_checkpoint_of_nothing_that_was_learned(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    model = Mixture(n_components=2, random_state=0, learner="em", max_iter=2, checkpoint=path)
    model.fit(COUNTS)
    saved = read(path, "checkpoint")
    bad = replace(saved.fit.state.params, weights=np.array([2.0, -1.0]))
    fit = replace(saved.fit, state=replace(saved.fit.state, params=bad))
    write(path, "checkpoint", Saved(saved.identity, fit))
    with pytest.raises(ModelFileError, match="is damaged: weights has 2"):
        Checkpoint(path, dict(saved.identity), 1.0).read()


def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    model = mixfold.GaussianMixture(2, random_state=0).fit(COUNTS)
    model.weights_ = np.array([2.0, 1.0])
    with pytest.raises(ModelFileError, match=r"cannot write .*weights has 2"):
        model.save(tmp_path / "model")
    assert not [*tmp_path.iterdir()]


# loops that a state could keep from ending


def test_a_batch_that_is_too_long_ends() -> None:
    model = Mixture(n_components=2, learner=OnlineEM(batch_size=90), random_state=0)
    model.partial_fit(COUNTS)
    learned = model._now()
    model._learned = replace(learned, learner=replace(learned.learner, batch_size=5))
    assert np.isfinite(model.partial_fit(COUNTS[:3]).means_).all()


def test_a_window_that_is_too_long_ends() -> None:
    model = Mixture(n_components=2, learner=DriftAware(window=90), random_state=0)
    model.partial_fit(COUNTS)
    learned = model._now()
    model._learned = replace(learned, learner=replace(learned.learner, window=5))
    assert np.isfinite(copy.deepcopy(model).partial_fit(COUNTS[:3]).means_).all()
    for row in COUNTS[:7]:
        model.learn_one(row)
    assert np.isfinite(model.means_).all()


def test_a_family_with_settings_survives(tmp_path: Path) -> None:
    """What is refused is what was never learned, not what is seldom used."""
    model = fitted(family=Gaussian("diag", cap=9.0, reg_covar=0.1), learner="em", verbose=0)
    model.save(tmp_path / "model")
    arrays: dict[str, np.ndarray] = {}
    flatten(mixfold.load(tmp_path / "model").params_, "params", arrays)
    assert arrays["params.weights"].tolist() == model.weights_.tolist()
