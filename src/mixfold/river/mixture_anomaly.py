"""Anomaly scores of a stream by the density of mixtures."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.checks import check_least
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.registry import is_called
from mixfold.families.gaussian import Gaussian
from mixfold.learners.online_em import OnlineEM
from mixfold.river._central_rows import CentralRows
from mixfold.river._columns import Cells
from mixfold.river._row_blocks import AllRows, RowBlocks
from mixfold.river._stream_mixtures import gaussian, row_blocks, stream_mixture
from mixfold.schedules.power import Power
from river import base

LEFT_OUT = 0.25  # fraction of rows that the single distribution does not learn


class MixtureAnomaly(base.AnomalyDetector):
    """Scores a row by how improbable it is under two densities of the rows before it.

    The score is -(1 - w) log p_K(x) - w log p_1(x), in nats. p_K is a mixture of `n_components`,
    which finds rows that are unlike all groups of rows. p_1 is a single distribution of independent
    columns, which finds values that are far from the usual ones of their column; it does not learn
    the quarter of the rows that it finds most unusual, so that groups of anomalies do not widen it.

    Columns are those of the first `grace_period` rows, for which the score is 0. Later columns
    are ignored, and those that a row lacks are missing cells, which are integrated out.

    Rows are learned in blocks, a fourth of the first rows, later an eighth of the rows before and
    at most 512.

    Parameters
    ----------
    family : str or family object, default="gaussian"
        The distribution of the components, as in `Mixture`. "auto" and products take columns of
        categories too, with Gaussian numbers; all others use the columns of numbers only.
    n_components : int, default=8
        The number of components K.
    learner : str or learner object, default=None
        The algorithm of both; None is `OnlineEM(schedule=Power(1.0))`.
    column_weight : float, default=0.5
        The weight w of the distribution of independent columns, from 0 to 1. Give 0 if anomalies
        have usual values in every column, such as rows between groups.
    grace_period : int, default=50
        The number of rows from which initial parameters are found.
    seed : int, default=None
        Seed of the random numbers; an int makes scores reproducible.

    Examples
    --------
    >>> from mixfold import datasets
    >>> from mixfold.river import MixtureAnomaly
    >>> from river import stream
    >>> model = MixtureAnomaly(n_components=2, seed=0)
    >>> for x, _ in stream.iter_array(datasets.load_faithful()):
    ...     model.learn_one(x)
    >>> model.score_one({0: 4.5, 1: 80.0}) < model.score_one({0: 2.0, 1: 80.0})
    True
    """

    def __init__(
        self,
        family: str | Family = "gaussian",
        n_components: int = 8,
        learner: str | Learner | None = None,
        column_weight: float = 0.5,
        grace_period: int = 50,
        seed: int | None = None,
    ) -> None:
        self.family = family
        self.n_components = n_components
        self.learner = learner
        self.column_weight = column_weight
        self.grace_period = grace_period
        self.seed = seed
        self._rows = self._made()

    def _made(self) -> RowBlocks:
        check_least("column_weight", self.column_weight, 0.0, 1.0)
        learner = OnlineEM(schedule=Power(1.0)) if self.learner is None else self.learner
        plain = is_called(self.family, "gaussian") or isinstance(self.family, Gaussian)
        mixture = stream_mixture(self.family, self.n_components, learner, self.seed)
        single = stream_mixture(gaussian("diag") if plain else self.family, 1, learner, self.seed)
        members = AllRows(mixture), CentralRows(single, LEFT_OUT)
        return row_blocks(self.family, self.grace_period, *members)

    def learn_one(self, x: Cells) -> None:
        """Learn a row."""
        self._rows.learn_one(x)

    def score_one(self, x: Cells) -> float:
        """How improbable a row is, in nats; 0 before the model has initial parameters."""
        row = self._rows.row(x)
        if row is None:
            return 0.0
        mixture, single = self._rows.members
        w = self.column_weight
        return (w - 1.0) * mixture.score_one(row) - w * single.score_one(row)

    def learn_many(self, X: Any) -> None:
        """Learn the rows of a pandas DataFrame, which takes less time than one by one."""
        self._rows.learn_many(X)

    def score_many(self, X: Any) -> Any:
        """The scores of the rows of a pandas DataFrame, as an array."""
        columns = self._rows.columns
        if columns is None:
            return np.zeros(len(X))
        block = columns.table(X)
        mixture, single = self._rows.members
        w = self.column_weight
        return (w - 1.0) * mixture.score_samples(block) - w * single.score_samples(block)

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"n_components": 2, "seed": 1}
