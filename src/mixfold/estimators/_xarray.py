"""Labelled arrays of xarray as rows, and results with the same coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from sys import modules
from typing import Any

import numpy as np

from mixfold.core.engine import RowResult
from mixfold.core.errors import InvalidInputError
from mixfold.sources.table import check_names

FEATURES = ("feature", "features", "variable", "band", "channel")
COMPONENT = "component"
CELLS = "cells"  # the name of results that are one number for every cell


def is_xarray(data: Any) -> bool:
    """Whether `data` is a DataArray or Dataset, without importing xarray."""
    library = modules.get("xarray")
    return library is not None and isinstance(data, library.DataArray | library.Dataset)


def rows_of(data: Any, weight: str | None = None) -> Any:
    """The rows of xarray's arrays as a table or an array, of Dask if they are; else `data`.

    Rows without any value, such as those of the land in a table of the sea, are left out.
    """
    return XArray(data, None).rows(weight) if is_xarray(data) else data


class XArray:
    """A DataArray, one of whose dimensions are the columns, or a Dataset of variables as columns.

    All other dimensions are rows. `columns` are the variables to use; None is all.
    """

    def __init__(self, data: Any, columns: Sequence[str] | None) -> None:
        self.is_dataset = hasattr(data, "data_vars")
        if self.is_dataset:
            names = [str(name) for name in data.data_vars]
            columns = names if columns is None else columns
            check_names(names, columns, "the Dataset")
            data = data[list(columns)]
        self.data, self.variables = data, columns

    @property
    def is_lazy(self) -> bool:
        """Whether values are computed by Dask."""
        return self.data.chunks is not None and len(self.data.chunks) > 0

    def rows(self, weight: str | None) -> Any:
        """All rows with some value."""
        if self.is_lazy:
            return self._lazy_rows(weight)
        table = self._table()
        if isinstance(table, np.ndarray):
            return table[_known(table)]
        return table[~table.drop(columns=[weight] if weight in table else []).isna().all(axis=1)]

    def _lazy_rows(self, weight: str | None) -> Any:
        import dask.array

        array, names = self._array(), self._names()
        shape = int(np.prod(array.shape[:-1])), array.shape[-1]
        x = dask.array.reshape_blockwise(array.data, shape)
        if names is None:
            return x[~dask.array.isnan(x).all(axis=1)] if x.dtype.kind == "f" else x
        import dask.dataframe

        table = dask.dataframe.from_dask_array(x, columns=names)
        return table.dropna(how="all", subset=[name for name in names if name != weight])

    def results(self, work: Any, result: RowResult) -> Any:
        """What `work` computes for the rows, as an array with the same coordinates."""
        array, cells = self._array(), OnCells(work, result, self._names())
        dimension = array.dims[-1]
        if result.names is None:
            made: tuple[Any, ...] = ()
            labels: Any = None
        elif result.name == CELLS:
            made, labels = (dimension,), None
        else:
            made, labels = (COMPONENT,), range(len(result.names))
            if COMPONENT in array.dims:
                raise InvalidInputError(
                    f"X has a dimension {COMPONENT!r}, which is the name of that of the "
                    f"components in results: use X.rename({COMPONENT}='another name')"
                )
        return self._in_place(array, cells, made, labels, result)

    def _in_place(
        self, array: Any, cells: Any, made: tuple[Any, ...], labels: Any, result: RowResult
    ) -> Any:
        import xarray

        sizes = {} if labels is None else {COMPONENT: len(labels)}
        found = xarray.apply_ufunc(
            cells,
            array,
            input_core_dims=[[array.dims[-1]]],
            output_core_dims=[made],
            dask="parallelized",
            output_dtypes=[result.dtype],
            dask_gufunc_kwargs={"output_sizes": sizes},
        )
        if labels is not None:
            return found.assign_coords({COMPONENT: [*labels]}).rename(result.name)
        if made and self.is_dataset:
            return found.to_dataset(dim=array.dims[-1])
        return found.transpose(*self.data.dims) if made else found.rename(result.name)

    def _array(self) -> Any:
        """One array with the columns in its last dimension, which has one chunk."""
        if not self.is_dataset:
            name, data = _feature_dimension(self.data), self.data
        else:
            name = next(one for one in FEATURES[2:] + FEATURES[:2] if one not in self.data.dims)
            for variable, one in self.data.data_vars.items():
                _check_numbers(variable, one)
            data = self.data.to_dataarray(name)
        data = data.transpose(..., name)
        return data.chunk({name: -1}) if data.chunks else data

    def _names(self) -> list[str] | None:
        """The names of the columns: variables, or labels of their dimension that are text."""
        if self.is_dataset:
            return list(self.variables or ())
        dimension = _feature_dimension(self.data)
        labels = (
            self.data.coords[dimension].values.tolist() if dimension in self.data.coords else []
        )
        text = len(labels) > 0 and all(isinstance(label, str) for label in labels)
        return labels if text else None

    def _table(self) -> Any:
        array, names = self._array(), self._names()
        x = array.values.reshape(-1, array.shape[-1])
        if names is None:
            return x
        import pandas

        return pandas.DataFrame(x, columns=names)


@dataclass(frozen=True)
class OnCells:
    """Computes results for an array whose last dimension has the columns.

    Rows without any value have NaN as their result, or -1 if it is a label.
    """

    work: Any
    result: RowResult
    names: list[str] | None

    def __call__(self, array: Any) -> Any:
        x = np.asarray(array).reshape(-1, array.shape[-1])
        width = () if self.result.names is None else (len(self.result.names),)
        floats = np.dtype(self.result.dtype).kind == "f"
        found = np.full((len(x), *width), np.nan if floats else -1, self.result.dtype)
        known = _known(x)
        if known.any():
            found[known] = self.work(self._named(x[known]))
        return found.reshape((*array.shape[:-1], *width))

    def _named(self, x: Any) -> Any:
        if self.names is None:
            return x
        import pandas

        return pandas.DataFrame(x, columns=self.names)


def _known(x: Any) -> Any:
    """Which rows have some value."""
    return ~np.isnan(x).all(axis=1) if x.dtype.kind == "f" else np.ones(len(x), dtype=bool)


def _check_numbers(name: Any, variable: Any) -> None:
    if variable.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"variable {str(name)!r} of the Dataset has dtype {variable.dtype}: numbers are "
            "needed; choose variables of numbers, X[['name']]"
        )


def _feature_dimension(data: Any) -> Any:
    """The dimension whose entries are the columns."""
    named = [dim for dim in data.dims if str(dim).lower() in FEATURES]
    if len(named) == 1:
        return named[0]
    if data.ndim == 2 and not named:
        return data.dims[1]
    raise InvalidInputError(
        f"X is a DataArray with dimensions {', '.join(map(str, data.dims)) or 'none'}: one of them "
        f"must have the columns and be called {', '.join(FEATURES[:-1])} or {FEATURES[-1]}; use "
        "X.rename(name='feature'), or X.expand_dims('feature', -1) if there is one column"
    )
