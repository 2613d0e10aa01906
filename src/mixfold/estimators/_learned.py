"""What an estimator has learned, as a value; and a live copy for row-by-row learning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from mixfold.core.problem import Sequence
from mixfold.core.rows import Array, Rows
from mixfold.core.value import value
from mixfold.engines.threads import Threads
from mixfold.families.gaussian import Gaussian
from mixfold.learners._stochastic import StochasticEM
from mixfold.models.bayesian_mixture import MixturePosterior
from mixfold.models.mixture_model import MixtureModel
from mixfold.run.ancestor import Ancestor, descended
from mixfold.run.history import History, no_history
from mixfold.run.starting import Beginning
from mixfold.run.stream import Stream

AHEAD = 1024


@value
class Learned:
    """Model, rule, state and everything the public attributes are made from.

    `n_seen` are the rows learned with passes counted, `n_rows` without. `copied` says that other
    models may go on from this state.
    """

    public: ClassVar[tuple[str, ...]] = (
        "params_",
        "weights_",
        "means_",
        "covariances_",
        "n_seen_",
        "history_",
        "converged_",
        "degeneracies_",
        "posterior_",
    )

    model: Any
    learner: Any
    stream: Stream
    params: Any
    n_seen: int
    n_rows: int
    history: History
    converged: bool
    degeneracies: int
    seed: int
    streaming: bool
    copied: bool = False

    @property
    def n_features(self) -> int:
        """Columns of the data."""
        return int(self.model.d)

    @property
    def posterior(self) -> MixturePosterior | None:
        """Beliefs about the parameters, where the rule has any."""
        known = getattr(self.stream.state, "params", None)
        return known if isinstance(known, MixturePosterior) else None

    @staticmethod
    def nothing(model: MixtureModel, learner: Any, seed: int) -> Learned:
        """Before the first row of a stream."""
        none = Stream(None, None, [])
        return Learned(model, learner, none, None, 0, 0, no_history(), False, 0, seed, True)

    def attributes(self) -> dict[str, Any]:
        """The public fitted attributes."""
        components = self.params.components
        found = {
            "params_": self.params,
            "weights_": self.params.weights,
            "means_": components.means,
            "n_seen_": self.n_seen,
            "history_": self.history,
            "converged_": self.converged,
            "degeneracies_": self.degeneracies,
        }
        if self.posterior is not None:
            found["posterior_"] = self.posterior
        family = self.model.family
        if isinstance(family, Gaussian):
            found["covariances_"] = family.structure.covariances(components.factor)
        return found

    def advance(self, problem: Threads, beginning: Beginning, rows: Rows) -> Learned:
        """With more rows of a stream."""
        stream, infos = self.stream.learn(problem, self.learner, beginning, self.seed, rows)
        seconds = float(self.history.time[-1]) if len(self.history) else 0.0
        history = self.history.extended(infos, seconds)
        n = len(rows)
        return replace(
            self,
            stream=stream,
            n_seen=self.n_seen + n,
            n_rows=self.n_rows + n,
            history=history,
        )

    def parted(self) -> Learned:
        """With its present state as an ancestor, since copies go on from it too."""
        stream = self.stream
        if stream.state is not None:
            now = Ancestor(stream.state, self.n_seen, self.n_rows)
            stream = replace(stream, ancestors=descended(stream.ancestors, now))
        return replace(self, stream=stream, copied=False)

    def settle(self, problem: Threads, beginning: Beginning) -> Learned:
        """With the parameters brought up to date."""
        params = self.stream.estimate(problem, self.learner, beginning, self.seed)
        state = self.stream.state
        degeneracies = 0 if state is None else int(state.repairs)
        return replace(self, params=params, degeneracies=degeneracies, converged=state is not None)

    def sequence(self, problem: Threads) -> Sequence | None:
        """A working copy of the stream, where every row is an update of its own."""
        state = self.stream.state
        if state is None or not isinstance(self.learner, StochasticEM):
            return None
        if not self.learner.row_by_row():
            return None
        return problem.sequence(state.statistics, state.params)


class Live:
    """A stream being learned one row at a time, on memory that is updated in place."""

    def __init__(self, learned: Learned, problem: Threads, sequence: Sequence) -> None:
        self._from, self.problem, self._sequence = learned, problem, sequence
        self._rule = learned.learner.rule
        self._repairs = self._done = 0
        self.n_seen = learned.n_seen
        self._d = problem.model.d
        self._gamma: Array = np.empty(0)
        self._hold = self._next = 0
        state = learned.stream.state
        sequence.draw_from(state.seed, state.rows)

    def accepts(self, x: Any) -> bool:
        """Whether `x` is a plain row of the right length."""
        return type(x) is np.ndarray and x.dtype == np.float64 and x.shape == (self._d,)

    def outside(self, x: Array) -> bool:
        """Whether the row lies outside the family's support."""
        family = self._from.model.family
        return family.scatter == "none" and bool(np.any(family.outside(x[None])))

    def learn(self, x: Array) -> None:
        """Fold one row."""
        i = self._next
        if i == len(self._gamma):
            self._plan()
            i = 0
        hold = 1 if i < self._hold else 0
        _, repairs, _ = self._sequence.fold(Rows(x[None]), self._gamma[i : i + 1], hold, self._rule)
        self._next = i + 1
        self._done += 1
        self.n_seen += 1
        self._repairs += repairs

    def _plan(self) -> None:
        state = self._from.stream.state
        done = self._done
        self._gamma, self._hold = self._from.learner.plan(
            state.updates + done, state.rows + done, AHEAD
        )
        self._next = 0

    def learned(self) -> Learned:
        """Everything learned so far, as a value."""
        learner, state = self._from.learner, self._from.stream.state
        after = learner.advance(
            state, self._sequence.state(), self._done, self._done, self._repairs
        )
        known = self._from
        return replace(
            known,
            stream=replace(known.stream, state=after),
            n_seen=self.n_seen,
            n_rows=known.n_rows + self._done,
        )
