"""Laws of every initializer."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.models.mixture_model import MixtureModel


def draw(start: Initializer, model: MixtureModel, rows: Rows, seed: int = 0) -> Any:
    """Parameters from a generator of that seed."""
    return start.draw(model, rows, np.random.default_rng(seed))


def parameters_are_valid(start: Initializer, model: MixtureModel, rows: Rows) -> None:
    """Any number of rows, from one on and alike or not, gives parameters in their domain."""
    alike = Rows(np.repeat(rows.x[:1], 20, axis=0))
    for some in (rows, rows.cut(0, 1), rows.cut(0, model.k), alike):
        params = draw(start, model, some)
        model.check_params(params)
        density = model.family.log_density(params.components, some.x.astype(np.float64))
        assert np.isfinite(density).all(), f"a density is not finite after {len(some)} rows"


def the_seed_decides(start: Initializer, model: MixtureModel, rows: Rows) -> None:
    """The same generator gives the same bits; a start that is not random needs none."""
    assert equal(draw(start, model, rows), draw(start, model, rows)), (
        "two draws from generators of the same seed differ"
    )
    if not start.random:
        assert equal(draw(start, model, rows), draw(start, model, rows, seed=1)), (
            "draws of different seeds differ: set random = True"
        )


def inputs_are_not_changed(start: Initializer, model: MixtureModel, rows: Rows) -> None:
    """Rows are as they were."""
    before = rows.copy()
    draw(start, model, rows)
    assert equal(rows, before), "draw changes its rows"


LAWS = [parameters_are_valid, the_seed_decides, inputs_are_not_changed]
