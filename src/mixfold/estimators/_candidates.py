"""The candidates of a selection: mixtures with a number of components and a covariance."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, log, nan

import numpy as np

from mixfold.core.arrays import on_host
from mixfold.core.family import Family
from mixfold.core.learner_capabilities import at_most, search_of
from mixfold.core.rows import Array, Rows
from mixfold.estimators._mixture_settings import MixtureSettings
from mixfold.fitting.shared_passes import Member
from mixfold.learners.neighbouring_starts import Start
from mixfold.models.mixture_model import (
    MixtureBackend,
    MixtureModel,
    MixtureParams,
    count_degenerate,
)

HELD_OUT = "held-out"
CRITERIA = ("bic", "icl", "aic", HELD_OUT)


@dataclass(frozen=True)
class Sums:
    """Weight, log-likelihood and entropy of responsibilities of some rows under a mixture."""

    weight: float = 0.0
    log_likelihood: float = 0.0
    entropy: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.weight + other.weight,
            self.log_likelihood + other.log_likelihood,
            self.entropy + other.entropy,
        )

    def scaled(self, weight: float) -> Sums:
        """What rows like these would have, were their weight another."""
        factor = weight / self.weight
        return Sums(weight, factor * self.log_likelihood, factor * self.entropy)

    def criteria(self, n_parameters: int) -> dict[str, float]:
        """BIC, ICL and AIC, of which the smallest is best; the number of rows is their weight."""
        bic = n_parameters * log(self.weight) - 2.0 * self.log_likelihood
        aic = 2.0 * n_parameters - 2.0 * self.log_likelihood
        return {"bic": bic, "icl": bic + 2.0 * self.entropy, "aic": aic}


def sums_of(backend: MixtureBackend, params: MixtureParams, rows: Rows) -> Sums:
    """The sums of a block of rows."""
    log_density, responsibilities = backend.posterior(params, rows)
    assert responsibilities is not None
    weight, r = rows.weights(), on_host(responsibilities)
    entropies: Array = -(r * np.log(np.maximum(r, 1e-300))).sum(axis=1)
    total = float(weight @ on_host(log_density))
    return Sums(rows.total_weight(), total, float(weight @ entropies))


@dataclass
class Candidate:
    """One mixture of a selection, and what is known of it so far.

    `dropped` says why it was not fitted until the end, or cannot be chosen; `estimate` is the
    criterion of its start. `n_init` are the searches for it, and `restarts` the initial parameters
    from other candidates that were tried. `same` is another candidate that is the same model.
    `reached` are the log-likelihoods per row of passes that only sum statistics, if `sums_passes`
    now.
    """

    covariance: str
    k: int
    family: Family
    settings: MixtureSettings
    backend: MixtureBackend | None = None
    start: Start | None = None
    n_init: int = 0
    restarts: int = 0
    seconds: float = 0.0
    dropped: str = ""
    error: Exception | None = None
    estimate: float = inf
    same: Candidate | None = None
    member: Member | None = None
    reached: list[float] = field(default_factory=list)
    sums_passes: bool = False
    params: MixtureParams | None = None
    sums: Sums | None = None
    held_out: float = nan
    converged: bool = False

    @property
    def model(self) -> MixtureModel:
        """The mixture."""
        assert self.backend is not None
        return self.backend.model

    @property
    def name(self) -> str:
        """The candidate in words."""
        components = f"{self.k} component{'s' if self.k > 1 else ''}"
        return f"{self.covariance} with {components}" if self.covariance else components

    @property
    def prior_strength(self) -> float:
        """The strength of the prior of the learner, if it has one."""
        return at_most(search_of(self.settings.learner).prior_strength)

    def loss(self, criterion: str) -> float:
        """The criterion, smaller is better; infinity if it is not known."""
        if self.sums is None:
            return inf
        if criterion == HELD_OUT:
            return -self.held_out
        return self.sums.criteria(self.model.n_parameters())[criterion]

    def record(self, held_out: bool) -> dict[str, object]:
        """The row of the table of results."""
        of = self if self.same is None else self.same
        n_parameters = of.model.n_parameters() if of.backend is not None else 0
        criteria = dict.fromkeys(("bic", "icl", "aic"), nan)
        if of.sums is not None:
            criteria = of.sums.criteria(n_parameters)
        return {
            "n_components": self.k,
            "covariance": self.covariance,
            "log_likelihood": nan if of.sums is None else of.sums.log_likelihood,
            "n_parameters": n_parameters,
            **criteria,
            **({"held_out": of.held_out} if held_out else {}),
            "n_degenerate": 0 if of.params is None else count_degenerate(of.model, of.params),
            "converged": of.converged,
            "dropped": self.dropped or of.dropped,
            "seconds": self.seconds,
            "n_init": of.n_init,
            "restarts": of.restarts,
            "start": "" if of.start is None else of.start.kind,
        }
