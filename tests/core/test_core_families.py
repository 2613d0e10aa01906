"""Families of other kinds than the three that are built in, each in a few lines, on the same core.

A categorical family, a product of two families, one in which cells need not be observed, and one
whose statistics depend on the parameters. Oracles are loops of plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import mixfold
from mixfold import EM, Mixture
from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.rows import Array, Rows
from mixfold.core.value import equal, value
from mixfold.families.gaussian import Gaussian
from mixfold.learners.fast_incremental_em import FastIncrementalEM
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.learners.k_mle import KMLE
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.stepwise_em import StepwiseEM
from mixfold.learners.variance_reduced_em import VarianceReducedEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing import families, learners
from other_families import (
    COMPLETE,
    PAIR,
    CodedCategorical,
    ImputingBernoulli,
    ObservedBernoulli,
    OddsParams,
    PairFamily,
    rng,
)

LINEAR: list[Learner] = [
    EM(),
    EM(accelerate=True),
    OnlineEM(),
    OnlineEM(batch_size=7),
    MiniBatchEM(batch_size=40, average_from=2),
    StepwiseEM(batch_size=5),
    KMLE(),
    IncrementalEM(batch_size=50),
    FastIncrementalEM(batch_size=50),
    VarianceReducedEM(batch_size=50),
]


def with_gaps(x: Array, share: float = 0.3) -> Array:
    """With some cells that are not observed."""
    return np.where(rng(5).random(x.shape) < share, np.nan, x)


def em(
    x: Array,
    weights: Array,
    theta: Any,
    log_density: Callable[[Any, Array], Array],
    estimate: Callable[[Array, Array, Any], Any],
    passes: int,
) -> tuple[Array, Any, float]:
    """EM in plain NumPy; also the mean log-likelihood before the last M-step."""
    for _ in range(passes):
        joint = np.log(weights) + log_density(theta, x)
        total = logsumexp(joint, axis=1)
        r = np.exp(joint - total[:, None])
        weights, theta = r.mean(axis=0), estimate(r, x, theta)
    return weights, theta, float(total.mean())


def level_frequencies(r: Array, x: Array, old: Any) -> Array:
    counts = np.stack([r[x[:, 0] == level].sum(axis=0) for level in range(4)], axis=1)
    return np.asarray(counts / r.sum(axis=0)[:, None])


def observed_frequencies(r: Array, x: Array, old: Any) -> Array:
    there = ~np.isnan(x)
    return np.asarray(r.T @ np.where(there, x, 0.0) / (r.T @ there))


def imputed_frequencies(r: Array, x: Array, old: Array) -> Array:
    there, n = ~np.isnan(x), r.sum(axis=0)[:, None]
    return np.asarray((r.T @ np.where(there, x, 0.0) + (r.T @ ~there) * old) / n)


def bernoulli_log_density(p: Array, x: Array) -> Array:
    ones, zeros = (x == 1.0).astype(float), (x == 0.0).astype(float)
    return np.asarray(ones @ np.log(p).T + zeros @ np.log(1.0 - p).T)


def pair_log_density(theta: tuple[Array, Array, Array], x: Array) -> Array:
    p, mean, variance = theta
    z = x[:, None, 1:] - mean
    normal = -0.5 * (z**2 / variance + np.log(2.0 * np.pi * variance)).sum(axis=2)
    return np.asarray(np.log(p).T[x[:, 0].astype(int)] + normal)


def pair_estimate(r: Array, x: Array, old: Any) -> tuple[Array, Array, Array]:
    n, y = r.sum(axis=0)[:, None], x[:, 1:]
    mean = r.T @ y / n
    variance = np.stack([r[:, k] @ (y - m) ** 2 for k, m in enumerate(mean)]) / n
    return level_frequencies(r, x, old), mean, variance


def fitted(family: Family, params: MixtureParams, x: Array, learner: Any) -> Mixture:
    return Mixture(family, len(params.weights), learner=learner, init=params, random_state=0).fit(x)


def started(family: Family, d: int, n: int = 400) -> tuple[MixtureModel, MixtureParams, Array]:
    """A start that is not the truth, and rows."""
    model, _, x = families.example_mixture(family, 3, d, n, rng(1))
    return model, families.example_mixture(family, 3, d, 1, rng(2))[1], x


def test_a_categorical_mixture_is_fitted_as_by_hand() -> None:
    model, start, x = started(CodedCategorical(), 1)
    learner = EM(tol=0.0, max_iter=25)
    found = fitted(model.family, start, x, learner)
    begin = start.weights, start.components.probabilities

    def log_density(p: Array, x: Array) -> Array:
        return np.asarray(np.log(p).T[x[:, 0].astype(int)])

    weights, p, score = em(x, *begin, log_density, level_frequencies, 25)
    order = np.argsort(found.weights_), np.argsort(weights)
    np.testing.assert_allclose(found.weights_[order[0]], weights[order[1]], atol=1e-10)
    np.testing.assert_allclose(found.probabilities_[order[0]], p[order[1]], atol=1e-10)
    np.testing.assert_allclose(found.history_.log_likelihood[-1], score, atol=1e-10)


def test_a_product_of_a_categorical_and_gaussians_is_fitted_as_by_hand() -> None:
    _, start, x = started(PAIR, 3)
    found = fitted(PAIR, start, x, EM(tol=0.0, max_iter=25))
    gaussian = start.components.second
    theta = start.components.first.probabilities, gaussian.means, gaussian.scale**2
    weights, (p, mean, variance), score = em(
        x, start.weights, theta, pair_log_density, pair_estimate, 25
    )
    parts = found.params_.components
    order = np.argsort(found.weights_), np.argsort(weights)
    np.testing.assert_allclose(found.weights_[order[0]], weights[order[1]], atol=1e-10)
    for one, other in (
        (parts.first.probabilities, p),
        (parts.second.means, mean),
        (parts.second.scale**2, variance),
    ):
        np.testing.assert_allclose(one[order[0]], other[order[1]], atol=1e-10)
    np.testing.assert_allclose(found.history_.log_likelihood[-1], score, atol=1e-10)


@pytest.mark.parametrize(
    ("family", "estimate"),
    [
        (ObservedBernoulli(), observed_frequencies),
        (ImputingBernoulli(), imputed_frequencies),
    ],
    ids=["observed", "imputing"],
)
def test_cells_that_are_not_observed_are_treated_as_by_hand(
    family: Family, estimate: Callable[[Array, Array, Any], Array]
) -> None:
    _, start, x = started(family, 5)
    x = with_gaps(x)
    found = fitted(family, start, x, EM(tol=0.0, max_iter=25))
    begin = start.weights, start.components.probabilities
    weights, p, score = em(x, *begin, bernoulli_log_density, estimate, 25)
    order = np.argsort(found.weights_), np.argsort(weights)
    np.testing.assert_allclose(found.weights_[order[0]], weights[order[1]], atol=1e-10)
    np.testing.assert_allclose(found.probabilities_[order[0]], p[order[1]], atol=1e-10)
    np.testing.assert_allclose(found.history_.log_likelihood[-1], score, atol=1e-10)
    np.testing.assert_allclose(found.score_samples(x).mean(), found.score(x))


def test_a_column_that_a_component_never_sees_keeps_its_parameters() -> None:
    x = np.array([[1.0, np.nan], [0.0, np.nan], [1.0, np.nan]])
    params = MixtureParams(np.ones(1), OddsParams(np.array([[0.5, 0.3]])))
    model = fitted(ObservedBernoulli(), params, x, EM(max_iter=3))
    np.testing.assert_allclose(model.probabilities_, [[2.0 / 3.0, 0.3]])


@pytest.mark.parametrize("family", [ImputingBernoulli(), Gaussian("factor", rank=1)], ids=repr)
@pytest.mark.parametrize("learner", LINEAR[-3:], ids=lambda one: type(one).__name__)
def test_learners_that_keep_responsibilities_refuse_statistics_that_depend_on_parameters(
    family: Family, learner: Learner
) -> None:
    _, start, x = started(family, 5, 60)
    with pytest.raises(InvalidInputError, match="depend on the parameters too: use 'em'"):
        fitted(family, start, x, learner)


def test_keeping_responsibilities_would_be_wrong_where_cells_are_imputed() -> None:
    """The refusal has a reason: without it incremental EM ends elsewhere than EM."""
    _, start, x = started(ImputingBernoulli(), 5, 200)
    x, passes = with_gaps(x), 60

    @value
    class Unstated(ImputingBernoulli):
        """Claims that its statistics are linear."""

        statistics_depend_on_params = False

    learner = IncrementalEM(batch_size=10, max_iter=passes)
    honest = fitted(ImputingBernoulli(), start, x, EM(tol=0.0, max_iter=passes)).score(x)
    assert fitted(Unstated(), start, x, learner).score(x) < honest - 1e-3
    with pytest.raises(AssertionError):
        stated_law(Unstated(), x)
    stated_law(ImputingBernoulli(), x)
    stated_law(ObservedBernoulli(), x)
    right = fitted(ObservedBernoulli(), start, x, learner).score(x)
    by_em = fitted(ObservedBernoulli(), start, x, EM(tol=0.0, max_iter=200)).score(x)
    np.testing.assert_allclose(right, by_em, atol=2e-3)


def stated_law(family: Family, x: Array) -> None:
    """The law of linearity on rows with cells that are not observed."""

    class Drawn(type(family)):  # type: ignore[misc]
        def sample(self, *given: Any) -> Array:
            return x

    families.linearity_is_as_stated(Drawn(), 3, x.shape[1], rng(), n=len(x))


@pytest.mark.parametrize("law", families.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("family", "d"), COMPLETE, ids=repr)
def test_family_laws(law: Callable[..., None], family: Family, d: int) -> None:
    if law is families.parameters_are_in_their_domain and isinstance(family, PairFamily):
        return  # the law changes one array after the other, and here parameters are nested
    law(family, 3, d, rng(3))


@pytest.mark.parametrize("learner", LINEAR, ids=repr)
@pytest.mark.parametrize(("family", "d"), COMPLETE[1::2], ids=repr)
def test_learner_laws(family: Family, d: int, learner: Learner) -> None:
    model, params, x = started(family, d, 80)
    x = with_gaps(x) if family.accepts_missing else x
    learner = learner.resolve(len(x), d, False)
    assert learner.serves(model)
    for law in (
        learners.blocks_do_not_matter,
        learners.threads_do_not_matter,
        learners.saving_does_not_matter,
        learners.the_order_of_states_does_not_matter,
        learners.merging_nothing_changes_nothing,
        learners.states_are_in_their_domain,
        learners.learning_raises_the_likelihood,
    ):
        law(model, params, learner, Rows(x), [1, 8, 37, 60])


@pytest.mark.parametrize(("family", "d"), COMPLETE, ids=repr)
@pytest.mark.parametrize("init", ["auto", "k-mle++", "random-labels", "random-rows"])
def test_initialisers_serve_any_family(family: Family, d: int, init: str) -> None:
    model, _, x = started(family, d)
    if family.accepts_missing and init in ("auto", "k-mle++", "random-rows"):
        x = x.round()  # centres need all their cells
    elif family.accepts_missing:
        x = with_gaps(x)
    learner = EM(tol=1e-9, max_iter=100)
    found = Mixture(family, 3, init=init, learner=learner, random_state=0).fit(x)
    one = Mixture(family, 1, init="random-labels", learner=learner, random_state=0).fit(x)
    model.check_params(found.params_)
    # one column of codes is fitted as well by a single component
    assert found.score(x) > one.score(x) - 1e-9


@pytest.mark.parametrize(("family", "d"), COMPLETE, ids=repr)
def test_models_are_saved_merged_and_go_on(family: Family, d: int, tmp_path: Path) -> None:
    _, start, x = started(family, d)
    x = with_gaps(x) if family.accepts_missing else x
    before = fitted(family, start, x[:100], "online-em")
    online = [deepcopy(before).partial_fit(part) for part in (x[100:250], x[250:])]
    online[0].save(tmp_path / "model.mixfold")
    loaded = mixfold.load(tmp_path / "model.mixfold")
    assert equal(loaded.params_, online[0].params_)
    merged = mixfold.merge(online)
    assert equal(mixfold.merge(online[::-1]).params_, merged.params_)
    began = Threads(MixtureModel(family, 3, d), 1).posterior(start, Rows(x))[0].mean()
    assert merged.score(x) > began
    assert equal(loaded.partial_fit(x[:9]).params_, online[0].partial_fit(x[:9]).params_)
    batch = [fitted(family, start, part, "em") for part in (x[:200], x[200:])]
    assert np.isfinite(mixfold.merge(batch, align=True).score(x))


def test_what_a_family_lacks_is_refused_with_a_remedy() -> None:
    family = CodedCategorical()
    _, start, x = started(family, 1, 60)
    for learner, message in (
        (MiniBatchEM(batch_size=10, truncation=5.0), "use truncation=None"),
        ("moment-matching", "no conjugate prior"),
        ("annealed-sgd", "a learner of the EM kind"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            fitted(family, start, x, learner)
    with pytest.raises(InvalidInputError, match="use 'k-mle\\+\\+'"):
        Mixture(family, 3, init="uniform").fit(x)
    with pytest.raises(InvalidInputError, match="values must be whole numbers from 0 to 3"):
        fitted(family, start, x + 0.5, "em")


def test_blocks_of_two_kinds_of_weights_add_up() -> None:
    truth = OddsParams(np.full((1, 4), 0.4))
    x = with_gaps(ObservedBernoulli().sample(truth, np.zeros(50, dtype=int), rng()))
    r = rng().dirichlet(np.ones(3), size=50)
    family = ObservedBernoulli()
    whole = family.blocks_of(x, r)[0]
    parts = [family.blocks_of(x[i::3], r[i::3])[0] for i in range(3)]
    total = parts[0] + parts[1] + parts[2]
    for one, other in ((total.weight, whole.weight), (total.mean, whole.mean)):
        np.testing.assert_allclose(one, other)
    assert equal(replace(whole * 2.0, weight=whole.weight), whole)
    backend = Threads(MixtureModel(family, 3, 4), 1)
    params = MixtureParams(np.full(3, 1 / 3), family.example(3, 4, rng()))
    assert np.isfinite(backend.posterior(params, Rows(x))[0]).all()
