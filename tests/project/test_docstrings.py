"""What the documentation lists of every class says what its parameters are."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

import pytest

from mixfold.core.registry import find_all

CLASSES: list[Any] = [*find_all("learners").values()]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_parameter_of_a_learner_is_documented(cls: Any) -> None:
    text = inspect.getdoc(cls) or ""
    section = text.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    named = re.findall(r"^([\w, ]+) : ", section, flags=re.MULTILINE)
    documented = {name.strip() for names in named for name in names.split(",")}
    assert documented == {field.name for field in fields(cls) if field.init}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_learner_says_when_to_use_it(cls: Any) -> None:
    before_parameters = (inspect.getdoc(cls) or "").partition("Parameters\n---")[0]
    assert re.search(r"\bUse\s+it\b", before_parameters)
