"""Results for Dask collections are collections, and clusters are given as objects."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone

from cluster_fits import FRAME, NAMES, X, mixture
from mixfold import AnomalyDetector, GaussianMixture, Mixture, load
from mixfold.core.errors import ClusterError, InvalidInputError
from mixfold.core.value import equal

MODEL = mixture(noise=([-9.0, -9.0], [15.0, 15.0])).fit(X[:2000])
NAMED = mixture().fit(FRAME[:2000])
METHODS = ["predict", "predict_proba", "score_samples"]


def uncomputed(*_: Any, **__: Any) -> Any:
    raise AssertionError("computed too early")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("chunks", [(1000, 2), (700, 1), (6000, 2)])
def test_arrays(method: str, chunks: tuple[int, int]) -> None:
    data = da.from_array(X, chunks=chunks)
    expected = getattr(MODEL, method)(X)
    with dask.config.set(scheduler=uncomputed):
        found = getattr(MODEL, method)(data)
    assert isinstance(found, da.Array)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert found.chunks[0] == data.chunks[0]
    np.testing.assert_array_equal(found.compute(), expected)


@pytest.mark.parametrize("method", METHODS)
def test_arrays_of_unknown_lengths(method: str) -> None:
    """Some chunks have no rows."""
    data = da.from_array(X[np.argsort(X[:, 0])], chunks=(1000, 2))
    some = data[data[:, 0] > 0.0]
    found = getattr(MODEL, method)(some)
    assert np.isnan(found.shape[0])
    np.testing.assert_array_equal(found.compute(), getattr(MODEL, method)(some.compute()))


@pytest.mark.parametrize("method", [*METHODS, "explain"])
def test_dataframes(method: str) -> None:
    frame = FRAME.set_index(np.arange(len(FRAME)) * 3)[["b", "a"]].assign(other="text")
    data = dd.from_pandas(frame, npartitions=4)
    expected = getattr(NAMED, method)(frame[NAMES])
    with dask.config.set(scheduler=uncomputed):
        found = getattr(NAMED, method)(data)
    assert found.divisions == data.divisions
    computed = found.compute()
    np.testing.assert_array_equal(computed.to_numpy(), np.asarray(expected))
    assert computed.index.equals(frame.index)
    assert found._meta.equals(computed.iloc[:0])
    assert len(getattr(NAMED, method)(data[data["a"] > 1e9]).compute()) == 0


def test_names_of_results() -> None:
    data = dd.from_pandas(FRAME, npartitions=2)
    assert NAMED.predict(data).name == "label"
    assert NAMED.score_samples(data).name == "log_density"
    names = ["responsibility_0", "responsibility_1", "responsibility_2"]
    assert list(NAMED.predict_proba(data).columns) == names


def test_sums() -> None:
    data = da.from_array(X, chunks=(1000, 2))
    for name in ("score", "score_bound", "bic", "aic", "icl"):
        assert getattr(MODEL, name)(data) == pytest.approx(getattr(MODEL, name)(X), rel=1e-13)
    empty = data[data[:, 0] > 1e9]
    for name in ("score", "bic"):
        with pytest.raises(InvalidInputError, match="no rows"):
            getattr(MODEL, name)(empty)


def test_sums_are_one_computation() -> None:
    calls = []

    def get(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        return dask.get(*arguments, **more)

    with dask.config.set(scheduler=get):
        MODEL.bic(da.from_array(X, chunks=(1000, 2)))
    assert len(calls) == 1


def test_tables_with_categories_and_missing_cells() -> None:
    frame = FRAME.assign(text=np.where(FRAME["a"] > 3.0, "u", "v"))
    frame.loc[::7, "b"] = np.nan
    model = Mixture("auto", 2, random_state=0, max_iter=2).fit(frame[:2000])
    data = dd.from_pandas(frame, npartitions=3)
    found = model.predict_proba(data).compute()
    np.testing.assert_array_equal(found.to_numpy(), model.predict_proba(frame))
    assert model.score(data) == pytest.approx(model.score(frame), rel=1e-13)


def test_errors_name_the_partition() -> None:
    x = X.copy()
    x[2500, 1] = np.inf
    data = da.from_array(x, chunks=(1000, 2))
    with pytest.raises(InvalidInputError, match=r"partition 2: row 501, column 2.* is infinity"):
        MODEL.predict(data).compute()
    with pytest.raises(InvalidInputError, match="partition 2: row 501, column 2"):
        MODEL.score(data)
    with pytest.raises(ValueError, match="no column 'b'"):
        NAMED.predict(dd.from_pandas(FRAME[["a"]], npartitions=2))


@pytest.mark.parametrize("method", METHODS)
def test_another_number_of_columns_is_refused_at_once(method: str) -> None:
    for data in (
        da.from_array(X[:, :1], chunks=(1000, 1)),
        dd.from_pandas(FRAME[["a"]], npartitions=2),
    ):
        with pytest.raises(InvalidInputError, match="has 1 columns, but Mixture was fitted with 2"):
            getattr(MODEL, method)(data)


def test_a_result_is_that_of_the_model_as_it_was() -> None:
    model = mixture("online-em").partial_fit(X[:1000])
    data = da.from_array(X, chunks=(3000, 2))
    before, expected = model.score_samples(data), model.score_samples(X)
    model.partial_fit(X[1000:])
    np.testing.assert_array_equal(before.compute(), expected)
    assert not np.array_equal(model.score_samples(X), expected)


def test_what_is_sent_does_not_grow_with_the_rows_kept() -> None:
    few, many = (
        mixture("reservoir-em").partial_fit(np.tile(X[:500], (times, 1))) for times in (1, 8)
    )
    sizes = [len(pickle.dumps(model.for_evaluation())) for model in (few, many)]
    assert sizes[1] < 1.2 * sizes[0]


def test_anomalies_of_collections() -> None:
    detector = AnomalyDetector(mixture(), contamination=0.01).fit(X)
    found = detector.predict(da.from_array(X, chunks=(1000, 2)))
    np.testing.assert_array_equal(found.compute(), detector.predict(X))


@pytest.mark.parametrize("kind", ["client", "cluster"])
def test_a_client_or_cluster_is_given(kind: str, cluster: LocalCluster, tmp_path: Path) -> None:
    data = da.from_array(X, chunks=(1000, 2))
    expected = mixture(cluster="serial").fit(data)
    with Client(cluster, set_as_default=False) as client:
        given = client if kind == "client" else cluster
        model = mixture(cluster=given).fit(data)
        assert equal(model.params_, expected.params_)
        assert model.score(data) == expected.score(data)
        found = client.compute(model.predict(data)).result()
        np.testing.assert_array_equal(found, expected.predict(X))
        assert clone(model).cluster is given
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert other.cluster == cluster.scheduler_address
        model.save(tmp_path / "m.mixfold")
        assert load(tmp_path / "m.mixfold").cluster is None


def test_a_client_that_is_closed(cluster: LocalCluster) -> None:
    client = Client(cluster, set_as_default=False)
    client.close()
    with pytest.raises(ClusterError, match="which is closed: give another"):
        mixture(cluster=client).fit(da.from_array(X, chunks=(1000, 2)))


@pytest.mark.parametrize("given", [3, object(), ["local"]])
def test_what_is_no_cluster(given: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"cluster is .*a Client"):
        mixture(cluster=given).fit(X)


def test_the_estimators_of_scikit_learn() -> None:
    model = GaussianMixture(3, random_state=0).fit(X)
    data = da.from_array(X, chunks=(1000, 2))
    np.testing.assert_array_equal(model.predict(data).compute(), model.predict(X))
    assert model.bic(data) == pytest.approx(model.bic(X), rel=1e-13)


def test_columns_whose_names_are_numbers() -> None:
    frame = pd.DataFrame(X)
    data = dd.from_pandas(frame, npartitions=2)
    model = mixture(cluster="serial").fit(data)
    expected = model.predict(frame.rename(columns=str))
    np.testing.assert_array_equal(model.predict(data).compute(), expected)
