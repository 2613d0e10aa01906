"""The resolved parameters of a mixture estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.source import Source
from mixfold.estimators._cells import COMPLETE, Cells
from mixfold.estimators._edge import RowCheck, check_sample
from mixfold.estimators._known_labels import KnownLabels
from mixfold.estimators._noise import box_of, wants_noise
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.labelled_rows import LabelledRows
from mixfold.families.product import Product
from mixfold.fitting.from_labels import FromLabels
from mixfold.fitting.initialization import Drawing, Initialization, Sample
from mixfold.fitting.placement import DEFAULT, Placement
from mixfold.fitting.under_constraints import UnderConstraints
from mixfold.models.fixed import Fixed, constrained
from mixfold.models.mixture_model import MixtureBackend, MixtureModel
from mixfold.models.noise_mixture import Box, NoiseMixture
from mixfold.models.penalized_mixture import with_prior_of


@dataclass(frozen=True)
class MixtureSettings:
    """Family, learner and initializer, each resolved once per call."""

    family: Family
    learner: Learner
    initialization: Initialization
    n_components: int
    n_threads: int | None
    cells: Cells = COMPLETE
    labels: KnownLabels | None = None
    fixed: Fixed | None = None
    prior: Prior | None = None
    box: Box | None = None  # of noise

    def constrained(self, fixed: Fixed | None, prior: Prior | None) -> MixtureSettings:
        """The settings for a model of which some parameters are fixed, or with a prior."""
        means: Any = None if prior is None else prior.means
        if fixed is None and np.ndim(0.0 if means is None else means) < 2:
            return replace(self, prior=prior)
        kinds = (UnderConstraints(self.initialization.start),)
        start = replace(self.initialization, kinds=kinds, exchangeable=False)
        return replace(self, initialization=start, fixed=fixed, prior=prior)

    def labelled(self, labels: KnownLabels | None) -> MixtureSettings:
        """The settings for rows with labels, from which initial parameters come."""
        if labels is None:
            return self
        start, some = self.initialization, self
        if start.random:
            number = 1 if labels.is_complete else start.candidates
            under = isinstance(start.start, UnderConstraints)
            kind = UnderConstraints(FromLabels()) if under else FromLabels()
            start = replace(start, kinds=(kind,), candidates=number)
            some = replace(self, initialization=start)
        return replace(some, labels=labels)

    def family_of_rows(self, family: Family) -> Family:
        """The family of the rows with their labels."""
        return family if self.labels is None else LabelledRows(family, self.labels.allowed)

    def bound(self, source: Source) -> MixtureSettings:
        """The settings whose family is of the columns of a source."""
        family = self.family
        if not isinstance(family, Product):
            return self
        names = source.columns
        if self.labels is not None and names is not None:
            names = names[:-1]  # the last column holds the labels
        return replace(self, family=family.bound(names))

    def with_noise(self, noise: Any, source: Source, reads: bool = True) -> MixtureSettings:
        """The settings with the box of noise, for which a source is read if that is allowed."""
        if not wants_noise(noise):
            return self
        for name in ("labels", "fixed", "prior"):
            if getattr(self, name) is not None:
                raise InvalidInputError(
                    f"noise is {noise!r} and {name} is given, which do not go together: leave out "
                    "one of them"
                )
        return replace(self, box=box_of(noise, self.family, source, reads))

    def for_missing(self) -> MixtureSettings:
        """The settings for rows with missing cells."""
        return replace(self, family=with_missing(self.family))

    def backend(self, d: int, place: Placement = DEFAULT) -> MixtureBackend:
        """The mixture of d columns, bound to its backend."""
        family = self.learner.bounded(self.family.for_complete_rows())
        family = with_missing(family) if self.family.accepts_missing else family
        family = self.family_of_rows(family)
        family.check_columns(d)
        if self.box is not None:
            noisy = NoiseMixture(family, self.n_components, d, self.box)
            return place.backend(noisy, self.n_threads)
        model = MixtureModel(family, self.n_components, d)
        model = with_prior_of(constrained(model, self.fixed), self.prior)
        return place.backend(model, self.n_threads)

    def check(self, source: Source) -> RowCheck:
        """The check of rows of a source."""
        return RowCheck(self.family_of_rows(self.family), source.columns)

    def sample_size(self, source: Source) -> int:
        """The number of rows from which initial parameters are drawn."""
        most = self.learner.rows_to_sample(self.n_components, source.d)
        return most if source.length is None else min(most, source.length)

    def sample(self, backend: MixtureBackend, source: Source, n_init: int, seed: int) -> Sample:
        """The sample of a source for limits and initial parameters."""
        size = self.sample_size(source)
        family = self.family_of_rows(self.family)
        check = partial(check_sample, family, source, self.initialization.random)
        drawing = Drawing(self.initialization, size, n_init, seed, check)
        return Sample(backend, self.learner, source, drawing)
