"""Single rows evaluated under the parameters of a stream as they are now."""

from __future__ import annotations

from mixfold.core.rows import Array
from mixfold.estimators._row_evaluator import RowEvaluator
from mixfold.estimators._row_stream import CompiledRowStream


class LiveRowEvaluator:
    """Evaluates rows of a stream in compiled code, where its parameters are.

    So nothing is prepared anew after every row that is learned. `known` evaluates rows under
    earlier parameters of the same model.
    """

    def __init__(self, known: RowEvaluator, stream: CompiledRowStream) -> None:
        self.known, self.stream, self.model = known, stream, known.model

    def log_density(self, x: Array) -> float:
        """log p(x)."""
        return float(self.stream.evaluate(x[None], False)[0][0])

    def responsibilities(self, x: Array) -> Array:
        """The probabilities of the components (K,), given the row."""
        found = self.stream.evaluate(x[None], True)[1]
        assert found is not None
        own: Array = found[0]
        return own
