"""Priors under which components that are not needed become empty."""

from __future__ import annotations

from mixfold.core.checks import check_kind
from mixfold.core.conjugate import Prior
from mixfold.core.learner import rows_before_start
from mixfold.core.params import Params
from mixfold.core.rows import Array
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.mixture_model import MixtureParams

KAPPA = 0.1  # rows for which the mean of the prior counts
MOST_REPEATS = 200
SETTLED = 1e-5  # change of the weights, as a fraction of all rows


def sparse_prior(
    mixture: BayesianMixture, params: Params, prior: Prior | None
) -> tuple[MixturePosterior, MixturePosterior]:
    """The common prior, and the posterior after a few rows drawn from the initial parameters.

    The latter lets components differ, which under the prior they do not.
    """
    check_kind("the initial parameters", params, MixtureParams)
    assert isinstance(params, MixtureParams)
    model = mixture.model
    given = Prior(alpha=1.0 / model.k, kappa=KAPPA) if prior is None else prior
    common = mixture.common_prior(params, given)
    rows = float(rows_before_start(model.k, model.d))
    return common, mixture.absorb(common, model.expected(params) * rows)


def has_settled(before: Array, after: Array, prior: Array) -> bool:
    """Whether the numbers of rows of the components no longer change."""
    moved = float(abs(after - before).sum())
    return moved <= SETTLED * float((after - prior).sum())
