"""The mixtures that studies simulate from: three written down, three fitted to real data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.errors import MissingExtraError, SourceError
from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.datasets import data_home
from mixfold.families.exponential import Exponential
from mixfold.families.gaussian import Gaussian, GaussianParams
from mixfold.families.mean_params import MeanParams
from mixfold.families.poisson import Poisson
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@dataclass(frozen=True)
class Template:
    """A model and its true parameters."""

    model: MixtureModel
    params: MixtureParams


def gaussian(weights: Any, means: Any, covariances: Any) -> Template:
    """A Gaussian mixture with full covariances."""
    family = Gaussian()
    centers = np.asarray(means, dtype=np.float64)
    factor = family.structure.from_covariances(np.asarray(covariances, dtype=np.float64))
    params = MixtureParams(np.asarray(weights, dtype=np.float64), GaussianParams(centers, factor))
    return Template(MixtureModel(family, *centers.shape), params)


def elki() -> Template:
    """Three round clusters of unequal size."""
    deviations = np.array([[0.09, 0.09], [0.05, 0.1], [0.035, 0.035]])
    means = [[0.3, 0.3], [0.85, 0.35], [0.45, 0.85]]
    return gaussian([0.5, 0.3, 0.2], means, [np.diag(s**2) for s in deviations])


def exponential() -> Template:
    """Rates 1, 9 and 15 (Jewell 1982)."""
    return _positive(Exponential(), [0.2, 0.1, 0.7], 1.0 / np.array([1.0, 9.0, 15.0]))


def poisson() -> Template:
    """Rates 1, 5 and 12 (Karlis and Xekalaki 1999)."""
    return _positive(Poisson(), [0.8, 0.1, 0.1], np.array([1.0, 5.0, 12.0]))


def _positive(family: Family, weights: list[float], means: Array) -> Template:
    params = MixtureParams(np.array(weights), MeanParams(means[:, None]))
    return Template(MixtureModel(family, len(weights), 1), params)


def species(name: str, data: Path | None) -> Template:
    """One Gaussian per species of a table whose last column names the species."""
    table = read_table(name, data)
    *features, label = table.column_names
    x = np.column_stack([table[c].to_numpy() for c in features]).astype(np.float64)
    kinds, labels = np.unique(table[label].to_numpy().astype(str), return_inverse=True)
    groups = [x[labels == k] for k in range(len(kinds))]
    return gaussian(
        [len(g) / len(x) for g in groups],
        [g.mean(axis=0) for g in groups],
        [np.cov(g, rowvar=False) for g in groups],
    )


def wreath(data: Path | None) -> Template:
    """Fourteen Gaussians fitted to the wreath by the best of many starts."""
    from mixfold.estimators.mixture import Mixture

    table = read_table("wreath", data)
    x = np.column_stack([table[c].to_numpy() for c in table.column_names])
    learner = EM(tol=1e-9, max_iter=1000, accelerate=True)
    mixture = Mixture("gaussian", 14, learner=learner, n_init=50, random_state=0).fit(x)
    return gaussian(mixture.weights_, mixture.means_, mixture.covariances_)


def find_template(name: str, data: Path | None) -> Template:
    """The template of that name; some need the data folder."""
    templates: dict[str, Callable[[], Template]] = {
        "elki": elki,
        "exp": exponential,
        "flea": lambda: species("flea", data),
        "iris": lambda: species("iris", data),
        "poi": poisson,
        "wreath": lambda: wreath(data),
    }
    return templates[name]()


def read_table(name: str, data: Path | None) -> Any:
    """An Arrow table from the data folder."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "studies", "reading the data folder") from error
    return pyarrow.parquet.read_table(data_file(f"{name}.parquet", data))


def data_file(name: str, data: Path | None) -> Path:
    """A file of the data folder, which must be there."""
    path = data_home(data) / name
    if not path.is_file():
        raise SourceError(f"the data folder {str(path.parent)!r} has no {name}")
    return path
