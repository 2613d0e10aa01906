"""Rows and weights of extreme size, for every learner and family and through every entry point."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attacks import Attack
from mixfold import Mixture
from mixfold.core.capabilities import IdentityKernel, WhitenedKernel
from mixfold.core.errors import InvalidInputError, LearningWarning
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.registry import find_all
from mixfold.core.value import equal, field_names, is_value
from mixfold.models.mixture_model import MixtureModel
from mixfold.testing.families import columns_for

SIZES = (
    *(1e5, 1e10, 1e15, 1e18, 2e19, 1e20, 1e25, 9.96921e36, 1e38, 3.4e38, 1e50, 1e60, 1e76, 1e77),
    *(1e99, 1e100, 1e101, 1e150, 1e155, 1e200, 1e300, 1e308, 1.79e308),
    *(1e-15, 1e-20, 1e-38, 1e-45, 1e-100, 1e-155, 1e-200, 1e-308, 5e-324, 0.0),
)
WEIGHTS = (0.0, 1e-320, 1e-300, 1e-100, 1e-30, 1e-8, 1.0, 3.0, 1e8, 1e30, 1e100, 1e300)


class Case(NamedTuple):
    """What is learned, by what, from what, and by which call."""

    family: Family
    learner: Learner
    k: int
    rows: np.ndarray
    hostile: np.ndarray
    weight: np.ndarray | None
    entry: str
    engine: str
    seed: int

    def __str__(self) -> str:
        worst = np.abs(self.rows[self.hostile]).max() if self.hostile.any() else 0.0
        weight = "" if self.weight is None else f", weights to {self.weight.max():g}"
        shape = f"{self.rows.dtype} rows {self.rows.shape}"
        return (
            f"{self.entry} ({self.engine}) of {type(self.learner).__name__} with {self.family!r}, "
            f"K={self.k}, {shape} up to {worst:g}{weight}"
        )


def families() -> list[Family]:
    """Every family in every variant."""
    return [variant for family in find_all("families").values() for variant in family.variants()]


def draw_case(rng: np.random.Generator) -> Case:
    """A learner, a family that it serves, and rows some of which are hostile."""
    learners, choice = [*find_all("learners").values()], families()
    while True:
        learner, family = learners[rng.integers(len(learners))](), choice[rng.integers(len(choice))]
        k, d = int(rng.integers(1, 5)), columns_for(family, int(rng.integers(2, 5)))
        if learner.serves(MixtureModel(family, k, d)):
            break
    n = int(rng.integers(40, 200))
    dtype = np.float32 if rng.random() < 0.4 else np.float64
    labels = rng.integers(k, size=n)
    rows = family.sample(family.example(k, d, rng), labels, rng)
    if rng.random() < 0.2:
        constant = rng.integers(d)
        rows[:, constant] = rows[0, constant]
    hostile = draw_places(rng, n, d)
    rows[hostile] = draw_values(rng, int(hostile.sum()), isinstance(family, IdentityKernel))
    rows = family.into_support(rows)
    most = np.finfo(dtype).max
    rows = np.clip(rows, -most, most).astype(dtype)
    entries = ("fit", "fit of blocks", "evaluation", "partial_fit", "learn_one")
    entry = entries[rng.integers(len(entries) if streams(learner, d) else 3)]
    weighted = entry in ("fit", "partial_fit") and rng.random() < 0.3
    weight = draw_weights(rng, n) if weighted else None
    on_torch = (
        isinstance(family, IdentityKernel | WhitenedKernel)
        and find_spec("torch") is not None
        and rng.random() < 0.1
    )
    engine, seed = "torch:cpu" if on_torch else "cpu", int(rng.integers(1000))
    return Case(family, learner, k, rows, hostile, weight, entry, engine, seed)


def streams(learner: Learner, d: int) -> bool:
    """Whether a learner goes on with rows that come one after the other."""
    try:
        return not learner.resolve(None, d, True).rereads
    except InvalidInputError:
        return False


def draw_places(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Where values are hostile: in one row or a few, in one column or all."""
    kind = rng.integers(5)
    if kind == 4:
        chosen = rng.random(n) < 0.2
    else:
        chosen = np.arange(n) == (0, n // 2, n - 1, rng.integers(n))[kind]
    columns = np.ones(d, bool) if rng.random() < 0.3 else np.arange(d) == rng.integers(d)
    return np.asarray(chosen[:, None] & columns)


def draw_values(rng: np.random.Generator, n: int, positive: bool) -> np.ndarray:
    """Hostile values of one size, or of many."""
    sizes = np.array(SIZES)
    drawn = rng.choice(sizes, size=n) if rng.random() < 0.3 else np.full(n, rng.choice(sizes))
    signs = 1.0 if positive or rng.random() < 0.4 else rng.choice([-1.0, 1.0], size=n)
    return np.asarray(drawn * signs)


def draw_weights(rng: np.random.Generator, n: int) -> np.ndarray:
    """Weights of one size, of two, or of many."""
    some = rng.choice(np.array(WEIGHTS), size=int(rng.integers(1, 4)))
    weight = rng.choice(some, size=n)
    return weight if weight.any() else np.ones(n)


def run(case: Case) -> None:
    """Learn hostile rows; the model must be valid after, or as it was before."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", LearningWarning)
        learn_and_look(case)


def learn_and_look(case: Case) -> None:
    """Learn all rows by the calls of the case, and look at the model."""
    how: Any = {"random_state": case.seed, "n_threads": 1, "engine": case.engine}
    model = Mixture(case.family, case.k, learner=case.learner, **how)
    clean = np.delete(case.rows, np.flatnonzero(case.hostile.any(axis=1)), axis=0)
    if case.entry in ("partial_fit", "learn_one") and len(clean) > case.k:
        model.partial_fit(clean[: len(clean) // 2])
    if case.entry == "evaluation":
        model.fit(case.rows if len(clean) <= case.k else clean)
    for call in calls(model, case):
        before, refused = learned(model), None
        try:
            call()
        except InvalidInputError as error:
            refused = str(error)
        except (Warning, ArithmeticError, ValueError, TypeError, RuntimeError) as error:
            raise AssertionError(f"{type(error).__name__}: {error}") from error
        if refused is not None:
            assert is_named(refused), f"the error does not say what is wrong: {refused}"
            assert equal(learned(model), before), "a failed call has changed the model"
    if model.__sklearn_is_fitted__():
        assert_valid(model)
        assert_usable(model, clean)


def calls(model: Mixture, case: Case) -> Iterator[Callable[[], Any]]:
    """The calls that an entry point takes to learn all rows."""
    n = len(case.rows)
    if case.entry == "fit":
        yield partial(model.fit, case.rows, sample_weight=case.weight)
    elif case.entry == "fit of blocks":
        yield partial(model.fit, [case.rows[: n // 3], case.rows[n // 3 :]])
    elif case.entry == "partial_fit":
        for some in (slice(0, n // 2), slice(n // 2, n)):
            weight = None if case.weight is None else case.weight[some]
            if weight is None or weight.any():
                yield partial(model.partial_fit, case.rows[some], sample_weight=weight)
    elif case.entry == "learn_one":
        for row in case.rows:
            yield partial(model.learn_one, row)
    else:
        yield partial(assert_evaluated, model, case.rows)


def assert_evaluated(model: Mixture, rows: np.ndarray) -> None:
    """Rows have log densities, which may be minus infinity, and responsibilities."""
    assert not np.isnan(model.score_samples(rows)).any(), "a log density is NaN"
    assert not np.isnan(model.score_bound(rows)), "the bound is NaN"
    shares = model.predict_proba(rows)
    assert np.allclose(shares.sum(axis=1), 1.0), "responsibilities do not sum to one"
    assert (model.predict(rows) == shares.argmax(axis=1)).all(), "labels are not the likeliest"
    if model._learned.posterior is not None:
        assert not np.isnan(model.posterior_predictive(rows)).any(), "a prediction is NaN"


def is_named(message: str) -> bool:
    """Whether an error says which value was refused."""
    return "column" in message or "sample_weight" in message


def learned(model: Mixture) -> Any:
    """Everything the model has learned."""
    return model._now() if model.__sklearn_is_fitted__() else None


def assert_valid(model: Mixture) -> None:
    """Weights sum to one, and all parameters are finite and inside their domain."""
    weights = model.weights_
    assert ((weights >= 0) & np.isfinite(weights)).all(), f"weights are {weights}"
    assert math.isclose(weights.sum(), 1.0, rel_tol=1e-6), f"weights sum to {weights.sum()}"
    for name, array in numbers(model.params_, "params"):
        assert np.isfinite(array).all(), f"{name} is {array}"
    # the means of distributions with heavy tails may be infinite
    if model.model_.family.n_columns is None:  # categories in products have none
        assert not np.isnan(model.means_).any(), f"means are {model.means_}"
    for name, array in numbers(model._learned.stream.state, "state"):
        # before the first row nothing is known of the likelihood, and that is minus infinity
        if "history" not in name and name.rpartition(".")[2] not in ("before", "first", "loss"):
            assert not np.isnan(array).any(), f"{name} is {array}"
            assert np.isfinite(array).all(), f"{name} is {array}"
    if hasattr(model, "covariances_"):
        assert_covariances(model.covariances_, model._learned.model.family.covariance)
    if hasattr(model, "noise_variance_"):
        assert np.isfinite(model.loadings_).all(), "loadings are not finite"
        assert (model.noise_variance_ > 0).all(), "a noise variance is not positive"


def assert_covariances(covariances: np.ndarray, structure: str) -> None:
    """Covariances are finite, and variances positive."""
    assert np.isfinite(covariances).all(), f"covariances are {covariances}"
    matrices = structure == "tied" or covariances.ndim == 3
    variances = np.diagonal(covariances, axis1=-2, axis2=-1) if matrices else covariances
    assert (variances > 0).all(), f"variances are {variances}"


def numbers(thing: Any, name: str) -> Iterator[tuple[str, np.ndarray]]:
    """All numbers of a value, by name."""
    if is_value(thing):
        for field in field_names(thing):
            yield from numbers(getattr(thing, field), f"{name}.{field}")
    elif isinstance(thing, list | tuple):
        for i, part in enumerate(thing):
            yield from numbers(part, f"{name}[{i}]")
    elif isinstance(thing, float | np.ndarray):
        yield name, np.asarray(thing, dtype=np.float64)


def assert_usable(model: Mixture, clean: np.ndarray) -> None:
    """Ordinary rows have densities, responsibilities and can be learned, and rows be drawn."""
    if not len(clean):
        return
    assert np.isfinite(model.score_samples(clean)).all(), "an ordinary row has no density"
    shares = model.predict_proba(clean)
    assert np.allclose(shares.sum(axis=1), 1.0), "responsibilities do not sum to one"
    identity = isinstance(model._learned.model.family, IdentityKernel)
    if not identity or np.nanmax(model.means_) < 1e15:
        assert np.isfinite(model.sample(5)[0]).all(), "rows drawn are not finite"
    if streams(model._learner(), clean.shape[1]):
        model.partial_fit(clean)
        assert_valid(model)


def attacks(rng: np.random.Generator, folder: Path) -> Iterator[Attack]:
    """Hostile rows without end."""
    while True:
        case = draw_case(rng)
        yield Attack(str(case), partial(run, case))
