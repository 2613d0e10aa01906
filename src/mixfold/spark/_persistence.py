"""Saving and loading of stages, on any file system that Spark writes to."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter

import mixfold
from mixfold.core.value import flatten, is_value, unflatten

DATA = "data"
MODEL_FILE = "model.mixfold"


class StageWriter(MLWriter):
    """Writes the Params of a stage as JSON; families and learners as in model files."""

    def __init__(self, stage: Any) -> None:
        super().__init__()
        self.stage = stage

    def saveImpl(self, path: str) -> None:
        """Write the Params."""
        given = {one.name: _plain(one.name, item) for one, item in self.stage._paramMap.items()}
        DefaultParamsWriter.saveMetadata(self.stage, path, self.sparkSession, paramMap=given)


class ModelWriter(StageWriter):
    """Writes the Params of a model, and what it has learned as the bytes of a model file."""

    def saveImpl(self, path: str) -> None:
        """Write the Params and the model file."""
        super().saveImpl(path)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / MODEL_FILE
            self.stage.mixture.save(file)
            content = file.read_bytes()
        rows = self.sparkSession.createDataFrame([(bytearray(content),)], "model binary")
        rows.coalesce(1).write.parquet(f"{path}/{DATA}")


class StageReader(MLReader[Any]):
    """Reads a stage that `StageWriter` has written."""

    def __init__(self, cls: type) -> None:
        super().__init__()
        self.cls = cls

    def load(self, path: str) -> Any:
        """The stage with its Params."""
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession, _name(self.cls))
        given = metadata["paramMap"].items()
        metadata["paramMap"] = {name: _restored(item) for name, item in given}
        stage = self.made(path)
        stage._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(stage, metadata)
        return stage

    def made(self, path: str) -> Any:
        """The stage without its Params."""
        return self.cls()


class ModelReader(StageReader):
    """Reads a model that `ModelWriter` has written."""

    def made(self, path: str) -> Any:
        """The model with what it has learned."""
        row: Any = self.sparkSession.read.parquet(f"{path}/{DATA}").first()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / MODEL_FILE
            file.write_bytes(row["model"])
            return self.cls(mixfold.load(file))


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__name__}"


def _plain(name: str, item: Any) -> Any:
    return flatten(item, name, {}) if is_value(item) else item


def _restored(item: Any) -> Any:
    return unflatten(item, {}) if isinstance(item, dict) else item
