"""The papers' studies: one class per file, and the rows of the table of simulations."""

from __future__ import annotations

from typing import Protocol

from mixfold.core.errors import unknown_name
from mixfold.core.registry import find, names
from mixfold.experiments._simulation_table import SIMULATIONS
from mixfold.experiments.wanted import Wanted

# modules for other packages, without a registered class
HELPER_MODULES = ("annealing", "grids", "pixels", "templates", "wanted")


class Study(Protocol):
    """A study that can be reproduced."""

    def run(self, wanted: Wanted) -> None:
        """Run the study and write its tables and figures."""


def study_names() -> tuple[str, ...]:
    """The names of all studies."""
    return tuple(sorted([*names("experiments"), *SIMULATIONS]))


def find_study(name: str) -> Study:
    """The study of that name."""
    if name in SIMULATIONS:
        from mixfold.experiments._simulation import Simulation

        return Simulation(name, SIMULATIONS[name])
    if name not in study_names():
        raise unknown_name("study", name, study_names())
    study: Study = find("experiments", name)()
    return study
