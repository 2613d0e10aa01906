"""The laws of learners, over everything the registry finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixfold.core.capabilities import LatentFactors
from mixfold.core.conjugate import Prior
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.registry import find_all
from mixfold.core.rows import Rows
from mixfold.detectors.robust_cusum import RobustCusum
from mixfold.families.categorical import Categorical
from mixfold.families.exponential import Exponential
from mixfold.families.gaussian import FactorGaussian, Gaussian
from mixfold.families.poisson import Poisson
from mixfold.families.product import Product
from mixfold.kernels.choice import kernel_for
from mixfold.kernels.native import NativeKernel
from mixfold.learners.annealed_sgd import AnnealedSGD
from mixfold.learners.auto import Auto
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.em import EM
from mixfold.learners.fast_incremental_em import FastIncrementalEM
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.learners.k_mle import KMLE
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.moment_matching import MomentMatching
from mixfold.learners.monte_carlo_em import MonteCarloEM
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_k_mle import OnlineKMLE
from mixfold.learners.online_vb import OnlineVB
from mixfold.learners.recursive_em import RecursiveEM
from mixfold.learners.reservoir_em import ReservoirEM
from mixfold.learners.sem import SEM
from mixfold.learners.split_merge_em import SplitMergeEM
from mixfold.learners.stepwise_em import StepwiseEM
from mixfold.learners.truncated_em import TruncatedEM
from mixfold.learners.truncated_mini_batch_em import TruncatedMiniBatchEM
from mixfold.learners.variance_reduced_em import VarianceReducedEM
from mixfold.models.mixture_model import MixtureModel
from mixfold.schedules.constant import Constant
from mixfold.testing import families, learners
from mixfold.testing.families import all_variants

FAMILIES = all_variants(2)
EASILY = RobustCusum(delta=0.1, threshold=0.2, window_size=4, min_instances=3)
LEARNERS: list[Learner] = [learner() for learner in find_all("learners").values()] + [
    AnnealedSGD(scale=True),
    AnnealedSGD(batch_size=7),
    EM(accelerate=True),
    MiniBatchEM(batch_size=70, average_from=3, truncation=1000.0),
    MiniBatchEM(batch_size=40, truncation=5.0),
    OnlineEM(batch_size=10, schedule=Constant(0.05)),
    OnlineKMLE(strategy="lookahead"),
    OnlineKMLE(strategy="sample"),
    OnlineKMLE(strategy="sample", batch_size=30),
    RecursiveEM(batch_size=7),
    IncrementalEM(batch_size=64, precision="float32"),
    IncrementalEM(batch_size=0.5),
    FastIncrementalEM(batch_size=50),
    VarianceReducedEM(batch_size=32),
    MonteCarloEM(draws=3, batch_size=100),
    MomentMatching(prior=Prior(kappa=0.2)),
    OnlineVB(form="streaming", batch_size=50),
    OnlineVB(batch_size=60, sparse=True),
    DriftAware(OnlineEM(), EASILY, window=16),
    DriftAware(MiniBatchEM(24), EASILY, window=16, recent_rows=0),
    DriftAware(AnnealedSGD(), EASILY, window=16, recent_rows=0),
    ReservoirEM(starts=2, sample_size=80),
    TruncatedEM(n_candidates=1, n_neighbors=1, n_random=0),
    TruncatedMiniBatchEM(n_candidates=1, n_neighbors=1, batch_size=60),
]


# every learner is tested with these families, and every family with these learners
CORE = (Gaussian, FactorGaussian, Poisson, Exponential, Categorical, Product)
FEW = [
    EM(),
    EM(accelerate=True),
    MiniBatchEM(batch_size=40, truncation=5.0),
    OnlineEM(batch_size=10, schedule=Constant(0.05)),
    RecursiveEM(batch_size=7),
    IncrementalEM(batch_size=0.5),
    ReservoirEM(starts=2, sample_size=80),
    MomentMatching(prior=Prior(kappa=0.2)),
    OnlineVB(form="streaming", batch_size=50),
]
DIAGONAL = [f for f in FAMILIES if isinstance(f, Gaussian) and f.form == "diagonal" and not f.cap]


def is_core(family: Family) -> bool:
    """Whether every learner is tested with a family; named shapes are Gaussians like others."""
    named = isinstance(family, Gaussian) and family.covariance.isupper()
    return isinstance(family, CORE) and not named


def tells(family: Family, learner: Learner) -> bool:
    """Whether a pair is not the sum of two others: drift is heard, and caps hold, for any."""
    if not is_core(family) and repr(learner) not in map(repr, FEW):
        return False
    capped = isinstance(family, Gaussian) and family.cap is not None
    if isinstance(learner, DriftAware):
        return isinstance(family, Poisson) or (family in DIAGONAL)
    if isinstance(learner, SplitMergeEM):  # decisions are alike for all families, and take long
        return isinstance(family, Poisson) or repr(family) == repr(Gaussian("full"))
    if isinstance(learner, OnlineKMLE) and isinstance(family, LatentFactors):
        # strategies draw components alike for any family, and these rows are learned in Python
        return learner.batch_size > 1 or learner.strategy == OnlineKMLE().strategy
    return not capped or type(learner) in (EM, OnlineEM, MiniBatchEM, AnnealedSGD, StepwiseEM)


PAIRS = [
    (f, r) for f in FAMILIES for r in LEARNERS if r.serves(MixtureModel(f, 3, 2)) and tells(f, r)
]
# the others are about the learner alone, such as how its states are merged
OF_FAMILIES = [
    learners.blocks_do_not_matter,
    learners.every_row_is_counted_once_a_pass,
    learners.a_weight_is_as_many_rows,
    learners.learning_raises_the_likelihood,
    learners.extreme_rows_leave_valid_parameters,
    learners.states_are_in_their_domain,
]
CASES = [
    pytest.param(*pair, law, id=f"{pair[0]!r}-{pair[1]!r}-{law.__name__}")
    for pair in PAIRS
    for law in (learners.LAWS if is_core(pair[0]) else OF_FAMILIES)
]


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize(("family", "learner", "law"), CASES)
def test_learner(family: Family, learner: Learner, law: Callable[..., None]) -> None:
    # rows that are learned one by one in Python take long
    compiled = isinstance(kernel_for(MixtureModel(family, 3, 2)), NativeKernel)
    n = 400 if compiled else 60 if getattr(learner, "batch_size", None) == 1 else 100
    model, params, x = families.example_mixture(family, 3, 2, n, rng())
    learner = learner.resolve(n, 2, False)
    weight = rng().uniform(0.5, 2.0, size=n)
    law(model, params, learner, Rows(x), [1, 8, 9, n // 3 + 4, n - n // 8])
    if is_core(family):  # learners treat weights and float32 alike for all families
        law(model, params, learner, Rows(x.astype(np.float32), weight), [n // 2])


@pytest.mark.parametrize(
    "learner",
    [
        EM(),
        Auto(sample_size=10),
        MiniBatchEM(batch_size=0.4),
        OnlineEM(),
        KMLE(),
        SEM(),
        OnlineKMLE(strategy="sample"),
        IncrementalEM(batch_size=0.4),
        FastIncrementalEM(),
        VarianceReducedEM(batch_size=0.4),
    ],
    ids=repr,
)
def test_learner_over_many_tiles(learner: Learner) -> None:
    model, params, x = families.example_mixture(Exponential(), 2, 2, 150_000, rng())
    learner = learner.resolve(len(x), 2, False)
    cuts = [1, 32_768, 32_769, 39_999]
    learners.blocks_do_not_matter(model, params, learner, Rows(x), cuts)
    learners.threads_do_not_matter(model, params, learner, Rows(x), cuts)


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 300), max_size=6).map(sorted),
    which=st.integers(0, len(PAIRS) - 1),
)
def test_any_cuts_give_the_same_bits(cuts: list[int], which: int) -> None:
    family, learner = PAIRS[which]
    model, params, x = families.example_mixture(family, 2, family.n_columns or 3, 300, rng())
    learner = learner.resolve(300, model.d, False)
    learners.blocks_do_not_matter(model, params, learner, Rows(x), cuts)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_em_never_goes_down(family: Family, accelerate: bool) -> None:
    from mixfold.backends.threads import Threads

    model, _, x = families.example_mixture(family, 3, 2, 500, rng())
    start = families.example_mixture(family, 3, 2, 1, np.random.default_rng(1))[1]
    learner, backend = EM(tol=0.0, accelerate=accelerate), Threads(model, 1)
    state = learner.init(backend, start)
    reached = -np.inf
    for _ in range(40):
        state, _ = learner.step(backend, state, Rows(x))
        state, _ = learner.end_pass(backend, state)
        now = float(backend.posterior(learner.estimate(backend, state), Rows(x), False)[0].mean())
        assert now >= reached - 1e-9
        reached = now
