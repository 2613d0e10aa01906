"""What a detector of anomalies has learned, as a value."""

from __future__ import annotations

from mixfold.core.checks import check_kind
from mixfold.core.errors import InvalidInputError
from mixfold.core.value import value
from mixfold.estimators._alarm_stream import AlarmStream, AlarmStreamState
from mixfold.estimators._learned import Learned
from mixfold.estimators.mixture import Mixture
from mixfold.estimators.saving import SavedModel, restored, taken_apart


@value
class LearnedAlarms:
    """The mixture, and the stream that it has learned."""

    mixture: SavedModel
    stream: AlarmStreamState

    def check(self) -> None:
        """Raise an error for an invalid state."""
        check_kind("learned", self.mixture.learned, Learned)
        self.stream.check()
        model = self.stream.model
        if model is not None and model.d != self.n_features:
            raise InvalidInputError(f"rows have {self.n_features} columns, and scores {model.d}")

    @property
    def n_features(self) -> int:
        """Columns of the data."""
        return int(self.mixture.learned.n_features)

    @staticmethod
    def of(stream: AlarmStream) -> LearnedAlarms:
        """What a stream has learned."""
        mixture, state = stream.moment()
        return LearnedAlarms(taken_apart(mixture), state)

    def to_stream(self) -> AlarmStream:
        """The stream that continues."""
        mixture = restored(self.mixture, {Mixture.__name__: Mixture})
        return AlarmStream.from_state(mixture, self.stream)
