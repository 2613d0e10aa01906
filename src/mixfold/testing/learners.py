"""Laws of every learner."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.backend import Backend, Model
from mixfold.core.learner import Info, Learner
from mixfold.core.learner_capabilities import Mergeable
from mixfold.core.rows import Rows
from mixfold.core.schema import check_types
from mixfold.core.value import equal, flatten, unflatten
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing._estimates import coordinates, is_identifiable, learned
from mixfold.testing._extreme_rows import assert_valid, with_extremes
from mixfold.testing._weighted_rows import weights_and_rows_differ
from mixfold.testing.folding import fold


def assert_same(found: Any, expected: Any, what: str) -> None:
    """Two states, rows or parameters are bit-identical; `what` says what was compared."""
    if equal(found, expected):
        return
    one: dict[str, np.ndarray] = {}
    other: dict[str, np.ndarray] = {}
    trees = flatten(found, "", one), flatten(expected, "", other)
    names = [name.lstrip(".") for name in one if not equal(one[name], other.get(name))]
    where = ", ".join(names) or f"{trees[0]} and {trees[1]}"
    raise AssertionError(f"{what}: these are not bit-identical: {where}")


def blocks_do_not_matter(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """The same rows in blocks of any sizes give the same bits."""
    backend = Threads(model, 1)
    whole = fold(backend, learner, params, rows, [])[0]
    found = fold(backend, learner, params, rows, cuts)[0]
    assert_same(
        found, whole, f"rows in blocks cut at {cuts} and in one block (use gather and total)"
    )


def threads_do_not_matter(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """The same bits on one thread and on several."""
    one = fold(Threads(model, 1), learner, params, rows, cuts)[0]
    several = fold(Threads(model, 3), learner, params, rows, cuts)[0]
    assert_same(several, one, "three threads and one (use gather and total)")


def every_row_is_counted_once_a_pass(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """What a learner reports of a pass is of all its rows, each of them once."""
    backend = Threads(model, 1)
    state = learner.init(backend, params)
    for _ in range(2):
        infos: list[Info] = []
        for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            state, more = learner.step(backend, state, rows.cut(start, stop))
            infos += more
        state, more = learner.end_pass(backend, state)
        state, rest = learner.flush(backend, state)
        counted = sum(info.rows for info in [*infos, *more, *rest])
        assert counted == len(rows), (
            f"the infos of a pass over {len(rows)} rows count {counted} of them: sums of the pass "
            "before were not reset, or rows were left out"
        )


def saving_does_not_matter(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """A state saved and loaded in mid-stream goes on to the same bits."""
    backend = Threads(model, 1)
    half = len(rows) // 2 + 1
    state, _ = learner.step(backend, learner.init(backend, params), rows.cut(0, half))
    arrays: dict[str, np.ndarray] = {}
    loaded = unflatten(flatten(state, "state", arrays), arrays)
    found, expected = (_ended(backend, learner, one, rows) for one in (loaded, state))
    assert_same(found, expected, "a pass with its state saved and loaded, and without")


def _ended(backend: Backend, learner: Learner, state: Any, rows: Rows) -> Any:
    state, _ = learner.step(backend, state, rows.cut(len(rows) // 2 + 1, len(rows)))
    return learner.end_pass(backend, state)[0]


def inputs_are_not_changed(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """Rows, parameters and states are as before after a step."""
    backend = Threads(model, 2)
    before_rows, before_params = rows.copy(), _copied(params)
    state = learner.init(backend, params)
    before_state = _copied(state)
    learner.step(backend, state, rows)
    now = Rows(np.ascontiguousarray(rows.x), rows.weight)
    assert_same(now, before_rows, "step changes its rows")
    assert_same(params, before_params, "step changes the parameters given to init")
    assert_same(state, before_state, "step changes the state it was given")


def rows_of_weight_zero_do_not_matter(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """Parameters stay put when every row weighs nothing."""
    backend = Threads(model, 1)
    nothing = Rows(rows.x, np.zeros(len(rows)))
    state, _ = fold(backend, learner, params, nothing, cuts, passes=1)
    before = learner.estimate(backend, learner.init(backend, params))
    what = "parameters before and after rows of weight zero (test statistics.count > 0)"
    assert_same(learner.estimate(backend, state), before, what)


def a_common_factor_of_weights_changes_nothing(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """Weights of 0.01 or 10 throughout are as good as none, unless a prior says what a row weighs.

    From a start that counts, as in `one_by_one_is_batches_of_one`. Where rows have too few values
    to determine the parameters, many are equally good, and only the likelihood is compared.
    """
    backend, some = Threads(model, 1), rows.cut(0, 40)
    if hasattr(learner.init(backend, params), "prior"):
        return
    expected = fold(backend, learner, params, some, [], seen=200)[0]
    for factor in (0.01, 10.0):
        weighted = Rows(some.x, factor * some.weights())
        found = fold(backend, learner, params, weighted, [], seen=200)[0]
        (bound, now), (_, then) = (learned(backend, learner, state) for state in (found, expected))
        if not is_identifiable(model):
            one, other = (bound.posterior(params, some, False)[0] for params in (now, then))
            np.testing.assert_allclose(one.mean(), other.mean(), rtol=0.0, atol=0.01)
            continue
        if model.has_coordinates:
            now, then = model.unconstrained(now), model.unconstrained(then)
        else:
            now, then = (bound.posterior(params, some, False)[0] for params in (now, then))
        np.testing.assert_allclose(now, then, rtol=1e-6, atol=1e-6)


def a_weight_is_as_many_rows(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """Rows of whole weights are learned about as well as if each were there so many times.

    All see as many rows, by passes. A third of the rows weighs 6: learned as if it weighed 1, the
    weighted rows would have a lower likelihood. Learning that was sent back to its start is left
    out, since it has seen fewer rows. One order of the rows in which it is not so is allowed.
    """
    failure = weights_and_rows_differ(model, params, learner, rows, 5)
    if failure is not None:
        # learning once depends on the order of the rows
        others = (weights_and_rows_differ(model, params, learner, rows, i) for i in (6, 7))
        assert not any(others), failure


def learning_raises_the_likelihood(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """From a bad start, some passes end better than they began."""
    backend = Threads(model, 1)
    bad = elsewhere(model, params)
    state, _ = fold(backend, learner, bad, rows, cuts, passes=3, seen=20)
    bound, found = learned(backend, learner, state)
    ended = bound.posterior(found, rows, False)[0]
    began = backend.posterior(bad, rows, False)[0]
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    after, before = (float(weight @ one) / float(weight.sum()) for one in (ended, began))
    assert after > before - 0.05, (
        f"the mean log-likelihood falls from {before:.4g} to {after:.4g} in three passes"
    )


def elsewhere(model: Model, params: Any) -> Any:
    """Parameters that are not those the rows were drawn from."""
    if isinstance(model, MixtureModel):
        other = model.family.example(model.k, model.d, np.random.default_rng(1))
        return MixtureParams(np.full(model.k, 1.0 / model.k), other)
    return model.constrained(
        model.unconstrained(params) + 0.5 * model.coordinate_scales(params), params
    )


def one_by_one_is_batches_of_one(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """The compiled updates of single rows do what the readable ones do.

    From a start that counts: a first step of length 1 would leave components that are alike, and
    rounding to part them.
    """
    if not isinstance(model, MixtureModel):  # other models have one kernel only
        return
    some = rows.cut(0, 60)
    ends = []
    for backend in (Threads(model, 1), Threads(model, 1, ReferenceKernel(model))):
        state, _ = fold(backend, learner, params, some, [], seen=200)
        ends.append(learner.estimate(backend, state))
    found, expected = (coordinates(model, params) for params in ends)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def closing_keeps_the_pass(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """A state that was closed ends its pass as one that was not."""
    backend = Threads(model, 1)
    state, _ = learner.step(backend, learner.init(backend, params), rows)
    closed = learner.flushed(backend, state)
    assert_same(learner.flushed(backend, closed), closed, "flushed applied twice and once")
    found, expected = (learner.end_pass(backend, one)[0] for one in (closed, state))
    assert_same(found, expected, "end_pass after flushed, and without it")


def shards(backend: Backend, learner: Learner, before: Any, rows: Rows) -> list[Any]:
    """States of three workers, each of which has folded rows of its own."""
    n, found = len(rows), []
    for i, (start, stop) in enumerate([(0, n // 2), (n // 2, n // 2 + 7), (n // 2 + 7, n)]):
        state = learner.branch(backend.model, before, i, 3)
        state, _ = learner.step(backend, state, rows.cut(start, stop))
        found.append(state)
    return found


def the_order_of_states_does_not_matter(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """Merging gives the same bits in any order, and leaves its inputs as they were."""
    merge = getattr(learner, "merge", None)
    if merge is None:
        return
    backend = Threads(model, 1)
    before = learner.init(backend, params, 20)
    states = shards(backend, learner, before, rows)
    copies = _copied([before, *states])
    merged = merge(backend, before, states)
    assert equal(merge(backend, before, states[::-1]), merged)
    assert equal(merge(backend, before, [states[1], states[2], states[0]]), merged)
    assert equal([before, *states], copies)
    assert equal(learner.flushed(backend, merged), merged)
    learner.end_pass(backend, learner.step(backend, merged, rows)[0])


def merging_nothing_changes_nothing(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """States that saw no rows add nothing, and one state alone is what it is."""
    merge = getattr(learner, "merge", None)
    if merge is None:
        return
    backend = Threads(model, 1)
    before = learner.init(backend, params)
    assert equal(merge(backend, before, [before, before]), before)
    state, _ = learner.step(backend, before, rows)
    closed = learner.flushed(backend, state)
    assert equal(merge(backend, before, [state]), closed)
    assert equal(merge(backend, before, [before, state, before]), closed)


def gathered_passes_add_up(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """Where a pass only sums statistics, merging the sums of shards is the pass over all rows."""
    backend = Threads(model, 1)
    before = learner.init(backend, params)
    if not learner.is_reduction(before) or hasattr(before, "seed"):  # drawn numbers differ
        return
    merged = learner.merge(backend, before, shards(backend, learner, before, rows))  # type: ignore[attr-defined]
    together = learner.end_pass(backend, merged)[0].params
    whole = fold(backend, learner, params, rows, [], passes=1)[0].params
    precision = 1e-9 if rows.x.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(
        coordinates(model, together), coordinates(model, whole), precision, precision
    )


def extreme_rows_leave_valid_parameters(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """Rows as large and as small as are accepted leave finite parameters that learn on."""
    if not isinstance(model, MixtureModel):
        return
    backend = Threads(model, 1)
    ordinary = rows.cut(0, 90)
    extreme = with_extremes(model, ordinary, np.random.default_rng(len(cuts)))
    state, _ = fold(backend, learner, params, extreme, [min(cuts[-1], 60)], passes=1)
    assert_valid(backend, learner, state, ordinary)
    state, _ = learner.step(backend, state, ordinary)
    state, _ = learner.end_pass(backend, state)
    assert_valid(backend, learner, state, ordinary)


def states_are_in_their_domain(
    model: Model, params: Any, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """Every state passes the checks that states in files must pass; so does the learner."""
    backend, some = Threads(model, 1), rows.cut(0, 40)
    resolved = learner.resolve(None, model.d, False)
    assert_same(resolved, learner, "a learner resolved twice and once")
    before = state = learner.init(backend, params, 20)
    found = [state]
    for _ in range(2):
        for start, stop in ((0, 1), (1, 13), (13, 40)):
            state, _ = learner.step(backend, state, some.cut(start, stop))
            found += [state, learner.flushed(backend, state)]
        state, _ = learner.end_pass(backend, state)
        found += [state, learner.compact(state)]
    if isinstance(learner, Mergeable):
        found.append(learner.merge(backend, before, shards(backend, learner, before, some)))
    for one in found:
        check_types(one)
        learner.check_state(model, one)
        bound, estimate = learned(backend, learner, one)
        bound.model.check_params(estimate)


def _copied(thing: Any) -> Any:
    arrays: dict[str, np.ndarray] = {}
    tree = flatten(thing, "thing", arrays)
    return unflatten(tree, {name: array.copy() for name, array in arrays.items()})


LAWS = [
    blocks_do_not_matter,
    every_row_is_counted_once_a_pass,
    threads_do_not_matter,
    saving_does_not_matter,
    inputs_are_not_changed,
    rows_of_weight_zero_do_not_matter,
    a_common_factor_of_weights_changes_nothing,
    a_weight_is_as_many_rows,
    learning_raises_the_likelihood,
    one_by_one_is_batches_of_one,
    closing_keeps_the_pass,
    the_order_of_states_does_not_matter,
    merging_nothing_changes_nothing,
    gathered_passes_add_up,
    extreme_rows_leave_valid_parameters,
    states_are_in_their_domain,
]
