"""Model files of estimators."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from mixfold.core.checks import check_seed
from mixfold.core.errors import InvalidInputError, ModelFileError
from mixfold.core.registry import find_all
from mixfold.core.schema import description, fits
from mixfold.core.value import is_value, value
from mixfold.estimators._density import Density
from mixfold.estimators._table_notes import TableNotes
from mixfold.families.product import Product
from mixfold.fitting.files import write
from mixfold.fitting.reading import read
from mixfold.models.mixture_model import MixtureModel, MixtureParams

# settings of the program that fits, not of the model
PLACES = ("checkpoint", "checkpoint_every", "resume", "cluster", "engine")
MOST_THREADS = 2**16


@value
class SavedModel:
    """The content of a model file."""

    estimator: str
    names: list[str]
    settings: list[Any]
    columns: list[str] | None
    notes: TableNotes | None
    learned: Any


def save(estimator: Any, path: str | Path) -> None:
    """Write an estimator and everything it has learned."""
    saved = taken_apart(estimator)
    try:  # raise an error now if the file could not be loaded
        _settings(type(estimator), saved)
        estimator._check_learned(saved.learned)
    except InvalidInputError as error:
        raise ModelFileError(f"cannot write {path}: {error}") from None
    write(path, "model", saved)


def taken_apart(estimator: Any) -> SavedModel:
    """The content of the model file of an estimator."""
    settings = estimator.get_params(deep=False)
    kept = {name: _storable(item) for name, item in settings.items() if name not in PLACES}
    columns = getattr(estimator, "feature_names_in_", None)
    return SavedModel(
        type(estimator).__name__,
        list(kept),
        list(kept.values()),
        None if columns is None else [str(name) for name in columns],
        getattr(estimator, "_notes", None),
        without_places(estimator._now()),
    )


def _storable(thing: Any) -> Any:
    if isinstance(thing, np.random.RandomState | np.random.Generator):
        return None
    if hasattr(thing, "params_"):
        return thing.params_
    if thing is None or isinstance(thing, bool | int | float | str | np.ndarray | np.generic):
        return thing
    if isinstance(thing, list | tuple):
        return list(thing)
    if is_value(thing):
        return without_places(thing)
    if isinstance(thing, Mapping):  # families by column
        return Product(thing)
    raise ModelFileError(f"cannot save the setting {thing!r}: a model file cannot hold it")


def without_places(thing: Any) -> Any:
    """The same tree of values, without the fields that name files."""
    if isinstance(thing, list | tuple):
        return type(thing)(without_places(item) for item in thing)
    if not is_value(thing):
        return thing
    parts = {field.name: getattr(thing, field.name) for field in fields(thing)}
    clean = {name: without_places(part) for name, part in parts.items()}
    clean |= dict.fromkeys(getattr(thing, "places", ()))
    changed = {name: part for name, part in clean.items() if part is not parts[name]}
    return replace(thing, **changed) if changed else thing


def check_no_places(thing: Any) -> None:
    """Refuse a tree of values that names a file."""
    if isinstance(thing, list | tuple):
        for item in thing:
            check_no_places(item)
    elif is_value(thing):
        for name in getattr(thing, "places", ()):
            if getattr(thing, name) is not None:
                raise InvalidInputError(f"{name} of {type(thing).__name__} names a file")
        check_no_places([getattr(thing, field.name) for field in fields(thing)])


def load(path: str | Path) -> Any:
    """The estimator in a model file.

    The file holds data only: no code in it is run, and a file whose values no fit could have
    produced is refused with a `ModelFileError`. Settings of the program that fits (checkpoint,
    cluster, engine, the files of a learner's memory) are not saved.

    Examples
    --------
    >>> import os, tempfile, mixfold
    >>> rows = mixfold.datasets.load_faithful()
    >>> model = mixfold.Mixture(n_components=2, random_state=0).fit(rows)
    >>> file = os.path.join(tempfile.mkdtemp(), "faithful.mixfold")
    >>> model.save(file)
    >>> bool((mixfold.load(file).means_ == model.means_).all())
    True
    """
    classes = find_all("estimators")  # imports the learners that only one of them uses
    saved = read(path, "model")
    try:
        return restored(saved, {c.__name__: c for c in classes.values()})
    except ModelFileError as error:
        raise ModelFileError(f"{path} {error}") from None
    except Exception as error:  # invalid values in the file can raise any error in estimators
        raise ModelFileError(f"{path} is damaged: {error}") from error


def restored(saved: Any, classes: Mapping[str, type]) -> Any:
    """The estimator that `taken_apart` has described; invalid values raise errors of any kind."""
    if not isinstance(saved, SavedModel):
        raise ModelFileError("is damaged: it holds no model")
    if saved.estimator not in classes:
        raise ModelFileError(f"holds a {saved.estimator!r:.80}, which mixfold does not know")
    cls: Any = classes[saved.estimator]
    if not isinstance(saved.learned, cls._learns):
        raise ModelFileError("is damaged: it holds no model")
    check_no_places(saved)
    estimator = cls(**_settings(cls, saved))
    estimator._check_parameters()
    estimator._check_learned(saved.learned)
    _check_init(estimator, saved.learned)
    estimator.n_features_in_ = saved.learned.n_features
    if saved.columns is not None:
        if len(saved.columns) != saved.learned.n_features:
            raise InvalidInputError(f"it has {len(saved.columns)} names of columns")
        estimator.feature_names_in_ = np.asarray(saved.columns, dtype=object)
    if saved.notes is not None:
        saved.notes.check(saved.learned)
        estimator._notes = saved.notes
    estimator._remember(saved.learned)
    return copy(estimator)  # it records that other copies may continue from the same state


def _settings(cls: type, saved: SavedModel) -> dict[str, Any]:
    """The settings of an estimator, of their declared types; places are as they are by default."""
    settings = dict(zip(saved.names, saved.settings, strict=True))
    hints = get_type_hints(cls.__init__)  # type: ignore[misc]
    needed = [name for name in hints if name not in (*PLACES, "return")]
    if sorted(saved.names) != sorted(needed):
        raise InvalidInputError(f"it has the settings {saved.names}: {needed} are needed")
    for name, thing in settings.items():
        if not fits(thing, hints[name]):
            raise InvalidInputError(f"{name} is {description(thing)}: {hints[name]} is needed")
    if settings.get("random_state") is not None:
        check_seed("random_state", settings["random_state"])
    if (settings.get("n_threads") or 1) > MOST_THREADS:
        raise InvalidInputError(f"n_threads is {settings['n_threads']}: it is at most 2**16")
    return settings


def _check_init(estimator: Any, learned: Any) -> None:
    """Refuse initial parameters that are outside their domain."""
    family = learned.model.family.for_complete_rows() if isinstance(estimator, Density) else None
    typed = getattr(estimator, "_typed", False)
    if isinstance(estimator, Density):
        estimator._settings(family if typed else None)
    init = getattr(estimator, "init", None)
    if isinstance(init, MixtureParams):
        known: Any = family if typed else estimator._family()
        MixtureModel(known, len(init.weights), learned.n_features).check_params(init)
