"""Expressions as nodes of an ONNX graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.errors import InvalidInputError, MissingExtraError
from mixfold.core.expression import Expression, Operand

OPSET, OPSET_ML, IR_VERSION = 18, 3, 8  # those of ONNX Runtime 1.14 and later
ML_OPERATORS = ("LabelEncoder",)
INPUT = "Input"  # the operator of a named input of the graph
MOST_BYTES = 2**31 - 2**20  # of constants: a protocol buffer has less than 2 GiB


def onnx() -> Any:
    """The package onnx; an error names the extra if it is not installed."""
    try:
        import onnx as found
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", "to_onnx") from error
    return found


class OnnxGraph:
    """A graph that grows by expressions; each expression and each constant is written once."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []
        self.bytes = 0
        self._known: dict[int, tuple[Expression, str]] = {}
        self._arrays: dict[Any, str] = {}

    def add_input(self, name: str, dtype: type, width: int) -> Expression:
        """An input of rows with `width` columns."""
        kind = _kind(dtype)
        self.inputs.append(onnx().helper.make_tensor_value_info(name, kind, ["N", width]))
        found = Expression(INPUT)
        self._known[id(found)] = found, name
        return found

    def add_output(self, name: str, found: Expression, dtype: type, width: int | None) -> None:
        """A result, of one number or of `width` numbers for each row."""
        self.nodes.append(onnx().helper.make_node("Identity", [self.name_of(found)], [name]))
        shape = ["N"] if width is None else ["N", width]
        self.outputs.append(onnx().helper.make_tensor_value_info(name, _kind(dtype), shape))

    def name_of(self, operand: Operand) -> str:
        """The name of the value of an expression or of a constant."""
        if not isinstance(operand, Expression):
            return self._constant(np.asarray(operand))
        if id(operand) not in self._known:
            self._known[id(operand)] = operand, self._node(operand)
        return self._known[id(operand)][1]

    def _node(self, found: Expression) -> str:
        inputs, name = [self.name_of(one) for one in found.inputs], f"value_{len(self.nodes)}"
        attributes = {
            key: _kind(value) if isinstance(value, np.dtype) else value
            for key, value in found.attributes.items()
        }
        domain = "ai.onnx.ml" if found.operator in ML_OPERATORS else ""
        made = onnx().helper.make_node(found.operator, inputs, [name], domain=domain, **attributes)
        self.nodes.append(made)
        return name

    def _constant(self, array: NDArray[Any]) -> str:
        whole = array.ndim > 0 and array.dtype.kind == "i"  # of columns and axes
        array = np.ascontiguousarray(array.astype(np.int64 if whole else np.float64))
        key = array.dtype, array.shape, array.tobytes()
        if key not in self._arrays:
            self._arrays[key] = name = f"constant_{len(self.constants)}"
            self.bytes += array.nbytes
            if self.bytes > MOST_BYTES:
                raise InvalidInputError(
                    f"the model has more than {MOST_BYTES:,} bytes of parameters, and a file of "
                    "ONNX can have no more: use fewer components, or columns"
                )
            self.constants.append(onnx().numpy_helper.from_array(array, name))
        return self._arrays[key]

    def to_model(self, notes: dict[str, str]) -> Any:
        """The graph as an `onnx.ModelProto`, which is checked."""
        from mixfold import __version__

        helper = onnx().helper
        graph = helper.make_graph(
            self.nodes, "mixfold", self.inputs, self.outputs, initializer=self.constants
        )
        versions = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", OPSET_ML)]
        made = helper.make_model(
            graph,
            opset_imports=versions,
            ir_version=IR_VERSION,
            producer_name="mixfold",
            producer_version=__version__,
        )
        helper.set_model_props(made, notes)
        onnx().checker.check_model(made)
        return made


def _kind(dtype: Any) -> int:
    """ONNX's number of a type of NumPy; text is that of `str`."""
    if dtype is str:
        return int(onnx().TensorProto.STRING)
    return int(onnx().helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
