"""The mean log-likelihood of held-out rows."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only
from pyspark.ml.evaluation import Evaluator
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasWeightCol
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable
from pyspark.sql import functions as f

from mixfold.core.errors import InvalidInputError


class LogLikelihoodEvaluator(
    Evaluator,
    HasWeightCol,
    DefaultParamsReadable["LogLikelihoodEvaluator"],
    DefaultParamsWritable,
):
    """The mean over rows of log p(x), which `MixtureModel.transform` appends; larger is better.

    Parameters
    ----------
    logDensityCol : str, default="logDensity"
        The column of log-densities.
    weightCol : str
        A column of weights.

    Examples
    --------
    >>> from mixfold.spark import LogLikelihoodEvaluator
    >>> LogLikelihoodEvaluator().isLargerBetter()
    True
    """

    logDensityCol: Param[str] = Param(
        Params._dummy(),
        "logDensityCol",
        "column name for the log-densities of rows.",
        TypeConverters.toString,
    )

    _input_kwargs: dict[str, Any]

    @keyword_only
    def __init__(self, *, logDensityCol: str = "logDensity", weightCol: str | None = None) -> None:
        super().__init__()
        self._setDefault(logDensityCol="logDensity")
        self._set(**self._input_kwargs)

    def _evaluate(self, dataset: Any) -> float:
        found = f.col(self.getOrDefault(self.logDensityCol))
        mean = f.avg(found)
        if self.isDefined(self.weightCol) and self.getWeightCol():
            weight = f.col(self.getWeightCol())
            mean = f.sum(found * weight) / f.sum(weight)
        (result,) = dataset.select(mean).first()
        if result is None:
            raise InvalidInputError("there are no rows to evaluate: at least one is needed")
        return float(result)

    def isLargerBetter(self) -> bool:
        """Whether a larger value is better: yes."""
        return True
