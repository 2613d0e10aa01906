"""The protocol of initializers: parameters from a bounded sample of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic

import numpy as np

from mixfold.core.params import ModelT, ParamsT
from mixfold.core.rows import Rows


class Initializer(ABC, Generic[ModelT, ParamsT]):
    """Draws initial parameters."""

    random: bool = True

    @abstractmethod
    def draw(self, model: ModelT, rows: Rows, rng: np.random.Generator) -> ParamsT:
        """Initial parameters of a model from sample rows, of which there may be any number."""
