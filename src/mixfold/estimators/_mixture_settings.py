"""The resolved parameters of a mixture estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.source import Source
from mixfold.estimators._cells import COMPLETE, Cells
from mixfold.estimators._edge import RowCheck, check_sample
from mixfold.estimators._noise import box_of, wants_noise
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.product import Product
from mixfold.fitting.initialization import Drawing, Initialization, Sample
from mixfold.fitting.placement import DEFAULT, Placement
from mixfold.models.mixture_model import MixtureBackend, MixtureModel
from mixfold.models.noise_mixture import Box, NoiseMixture


@dataclass(frozen=True)
class MixtureSettings:
    """Family, learner and initializer, each resolved once per call."""

    family: Family
    learner: Learner
    initialization: Initialization
    n_components: int
    n_threads: int | None
    cells: Cells = COMPLETE
    box: Box | None = None  # of noise

    def bound(self, source: Source) -> MixtureSettings:
        """The settings whose family is of the columns of a source."""
        family = self.family
        if not isinstance(family, Product):
            return self
        return replace(self, family=family.bound(source.columns))

    def with_noise(self, noise: Any, source: Source, reads: bool = True) -> MixtureSettings:
        """The settings with the box of noise, for which a source is read if that is allowed."""
        if not wants_noise(noise):
            return self
        return replace(self, box=box_of(noise, self.family, source, reads))

    def for_missing(self) -> MixtureSettings:
        """The settings for rows with missing cells."""
        return replace(self, family=with_missing(self.family))

    def backend(self, d: int, place: Placement = DEFAULT) -> MixtureBackend:
        """The mixture of d columns, bound to its backend."""
        family = self.learner.bounded(self.family.for_complete_rows())
        family = with_missing(family) if self.family.accepts_missing else family
        family.check_columns(d)
        if self.box is None:
            return place.backend(MixtureModel(family, self.n_components, d), self.n_threads)
        return place.backend(NoiseMixture(family, self.n_components, d, self.box), self.n_threads)

    def check(self, source: Source) -> RowCheck:
        """The check of rows of a source."""
        return RowCheck(self.family, source.columns)

    def sample_size(self, source: Source) -> int:
        """The number of rows from which initial parameters are drawn."""
        most = self.learner.rows_to_sample(self.n_components, source.d)
        return most if source.length is None else min(most, source.length)

    def sample(self, backend: MixtureBackend, source: Source, n_init: int, seed: int) -> Sample:
        """The sample of a source for limits and initial parameters."""
        size = self.sample_size(source)
        check = partial(check_sample, self.family, source, self.initialization.random)
        drawing = Drawing(self.initialization, size, n_init, seed, check)
        return Sample(backend, self.learner, source, drawing)
