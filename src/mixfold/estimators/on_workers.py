"""All that mixtures find of rows that workers hold, by one evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfold.core.arrays import concatenated
from mixfold.core.source import Source
from mixfold.engines.spark import Spark
from mixfold.estimators._evaluation import noise_last
from mixfold.estimators._shaped import codes_of

LABEL, RESPONSIBILITIES, LOG_DENSITY = "label", "responsibilities", "log-density"
KINDS = {LABEL: "int", RESPONSIBILITIES: "vector", LOG_DENSITY: "double"}


@dataclass(frozen=True)
class Posteriors:
    """Columns of labels, responsibilities and log-densities; `wanted` are what they hold."""

    model: Any
    wanted: Mapping[str, str]

    @property
    def kinds(self) -> Mapping[str, str]:
        """Spark's types of the columns."""
        return {column: KINDS[what] for column, what in self.wanted.items()}

    def __call__(self, rows: Source) -> Mapping[str, Any]:
        parts = list(self.model.iter_posteriors(rows))
        responsibilities = concatenated([part[1] for part in parts])
        found = {
            LABEL: noise_last(responsibilities.argmax(axis=1), self.model.model_),
            RESPONSIBILITIES: responsibilities,
            LOG_DENSITY: concatenated([part[0] for part in parts]),
        }
        return {column: np.asarray(found[what]) for column, what in self.wanted.items()}


def with_posteriors(
    mixture: Any, data: Any, columns: Sequence[str], wanted: Mapping[str, str]
) -> Any:
    """A Spark DataFrame with the columns that are wanted."""
    model = mixture.for_evaluation()
    return Spark.with_columns(data, Posteriors(model, wanted), columns, codes_of(model))
