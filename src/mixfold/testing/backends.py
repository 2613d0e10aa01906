"""Laws of every engine: it equals threads that run the reference kernel."""

from __future__ import annotations

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.backend import Assignment
from mixfold.core.learner import Learner
from mixfold.core.rows import Array, Rows
from mixfold.core.value import at_home, equal
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.mixture_model import MixtureBackend, MixtureParams
from mixfold.testing.folding import fold

ASSIGNMENTS = [
    Assignment(),
    Assignment("mode"),
    Assignment("draw", draws=3, seed=5, first=11),
]


def reference(backend: MixtureBackend) -> MixtureBackend:
    """What the engine must equal."""
    return Threads(backend.model, 1, ReferenceKernel(backend.model))


def close(found: Array, expected: Array, rtol: float) -> None:
    """Sums agree, in relation to the largest of them."""
    scale = np.abs(expected).max(initial=1.0)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale)


def expectations_agree(
    backend: MixtureBackend, params: MixtureParams, rows: Rows, rtol: float
) -> None:
    """Sums are those of the reference, on top of what there is, for every assignment."""
    before = np.arange(backend.model.n_sums, dtype=np.float64)
    for assignment in ASSIGNMENTS:
        expected = reference(backend).fold(params, rows.on_host(), before, assignment)
        close(backend.fold(params, rows, before, assignment), expected, rtol)


def posteriors_agree(
    backend: MixtureBackend, params: MixtureParams, rows: Rows, rtol: float
) -> None:
    """Densities and responsibilities are those of the reference."""
    expected = reference(backend).posterior(params, rows.on_host())
    found = backend.posterior(params, rows)
    np.testing.assert_allclose(found[0], expected[0], rtol=rtol, atol=1e2 * rtol)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e2 * rtol, atol=rtol)  # type: ignore[arg-type]
    alone = backend.posterior(params, rows, False)
    np.testing.assert_array_equal(alone[0], found[0])
    assert alone[1] is None


def moments_agree(backend: MixtureBackend, params: MixtureParams, rows: Rows, rtol: float) -> None:
    """Sums under given responsibilities, also negative ones, are those of the reference."""
    given = np.random.default_rng(0).normal(size=(len(rows), backend.model.k))
    nothing = np.zeros(backend.model.n_sums)
    expected = reference(backend).moments(params, rows.on_host(), given, nothing)
    close(backend.moments(params, rows, given, nothing), expected, rtol)


def learning_agrees(
    backend: MixtureBackend, params: MixtureParams, learner: Learner, rows: Rows, rtol: float
) -> None:
    """Two passes end where those of the reference end."""
    ends = []
    for engine, given in ((backend, rows), (reference(backend), rows.on_host())):
        state, _ = fold(engine, learner, params, given, [], seen=200)
        ends.append(engine.model.unconstrained(learner.estimate(engine, state)))
    np.testing.assert_allclose(ends[0], ends[1], rtol=rtol, atol=rtol)


def blocks_do_not_matter(
    backend: MixtureBackend, params: MixtureParams, learner: Learner, rows: Rows, cuts: list[int]
) -> None:
    """The same rows in blocks of any sizes, from here or from a device, give the same bits."""
    whole = at_home(fold(backend, learner, params, rows, [])[0])
    assert equal(whole, at_home(fold(backend, learner, params, rows, cuts)[0]))
    assert equal(whole, fold(backend, learner, params, rows.on_host(), cuts)[0])


LAWS = [expectations_agree, posteriors_agree, moments_agree]
