"""Model files of estimators."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.errors import ModelFileError
from mixfold.core.registry import find_all
from mixfold.core.value import is_value, value
from mixfold.run.files import read, write


@value
class SavedModel:
    """An estimator taken apart."""

    estimator: str
    names: list[str]
    settings: list[Any]
    columns: list[str] | None
    learned: Any
    extra: list[Any]


def save(estimator: Any, path: str | Path) -> None:
    """Write an estimator and all it has learned."""
    settings = estimator.get_params(deep=False)
    if "engine" in settings:  # a file may be read where there is no such device
        settings["engine"] = None
    columns = getattr(estimator, "feature_names_in_", None)
    content = SavedModel(
        type(estimator).__name__,
        list(settings),
        [_storable(item) for item in settings.values()],
        None if columns is None else [str(name) for name in columns],
        estimator._now(),
        [[name, getattr(estimator, name)] for name in estimator._extra],
    )
    write(path, "model", content)


def _storable(thing: Any) -> Any:
    if isinstance(thing, Path):
        return str(thing)
    if isinstance(thing, np.random.RandomState | np.random.Generator):
        return None
    if hasattr(thing, "params_"):
        return thing.params_
    if thing is None or isinstance(thing, bool | int | float | str | np.ndarray | np.generic):
        return thing
    if isinstance(thing, list | tuple):
        return list(thing)
    if is_value(thing):
        return thing
    raise ModelFileError(f"cannot save the setting {thing!r}: a model file cannot hold it")


def load(path: str | Path) -> Any:
    """The estimator in a model file.

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
    classes = {c.__name__: c for c in find_all("estimators").values()}
    saved = read(path, "model")
    if not isinstance(saved, SavedModel):
        raise ModelFileError(f"{path} is damaged: it holds no model")
    if saved.estimator not in classes:
        raise ModelFileError(f"{path} holds a {saved.estimator}, which mixfold does not know")
    if not isinstance(saved.learned, classes[saved.estimator]._learns):
        raise ModelFileError(f"{path} is damaged: it holds no model")
    estimator = classes[saved.estimator](**dict(zip(saved.names, saved.settings, strict=True)))
    estimator.n_features_in_ = saved.learned.n_features
    if saved.columns is not None:
        estimator.feature_names_in_ = np.asarray(saved.columns, dtype=object)
    estimator._remember(saved.learned)
    estimator.__dict__.update(dict(saved.extra))
    return copy(estimator)  # which knows that others may go on from the same state
