"""Checkpoints of a stream: the detector, and the position in the source."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

from mixfold.core.checks import check_count
from mixfold.core.errors import InvalidInputError, ModelFileError
from mixfold.core.growing_source import GrowingPosition
from mixfold.core.registry import find_all
from mixfold.core.value import value
from mixfold.estimators.saving import PLACES, SavedModel, restored, taken_apart
from mixfold.fitting.files import write
from mixfold.fitting.reading import read

LONGEST = 120  # characters of a setting
NOT_COMPARED = (*PLACES, "n_threads", "verbose", "estimator")  # whose settings are compared


@value
class StreamCounts:
    """How many rows were learned, scored, below the threshold, and bad."""

    learned: int
    scored: int
    alarms: int
    bad: int

    def check(self) -> None:
        """Raise an error for numbers that are no counts."""
        for name in ("learned", "scored", "alarms", "bad"):
            check_count(name, getattr(self, name))


@value
class WatchCheckpoint:
    """Everything from which learning a stream continues; `model` is None before the first row.

    `settings` are those of the detector and its mixture, as texts.
    """

    source: str
    settings: list[str]
    model: SavedModel | None
    position: GrowingPosition
    counts: StreamCounts


def settings_of(detector: Any) -> list[str]:
    """The settings of a detector that must be the same when a stream continues."""
    found = detector.estimator_.get_params(deep=False) | detector.get_params(deep=False)
    shown = (f"{name}={' '.join(repr(one).split())}" for name, one in found.items())
    return [text[:LONGEST] for text in shown if text.partition("=")[0] not in NOT_COMPARED]


def saved_model(detector: Any) -> SavedModel | None:
    """What a checkpoint holds of a detector, which goes on learning."""
    return taken_apart(copy(detector)) if detector.__sklearn_is_fitted__() else None


def write_checkpoint(path: Path, checkpoint: WatchCheckpoint) -> None:
    """Write a checkpoint; the file is written completely or not at all."""
    write(path, "checkpoint", checkpoint)


def read_checkpoint(path: Path, source: str, settings: list[str]) -> WatchCheckpoint | None:
    """The checkpoint of a stream with this source and these settings; None if there is no file."""
    if not path.exists():
        return None
    found = read(path, "checkpoint")
    if not isinstance(found, WatchCheckpoint):
        raise ModelFileError(
            f"{path} is the checkpoint of a fit, not of a stream: choose another file"
        )
    remedy = "use the same, or remove the file to start again"
    if found.source != source:
        raise ModelFileError(
            f"{path} is the checkpoint of another source, {found.source}, not of {source}: {remedy}"
        )
    for before, now in zip(found.settings, settings, strict=False):
        if before != now:
            raise ModelFileError(
                f"{path} is the checkpoint of a stream with other settings: it had {before}, and "
                f"now it is {now}: {remedy}"
            )
    try:
        found.position.check()
        found.counts.check()
    except InvalidInputError as error:
        raise ModelFileError(f"{path} is damaged: {error}") from None
    return found


def restored_model(path: Path, saved: SavedModel) -> Any:
    """The detector of a checkpoint."""
    classes = {cls.__name__: cls for cls in find_all("estimators").values()}
    try:
        return restored(saved, classes)
    except Exception as error:  # invalid values in the file can raise any error in estimators
        raise ModelFileError(f"{path} is damaged: {error}") from error
