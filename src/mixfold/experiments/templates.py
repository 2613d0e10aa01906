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
from mixfold.core.statistics import pack
from mixfold.datasets import data_home
from mixfold.families.exponential import Exponential
from mixfold.families.gaussian import Gaussian, GaussianParams
from mixfold.families.mean_params import MeanParams
from mixfold.families.poisson import Poisson
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@dataclass(frozen=True)
class Template:
    """A model and its true parameters.

    `coordinates` are the numbers by which an estimate of components is compared with the truth:
    locations (K, d), and entries of covariances (K, p) where these are free.
    """

    model: MixtureModel
    params: MixtureParams
    coordinates: Callable[[Any], tuple[Array, Array]]

    def locations(self, params: MixtureParams) -> Array:
        """Where components are, (K, d)."""
        return self.coordinates(params.components)[0]


def gaussian(weights: Any, means: Any, covariances: Any) -> Template:
    """A Gaussian mixture with full covariances."""
    family = Gaussian()
    centers = np.asarray(means, dtype=np.float64)
    components = family.from_covariances(centers, np.asarray(covariances, dtype=np.float64))

    def coordinates(components: GaussianParams) -> tuple[Array, Array]:
        return components.means, pack(family.covariances(components))

    params = MixtureParams(np.asarray(weights, dtype=np.float64), components)
    return Template(MixtureModel(family, *centers.shape), params, coordinates)


def elki() -> Template:
    """Three round clusters of unequal size."""
    deviations = np.array([[0.09, 0.09], [0.05, 0.1], [0.035, 0.035]])
    means = [[0.3, 0.3], [0.85, 0.35], [0.45, 0.85]]
    return gaussian([0.5, 0.3, 0.2], means, [np.diag(s**2) for s in deviations])


def exponential() -> Template:
    """Rates 1, 9 and 15 (Jewell 1982); a component is located by its rate."""
    means = 1.0 / np.array([1.0, 9.0, 15.0])
    return _positive(Exponential(), [0.2, 0.1, 0.7], means, lambda c: 1.0 / c.means)


def poisson() -> Template:
    """Rates 1, 5 and 12 (Karlis and Xekalaki 1999)."""
    means = np.array([1.0, 5.0, 12.0])
    return _positive(Poisson(), [0.8, 0.1, 0.1], means, lambda c: c.means)


def _positive(
    family: Family, weights: list[float], means: Array, locations: Callable[[MeanParams], Array]
) -> Template:
    def coordinates(components: MeanParams) -> tuple[Array, Array]:
        return locations(components), np.empty((len(components.means), 0))

    params = MixtureParams(np.array(weights), MeanParams(means[:, None]))
    return Template(MixtureModel(family, len(weights), 1), params, coordinates)


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
