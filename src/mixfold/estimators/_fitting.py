"""The fit of a mixed model to subjects, with optional checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self

import numpy as np

from mixfold.core.backend import Backend, Model
from mixfold.core.checks import check_least
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.params import Params
from mixfold.core.rows import Array
from mixfold.estimators._edge import seed_from
from mixfold.estimators._fitted_state import FittedState
from mixfold.fitting.checkpoint import Checkpoint, check_checkpoint
from mixfold.fitting.fit import Fit
from mixfold.fitting.identity import DATA, LEARNER, MODEL, is_forced
from mixfold.fitting.loop import Loop
from mixfold.fitting.plan import FitPlan, GivenParams
from mixfold.fitting.progress import Lines, Silent
from mixfold.sources.grouped import Grouped

START_BYTES = 2**26


class StartingModel(Model, Protocol):
    """A model that computes its own initial parameters."""

    def initial_params(self, subjects: Array, /) -> Params:
        """Initial parameters from some subjects."""


class UnitFitting(FittedState):
    """An estimator that learns from subjects, with checkpoints."""

    checkpoint: Any
    checkpoint_every: float
    resume: Any
    random_state: Any
    verbose: int

    def _check_checkpoint(self) -> None:
        check_least("checkpoint_every", self.checkpoint_every, 0.0)
        is_forced(self.resume)
        if self.resume and self.checkpoint is None:
            raise InvalidInputError("resume=True needs checkpoint=PATH to resume from")
        if self.checkpoint is not None:
            check_checkpoint(self.checkpoint)

    @contextmanager
    def _learning(self) -> Iterator[Self]:
        with super()._learning() as model:
            try:
                yield model
            except np.linalg.LinAlgError as error:
                raise InvalidInputError(
                    f"the effects are not identified by these data ({error}): leave out some "
                    "that are nearly combinations of others"
                ) from error

    def _fit_subjects(
        self,
        backend: Backend[StartingModel],
        learner: Learner,
        design: Any,
        subjects: Grouped,
        initial_subjects: int,
    ) -> Fit:
        """Fit from initial parameters that some subjects give, or resume from the checkpoint."""
        seed = seed_from(self.random_state)
        initial_subjects = max(1, min(initial_subjects, START_BYTES // (8 * subjects.d)))
        what = {MODEL: backend.model, LEARNER: learner, "the design": design}
        checkpoint = self._checkpoint(what, subjects)
        saved = checkpoint.read() if checkpoint and self.resume else None
        sample = subjects.sample(initial_subjects, np.random.default_rng([seed, 2**31]))
        plan = FitPlan(
            backend,
            learner,
            subjects,
            GivenParams(backend.model.initial_params(sample.x)),
            seed=saved.seed if saved else seed,
            prior_count=learner.prior_count(len(sample), 1, backend.model.d),
            passes=self._most_passes(),
            checkpoint=checkpoint,
            resumed=saved,
            progress=Lines() if self.verbose else Silent(),
        )
        return Loop(plan).run()

    def _checkpoint(self, what: dict[str, Any], subjects: Grouped) -> Checkpoint | None:
        """The checkpoint of the fit, identified by the model, the subjects and the seed."""
        if self.checkpoint is None:
            return None
        random = isinstance(self.random_state, int | np.integer)
        identity = {
            "the number of groups": subjects.length,
            DATA: subjects.fingerprint(),
            **what,
            "random_state": int(self.random_state) if random else None,
        }
        force = is_forced(self.resume)
        return Checkpoint(self.checkpoint, identity, self.checkpoint_every, force)
