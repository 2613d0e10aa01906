"""Initial parameters drawn as scikit-learn draws them, so that the same seed gives the same fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus

from mixfold.core.checks import check_array
from mixfold.core.initializer import Initializer
from mixfold.core.rows import Array, Rows
from mixfold.core.source import WholeArray
from mixfold.core.statistics import Statistics, pack
from mixfold.core.value import value
from mixfold.families.gaussian import Gaussian
from mixfold.models.assignment import statistics_of
from mixfold.models.mixture_model import MixtureModel, MixtureParams


def responsibilities(init_params: str, rows: Rows, k: int, rng: np.random.RandomState) -> Array:
    """The (n, K) responsibilities scikit-learn begins with."""
    n = len(rows)
    if init_params == "random":
        drawn = rng.uniform(size=(n, k)).astype(rows.x.dtype)
        return np.asarray(drawn / drawn.sum(axis=1)[:, None], dtype=np.float64)
    one_hot = np.zeros((n, k))
    if init_params == "kmeans":
        kmeans = KMeans(n_clusters=k, n_init=1, random_state=rng)
        one_hot[np.arange(n), kmeans.fit(rows.x, sample_weight=rows.weight).labels_] = 1.0
    elif init_params == "k-means++":
        weight = rows.weight
        chosen = kmeans_plusplus(rows.x, k, random_state=rng, sample_weight=weight)[1]
        one_hot[chosen, np.arange(k)] = 1.0
    else:
        one_hot[rng.choice(n, size=k, replace=False), np.arange(k)] = 1.0
    return one_hot


def first_statistics(model: MixtureModel, rows: Rows, drawn: Array) -> Statistics:
    """The statistics scikit-learn's first M-step sees.

    With a tied covariance it divides the scatter of *all* rows by the sum of responsibilities,
    which is K if each component is initialised with one row; the same initial parameters need the
    same convention.
    """
    statistics = statistics_of(model, rows, drawn)
    if getattr(model.family, "covariance", None) != "tied":
        return statistics
    (block,) = statistics.blocks
    x = rows.x.astype(np.float64, copy=False)
    weight = np.ones(len(x)) if rows.weight is None else rows.weight
    explained = (block.mean * block.weight[:, None]).T @ block.mean
    pooled = ((x * weight[:, None]).T @ x - explained) / block.weight.sum()
    tied = replace(block, scatter=np.tile(pack(pooled), (model.k, 1)))
    return replace(statistics, blocks=(tied,))


def check_shape(name: str, given: Array | None, shape: tuple[int, ...]) -> None:
    """Refuse a parameter of another shape, in scikit-learn's words."""
    if given is not None and given.shape != shape:
        raise ValueError(
            f"The parameter {name!r} should have the shape of {shape}, but got {given.shape}"
        )


@value
class Overrides(Initializer):
    """An initializer whose weights, means or precisions are replaced by those of the user."""

    start: Initializer
    weights: Array | None
    means: Array | None
    precisions: Array | None

    @property
    def complete(self) -> bool:
        """Whether nothing is left to draw."""
        given = (self.weights, self.means, self.precisions)
        return all(part is not None for part in given)

    @property
    def random(self) -> bool:  # type: ignore[override]
        """Whether two draws can differ."""
        return not self.complete

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        drawn = None if self.complete else self.start.draw(model, rows, rng)
        return self.applied(model, drawn)

    def applied(self, model: MixtureModel, drawn: MixtureParams | None) -> MixtureParams:
        """Drawn parameters with the given ones in their place."""
        family = model.family
        assert isinstance(family, Gaussian)
        precision = f"{family.covariance} precision"
        check_shape("weights", self.weights, (model.k,))
        self._check_weights()
        check_shape("means", self.means, (model.k, model.d))
        if self.means is not None:
            check_array("means_init", self.means, self.means.shape)
        check_shape(precision, self.precisions, family.covariance_shape(model.k, model.d))
        weights, means, scale = self.weights, self.means, None
        if drawn is not None:
            drawn_means, scale = family.to_arrays(drawn.components)
            weights = drawn.weights if weights is None else weights
            means = drawn_means if means is None else means
        assert weights is not None
        assert means is not None
        if self.precisions is None:
            assert scale is not None
            return MixtureParams(weights, family.from_arrays(means, scale))
        try:
            return MixtureParams(weights, family.from_precisions(means, self.precisions))
        except ValueError as error:
            raise ValueError(str(error).replace("precisions", precision)) from None

    def _check_weights(self) -> None:
        w = self.weights
        if w is None:
            return
        if (w < 0).any() or (w > 1).any():
            raise ValueError(
                "The parameter 'weights' should be in the range [0, 1], "
                f"but got max value {w.min():.5f}, min value {w.max():.5f}"
            )
        if not abs(1.0 - w.sum()) <= 1e-8:
            raise ValueError(
                "The parameter 'weights' should be normalized, "
                f"but got sum(weights) = {w.sum():.5f}"
            )


class ScikitLearnParams:
    """Initial parameters as scikit-learn draws them, all from one random generator.

    They are made from the statistics of all rows under the responsibilities that are drawn.
    """

    def __init__(
        self,
        model: MixtureModel,
        source: WholeArray,
        overrides: Overrides,
        init_params: str,
        rng: np.random.RandomState,
        number: int,
        made_from: Callable[[Statistics], Any],
    ) -> None:
        self.model, self.source, self.overrides = model, source, overrides
        self.made_from = made_from
        self.init_params, self.rng, self.number = init_params, rng, number
        self._drawn: list[Any] = []

    @property
    def random(self) -> bool:
        """Whether parameters are drawn, not given."""
        return self.overrides.random

    def __len__(self) -> int:
        return self.number

    def params(self, number: int) -> Any:
        """The parameters of one initialisation; those before are drawn too."""
        while len(self._drawn) <= number:
            self._drawn.append(self._draw())
        return self._drawn[number]

    def _draw(self) -> Any:
        if self.overrides.complete:
            return self.overrides.applied(self.model, None)
        rows = self.source.whole()
        drawn = responsibilities(self.init_params, rows, self.model.k, self.rng)
        return self.made_from(first_statistics(self.model, rows, drawn))
