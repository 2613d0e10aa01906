"""A mixture of three exponentials that overlap almost wholly; a million rows."""

from __future__ import annotations

from pathlib import Path

from mixfold.experiments._simulation import Simulation
from mixfold.experiments._templates import Template, exponential


class Exp1(Simulation):
    """A mixture of three exponentials that overlap almost wholly."""

    def template(self, data: Path | None) -> Template:
        return exponential()
