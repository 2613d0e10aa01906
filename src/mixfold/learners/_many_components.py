"""The search for initial parameters of many components, with a budget of work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.capabilities import CommonSpread
from mixfold.core.initializer import Initializer
from mixfold.core.registry import find
from mixfold.core.rows import Rows
from mixfold.core.value import replace
from mixfold.learners._em_in_memory import Found, learn
from mixfold.learners._many_moves import params_after_moves
from mixfold.learners.candidates import draw, some_rows
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureBackend, MixtureParams

MANY = 256  # components, from which the search has a budget
# kinds of initializers whose time grows with less than the square of the number of components
KINDS, OTHER = ("standardized-k-means", "sphered-k-means", "raw-k-means"), "narrow-groups"
PILOT, PILOT_ROWS = 100, 8000  # components and rows with which kinds are compared
PILOT_EM = EM(tol=1e-4, max_iter=8, accelerate=True, criterion="step")
BUDGET = 2.5e10  # products of rows and parameters in passes of EM: about five seconds of one core
WORK_OF_MOVE = 3e7  # to judge a split of a component and unions of others, in the same unit
FIRST_PASSES, PASSES, LAST_PASSES = 4, 6, 60  # of EM before moves, after each round, in the end
PART, ROUNDS = 4, 20  # one component in so many is split in a round; the most rounds
SAME = 1e-4  # nats per row that a round must gain
OF_PILOT, OF_MOVES = 2**31 + 6, 2**31 + 7  # in the seed, where candidates have their numbers


def search_many(
    backend: MixtureBackend,
    kinds: Sequence[Initializer],
    sample: Rows,
    seed: list[int],
    prior_strength: float,
) -> MixtureParams:
    """Initial parameters of many components from rows in memory.

    Kinds of initializers are compared with fewer components, on some of the rows. One or two of
    them are drawn with all components and compared after a few passes of EM. More passes and rounds
    of moves follow, of many components at once, as far as a budget allows; with very many
    components there are none.
    """
    budget = BUDGET / (len(sample) * backend.model.n_parameters())  # in passes of EM
    learner = replace(PILOT_EM, tol=1e-5, prior_strength=prior_strength)
    chosen = _best_kinds(backend, kinds, sample, seed, prior_strength)
    chosen = chosen[: max(1, int(budget) // FIRST_PASSES)]
    drawn = [draw(backend, kind, sample, [*seed, i]) for i, kind in enumerate(chosen)]
    if budget < 1.0:
        return drawn[0]
    first = replace(learner, max_iter=min(FIRST_PASSES, int(budget)))
    found = _best([learn(first, backend, params, sample) for params in drawn])
    budget -= len(drawn) * first.max_iter
    found, budget = _improved(backend, learner, found, sample.on_host(), seed, budget)
    last = replace(learner, max_iter=min(LAST_PASSES, int(budget)))
    return learn(last, backend, found[0], sample)[0] if int(budget) else found[0]


def _best(found: Sequence[Found]) -> Found:
    return max(found, key=lambda each: each[1])


def _best_kinds(
    backend: MixtureBackend,
    kinds: Sequence[Initializer],
    sample: Rows,
    seed: list[int],
    prior_strength: float,
) -> list[Initializer]:
    """The kind of k-means that is best for fewer components and rows, and another that is better.

    A kind that is better for few components may be worse for many, so that both are tried.
    """
    model = backend.model
    if not isinstance(model.family.for_complete_rows(), CommonSpread):
        return [kinds[0]]
    few = backend.with_model(model.of_components(PILOT))
    some = some_rows(sample.on_host(), PILOT_ROWS, [*seed, OF_PILOT])
    learner = replace(PILOT_EM, prior_strength=prior_strength)

    def score(name: str) -> float:
        params = draw(few, find("initializers", name)(), some, [*seed, OF_PILOT])
        return learn(learner, few, params, some)[1]

    scores = {name: score(name) for name in (*KINDS, OTHER)}
    best = [max(KINDS, key=lambda name: scores[name])]
    best += [OTHER] if scores[OTHER] > scores[best[0]] else []
    return [find("initializers", name)() for name in best]


def _improved(
    backend: MixtureBackend, learner: EM, found: Found, rows: Rows, seed: list[int], budget: float
) -> tuple[Found, float]:
    """Parameters after rounds of moves, each with passes of EM, and the passes that are left.

    Fewer components are split after a round that did not help, or in which there were no moves.
    """
    model = backend.model
    least = max(1.0, 0.5 * model.n_parameters() / model.k) * rows.total_weight() / len(rows)
    cost = WORK_OF_MOVE / (len(rows) * model.n_parameters())  # of a move, in passes
    learner, number = replace(learner, max_iter=PASSES), model.k // PART
    for turn in range(ROUNDS):
        number = min(number, int((budget - PASSES) / cost))
        if number < 1:
            break
        budget -= PASSES + number * cost
        rng = np.random.default_rng([*seed, OF_MOVES, turn])
        params, moves = params_after_moves(backend, found[0], rows, number, least, rng)
        after = learn(learner, backend, params, rows) if moves else found
        if after[1] > found[1] + SAME:
            found = after
        else:
            number //= 2 if moves else 4
    return found, budget
