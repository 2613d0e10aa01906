"""Mixtures with the interface of river."""

from __future__ import annotations

from mixfold.core.errors import MissingExtraError

try:
    import river as _river  # noqa: F401
except ImportError:
    raise MissingExtraError("river", "river", "mixfold.river") from None

from mixfold.river.mixture_anomaly import MixtureAnomaly
from mixfold.river.mixture_clusterer import MixtureClusterer
from mixfold.river.mixture_density import MixtureDensity

__all__ = ["MixtureAnomaly", "MixtureClusterer", "MixtureDensity"]
