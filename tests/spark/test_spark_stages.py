"""The estimator and the model of pipelines, and streams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import Vectors
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from sklearn.base import clone

import mixfold
from cluster_fits import FRAME, NAMES, mixture
from mixfold import Gaussian
from mixfold.core.errors import InvalidInputError
from mixfold.core.value import equal
from mixfold.spark import LogLikelihoodEvaluator, Mixture, MixtureModel
from spark_session import unclosed_threads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def column(data: Any, name: str) -> np.ndarray:
    return np.array([row[0] for row in data.select(name).collect()])


@pytest.fixture(scope="module")
def fitted(rows: Any) -> MixtureModel:
    return Mixture(inputCols=NAMES, k=3, learner="em", maxIter=3).fit(rows)


def test_a_model_is_the_mixture(rows: Any, fitted: MixtureModel) -> None:
    expected = mixture(columns=NAMES).fit(rows)
    assert equal(fitted.mixture.params_, expected.params_)
    found = fitted.transform(rows)
    assert found.columns == [*NAMES, "prediction", "probability", "logDensity"]
    np.testing.assert_array_equal(column(found, "prediction"), expected.predict(FRAME))
    np.testing.assert_allclose(column(found, "logDensity"), expected.score_samples(FRAME))
    np.testing.assert_allclose(column(found, "probability"), expected.predict_proba(FRAME))
    evaluator = LogLikelihoodEvaluator()
    assert evaluator.evaluate(found) == pytest.approx(expected.score(FRAME))
    weighted = found.selectExpr("logDensity", "a * a as w")
    by_a = LogLikelihoodEvaluator(weightCol="w").evaluate(weighted)
    squares = np.square(FRAME["a"])
    assert by_a == pytest.approx(np.average(expected.score_samples(FRAME), weights=squares))
    row = pd.DataFrame([[6.0, 0.0]], columns=NAMES)
    assert fitted.predict(Vectors.dense([6.0, 0.0])) == expected.predict(row)[0]
    shares = fitted.predictProbability(Vectors.sparse(2, [0], [6.0])).toArray()
    np.testing.assert_allclose(shares, expected.predict_proba(row)[0])


def test_params_say_what_is_fitted_and_written(rows: Any) -> None:
    stage = Mixture(inputCols=["a"], weightCol="b", family=Gaussian("diag"), seed=7)
    stage = stage.copy({stage.k: 1, stage.predictionCol: "", stage.logDensityCol: "score"})
    model = stage.fit(rows.withColumn("b", rows["b"] * 0 + 2.0))
    assert model.transform(rows).columns == ["a", "b", "probability", "score"]
    assert model.mixture.get_params()["random_state"] == 7
    assert model.mixture.means_[0] == pytest.approx(FRAME["a"].mean())
    assert equal(model.mixture.family, Gaussian("diag"))
    assert model.uid == stage.uid


def test_a_pipeline_is_saved_and_loaded(rows: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "pipeline")
    family = Gaussian("diag")
    stages: list[Any] = [
        VectorAssembler(inputCols=NAMES, outputCol="features"),
        Mixture(k=3, family=family, learner="em", maxIter=2, tol=0.5, seed=1),
    ]
    pipeline = Pipeline(stages=stages)
    pipeline.write().overwrite().save(path)
    again: Any = Pipeline.load(path)
    assert again.getStages()[1].extractParamMap().keys() == stages[1].extractParamMap().keys()
    assert equal(again.getStages()[1].getFamily(), family)
    model: Any = again.fit(rows)
    model.write().overwrite().save(path)
    loaded: Any = PipelineModel.load(path)
    kept, found = model.stages[1].mixture, loaded.stages[1].mixture
    assert equal(kept.params_, found.params_)
    assert loaded.stages[1].uid == model.stages[1].uid
    assert loaded.stages[1].getMaxIter() == 2
    vectors = FRAME.set_axis(["features[0]", "features[1]"], axis=1)
    expected = kept.predict(vectors)
    np.testing.assert_array_equal(column(loaded.transform(rows), "prediction"), expected)
    with pytest.raises(Exception, match="already exists"):
        model.stages[1].save(path)


def test_cross_validation_finds_the_number_of_components(rows: Any) -> None:
    stage = Mixture(inputCols=NAMES, learner="em", maxIter=20)
    grid = ParamGridBuilder().addGrid(stage.k, [1, 3]).build()
    validator = CrossValidator(
        estimator=stage,
        estimatorParamMaps=grid,
        evaluator=LogLikelihoodEvaluator(),
        numFolds=2,
        seed=0,
    )
    with unclosed_threads():
        search: Any = validator.fit(rows.limit(1000))
    assert search.bestModel.getK() == 3
    assert search.avgMetrics[1] > search.avgMetrics[0] + 0.5


def test_columns_that_are_not_there(rows: Any, fitted: MixtureModel) -> None:
    with pytest.raises(InvalidInputError, match=r"no column 'features'.*set inputCols"):
        Mixture(k=3).fit(rows)
    with pytest.raises(InvalidInputError, match="has a column 'prediction' already: rename it"):
        fitted.transform(rows.withColumnRenamed("a", "prediction").withColumn("a", rows["b"]))


def test_a_stream_is_learned_batch_by_batch(spark: SparkSession, rows: Any, tmp_path: Path) -> None:
    for i, part in enumerate(np.array_split(FRAME.to_numpy()[:900], 3)):
        path = tmp_path / f"{i}.parquet"
        pd.DataFrame(part, columns=NAMES).to_parquet(path)
    model = mixfold.Mixture(n_components=3, learner="online-em", random_state=0)
    plain = clone(model)

    def learn(batch: Any, number: int) -> None:
        model.partial_fit(batch.coalesce(1))
        plain.partial_fit(batch.toArrow())

    stream = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1)
    query = (
        stream.parquet(str(tmp_path))
        .writeStream.foreachBatch(learn)
        .option("checkpointLocation", str(tmp_path / "_done"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert model.n_rows_ == 900
    assert equal(model.params_, plain.params_)
    with pytest.raises(InvalidInputError, match="foreachBatch"):
        model.fit(spark.readStream.format("rate").load())
