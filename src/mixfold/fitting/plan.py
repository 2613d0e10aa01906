"""The plan of a fit, with all settings resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mixfold.core.backend import Backend, Model
from mixfold.core.errors import InvalidInputError, ModelFileError
from mixfold.core.learner import Learner
from mixfold.core.source import Check, Source, no_check
from mixfold.fitting.checkpoint import Checkpoint
from mixfold.fitting.fit import Fit
from mixfold.fitting.pass_runner import PassRunner
from mixfold.fitting.progress import Progress, Silent
from mixfold.models.noise_mixture import NoiseMixture


class InitialParams(Protocol):
    """A sequence of initial parameters; each is requested once.

    They are `random` if they are drawn and the order of components has no meaning.
    """

    @property
    def random(self) -> bool: ...
    def __len__(self) -> int: ...
    def params(self, number: int) -> Any: ...


class GivenParams:
    """Initial parameters that are given."""

    random = False

    def __init__(self, *params: Any) -> None:
        self._params: Sequence[Any] = params

    def __len__(self) -> int:
        return len(self._params)

    def params(self, number: int) -> Any:
        """The parameters of one initialisation."""
        return self._params[number]


def check_served(learner: Learner, model: Model) -> None:
    """Refuse a model that the learner cannot learn."""
    why = learner.why_unsupported(model)
    if why is None and isinstance(model, NoiseMixture) and not learner.serves_noise:
        why = (
            f"{type(learner).__name__} does not support noise: use learner='auto', 'em', "
            "'mini-batch-em', 'online-em' or 'reservoir-em', or leave noise out"
        )
    if why is not None:
        raise InvalidInputError(why)
    if getattr(model, "has_prior", False) and not learner.counts_prior:
        raise InvalidInputError(
            f"{type(learner).__name__} does not learn mixtures with a prior: use 'em', 'auto', "
            "'mini-batch-em', 'online-em' or 'reservoir-em'"
        )


@dataclass(frozen=True)
class FitPlan:
    """A model on a backend, the learner for these data, and where to start, stop and save.

    `pass_runner` runs a pass if rows are not read block by block in this process; `prior_count` is
    the number of rows that the initial parameters count for; `resumed` is the fit to resume.
    """

    backend: Backend
    learner: Learner
    source: Source
    initial_params: InitialParams
    seed: int = 0
    prior_count: int = 0
    passes: int | None = None
    check: Check = no_check
    pass_runner: PassRunner | None = None
    checkpoint: Checkpoint | None = None
    resumed: Fit | None = None
    progress: Progress = field(default_factory=Silent)

    def __post_init__(self) -> None:
        check_served(self.learner, self.backend.model)
        if self.learner.rereads and not self.source.rereadable:
            raise InvalidInputError(
                f"{type(self.learner).__name__} reads rows several times, and this source can "
                "be read only once: give an array, a table or a file, or use learner='online-em'"
            )
        if self.resumed is not None and self.resumed.start >= len(self.initial_params):
            raise ModelFileError(
                f"the fit to resume is at initialisation number {self.resumed.start}, of "
                f"{len(self.initial_params)}: it belongs to another fit; remove the checkpoint"
            )
