"""Whether things are what annotations say."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray
from typing_extensions import TypeAliasType

from mixfold.core.schema import fits

Element = TypeVar("Element", bound=np.generic)
# what `type Aliased[Element] = np.ndarray[...]` makes, and NDArray is in NumPy 2.5
Aliased = TypeAliasType(
    "Aliased", np.ndarray[tuple[Any, ...], np.dtype[Element]], type_params=(Element,)
)
Number = TypeAliasType("Number", int | None)


@pytest.mark.parametrize("arrays", [NDArray, Aliased])
def test_arrays_have_the_type_that_is_declared(arrays: Any) -> None:
    assert fits(np.ones(2), arrays[np.float64])
    assert fits(np.ones((2, 2), np.uint32), arrays[np.uint32])
    assert not fits(np.ones(2, np.float32), arrays[np.float64])
    assert not fits([1.0, 2.0], arrays[np.float64])
    assert fits(None, arrays[np.float64] | None)
    assert fits([np.ones(1)], list[arrays[np.float64]])
    assert not fits([np.ones(1, int)], list[arrays[np.float64]])


def test_plain_types() -> None:
    assert fits(3, Number)
    assert fits(None, Number)
    assert not fits(True, Number)
    assert fits(3, float)
    assert not fits(True, float)
    assert not fits(10**400, float)
    assert fits("a", Literal["a", "b"])
    assert not fits("c", Literal["a", "b"])
    assert not fits("\ud800", str)
