"""Titterington's recursive EM."""

from __future__ import annotations

from typing import ClassVar

from mixfold.core.backend import Model
from mixfold.core.schedule import Schedule
from mixfold.core.value import value
from mixfold.learners._linearity import not_linear
from mixfold.learners.online_em import OnlineEM
from mixfold.schedules.power import Power


@value
class RecursiveEM(OnlineEM):
    """Titterington's recursion: natural-gradient steps in the parameters themselves.

    w_k += gamma (r_k - w_k), m_k += gamma r_k (t(x) - m_k) / w_k, with gamma_n = 1/n. Online EM
    takes the same step in other coordinates. A step that would leave the domain is cut to half the
    way to its border. Use it for streams when the initial parameters are good.

    Parameters
    ----------
    batch_size : int, default=1
        Rows per update.
    schedule : schedule, default=Power(1.0)
        The step size of every update, such as `Power(0.6)` or `Constant(0.01)`.
    max_iter : int, default=1
        The largest number of passes over the data.
    warmup : int or None, default=None
        The number of rows at the beginning that update the statistics but not the parameters. None
        is ten rows per free direction of the data.
    average_from : int or None, default=None
        The estimate is the mean of the parameters from this update on (Polyak averaging). None
        takes the parameters of the last update.
    truncation : float or None, default=None
        Learning returns to its initial parameters when a weight falls below 1 / c, a location
        exceeds c or a variance leaves [1 / c, c], where c is this value and grows by one every
        time. None is no truncation.

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

    def why_unsupported(self, model: Model) -> str | None:
        return super().why_unsupported(model) or not_linear(self, model)
