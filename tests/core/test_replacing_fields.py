"""`core.value.replace` does what `dataclasses.replace` does."""

from __future__ import annotations

import dataclasses

import pytest

from mixfold.core.backend import Assignment
from mixfold.core.errors import InvalidInputError
from mixfold.core.value import replace
from mixfold.families.gaussian import Gaussian
from mixfold.learners.em import EM


def test_fields_change_in_a_new_value() -> None:
    before = Assignment("draw", draws=3)

    after = replace(before, first=7)

    assert dataclasses.astuple(after) == ("draw", 3, 0, 7)
    assert dataclasses.astuple(before) == ("draw", 3, 0, 0)
    assert type(after) is Assignment


def test_fields_are_checked_as_when_the_value_is_made() -> None:
    with pytest.raises(InvalidInputError, match="tol is -1"):
        replace(EM(), tol=-1.0)
    with pytest.raises(InvalidInputError, match="covariance"):
        replace(Gaussian(), covariance="oval")


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="tolerance"):
        replace(EM(), tolerance=1.0)


def test_what_is_no_field_is_left_behind() -> None:
    before = EM()
    object.__setattr__(before, "kept", 1)

    assert not hasattr(replace(before, max_iter=3), "kept")
    assert replace(before, max_iter=3).max_iter == 3
