"""Conjugate posteriors of products of families: those of all factors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixfold.core.checks import check_kind
from mixfold.core.conjugate import Conjugate, Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import n_components_of
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.value import replace, value
from mixfold.families._normal_wishart import NormalWishart
from mixfold.families.column_groups import ProductParams
from mixfold.families.factor import Factor


@value
class ProductPosterior:
    """The posteriors of every factor."""

    parts: tuple[Any, ...]


class ConjugateFactor(NamedTuple):
    """A factor and its conjugate prior."""

    factor: Factor
    conjugate: Conjugate

    @property
    def places(self) -> list[Any]:
        """The numbers of its columns, if the product is bound to columns."""
        factor = self.factor
        return list(factor.columns if factor.positions is None else factor.positions)

    @property
    def name(self) -> str:
        """The names of its columns."""
        return ", ".join(map(str, self.factor.columns))


class ProductConjugate(Conjugate[ProductParams, ProductPosterior]):
    """Factors are independent given the component, and so are the posteriors of their parameters.

    Predictive densities of a row are multiplied. Moments are matched factor by factor, with the
    responsibilities of the whole row.
    """

    def __init__(
        self, factors: Sequence[ConjugateFactor], divided: Callable[[Blocks], list[Blocks]]
    ) -> None:
        self._factors, self._divided = factors, divided
        self._d = sum(len(one.places) for one in factors)

    def prior(self, params: ProductParams, prior: Prior) -> ProductPosterior:
        """Means of the prior are those of all columns, (d,) or (K, d), and its covariance is a
        matrix, (d, d) or (K, d, d), of which every factor takes the part of its columns. Columns
        whose means are NaN have those of the initial parameters.
        """
        found, k = [], n_components_of(params)
        for one, part in zip(self._factors, params.parts, strict=True):
            try:
                found.append(one.conjugate.prior(part, self._part(prior, one, k)))
            except InvalidInputError as error:
                raise InvalidInputError(f"column {one.name}: {error}") from None
        return ProductPosterior(tuple(found))

    def _part(self, prior: Prior, one: ConjugateFactor, k: int) -> Prior:
        """The prior of one factor."""
        d, changes = self._d, dict[str, object]()
        if prior.means is not None:
            means = _given("means", prior.means, (k, d))[:, one.places]
            is_open = bool(np.isnan(means).all())
            if one.factor.family.has_categories and not is_open:
                raise InvalidInputError(
                    "it has categories, and their prior no mean: give NaN, so that probabilities "
                    "are those of the initial parameters"
                )
            changes["means"] = None if is_open else means
        if prior.covariance is not None:
            whole = _given("covariance", prior.covariance, (k, d, d))
            own = whole[:, one.places][:, :, one.places]
            if not isinstance(one.conjugate, NormalWishart):
                own = np.diagonal(own, axis1=1, axis2=2)
            changes["covariance"] = own
        return replace(prior, **changes) if changes else prior

    def check(self, posterior: ProductPosterior, k: int, d: int) -> None:
        check_kind("components", posterior, ProductPosterior)
        if len(posterior.parts) != len(self._factors):
            raise InvalidInputError(
                f"there are posteriors of {len(posterior.parts)} factors: {len(self._factors)} "
                "needed"
            )
        for one, part in self._each(posterior):
            one.conjugate.check(part, k, len(one.places))

    def _each(self, posterior: ProductPosterior) -> Iterator[tuple[ConjugateFactor, Any]]:
        return zip(self._factors, posterior.parts, strict=True)

    def log_evidence(self, posterior: ProductPosterior, x: Array, weight: Array) -> Array:
        parts = (
            one.conjugate.log_evidence(part, x[:, one.places], weight)
            for one, part in self._each(posterior)
        )
        return np.asarray(sum(parts))

    def match(
        self, posterior: ProductPosterior, x: Array, weight: float, responsibilities: Array
    ) -> tuple[ProductPosterior, int]:
        found = [
            one.conjugate.match(part, x[one.places], weight, responsibilities)
            for one, part in self._each(posterior)
        ]
        n_degenerate = min(sum(n for _, n in found), len(responsibilities))
        return ProductPosterior(tuple(part for part, _ in found)), n_degenerate

    def absorb(self, posterior: ProductPosterior, blocks: Blocks) -> ProductPosterior:
        pairs = zip(self._each(posterior), self._divided(blocks), strict=True)
        found = [one.conjugate.absorb(part, own) for (one, part), own in pairs]
        return ProductPosterior(tuple(found))

    def combine(
        self, before: ProductPosterior, parts: Sequence[ProductPosterior]
    ) -> ProductPosterior:
        found = [
            one.conjugate.combine(known, [part.parts[i] for part in parts])
            for i, (one, known) in enumerate(self._each(before))
        ]
        return ProductPosterior(tuple(found))

    def expected(self, posterior: ProductPosterior, weights: Array) -> ProductParams:
        found = [one.conjugate.expected(part, weights) for one, part in self._each(posterior)]
        return ProductParams(tuple(found))

    def expected_log_params(
        self, posterior: ProductPosterior, weights: Array
    ) -> tuple[ProductParams, Array]:
        found = [
            one.conjugate.expected_log_params(part, weights) for one, part in self._each(posterior)
        ]
        return ProductParams(tuple(params for params, _ in found)), np.sum(
            [constants for _, constants in found], axis=0
        )

    def row_counts(self, posterior: ProductPosterior) -> dict[str, float]:
        """The mean of columns for means, where factors count rows of their own."""
        counts, widths = [], []
        for one, part in self._each(posterior):
            own = one.conjugate.row_counts(part)
            if "means" in own:
                counts.append(own["means"])
                widths.append(len(one.places))
        return {"means": float(np.average(counts, weights=widths))} if counts else {}

    def intervals(
        self, posterior: ProductPosterior, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        """Those of means are NaN in columns that have none; others are named by their columns."""
        low, high = np.full((2, len(weights), self._d), np.nan)
        found = {"means": (low, high)}
        for one, part in self._each(posterior):
            for name, ends in one.conjugate.intervals(part, weights, level).items():
                if name == "means":
                    low[:, one.places], high[:, one.places] = ends
                else:
                    found[f"{name} of {one.name}"] = ends
        return found


def _given(name: str, given: object, shape: tuple[int, ...]) -> Array:
    """A field of the prior for all components; NaN is left to the factors."""
    array = np.asarray(given, dtype=np.float64)
    if array.shape not in (shape, shape[1:]):
        raise InvalidInputError(
            f"{name} of the prior has shape {array.shape}: a product needs {shape[1:]} or {shape}"
        )
    return np.array(np.broadcast_to(array, shape))
