"""Mixtures as stages of the pipelines of Spark's ML library."""

from __future__ import annotations

from mixfold.core.errors import MissingExtraError

try:
    import pyspark.ml as _ml  # noqa: F401
except ImportError:
    raise MissingExtraError("pyspark", "spark", "mixfold.spark") from None

from mixfold.spark.log_likelihood_evaluator import LogLikelihoodEvaluator
from mixfold.spark.mixture import Mixture
from mixfold.spark.mixture_model import MixtureModel

__all__ = ["LogLikelihoodEvaluator", "Mixture", "MixtureModel"]
