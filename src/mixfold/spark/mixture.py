"""A mixture as an estimator of Spark's ML library."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only
from pyspark.ml import Estimator
from pyspark.ml.util import MLReadable, MLWritable

import mixfold
from mixfold.spark._params import MixtureParams
from mixfold.spark._persistence import StageReader, StageWriter
from mixfold.spark.mixture_model import MixtureModel


class Mixture(Estimator[MixtureModel], MixtureParams, MLWritable, MLReadable["Mixture"]):
    """A mixture of any family, fitted to a Spark DataFrame by its executors.

    It stands in a `Pipeline` and a `CrossValidator`, whose evaluator is `LogLikelihoodEvaluator`,
    and can be saved.

    Parameters
    ----------
    featuresCol : str, default="features"
        A column of vectors, dense or sparse, such as `VectorAssembler` makes, or of lists of
        numbers.
    inputCols : list of str
        Columns to use in place of `featuresCol`; with `family="auto"` of any types.
    predictionCol, probabilityCol, logDensityCol : str
        Columns that the model appends: the most probable component, the vector of the
        responsibilities and log p(x); by default "prediction", "probability" and "logDensity".
        "" leaves a column out.
    family : str or family object, default="gaussian"
        As for `mixfold.Mixture`, such as "auto" or `mixfold.Gaussian("diag")`.
    k : int, default=2
        The number of components.
    learner : str or learner object, default="auto"
        As for `mixfold.Mixture`, such as "em".
    maxIter : int
        The largest number of passes over the data; by default that of the learner.
    tol : float
        When the learner has converged; by default its own.
    seed : int, default=0
        Seed of the random numbers.
    weightCol : str
        A column of weights.

    Examples
    --------
    >>> from mixfold.spark import Mixture
    >>> mixture = Mixture(inputCols=["x", "y"], k=3, learner="em")
    >>> mixture.getK(), mixture.getInputCols(), mixture.getLogDensityCol()
    (3, ['x', 'y'], 'logDensity')
    """

    _input_kwargs: dict[str, Any]

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol: str = "features",
        inputCols: list[str] | None = None,
        predictionCol: str = "prediction",
        probabilityCol: str = "probability",
        logDensityCol: str = "logDensity",
        family: Any = "gaussian",
        k: int = 2,
        learner: Any = "auto",
        maxIter: int | None = None,
        tol: float | None = None,
        seed: int = 0,
        weightCol: str | None = None,
    ) -> None:
        super().__init__()
        self._set(**self._input_kwargs)

    @keyword_only
    def setParams(self, **given: Any) -> Mixture:
        """Set several Params."""
        return self._set(**given)

    def _fit(self, dataset: Any) -> MixtureModel:
        mixture = mixfold.Mixture(
            self.getFamily(),
            self.getK(),
            learner=self.getLearner(),
            max_iter=self.getMaxIter() if self.isDefined(self.maxIter) else None,
            columns=self._columns(dataset),
            random_state=self.getSeed(),
        )
        if self.isDefined(self.tol):
            mixture.set_params(learner__tol=self.getTol())
        weight = self.getWeightCol() if self.isDefined(self.weightCol) else None
        mixture.fit(dataset, sample_weight=weight or None)
        return self._copyValues(MixtureModel(mixture)._resetUid(self.uid))

    def setFamily(self, value: Any) -> Mixture:
        """Set the family of the components."""
        return self._set(family=value)

    def setK(self, value: int) -> Mixture:
        """Set the number of components."""
        return self._set(k=value)

    def setLearner(self, value: Any) -> Mixture:
        """Set the learning algorithm."""
        return self._set(learner=value)

    def setMaxIter(self, value: int) -> Mixture:
        """Set the largest number of passes."""
        return self._set(maxIter=value)

    def setTol(self, value: float) -> Mixture:
        """Set when the learner has converged."""
        return self._set(tol=value)

    def setSeed(self, value: int) -> Mixture:
        """Set the seed of the random numbers."""
        return self._set(seed=value)

    def setFeaturesCol(self, value: str) -> Mixture:
        """Set the column of vectors."""
        return self._set(featuresCol=value)

    def setInputCols(self, value: list[str]) -> Mixture:
        """Set the columns."""
        return self._set(inputCols=value)

    def setWeightCol(self, value: str) -> Mixture:
        """Set the column of weights."""
        return self._set(weightCol=value)

    def write(self) -> StageWriter:
        """A writer; `mixture.write().overwrite().save(path)` replaces what is there."""
        return StageWriter(self)

    @classmethod
    def read(cls) -> StageReader:
        """A reader; `Mixture.load(path)` uses it."""
        return StageReader(cls)
