"""EM in which a row belongs to a few of many components."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path

import numpy as np

from mixfold.core.backend import Backend, Model
from mixfold.core.checks import (
    HIGHEST,
    check_array,
    check_count,
    check_kind,
    check_least,
    check_seed,
    check_whole,
)
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.learner import Info, Learner
from mixfold.core.noise import uniforms
from mixfold.core.params import Params
from mixfold.core.rows import Array, Rows
from mixfold.core.value import replace, value
from mixfold.learners._convergence import CRITERIA, WINDOW, Criterion, has_converged, with_gain
from mixfold.learners._few_components import (
    Few,
    FewComponents,
    Numbers,
    not_searchable,
)
from mixfold.learners._gathering import Fold, Gathered, gather, nothing, total
from mixfold.learners._memory import InMemory, Memory, OnFile, on_file
from mixfold.learners._memory_files import open_files
from mixfold.learners.truncated_mini_batch_em import TruncatedMiniBatchEM

PRECISION = "float32"  # which holds the numbers of up to 2^24 components exactly
ROWS_OF_PASS = 2**48  # numbers of rows by which the random numbers of passes are apart


@value
class TruncatedState:
    """Parameters, the sums of the current pass, and the components of all rows, if they are kept.

    `before` is the mean bound of the last pass, and `gains` those of the last steps in nats of all
    rows. `weight` is that of all rows.
    """

    params: Params
    gathered: Gathered
    memory: Memory | None
    passes: int
    before: float
    gains: list[float]
    converged: bool
    n_degenerate: int
    weight: float
    seed: int

    def check(self, model: Model) -> None:
        """Raise an error for a state that is not valid for the model."""
        model.check_params(self.params)
        self.gathered.check(model, self.params)
        check_count("passes", self.passes)
        check_count("n_degenerate", self.n_degenerate)
        check_array("gains", np.array(self.gains), (len(self.gains),))
        check_least("the number of gains", len(self.gains), 0, WINDOW + 1)
        check_least("weight", self.weight, 0.0, HIGHEST)
        check_seed("seed", self.seed)

    @property
    def on_file(self) -> bool:
        """Whether a checkpoint must be written at the end of every pass."""
        return self.memory is not None and self.memory.on_file


@value
class TruncatedEM(Learner[TruncatedState]):
    """EM in which every row belongs to a few components, so that a pass hardly depends on K.

    s = sum over rows i and over k in K_i of r_ik t(x_i), theta = maximize(s), where r_ik are
    proportional to w_k p(x_i | k) and sum to 1 over the C components K_i. In every pass K_i are the
    best of those that row i had, of the neighbours of the best of them, and of some at random. So
    the lower bound F = sum_i log sum_(k in K_i) w_k p(x_i | k) of the log-likelihood never falls.
    Neighbours of a component are those with the highest density at its mean. In the first pass,
    rows begin at a few components, and go on to better neighbours.

    Use it for hundreds of components or more. With C = K it is EM. Rows of streams, of
    `partial_fit`, and of sources that can be read only once are learned by
    `TruncatedMiniBatchEM`. Scores and predictions of the fitted model are exact.

    Parameters
    ----------
    n_candidates : int, default=5
        C, the number of components of a row.
    n_neighbors : int, default=8
        The number of neighbours of a component that are tried.
    n_random : int, default=4
        The number of components that are tried at random for every row in every pass. Most are
        neighbours of neighbours of those that it has.
    tol : float, default=1e-4
        Learning has converged when a pass has raised the bound by less than this, per row.
    max_iter : int, default=100
        The largest number of passes over the data.
    criterion : {"step", "remaining"}, default="step"
        What `tol` is compared with: what a step has gained per row or, as in `EM`, the bound of all
        rows that is left to gain.
    memory : path or None, default=None
        Files for the components of all rows (`PATH.0` and `PATH.1`); None keeps them in memory,
        where they take 4 C bytes per row.

    Notes
    -----
    `history_.log_likelihood` and `history_.bound` are both the bound F, since the log-likelihood
    would need all components; `score` computes it.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="truncated-em", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(1).tolist())
    [54.5, 80.0]

    References
    ----------
    Forster and Lücke (2018), Can clustering scale sublinearly with its clusters? A variational EM
    acceleration of GMMs and k-means, AISTATS; Hirschberger, Forster and Lücke (2022), A variational
    EM acceleration for efficient clustering at very large scales, IEEE TPAMI 44.
    """

    rereads = True
    counts_prior = False
    adds_levels = False
    places = ("memory",)

    n_candidates: int = 5
    n_neighbors: int = 8
    n_random: int = 4
    tol: float = 1e-4
    max_iter: int = 100
    criterion: Criterion = "step"
    memory: str | Path | None = None

    def __post_init__(self) -> None:
        check_whole("n_candidates", self.n_candidates)
        check_whole("n_neighbors", self.n_neighbors)
        check_whole("n_random", self.n_random, 0)
        check_least("tol", self.tol, 0.0)
        check_whole("max_iter", self.max_iter, 0)
        if self.criterion not in CRITERIA:
            raise unknown_name("criterion", self.criterion, CRITERIA)
        if not isinstance(self.memory, str | PathLike | None):
            raise InvalidInputError(f"memory is {self.memory!r}: None or a path is needed")

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        return self.for_one_pass().resolve(n, d, True) if streaming else self

    def for_one_pass(self) -> Learner:
        """The learner for a source that can be read only once."""
        return TruncatedMiniBatchEM(
            n_candidates=self.n_candidates, n_neighbors=self.n_neighbors, max_iter=1
        )

    def why_unsupported(self, model: Model) -> str | None:
        return not_searchable(self, model)

    # memory of components

    @property
    def _few(self) -> Few:
        return Few(self.n_candidates, self.n_neighbors, self.n_random)

    def _memory(self, k: int) -> Memory | None:
        if self._few.all_of(k):
            return None
        if self.memory is None:
            return InMemory([], self.n_candidates, PRECISION)
        return on_file(fspath(self.memory), self.n_candidates, PRECISION)

    def _attach(self, state: TruncatedState) -> None:
        """Open the files of the state's memory, if it was resumed."""
        if isinstance(state.memory, OnFile) and self.memory is not None:
            open_files(fspath(self.memory), state.memory.fit)

    def release(self, state: TruncatedState) -> None:
        if state.memory is not None:
            state.memory.release()

    def check_state(self, model: Model, state: TruncatedState) -> None:
        check_kind("state", state, TruncatedState)
        state.check(model)
        if state.memory is None:  # after a fit, or where all components are evaluated
            return
        check_kind("memory", state.memory, InMemory if self.memory is None else OnFile)
        state.memory.check(self.n_candidates, PRECISION, 0)

    def _start(self, state: TruncatedState, first: int, n: int) -> Numbers:
        """The components that rows had before, -1 where they had none."""
        start = np.full((n, self.n_candidates), -1, dtype=np.int32)
        if state.memory is not None and state.passes:
            known = state.memory.read(first, n)
            start[: len(known)] = known
        return start

    # learning

    def init(
        self, backend: Backend, params: Params, seen: int = 0, seed: int = 0
    ) -> TruncatedState:
        return TruncatedState(
            params,
            nothing(backend),
            self._memory(backend.model.k),
            passes=0,
            before=-np.inf,
            gains=[],
            converged=False,
            n_degenerate=0,
            weight=0.0,
            seed=seed,
        )

    def step(
        self, backend: Backend, state: TruncatedState, rows: Rows
    ) -> tuple[TruncatedState, list[Info]]:
        self._attach(state)
        fold, found = self._fold(backend, state)
        gathered = gather(fold, backend.tile, state.gathered, rows)
        return replace(state, gathered=gathered, memory=_written(state, found)), []

    def _fold(
        self, backend: Backend, state: TruncatedState
    ) -> tuple[Fold, list[tuple[int, Numbers]]]:
        """A function that adds rows to the sums of the pass, and a list of what it finds."""
        few, found = FewComponents(backend, state.params, self._few), list[tuple[int, Numbers]]()

        def fold(rows: Rows, sums: Array, first: int) -> Array:
            n, number = len(rows), state.passes * ROWS_OF_PASS + first
            drawn = uniforms(state.seed, number, n, self.n_random) if self.n_random else None
            sums, numbers = few.fold(rows, sums, self._start(state, first, n), drawn)
            found.append((first, numbers))
            return sums

        return fold, found

    def end_pass(
        self, backend: Backend, state: TruncatedState
    ) -> tuple[TruncatedState, list[Info]]:
        self._attach(state)
        fold, found = self._fold(backend, state)
        sums = total(fold, state.gathered)
        memory = _written(state, found)
        after = replace(
            state,
            gathered=nothing(backend),
            memory=None if memory is None else memory.swapped(),
            passes=state.passes + 1,
        )
        statistics = backend.model.statistics(state.params, sums)
        if not statistics.count > 0:
            return after, []
        n, weight = max(statistics.count, state.gathered.n), float(statistics.count)
        bound = statistics.log_likelihood / weight
        params, n_degenerate = backend.model.maximize(statistics)
        gains = with_gain(state.gains, (bound - state.before) * n)
        moved = replace(
            after,
            params=params,
            before=bound,
            gains=gains,
            converged=has_converged(gains, bound * n, n, self.tol, self.criterion),
            n_degenerate=state.n_degenerate + n_degenerate,
            weight=weight,
        )
        return moved, [Info(state.gathered.n, bound, 1.0, bound)]

    def weight_learned(self, state: TruncatedState, rows: int) -> float:
        return state.weight

    def finished(self, state: TruncatedState) -> bool:
        return state.converged or state.passes >= self.max_iter

    def converged(self, state: TruncatedState) -> bool:
        return state.converged

    def compact(self, state: TruncatedState) -> TruncatedState:
        return replace(state, memory=None)


def _written(state: TruncatedState, found: list[tuple[int, Numbers]]) -> Memory | None:
    """The memory with the components that were found for rows."""
    memory = state.memory
    if memory is not None:
        for first, numbers in found:
            memory = memory.written(first, numbers.astype(np.float64))
    return memory
