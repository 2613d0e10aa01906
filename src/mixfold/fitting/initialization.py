"""Initial parameters, chosen on a bounded sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mixfold.core.backend import Model
from mixfold.core.errors import InvalidInputError, warn
from mixfold.core.family import Family
from mixfold.core.initializer import Initializer
from mixfold.core.learner import Learner
from mixfold.core.learner_capabilities import at_most
from mixfold.core.registry import find, is_called
from mixfold.core.rows import Rows
from mixfold.core.source import Source
from mixfold.core.value import at_home, value
from mixfold.fitting.component_order import component_order, reorder
from mixfold.fitting.from_params import FromParams
from mixfold.fitting.loop import check_some
from mixfold.fitting.under_constraints import UnderConstraints
from mixfold.learners.candidates import draw, order_on
from mixfold.learners.further_search import (
    MOST_BYTES,
    OF_LARGER,
    OF_SAMPLE,
    with_light_components,
)
from mixfold.learners.prior_choice import with_chosen_prior
from mixfold.learners.search import search
from mixfold.models.mixture_model import MixtureBackend, MixtureParams

GROUP = 10


def initializer_for(init: Any, family: Family, suits: str | None = None) -> Initializer:
    """The initializer of a name or object; "auto" is the default of the learner or the family."""
    if isinstance(init, Initializer):
        return init
    if isinstance(init, str):
        if is_called(init, "auto"):
            init = suits or family.default_init
        start: Initializer = find("initializers", init)()
        return start
    if hasattr(init, "fit") and not hasattr(init, "params_"):
        raise InvalidInputError(f"init is {init!r}, which is not fitted: call its fit first")
    return FromParams(getattr(init, "params_", init))


def warn_of(learner: Learner, model: Model, sample: Rows) -> None:
    """Issue the warnings of the learner before it begins."""
    for remark in learner.warnings(model, sample.on_host()):
        warn(remark)


@value
class Initialization:
    """How initial parameters are drawn.

    Several candidates are fitted for a few passes over the sample, and the best of them until
    convergence. Parameters that are drawn, not given, are sorted if the learner is `exchangeable`.
    """

    kinds: tuple[Initializer, ...]
    candidates: int = 1
    exchangeable: bool = True
    prior_strength: float | None = 0.0

    @property
    def start(self) -> Initializer:
        """The initializer, or the first of several kinds."""
        return self.kinds[0]

    @property
    def varied(self) -> bool:
        """Whether several candidates of several kinds are compared."""
        return len(self.kinds) > 1 and self.candidates > 1

    @property
    def groups(self) -> int:
        """How many groups of candidates there are; each gives initial parameters."""
        return -(-self.candidates // self.group)

    @property
    def group(self) -> int:
        """The number of candidates in a group; all of them if they are of one kind."""
        return self.candidates if len(self.kinds) == 1 else min(self.candidates, GROUP)

    @property
    def given(self) -> MixtureParams | None:
        """The parameters that the user has given, or None."""
        start = self.start.inner if isinstance(self.start, UnderConstraints) else self.start
        params = start.params if isinstance(start, FromParams) else None
        return params if isinstance(params, MixtureParams) else None

    @property
    def random(self) -> bool:
        """Whether two draws can differ."""
        return self.start.random

    def with_prior(
        self, backend: MixtureBackend, sample: Callable[[], Rows], seed: int
    ) -> MixtureBackend:
        """The backend with the fraction of the prior that suits the sample, if it is to choose."""
        if self.prior_strength is not None or not self.varied or not self.random:
            return backend
        return with_chosen_prior(backend, self.kinds, sample(), [seed, 0], 1.0)

    def draw(self, backend: MixtureBackend, sample: Rows, seed: list[int]) -> MixtureParams:
        """Parameters from a sample, the best of all groups; the same for the same seed."""
        if self.groups == 1 or not self.random:
            return self.draw_group(backend, sample, seed, 0)
        drawn = [self.draw_group(backend, sample, seed, i) for i in range(self.groups)]
        return drawn[order_on(backend, drawn, sample)[0]]

    def draw_group(
        self, backend: MixtureBackend, sample: Rows, seed: list[int], group: int
    ) -> MixtureParams:
        """The best parameters of one group of candidates."""
        seed = [*seed, group] if group else seed
        if not self.random:
            return draw(backend, self.start, sample, seed)
        if self.candidates == 1:
            best = draw(backend, self.start, sample, seed)
        else:
            number, strength = self._number(group), at_most(self.prior_strength)
            best = search(backend, self.kinds, sample, seed, number, strength)
        return self._ordered(backend, best)

    def with_light_components(
        self,
        backend: MixtureBackend,
        first: MixtureParams,
        sample: Rows,
        larger: Callable[[], Rows | None],
        seed: list[int],
    ) -> MixtureParams:
        """The given parameters, or better ones if the sample has few rows of some component."""
        if not self.varied:
            return first
        kinds, strength = self.kinds[: self.group], at_most(self.prior_strength)
        best = with_light_components(backend, first, kinds, sample, larger, seed, strength)
        return first if best is first else self._ordered(backend, best)

    def _number(self, group: int) -> int:
        """The number of candidates in a group; the last one may be smaller."""
        return min(self.group, self.candidates - group * self.group)

    def _ordered(self, backend: MixtureBackend, params: MixtureParams) -> MixtureParams:
        """The parameters in this machine's memory, sorted if their order has no meaning."""
        params = at_home(params)
        if not (self.exchangeable and backend.model.is_exchangeable):
            return params
        return reorder(params, component_order(backend.model, params))


@dataclass(frozen=True)
class Drawing:
    """Settings of initialisations: rows of the sample, number of initialisations, seed.

    `check` is called with the rows of the sample, and their numbers if they are known.
    """

    initialization: Initialization
    size: int
    number: int
    seed: int
    check: Callable[[Rows, Sequence[int] | None], None]


class Sample:
    """The sample of a source for limits and initial parameters, read when it is first used.

    A larger one is read if the sample has too few rows of some component.
    """

    def __init__(
        self, backend: MixtureBackend, learner: Learner, source: Source, drawing: Drawing
    ) -> None:
        self.backend, self.learner, self.source, self.drawing = backend, learner, source, drawing
        self._kept: Rows | None = None
        self._larger: Rows | None = None

    def rows(self) -> Rows:
        """The rows, checked."""
        if self._kept is None:
            self._kept = self._read()
        return self._kept

    def larger(self) -> Rows | None:
        """As many rows as the memory for a larger sample holds; None if that is not twice as many.

        They are drawn uniformly, and checked.
        """
        size, length = MOST_BYTES // (8 * self.source.d), self.source.length
        size = size if length is None else min(size, length)
        if size < 2 * len(self.rows()) or len(self.rows()) < self.drawing.size:
            return None
        if self._larger is None:
            self._larger = self._drawn(size, OF_LARGER)
        return self._larger if len(self._larger) >= 2 * len(self.rows()) else None

    def release(self) -> None:
        """Free the rows."""
        self._kept = self._larger = None

    def _drawn(self, size: int, number: int) -> Rows:
        """A uniform sample, checked; `number` is that of its random numbers."""
        source = self.source
        rows = source.sample(size, np.random.default_rng([self.drawing.seed, number]))
        first_rows = source.engine is None and not source.rereadable
        known = first_rows or source.length == len(rows) or len(rows) < size
        self.drawing.check(rows, range(len(rows)) if known else None)
        return rows

    def _read(self) -> Rows:
        k = self.backend.model.k
        rows = self._drawn(self.drawing.size, OF_SAMPLE)
        check_some(len(rows), 1)
        if len(rows) < k:
            raise InvalidInputError(
                f"Expected n_samples >= n_components but got n_components = {k}, "
                f"n_samples = {len(rows)}"
            )
        warn_of(self.learner, self.backend.model, rows)
        return rows


class SampledParams:
    """Initial parameters from one sample of a source."""

    def __init__(self, backend: MixtureBackend, sample: Sample) -> None:
        drawing = sample.drawing
        initialization = drawing.initialization
        number = drawing.number * initialization.groups if initialization.random else 1
        # all initialisations but one are compared on the sample only
        if not sample.source.rereadable:
            candidates = max(initialization.candidates, drawing.number)
            initialization, number = replace(initialization, candidates=candidates), 1
        self.backend, self.sample, self.seed = backend, sample, drawing.seed
        self.initialization, self.number = initialization, number

    @property
    def random(self) -> bool:
        """Whether parameters are drawn in any order, not given."""
        return self.initialization.random and self.backend.model.is_exchangeable

    def __len__(self) -> int:
        return self.number

    def params(self, number: int) -> MixtureParams:
        """The parameters of one initialisation; after the last one the sample is freed."""
        rows = self.sample.rows()
        start, group = divmod(number, self.initialization.groups)
        seed = [self.seed, start]
        if not self.sample.source.rereadable:
            params = self.initialization.draw(self.backend, rows, seed)
        else:
            params = self.initialization.draw_group(self.backend, rows, seed, group)
            params = self.initialization.with_light_components(
                self.backend, params, rows, self.sample.larger, [*seed, group]
            )
        if number + 1 == self.number:
            self.sample.release()
        return params
