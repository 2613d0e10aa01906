"""Merging of models that were learned from different rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from mixfold.backends.threads import Threads
from mixfold.core.capabilities import LatentFactors
from mixfold.core.data_limits import LimitsFromData, without_limits
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner_capabilities import Mergeable, StateOfRows, row_keeping
from mixfold.core.statistics import Statistics
from mixfold.core.value import digest, equal, field_names
from mixfold.estimators._cells import cells_of
from mixfold.estimators._density import Density
from mixfold.estimators._learned import Learned
from mixfold.fitting.component_order import reorder
from mixfold.fitting.history import no_history
from mixfold.fitting.snapshot import Snapshot
from mixfold.fitting.stream import Stream
from mixfold.models.mixture_model import count_degenerate


def merge(models: Sequence[Any], align: bool = False) -> Any:
    """Merge models that were learned from different rows into one.

    The models must have a common state: they were given the same `init`, or they are copies of one
    model that continued to learn. Models of online learners are merged like the states of workers
    of a cluster, and rows learned before the common state count once. The statistics of models that
    were fitted in several passes are averaged, weighted by the number of rows. Models without a
    common state are refused, since it is not known which of their components correspond. With
    `align` their components are matched to those of the first model by the smallest symmetric
    Kullback-Leibler divergence, and averaged. The result can learn more rows.

    Examples
    --------
    >>> import mixfold
    >>> rows = mixfold.datasets.load_faithful()
    >>> start = mixfold.Mixture(n_components=2, random_state=0).fit(rows[:50])
    >>> parts = [mixfold.Mixture(n_components=2, init=start).fit(rows[i::2]) for i in (0, 1)]
    >>> sorted(mixfold.merge(parts).means_[:, 1].round(0).tolist())
    [55.0, 80.0]
    """
    models, learned = _checked(models)
    learned = _with_common_limits(_without_originals(learned))
    together = _aligned(learned) if align else _of_one_lineage(learned)
    merged = type(models[0])(**models[0].get_params(deep=False))
    merged.n_features_in_ = models[0].n_features_in_
    if hasattr(models[0], "feature_names_in_"):
        merged.feature_names_in_ = models[0].feature_names_in_
    merged._notes = models[0]._notes
    merged._remember(together)
    return merged


def _checked(models: Sequence[Any]) -> tuple[list[Density], list[Learned]]:
    """Check that the models are compatible; return them and their learned states."""
    models, known = list(models), list[Learned]()
    if not models:
        raise InvalidInputError("models is empty: at least one fitted mixture is needed")
    for i, model in enumerate(models):
        if not isinstance(model, Density):
            raise InvalidInputError(
                f"models[{i}] is a {type(model).__name__}: mixtures can be merged, "
                "such as Mixture and GaussianMixture"
            )
        check_is_fitted(model)
        learned = model._now()
        known.append(learned)
        if learned.n_rows == 0 or learned.stream.waiting is not None:
            raise InvalidInputError(
                f"models[{i}] was given {learned.n_seen} rows, too few to initialise it: "
                "give it more rows, or leave it out"
            )
    alike: list[tuple[str, Callable[[Density, Learned], Any]]] = [
        ("the kind of model", lambda m, _: type(m).__name__),
        ("the levels of columns", lambda _, one: dict(cells_of(one.model.family, False).levels)),
        ("family", lambda _, one: without_limits(one.model.family)),
        ("n_components", lambda _, one: one.n_components),
        ("the box of noise", lambda _, one: getattr(one.model, "box", None)),
        ("the number of columns", lambda _, one: one.model.d),
        ("columns", lambda m, _: [*map(str, getattr(m, "feature_names_in_", ()))] or None),
        ("learner", lambda m, _: m._learner()),
        ("the labels", lambda _, one: one.labels),
    ]
    for name, read in alike:
        _check_same(name, [*map(read, models, known)])
    seen: dict[str, int] = {}
    for i, learned in enumerate(known):
        other = seen.setdefault(digest([learned.params, learned.n_seen]), i)
        if other != i:
            raise InvalidInputError(
                f"models[{other}] and models[{i}] are the same, and rows would count twice: "
                "give it once"
            )
    return models, known


def _check_same(name: str, values: Sequence[Any]) -> None:
    for i, found in enumerate(values):
        if not equal(found, values[0]):
            raise InvalidInputError(
                f"{name} is {values[0]!r} in models[0], but {found!r} in models[{i}]: "
                "only models that agree in it can be merged"
            )


def _with_common_limits(learned: Sequence[Learned]) -> list[Learned]:
    """The learned states with limits of parameters that suit the rows of all models."""
    first, *others = (one.model.family for one in learned)
    if not isinstance(first, LimitsFromData):
        return [*learned]
    family = first.common_limits(others)
    return [replace(one, model=replace(one.model, family=family)) for one in learned]


def _of_one_lineage(learned: Sequence[Learned]) -> Learned:
    if all(map(_online, learned)):
        return _joined(learned)
    base = _common(learned, lambda one, state: state.params)
    learned = sorted(learned, key=lambda one: digest([one.params, one.n_rows]))
    return _averaged(learned, [one.model.expected(one.params) for one in learned], base)


def _online(learned: Learned) -> bool:
    """Whether the learner has a state to continue from, rather than parameters alone."""
    learner, state = learned.learner, learned.stream.state
    return state is not None and not learner.is_reduction(state) and isinstance(learner, Mergeable)


def _joined(learned: Sequence[Learned]) -> Learned:
    """Merge the states of an online learner."""
    first = learned[0]
    _check_same("the learner", [one.learner for one in learned])
    base = _common(learned, lambda one, state: [one.learner, _without_seed(state)])
    backend = Threads(first.training_model, 1)
    state = first.learner.merge(backend, base.state, [one.stream.state for one in learned])
    params = first.learner.estimate(backend, state)
    model: Any = row_keeping(first.learner).model_learned(first.model, state)
    return replace(
        first,
        model=model,
        stream=Stream(None, state, [base]),
        params=params,
        n_seen=base.n_seen + sum(one.n_seen - base.n_seen for one in learned),
        n_rows=base.n_rows + sum(one.n_rows - base.n_rows for one in learned),
        history=no_history(),
        converged=all(one.converged for one in learned),
        n_degenerate=count_degenerate(model, params),
        streaming=all(one.streaming for one in learned),
    )


def _without_seed(state: Any) -> Any:
    return replace(state, seed=0) if "seed" in field_names(state) else state


def _common(learned: Sequence[Learned], key: Callable[[Learned, Any], Any]) -> Snapshot:
    """The latest snapshot that all have."""
    lineages = [{digest(key(one, a.state)): a for a in one.stream.snapshots} for one in learned]
    for name in reversed(lineages[0]):
        if all(name in lineage for lineage in lineages):
            found = lineages[0][name]
            if _same_rows(found, learned):
                return found
    raise InvalidInputError(
        "the models have no common state: they did not start from the same parameters, so it is "
        "not known which components correspond; give all of them the same init, such as "
        "one model or its params_, or merge with align=True"
    )


def _same_rows(before: Snapshot, learned: Sequence[Learned]) -> bool:
    """Whether the rows that models have kept from before a snapshot, which lacks them, agree."""
    if not isinstance(before.state, StateOfRows):
        return True
    states = [one.stream.state for one in learned]
    kind = type(before.state)
    return all(isinstance(state, kind) for state in states) and before.state.same_rows(states)


def _without_originals(learned: Sequence[Learned]) -> list[Learned]:
    """The models but those from which others have continued, and which have learned no more."""
    return [one for one in learned if not any(_continues(other, one) for other in learned)]


def _continues(other: Learned, one: Learned) -> bool:
    """Whether a model began as another one is now, so that it has learned all of its rows."""
    for now in one.present() if other is not one else ():
        name = digest(now)
        for found in other.stream.snapshots:
            if found.n_seen == now.n_seen and digest(found) == name:
                return _same_rows(found, [one, other])
    return False


def _aligned(learned: Sequence[Learned]) -> Learned:
    """Components matched to those of the first model."""
    from scipy.optimize import linear_sum_assignment

    if any(one.posterior is not None for one in learned):
        raise InvalidInputError(
            f"align is True, but {type(learned[0].learner).__name__} learns a posterior, and "
            "without a common state it is not known which prior to divide out: give all models the "
            "same init"
        )
    first, expected = learned[0], []
    like = first.model.expected(first.params)
    for one in learned:
        distance = one.model.family.symmetric_kl(first.params.components, one.params.components)
        order = linear_sum_assignment(distance)[1]
        found = reorder(one.model.expected(one.params), order)
        family = one.model.family
        if isinstance(family, LatentFactors):
            found = replace(found, blocks=family.rotated(found.blocks, like.blocks))
        expected.append(found)
    return _averaged(learned, expected, None)


def _averaged(
    learned: Sequence[Learned], expected: Sequence[Statistics], base: Snapshot | None
) -> Learned:
    """Average statistics, weighted by rows; the result is an initial state with its parameters."""
    first = learned[0]
    total = expected[0] * learned[0].n_rows
    for one, statistics in zip(learned[1:], expected[1:], strict=True):
        total = total + statistics * one.n_rows
    params, _ = first.model.maximize(total.normalized())
    seen, rows = (base.n_seen, base.n_rows) if base else (0, 0)
    return replace(
        first,
        stream=Stream(None, None, [base] if base else []),
        params=params,
        n_seen=seen + sum(one.n_seen - seen for one in learned),
        n_rows=rows + sum(one.n_rows - rows for one in learned),
        history=no_history(),
        converged=all(one.converged for one in learned),
        n_degenerate=count_degenerate(first.model, params),
        streaming=False,
    )
