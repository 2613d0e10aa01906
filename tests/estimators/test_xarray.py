"""Labelled arrays of xarray as rows, in memory and backed by Dask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from mixfold import GaussianMixture, Mixture
from mixfold.core.errors import InvalidInputError, SourceError

T, LAT, LON = 6, 4, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(T, LAT, LON, 2)) + 6.0 * (RNG.random((T, LAT, LON, 1)) < 0.4)
LAND = np.zeros((LAT, LON), dtype=bool)
LAND[1:3, 2] = True
COORDS = {
    "time": pd.date_range("2026-01-01", periods=T),
    "lat": np.arange(LAT) * 10.0,
    "lon": np.arange(LON) * 20.0,
}
SEA = xr.Dataset(
    {
        "temperature": (("time", "lat", "lon"), X[..., 0]),
        "salinity": (("time", "lat", "lon"), X[..., 1]),
    },
    coords=COORDS,
).where(~xr.DataArray(LAND, dims=("lat", "lon")))
ROWS = X[:, ~LAND].reshape(-1, 2)
KEPT = np.broadcast_to(~LAND, (T, LAT, LON))
CHUNKS = {"time": 4, "lat": 2}
METHODS = ["predict", "predict_proba", "score_samples"]


def fitted(data: Any, **settings: Any) -> Mixture:
    return Mixture(n_components=2, random_state=0, learner="em", **settings).fit(data)


MODEL = fitted(ROWS)


def forms() -> dict[str, Any]:
    """The same numbers as Datasets and DataArrays, in memory and of Dask."""
    array = SEA.to_dataarray()
    return {
        "dataset": SEA,
        "lazy dataset": SEA.chunk(CHUNKS),
        "array": array,
        "lazy array": array.chunk({**CHUNKS, "variable": 1}),
        "without names": xr.DataArray(
            array.transpose(..., "variable").values, dims=["t", "y", "x", "band"]
        ),
    }


FORMS = forms()


@pytest.mark.parametrize("form", FORMS)
def test_rows_without_values_are_left_out(form: str) -> None:
    lazy = {"cluster": "serial"} if form.startswith("lazy") else {}
    model = fitted(FORMS[form], **lazy)
    assert model.n_rows_ == len(ROWS)
    np.testing.assert_allclose(model.means_, MODEL.means_, rtol=1e-3)
    if form != "without names":
        assert list(model.feature_names_in_) == ["temperature", "salinity"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", ["dataset", "lazy dataset", "array", "lazy array"])
def test_results_have_the_same_coordinates(form: str, method: str) -> None:
    data, model = FORMS[form], fitted(SEA)
    found = getattr(model, method)(data)
    assert isinstance(found, xr.DataArray)
    assert (found.chunks is not None) == form.startswith("lazy")
    if found.chunks is not None:
        assert found.chunks[:3] == ((4, 2), (2, 2), (5,))
    more = ("component",) if method == "predict_proba" else ()
    assert found.dims == ("time", "lat", "lon", *more)
    for name, values in COORDS.items():
        np.testing.assert_array_equal(found.coords[name], values)
    frame = pd.DataFrame(ROWS, columns=["temperature", "salinity"])
    values = found.values
    np.testing.assert_allclose(values[KEPT], getattr(model, method)(frame), rtol=1e-12)
    land = values[~KEPT]
    assert (land == -1).all() if method == "predict" else np.isnan(land).all()


def test_names_of_results() -> None:
    model = fitted(SEA)
    assert model.predict(SEA).name == "label"
    assert model.score_samples(SEA).name == "log_density"
    assert model.predict_proba(SEA).coords["component"].values.tolist() == [0, 1]


@pytest.mark.parametrize("form", ["dataset", "lazy dataset", "array", "lazy array"])
def test_one_number_for_all(form: str) -> None:
    model = fitted(SEA)
    frame = pd.DataFrame(ROWS, columns=["temperature", "salinity"])
    for method in ("score", "bic", "aic"):
        expected = getattr(model, method)(frame)
        assert getattr(model, method)(FORMS[form]) == pytest.approx(expected, rel=1e-12)


def test_one_number_for_every_cell() -> None:
    model = fitted(SEA)
    frame = pd.DataFrame(ROWS, columns=["temperature", "salinity"])
    expected = model.explain(frame)
    for form in ("dataset", "lazy dataset"):
        found = model.explain(FORMS[form])
        assert isinstance(found, xr.Dataset)
        np.testing.assert_allclose(found["salinity"].values[KEPT], expected["salinity"])
    found = model.explain(FORMS["array"])
    assert found.dims == FORMS["array"].dims
    gaps = SEA.copy(deep=True)
    gaps["salinity"][0, 0, 0] = np.nan
    filled = model.impute(gaps)
    assert np.isfinite(filled["salinity"].values[KEPT]).all()
    assert np.isnan(filled["salinity"].values[~KEPT]).all()
    some = filled["temperature"].values
    np.testing.assert_array_equal(some[KEPT], gaps["temperature"].values[KEPT])


def test_two_dimensions_are_rows_and_columns() -> None:
    table = xr.DataArray(ROWS, dims=("station", "measure"), coords={"measure": ["a", "b"]})
    model = fitted(table)
    assert list(model.feature_names_in_) == ["a", "b"]
    found = model.predict(table)
    assert found.dims == ("station",)
    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    np.testing.assert_array_equal(found, model.predict(frame))


def test_variables_are_found_by_name_and_broadcast() -> None:
    depth = xr.DataArray(RNG.normal(size=(LAT, LON)), dims=("lat", "lon"))
    model = fitted(SEA.assign(depth=depth), columns=["salinity", "depth"])
    assert list(model.feature_names_in_) == ["salinity", "depth"]
    more = SEA.assign(depth=depth, other=1.0)
    assert model.predict(more).shape == (T, LAT, LON)
    with pytest.raises(SourceError, match="the Dataset has no column 'depth'"):
        model.predict(SEA)


def test_weights_are_a_variable() -> None:
    weight = xr.DataArray(np.cos(np.deg2rad(COORDS["lat"])), dims="lat")
    data = SEA.assign(area=weight)
    model = Mixture(random_state=0).fit(data, sample_weight="area")
    w = np.broadcast_to(weight.values[:, None], (T, LAT, LON))[KEPT]
    np.testing.assert_allclose(model.means_[0], np.average(ROWS, axis=0, weights=w))
    lazy = Mixture(random_state=0, cluster="serial").fit(data.chunk(CHUNKS), sample_weight="area")
    np.testing.assert_allclose(lazy.means_, model.means_)


def test_the_estimators_of_scikit_learn() -> None:
    model = GaussianMixture(2, random_state=0).fit(SEA)
    assert model.predict(SEA).dims == ("time", "lat", "lon")


def test_one_point_has_one_result() -> None:
    model, point = fitted(SEA), {"time": 0, "lat": 0, "lon": 0}
    for data in (SEA, SEA.chunk(CHUNKS)):
        found = model.predict(data.isel(point)), model.predict_proba(data.isel(point))
        assert (found[0].dims, found[1].dims) == ((), ("component",))
        assert int(found[0]) == int(model.predict(data)[0, 0, 0])
    assert np.isnan(model.score_samples(SEA.isel(time=0, lat=1, lon=2)))


def test_a_dimension_of_rows_called_component() -> None:
    data = SEA.rename(time="component")
    model = fitted(SEA)
    assert model.predict(data).dims == ("component", "lat", "lon")
    with pytest.raises(InvalidInputError, match=r"X has a dimension 'component'.*X.rename"):
        model.predict_proba(data)


def test_what_cannot_be_rows() -> None:
    with pytest.raises(InvalidInputError, match=r"dimensions time, lat, lon: one of them must"):
        Mixture().fit(SEA["salinity"])
    with pytest.raises(InvalidInputError, match=r"expand_dims"):
        Mixture().fit(xr.DataArray(np.arange(5.0), dims="x"))
    with pytest.raises(InvalidInputError, match=r"variable 'name' .*numbers are needed"):
        Mixture().fit(SEA.assign(name=("lat", list("abcd"))))
