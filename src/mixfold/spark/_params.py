"""The Params that the estimator and its model share."""

from __future__ import annotations

from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasInputCols,
    HasMaxIter,
    HasPredictionCol,
    HasProbabilityCol,
    HasSeed,
    HasTol,
    HasWeightCol,
)

from mixfold.core.checks import check_kind
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.sources.table import listed

DEFAULTS: dict[str, Any] = {
    "family": "gaussian",
    "k": 2,
    "learner": "auto",
    "seed": 0,
    "logDensityCol": "logDensity",
}


def _family(given: Any) -> Any:
    if not isinstance(given, str):
        check_kind("family", given, Family)
    return given


def _learner(given: Any) -> Any:
    if not isinstance(given, str):
        check_kind("learner", given, Learner)
    return given


class MixtureParams(
    HasFeaturesCol,
    HasInputCols,
    HasPredictionCol,
    HasProbabilityCol,
    HasWeightCol,
    HasMaxIter,
    HasTol,
    HasSeed,
):
    """What is fitted, and the columns that are read and written."""

    family: Param[Any] = Param(
        Params._dummy(), "family", "family of the components, by name or as an object.", _family
    )
    k: Param[int] = Param(Params._dummy(), "k", "number of components (> 0).", TypeConverters.toInt)
    learner: Param[Any] = Param(
        Params._dummy(), "learner", "learning algorithm, by name or as an object.", _learner
    )
    logDensityCol: Param[str] = Param(
        Params._dummy(),
        "logDensityCol",
        "column name for the log-densities of rows.",
        TypeConverters.toString,
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._setDefault(**DEFAULTS)

    def getFamily(self) -> Any:
        """The family of the components."""
        return self.getOrDefault(self.family)

    def getK(self) -> int:
        """The number of components."""
        return self.getOrDefault(self.k)

    def getLearner(self) -> Any:
        """The learning algorithm."""
        return self.getOrDefault(self.learner)

    def getLogDensityCol(self) -> str:
        """The column of log-densities."""
        return self.getOrDefault(self.logDensityCol)

    def _columns(self, dataset: Any) -> list[str]:
        """The columns that are read."""
        if self.isSet(self.inputCols):
            return list(self.getInputCols())
        name = self.getFeaturesCol()
        if name not in dataset.columns:
            raise InvalidInputError(
                f"the Spark DataFrame has no column {name!r}; its columns are "
                f"{listed(dataset.columns)}: set inputCols to a list of columns, or "
                "featuresCol to one of vectors"
            )
        return [name]
