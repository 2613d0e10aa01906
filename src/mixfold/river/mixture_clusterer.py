"""Clusters of a stream by a mixture."""

from __future__ import annotations

from typing import Any

from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.river._columns import Cells
from mixfold.river._stream_mixtures import fitted_rows, row_blocks
from river import base


class MixtureClusterer(base.Clusterer):
    """The components of a mixture as clusters of a stream.

    Columns are those of the first `grace_period` rows, whose cluster is 0. Later columns are
    ignored, and those that a row lacks are missing cells, which are integrated out. Rows are
    learned in blocks, an eighth of the rows before and at most 512.

    Parameters
    ----------
    family : str or family object, default="gaussian"
        The distribution of the components, as in `Mixture`. "auto" and products take columns of
        categories too, with Gaussian numbers; all others use the columns of numbers only.
    n_components : int, default=5
        The number of components K.
    learner : str or learner object, default=None
        The algorithm after the grace period; None is `OnlineEM()`, and "auto" is `ReservoirEM`,
        which is more accurate and takes about a millisecond per row.
    grace_period : int, default=200
        The number of rows to which the mixture is fitted first.
    seed : int, default=None
        Seed of the random numbers; an int makes clusters reproducible.

    Examples
    --------
    >>> from mixfold import datasets
    >>> from mixfold.river import MixtureClusterer
    >>> from river import stream
    >>> model = MixtureClusterer(n_components=2, seed=0)
    >>> for x, _ in stream.iter_array(datasets.load_faithful()):
    ...     model.learn_one(x)
    >>> model.predict_one({0: 4.5, 1: 80.0}) != model.predict_one({0: 2.0, 1: 55.0})
    True
    """

    def __init__(
        self,
        family: str | Family = "gaussian",
        n_components: int = 5,
        learner: str | Learner | None = None,
        grace_period: int = 200,
        seed: int | None = None,
    ) -> None:
        self.family = family
        self.n_components = n_components
        self.learner = learner
        self.grace_period = grace_period
        self.seed = seed
        self._member = fitted_rows(family, n_components, learner, seed)
        self._rows = row_blocks(family, grace_period, self._member)

    def learn_one(self, x: Cells) -> None:
        """Learn a row."""
        self._rows.learn_one(x)

    def predict_one(self, x: Cells) -> int:
        """The most probable component of a row; 0 before the model has initial parameters."""
        row = self._rows.row(x)
        return 0 if row is None else self._member.mixture.predict_one(row)

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"n_components": 2, "seed": 1}
