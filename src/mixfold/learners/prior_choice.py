"""The strength of the prior of the components' scales, chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.arrays import on_host
from mixfold.core.capabilities import ShrinksToData
from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows, effective_number
from mixfold.core.value import replace
from mixfold.learners._em_in_memory import learn
from mixfold.learners.candidates import distinct
from mixfold.learners.em import EM
from mixfold.learners.search import search
from mixfold.models.limits_from_data import with_model
from mixfold.models.mixture_model import MixtureBackend, MixtureParams

SHARES = (1.0, 0.1, 0.01, 0.0)  # of the prior's usual strength
FOLDS = 4
CANDIDATES = 4
FOLD = EM(tol=1e-4, max_iter=15, accelerate=True, criterion="step")
# with more rows the prior is so weak, and with more for each parameter so needless, that it is
# left out
MOST_ROWS, ROWS_PER_PARAMETER = 4000, 20
OF_FOLDS = 2**31 + 2  # in the seed, where candidates and samples have other numbers


def with_chosen_prior(
    backend: MixtureBackend,
    kinds: Sequence[Initializer],
    sample: Rows,
    seed: list[int],
    strength: float,
) -> MixtureBackend:
    """The backend whose family has the fraction of the prior that suits the sample."""
    return with_share(backend, chosen_share(backend, kinds, sample, seed, strength))


def chosen_share(
    backend: MixtureBackend,
    kinds: Sequence[Initializer],
    sample: Rows,
    seed: list[int],
    strength: float,
) -> float:
    """The fraction of the prior under which held-out rows score best.

    A prior with the scale of all rows is needed where components have few rows for their
    parameters, and harmful where they are much narrower than all rows together. Parameters that
    were found with the prior are fitted anew to all folds but one, and scored on it.
    """
    model = backend.model
    chosen = strength > 0.0 and model.k > 1 and not model.is_constrained
    if not (chosen and isinstance(model.family, ShrinksToData)):
        return 1.0
    rows = distinct(sample.on_host())
    n = effective_number(rows.weights())
    if n > MOST_ROWS or n >= ROWS_PER_PARAMETER * model.n_parameters():
        return 0.0
    if len(rows) < FOLDS * model.k:
        return 1.0
    first = search(backend, kinds, sample, seed, CANDIDATES, strength)
    fold = np.random.default_rng([*seed, OF_FOLDS]).permutation(len(rows)) % FOLDS
    scores = [_held_out(backend, first, rows, fold, share, strength) for share in SHARES]
    return SHARES[int(np.argmax(scores))]


def with_share(backend: MixtureBackend, share: float) -> MixtureBackend:
    """The backend whose family has a fraction of the prior, if it has a prior."""
    model = backend.model
    if not isinstance(model.family, ShrinksToData) or model.family.prior_share == share:
        return backend
    return with_model(backend, replace(model, family=model.family.with_prior_share(share)))


def _held_out(
    backend: MixtureBackend,
    first: MixtureParams,
    rows: Rows,
    fold: np.ndarray,
    share: float,
    strength: float,
) -> float:
    """The log-likelihood of every fold under parameters of the others."""
    backend = with_share(backend, share)
    learner, total = replace(FOLD, prior_strength=strength), 0.0
    for i in range(FOLDS):
        params, _ = learn(learner, backend, first, rows.where(fold != i))
        held_out = rows.where(fold == i)
        total += float(held_out.weights() @ on_host(backend.posterior(params, held_out, False)[0]))
    return total
