"""What commands have found, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.cli._tables import level_probabilities, locations, standard_deviations
from mixfold.core.errors import InvalidInputError
from mixfold.core.registry import name_of
from mixfold.fitting.atomic_files import STDOUT


def check_json(asked: bool, output: Path | None) -> None:
    """Refuse JSON where standard output receives the file."""
    if asked and output == STDOUT:
        raise InvalidInputError(
            "--json and -o - both write to standard output: give -o a file, or leave out --json"
        )


def print_json(record: Mapping[str, Any]) -> None:
    """Print one object on standard output; numbers that are not finite are null."""
    print(json.dumps(_plain(record), indent=2, allow_nan=False))


def _plain(thing: Any) -> Any:
    if isinstance(thing, Mapping):
        return {_key(name): _plain(item) for name, item in thing.items()}
    if isinstance(thing, np.ndarray | np.generic):
        return _plain(thing.tolist())
    if isinstance(thing, float) and not isfinite(thing):
        return None
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if isinstance(thing, Sequence):
        return [_plain(item) for item in thing]
    return str(thing)


def _key(name: Any) -> str:
    return ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def component_records(model: Any) -> list[dict[str, Any]]:
    """Weight, class and, for every column, the mean or the most probable level of a component."""
    from mixfold.cli._output import column_names
    from mixfold.cli._tables import class_names

    names, means, spread = column_names(model), locations(model), standard_deviations(model)
    classes = class_names(model)
    found = []
    for k, weight in enumerate(model.weights_):
        record: dict[str, Any] = {"component": k, "weight": weight}
        if classes:
            record["class"] = classes[k]
        columns: dict[str, Any] = {}
        for j, name in enumerate(names):
            levels = level_probabilities(model, j)
            if levels is not None:
                columns[name] = dict(zip(levels[0], levels[1][k], strict=True))
            elif means is not None:
                columns[name] = {"mean": means[k, j]}
                if spread is not None:
                    columns[name]["standard_deviation"] = spread[k, j]
        found.append({**record, "columns": columns})
    return found


def family_records(model: Any) -> list[dict[str, Any]]:
    """The families that were chosen for columns."""
    return [
        {"column": one.column, "family": name_of(one.family), "reason": one.reason}
        for one in getattr(model, "chosen_families_", ())
    ]


def detector_record(detector: Any) -> dict[str, Any]:
    """The rate and the threshold of a detector; nothing for a mixture."""
    from mixfold.estimators.anomaly_detector import AnomalyDetector

    if not isinstance(detector, AnomalyDetector):
        return {}
    known = isfinite(detector.offset_)
    rate = "false_alarm_rate" if detector.contamination is None else "contamination"
    return {rate: detector.rate_, "threshold": detector.offset_ if known else None}
