"""Mixture models for data of any size: tables, files larger than memory, streams, clusters.

Every family, learner, schedule, initializer and estimator is a name of this package. Each is
imported when it is first used, so that `import mixfold` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixfold import datasets as datasets
    from mixfold import errors as errors
    from mixfold.core.conjugate import Prior as Prior
    from mixfold.estimators.anomaly_detector import AnomalyDetector as AnomalyDetector
    from mixfold.estimators.auto_mixture import AutoMixture as AutoMixture
    from mixfold.estimators.bayesian_gaussian_mixture import (
        BayesianGaussianMixture as BayesianGaussianMixture,
    )
    from mixfold.estimators.bootstrap_test import bootstrap_test as bootstrap_test
    from mixfold.estimators.crossed_mixed_model import CrossedMixedModel as CrossedMixedModel
    from mixfold.estimators.gaussian_mixture import GaussianMixture as GaussianMixture
    from mixfold.estimators.linear_mixed_model import LinearMixedModel as LinearMixedModel
    from mixfold.estimators.logistic_mixed_model import LogisticMixedModel as LogisticMixedModel
    from mixfold.estimators.merging import merge as merge
    from mixfold.estimators.mixture import Mixture as Mixture
    from mixfold.estimators.one_compartment_model import (
        OneCompartmentModel as OneCompartmentModel,
    )
    from mixfold.estimators.saving import load as load
    from mixfold.models.fixed import Fixed as Fixed
    from mixfold.sources.csv_files import CsvFiles as CsvFiles
    from mixfold.sources.remote_files import RemoteFiles as RemoteFiles

__version__ = "0.1.0"

OTHERS = {
    "CsvFiles": "mixfold.sources.csv_files",
    "Fixed": "mixfold.models.fixed",
    "Prior": "mixfold.core.conjugate",
    "RemoteFiles": "mixfold.sources.remote_files",
    "bootstrap_test": "mixfold.estimators.bootstrap_test",
    "load": "mixfold.estimators.saving",
    "merge": "mixfold.estimators.merging",
}
PUBLIC_MODULES = ("datasets", "errors")
PUBLIC_PACKAGES = ("detectors", "estimators", "families", "learners", "schedules", "initializers")


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if name.startswith("_"):
        raise AttributeError(name)
    thing = _find(name)
    globals()[name] = thing
    return thing


def _find(name: str) -> Any:
    from mixfold.core import registry
    from mixfold.core.errors import InvalidInputError

    if name in PUBLIC_MODULES:
        return import_module(f"mixfold.{name}")
    if name in OTHERS:
        return getattr(import_module(OTHERS[name]), name)
    for package in PUBLIC_PACKAGES:
        try:
            thing = registry.find(package, name)
        except InvalidInputError:
            continue
        if thing.__name__ == name:
            return thing
    raise AttributeError(f"module 'mixfold' has no attribute {name!r}")


def __dir__() -> list[str]:
    from mixfold.core import registry

    classes = (c for p in PUBLIC_PACKAGES for c in registry.find_all(p).values())
    return sorted({*PUBLIC_MODULES, *OTHERS, *(c.__name__ for c in classes)})
