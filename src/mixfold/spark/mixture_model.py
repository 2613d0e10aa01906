"""A fitted mixture as a model of Spark's ML library."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.ml import Model
from pyspark.ml.linalg import DenseVector
from pyspark.ml.util import MLReadable, MLWritable

from mixfold.estimators.mixture import Mixture as FittedMixture
from mixfold.estimators.on_workers import (
    LABEL,
    LOG_DENSITY,
    RESPONSIBILITIES,
    with_posteriors,
)
from mixfold.spark._params import MixtureParams
from mixfold.spark._persistence import ModelReader, ModelWriter


class MixtureModel(Model, MixtureParams, MLWritable, MLReadable["MixtureModel"]):
    """A mixture that was fitted to a Spark DataFrame.

    `transform` appends the most probable component (`predictionCol`), the vector of the
    responsibilities (`probabilityCol`) and log p(x) (`logDensityCol`); columns whose names are
    empty are left out. `mixture` is the `mixfold.Mixture`, with all that it has learned:
    `model.mixture.means_`, for example.
    """

    def __init__(self, mixture: FittedMixture) -> None:
        super().__init__()
        self.mixture = mixture

    def _transform(self, dataset: Any) -> Any:
        columns = {
            self.getPredictionCol(): LABEL,
            self.getProbabilityCol(): RESPONSIBILITIES,
            self.getLogDensityCol(): LOG_DENSITY,
        }
        wanted = {name: what for name, what in columns.items() if name}
        return with_posteriors(self.mixture, dataset, self._columns(dataset), wanted)

    def predict(self, value: Any) -> int:
        """The most probable component of a vector."""
        return int(self.mixture.predict_one(np.asarray(value.toArray())))

    def predictProbability(self, value: Any) -> DenseVector:
        """The responsibilities of the components for a vector."""
        return DenseVector(self.mixture.predict_proba_one(np.asarray(value.toArray())))

    def setPredictionCol(self, value: str) -> MixtureModel:
        """Set the column of the most probable components."""
        return self._set(predictionCol=value)

    def setProbabilityCol(self, value: str) -> MixtureModel:
        """Set the column of the responsibilities."""
        return self._set(probabilityCol=value)

    def setLogDensityCol(self, value: str) -> MixtureModel:
        """Set the column of the log-densities."""
        return self._set(logDensityCol=value)

    def setFeaturesCol(self, value: str) -> MixtureModel:
        """Set the column of vectors that is read."""
        return self._set(featuresCol=value)

    def write(self) -> ModelWriter:
        """A writer; `model.write().overwrite().save(path)` replaces what is there."""
        return ModelWriter(self)

    @classmethod
    def read(cls) -> ModelReader:
        """A reader; `MixtureModel.load(path)` uses it."""
        return ModelReader(cls)
