"""A fitted mixture as a model of ONNX."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mixfold.core.errors import unknown_name
from mixfold.core.expression import Expression, side_by_side, total
from mixfold.estimators._cells import COMPLETE, Cells
from mixfold.estimators._onnx_graph import OnnxGraph
from mixfold.families.product import Product
from mixfold.models.mixture_model import MixtureModel

TYPES: dict[str, type] = {"float32": np.float32, "float64": np.float64}
MATRIX = "X"
LOWEST = float(np.finfo(np.float64).min)


class RowsIn(NamedTuple):
    """Rows as float64 numbers (n, d), and NaN (n, 1) where a row has an unknown category."""

    x: Expression
    unknown: Expression | None


def onnx_model(
    model: MixtureModel,
    params: Any,
    dtype: str,
    marginalize: bool,
    names: Sequence[str] | None = None,
    cells: Cells = COMPLETE,
) -> Any:
    """The `onnx.ModelProto` of a mixture under parameters, of rows with these names and cells.

    The graph computes in float64; inputs of numbers and results have the type `dtype`. With
    `marginalize`, missing cells of independent columns are integrated out.
    """
    if dtype not in TYPES:
        raise unknown_name("dtype", dtype, TYPES)
    kind, graph = TYPES[dtype], OnnxGraph()
    by_column = isinstance(model.family, Product) and names is not None
    if by_column:
        assert names is not None
        rows = _columns(graph, names, cells, kind)
    else:
        rows = RowsIn(graph.add_input(MATRIX, kind, model.d).converted(np.float64), None)
    joint = model.joint_expression(params, rows.x, marginalize)
    if rows.unknown is not None:
        joint = joint + rows.unknown
    log_density, responsibilities = _normalized(joint)
    _add_results(graph, log_density, responsibilities, model, kind)
    notes = {} if names is None else {"columns": json.dumps(list(names))}
    return graph.to_model({**notes, "family": repr(model.family)})


def _normalized(joint: Expression) -> tuple[Expression, Expression]:
    """log p(x) (n, 1) and responsibilities, from log w_k p(x|k)."""
    largest = joint.max(1, keepdims=True).at_least(LOWEST)
    odds = (joint - largest).exp()
    sums = odds.sum(1, keepdims=True)
    return largest + sums.log(), odds / sums


def _add_results(
    graph: OnnxGraph,
    log_density: Expression,
    responsibilities: Expression,
    model: MixtureModel,
    kind: type,
) -> None:
    """The outputs: labels, which are -1 for noise and where there is no density, and the rest."""
    number, score = model.n_expectations, log_density.sum(1)
    label = Expression("ArgMax", responsibilities, axis=1, keepdims=0).converted(np.float64)
    if model.has_noise:
        label = label.equals(float(model.k)).choose(-1.0, label)
    label = score.is_missing().choose(-1.0, label).converted(np.int64)
    graph.add_output("label", label, np.int64, None)
    graph.add_output("probabilities", responsibilities.converted(kind), kind, number)
    graph.add_output("score_samples", score.converted(kind), kind, None)


def _columns(graph: OnnxGraph, names: Sequence[str], cells: Cells, kind: type) -> RowsIn:
    """One input for each column."""
    found, unknown = [], []
    for name in names:
        levels = cells.levels.get(name)
        if levels is None:  # a day needs more digits than float32 has
            own = np.float64 if name in cells.types else kind
            found.append(graph.add_input(name, own, 1).converted(np.float64))
            continue
        other = float(len(levels)) if cells.other else np.nan
        text = any(isinstance(level, str) for level in levels)
        codes = _text_codes if text else _number_codes
        code, wrong = codes(graph, name, levels, kind, cells.missing)
        found.append(wrong.choose(other, code))
        if not cells.other:
            unknown.append(wrong.choose(np.nan, 0.0))
    return RowsIn(side_by_side(*found), total(*unknown) if unknown else None)


def _text_codes(
    graph: OnnxGraph, name: str, levels: Sequence[Any], kind: type, missing: bool
) -> tuple[Expression, Expression]:
    """The codes of a column of text, and where it has none of the levels; no text is missing."""
    keys = [*map(str, levels)]
    values = [float(i) for i in range(len(keys))]
    if missing and "" not in keys:
        keys, values = [*keys, ""], [*values, np.nan]
    given = graph.add_input(name, str, 1)
    code = Expression(
        "LabelEncoder", given, keys_strings=keys, values_floats=values, default_float=-1.0
    ).converted(np.float64)
    return code, code.below(0.0)


def _number_codes(
    graph: OnnxGraph, name: str, levels: Sequence[Any], kind: type, missing: bool
) -> tuple[Expression, Expression]:
    """The codes of a column of numbers, and where it has none of the levels."""
    given = graph.add_input(name, kind, 1).converted(np.float64)
    same = given.equals(np.array([levels], dtype=kind).astype(np.float64)).as_numbers()
    code = same @ np.arange(float(len(levels)))[:, None]
    wrong = given.is_missing().choose(1.0, same.sum(1, keepdims=True)).equals(0.0)
    return given.is_missing().choose(np.nan, code), wrong
