"""Conjugate posteriors of rows that are Gaussian once columns are on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from mixfold.core.conjugate import Conjugate, Prior
from mixfold.core.params import ParamsT
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families._normal_wishart import NormalConjugate, NormalWishartPosterior


class OnLogScale(Protocol[ParamsT]):
    """A family of rows x whose transformed rows y are Gaussian."""

    def transformed(self, x: Array) -> Array: ...
    def log_volumes(self, y: Array) -> Array: ...
    def to_normal(self, params: ParamsT) -> GaussianParams: ...
    def from_normal(self, params: GaussianParams) -> ParamsT: ...


class LogScalePosteriors(Conjugate[ParamsT, NormalWishartPosterior]):
    """The posteriors of Gaussian rows y; means and covariances of a prior are those of y.

    `names` are those of the intervals of means and of variances.
    """

    def __init__(
        self, family: OnLogScale[ParamsT], normal: NormalConjugate, names: tuple[str, str]
    ) -> None:
        self._family, self._normal = family, normal
        self._names = dict(zip(("means", "covariances"), names, strict=True))

    def prior(self, params: ParamsT, prior: Prior) -> NormalWishartPosterior:
        return self._normal.prior(self._family.to_normal(params), prior)

    def check(self, posterior: NormalWishartPosterior, k: int, d: int) -> None:
        self._normal.check(posterior, k, d)

    def log_evidence(self, posterior: NormalWishartPosterior, x: Array, weight: Array) -> Array:
        y = self._family.transformed(x)
        found = self._normal.log_evidence(posterior, y, weight)
        return np.asarray(found + weight[:, None] * self._family.log_volumes(y))

    def match(
        self, posterior: NormalWishartPosterior, x: Array, weight: float, responsibilities: Array
    ) -> tuple[NormalWishartPosterior, int]:
        y = self._family.transformed(x[None])[0]
        return self._normal.match(posterior, y, weight, responsibilities)

    def absorb(self, posterior: NormalWishartPosterior, blocks: Blocks) -> NormalWishartPosterior:
        return self._normal.absorb(posterior, blocks)

    def combine(
        self, before: NormalWishartPosterior, parts: Sequence[NormalWishartPosterior]
    ) -> NormalWishartPosterior:
        return self._normal.combine(before, parts)

    def expected(self, posterior: NormalWishartPosterior, weights: Array) -> ParamsT:
        return self._family.from_normal(self._normal.expected(posterior, weights))

    def expected_log_params(
        self, posterior: NormalWishartPosterior, weights: Array
    ) -> tuple[ParamsT, Array]:
        params, constants = self._normal.expected_log_params(posterior, weights)
        return self._family.from_normal(params), constants

    def row_counts(self, posterior: NormalWishartPosterior) -> dict[str, float]:
        found = self._normal.row_counts(posterior)
        return {self._names[name]: count for name, count in found.items()}

    def intervals(
        self, posterior: NormalWishartPosterior, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        found = self._normal.intervals(posterior, weights, level)
        return {self._names[name]: ends for name, ends in found.items()}
