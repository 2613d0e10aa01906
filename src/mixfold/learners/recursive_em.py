"""Titterington's recursive EM."""

from __future__ import annotations

from typing import ClassVar

from mixfold.core.problem import Model
from mixfold.core.schedule import Schedule
from mixfold.core.value import value
from mixfold.learners._linearity import not_linear
from mixfold.learners.online_em import OnlineEM
from mixfold.schedules.power import Power


@value
class RecursiveEM(OnlineEM):
    """theta <- theta + gamma_n Ic(theta)^-1 grad log f(x_n; theta), Ic of the complete data.

    In weights and mean parameters: w_k += gamma (r_k - w_k), m_k += gamma r_k (t(x) - m_k) / w_k,
    gamma_n = 1/n. Online EM takes the same step in other coordinates, and divides by the weight
    after the step. Where a step would leave the domain it is cut to half the way to the border;
    `degeneracies_` counts those.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="recursive-em", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(0).tolist())
    [55.0, 80.0]

    References
    ----------
    Titterington (1984), Recursive parameter estimation using incomplete data.
    """

    recursive: ClassVar[bool] = True

    schedule: Schedule = Power(exponent=1.0, scale=1.0)

    def refusal(self, model: Model) -> str | None:
        return super().refusal(model) or not_linear(self, model)
