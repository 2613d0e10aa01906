"""What a start is: parameters from a bounded sample of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from mixfold.core.rows import Rows


class Initializer(ABC):
    """Parameters before any learning."""

    random: bool = True

    @abstractmethod
    def draw(self, model: Any, rows: Rows, rng: np.random.Generator) -> Any:
        """Parameters of a model from sample rows; of any number, from one on."""
