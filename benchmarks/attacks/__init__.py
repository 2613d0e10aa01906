"""Attacks on mixfold: one module per kind, shared by the tests and by `benchmarks/attack.py`.

Every module has one function, `attacks(rng, folder)`, that yields attacks without end: what is
tried, and a function that raises AssertionError if the attack gets through.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Attack(NamedTuple):
    """What is tried, and how; `run` raises AssertionError if it gets through."""

    name: str
    run: Callable[[], None]


Attacks = Callable[[np.random.Generator, Path], Iterator[Attack]]


def kinds() -> list[str]:
    """Names of all kinds of attack."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def attacks_of(kind: str) -> Attacks:
    """The function that makes attacks of a kind."""
    made: Attacks = import_module(f"{__name__}.{kind}").attacks
    return made


def run_some(kind: str, number: int, folder: Path, seed: int = 0) -> None:
    """Run the first attacks of a kind; for tests."""
    for attack in islice(attacks_of(kind)(np.random.default_rng(seed), folder), number):
        try:
            attack.run()
        except AssertionError as error:
            raise AssertionError(f"{attack.name}: {error}") from error
