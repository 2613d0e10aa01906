"""EM in which a row belongs to a few of many components."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixfold import Gaussian, Mixture, Product, load
from mixfold.backends.threads import Threads
from mixfold.core.backend import Model
from mixfold.core.backend_capabilities import CandidateKernel, ComponentLists, required
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.noise import uniforms
from mixfold.core.rows import Rows
from mixfold.core.value import equal, flatten, unflatten
from mixfold.families.gamma import Gamma
from mixfold.families.poisson import Poisson
from mixfold.families.student_t import StudentT
from mixfold.kernels.candidates import LEAST, Pairs, best_of
from mixfold.kernels.native import is_compiled
from mixfold.kernels.reference import ReferenceKernel
from mixfold.learners import auto
from mixfold.learners._few_components import Few, FewComponents, _allotted
from mixfold.learners.em import EM
from mixfold.learners.truncated_em import TruncatedEM
from mixfold.learners.truncated_mini_batch_em import TruncatedMiniBatchEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing import families
from mixfold.testing.families import all_variants

K, N = 60, 600
FEW = TruncatedEM(n_candidates=3, n_neighbors=4, n_random=2, tol=0.0)
BATCHES = TruncatedMiniBatchEM(n_candidates=3, n_neighbors=4, batch_size=250)
FAMILIES: list[Family] = [
    family for family in all_variants(2) if FEW.serves(MixtureModel(family, K, 2))
]
FORMS: list[Family] = [
    Gaussian("diag"),
    Gaussian("full"),
    Gaussian("tied"),
    Gaussian("spherical"),
    Gaussian("factor", rank=1),
    Poisson(),
    Gamma(),
]


def example(family: Family, d: int = 2, k: int = K, n: int = N) -> tuple[Any, Any, np.ndarray]:
    return families.example_mixture(family, k, d, n, np.random.default_rng(3))


def start(model: MixtureModel) -> MixtureParams:
    components = model.family.example(model.k, model.d, np.random.default_rng(1))
    return MixtureParams(np.full(model.k, 1.0 / model.k), components)


def passes(backend: Threads, learner: Any, params: Any, rows: Rows, count: int) -> tuple[Any, Any]:
    """The state after some passes, and the bound of each."""
    state, bounds = learner.init(backend, params), []
    for _ in range(count):
        state, _ = learner.step(backend, state, rows)
        state, infos = learner.end_pass(backend, state)
        bounds += [info.bound for info in infos]
    return state, bounds


# the bound


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_the_bound_never_falls(family: Family) -> None:
    model, _, x = example(family)
    backend = Threads(model, 1)
    state, bounds = passes(backend, FEW, start(model), Rows(x), 12)
    assert np.diff(bounds).min() >= -1e-9 * max(1.0, abs(bounds[-1]))
    log_likelihood = float(backend.posterior(state.params, Rows(x), False)[0].mean())
    assert bounds[-1] <= log_likelihood + 1e-9
    assert bounds[-1] > bounds[0]


@pytest.mark.parametrize("family", FORMS, ids=repr)
def test_with_all_components_it_is_em(family: Family) -> None:
    model, _, x = example(family, k=7)
    rows = Rows(x, np.random.default_rng(0).uniform(0.5, 2.0, len(x)))
    found = passes(Threads(model, 1), TruncatedEM(n_candidates=7), start(model), rows, 4)
    expected: Any = EM().init(Threads(model, 1), start(model))
    for i in range(4):
        expected, _ = EM().step(Threads(model, 1), expected, rows)
        expected, infos = EM().end_pass(Threads(model, 1), expected)
        assert found[1][i] == pytest.approx(infos[0].log_likelihood, rel=1e-9)
    np.testing.assert_allclose(found[0].params.weights, expected.params.weights, rtol=1e-6)


def test_components_far_apart_are_all_found() -> None:
    rng = np.random.default_rng(0)
    centres = rng.uniform(-100.0, 100.0, size=(400, 3))
    label = rng.integers(400, size=4000)
    x = centres[label] + rng.normal(size=(4000, 3))
    model = MixtureModel(Gaussian("diag"), 400, 3)
    params = MixtureParams(
        np.full(400, 1 / 400), Gaussian("diag").around(centres, x, np.ones(4000))
    )
    backend = Threads(model, 1)
    state, bounds = passes(backend, TruncatedEM(tol=0.0), params, Rows(x), 10)
    exact = float(backend.posterior(state.params, Rows(x), False)[0].mean())
    assert bounds[-1] == pytest.approx(exact, abs=0.1)
    em = EM(tol=0.0)
    other = em.init(backend, params)
    for _ in range(10):
        other, _ = em.end_pass(backend, em.step(backend, other, Rows(x))[0])
    assert exact > float(backend.posterior(other.params, Rows(x), False)[0].mean()) - 0.05


# the same bits


@pytest.mark.parametrize("family", FORMS, ids=repr)
@pytest.mark.parametrize("learner", [FEW, BATCHES])
def test_blocks_and_threads_do_not_matter(family: Family, learner: Any) -> None:
    model, _, x = example(family)
    rows = Rows(x, np.random.default_rng(0).uniform(0.5, 2.0, len(x)))
    ends = []
    for threads, cuts in ((1, [N]), (3, [N]), (2, [1, 2, 300, 301, N]), (1, range(7, N + 7, 7))):
        backend = Threads(model, threads)
        state = learner.init(backend, start(model))
        for _ in range(3):
            first = 0
            for stop in cuts:
                state, _ = learner.step(backend, state, rows.cut(first, stop))
                first = stop
            state, _ = learner.end_pass(backend, state)
        ends.append(state)
    assert all(equal(one, ends[0]) for one in ends[1:])


def test_many_tiles_in_blocks_of_any_sizes() -> None:
    model, _, x = example(Gaussian("full"), d=3, n=70_000)
    ends = []
    for threads, length in ((1, 70_000), (2, 33_333), (3, 9_999)):
        backend = Threads(model, threads)
        state = FEW.init(backend, start(model))
        for _ in range(2):
            for first in range(0, len(x), length):
                state, _ = FEW.step(backend, state, Rows(x[first : first + length]))
            state, _ = FEW.end_pass(backend, state)
        ends.append(state)
    assert all(equal(one, ends[0]) for one in ends[1:])


@pytest.mark.parametrize("family", FORMS[:2], ids=repr)
def test_a_state_saved_in_the_second_pass_goes_on_to_the_same_bits(family: Family) -> None:
    model, _, x = example(family)
    backend, ends = Threads(model, 1), []
    for saved in (False, True):
        state, _ = passes(backend, FEW, start(model), Rows(x), 1)
        state, _ = FEW.step(backend, state, Rows(x[:333]))
        if saved:
            arrays: dict[str, np.ndarray] = {}
            state = unflatten(flatten(state, "state", arrays), arrays)
            FEW.check_state(model, state)
        state, _ = FEW.step(backend, state, Rows(x[333:]))
        ends.append(FEW.end_pass(backend, state)[0])
    assert equal(*ends)


# the compiled search


@pytest.mark.skipif(not is_compiled(), reason="no compiled kernels")
@pytest.mark.parametrize("family", FORMS[:4] + FORMS[5:], ids=repr)
@pytest.mark.parametrize("d", [1, 7, 8, 17])
@pytest.mark.parametrize("single", [False, True])
def test_compiled_and_numpy_searches_find_the_same(family: Family, d: int, single: bool) -> None:
    model, params, x = example(family, d, n=200)
    rows = Rows(x.astype(np.float32) if single else x, np.linspace(0.0, 2.0, len(x)))
    few, ends = Few(4, 6, 2), []
    for backend in (Threads(model, 1), Threads(model, 1, ReferenceKernel(model))):
        steps = FewComponents(backend, params, few)
        none = np.full((len(x), 4), -1, dtype=np.int32)
        sums, found = steps.fold(rows, np.zeros(model.n_sums), none)
        again, warm = steps.fold(rows, sums, found, uniforms(0, 0, len(x), 2))
        ends.append((sums, again, found, warm, *steps.index.lists))
    (sums, again, *exact), (sums_in_numpy, again_in_numpy, *exact_in_numpy) = ends
    for compiled, in_numpy in zip(exact, exact_in_numpy, strict=True):
        np.testing.assert_array_equal(compiled, in_numpy)
    for one, other in ((sums, sums_in_numpy), (again, again_in_numpy)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_the_sums_are_those_of_the_responsibilities() -> None:
    """An oracle of dense responsibilities, zero for other components."""
    model, params, x = example(Gaussian("full"), 3, n=50)
    backend = Threads(model, 1)
    steps = FewComponents(backend, params, Few(3, 4, 0))
    sums, found = steps.fold(Rows(x), np.zeros(model.n_sums), np.full((50, 3), -1, dtype=np.int32))
    joint = model.log_joint(params, x)
    own = np.take_along_axis(joint, found.astype(np.intp), axis=1)
    responsibilities = np.zeros((50, K))
    odds = np.exp(own)
    np.put_along_axis(responsibilities, found.astype(np.intp), odds / odds.sum(1, keepdims=True), 1)
    expected = model.family.sums(params.components, x, responsibilities).ravel()
    assert sums[0] == pytest.approx(np.log(odds.sum(axis=1)).sum())
    np.testing.assert_allclose(sums[1:], expected, rtol=1e-9, atol=1e-9)


def test_rows_that_no_component_explains_are_shared() -> None:
    model, params, _ = example(Gaussian("diag"))
    steps = FewComponents(Threads(model, 1), params, Few(3, 4, 0))
    sums, found = steps.fold(
        Rows(np.array([[1e60, -1e60]]) * 1e100),
        np.zeros(model.n_sums),
        np.array([[4, 9, 11]], dtype=np.int32),
    )
    weights = sums[1:].reshape(K, -1)[:, 0]
    assert sums[0] == LEAST
    np.testing.assert_allclose(weights[found[0]], 1 / 3)


def test_numbers_that_are_no_components_are_left_out() -> None:
    model, params, x = example(Gaussian("diag"))
    form = required(Threads(model, 1), CandidateKernel).candidates(params)
    assert form is not None
    none = np.empty((K, 0), dtype=np.int32)
    lists = ComponentLists(np.array([0, 1], np.int32), np.array([7], np.int32), none)
    wild = np.array([[-5, K, 2**31 - 1, 3, 3]], dtype=np.int32)
    listed = np.array([[-1, 0, 9]], dtype=np.int32)
    numbers, joint = form.search(x[:1], wild, listed, lists, 4, 3)
    assert sorted(numbers[0].tolist()) == [-1, -1, 3, 7]
    assert np.isneginf(joint[0, 2:]).all()


def test_the_best_of_repeated_components() -> None:
    numbers = np.array([[3, 1, 3, -1, 2]], dtype=np.int32)
    found, joint = best_of(numbers, np.array([[5.0, 5.0, 5.0, 9.0, 7.0]]), 4)
    assert found.tolist() == [[2, 1, 3, -1]]
    assert joint.tolist() == [[7.0, 5.0, 5.0, -np.inf]]


def test_no_head_has_more_than_twice_its_share() -> None:
    wanted = np.tile([2, 0], (12, 1))  # all want the same two
    head = _allotted(wanted, 4)
    assert np.bincount(head, minlength=4).tolist() == [6, 0, 6, 0]
    one = _allotted(wanted[:, :1], 4)
    assert (np.bincount(one, minlength=4) <= 6).all()
    assert (one >= 0).all()


# sources and estimators


def blobs(n: int = 6000, k: int = 40, d: int = 3) -> np.ndarray:
    rng = np.random.default_rng(5)
    centres = rng.uniform(-20.0, 20.0, size=(k, d))
    return np.asarray(centres[rng.integers(k, size=n)] + rng.normal(size=(n, d)))


def test_files_and_arrays_give_the_same_model(tmp_path: Path) -> None:
    x = blobs()
    np.save(tmp_path / "rows.npy", x)
    for memory in (None, tmp_path / "memory"):
        learner = TruncatedEM(memory=memory, max_iter=5)
        settings: Any = {"learner": learner, "init": "random-rows", "random_state": 0}
        found = Mixture("gaussian", 40, **settings).fit(tmp_path / "rows.npy")
        expected = Mixture("gaussian", 40, **{**settings, "learner": replace(learner, memory=None)})
        assert equal(found.params_, expected.fit(x).params_)
    assert (tmp_path / "memory.0").stat().st_size > 4 * 5 * len(x)


def test_partial_fit_goes_on_after_a_fit_and_after_loading(tmp_path: Path) -> None:
    x = blobs()
    model = Mixture(Gaussian("diag"), 40, learner="truncated-em", random_state=0).fit(x)
    assert model.converged_
    before = model.score(x)
    model.partial_fit(x[:500])
    model.save(tmp_path / "model.mixfold")
    again = load(tmp_path / "model.mixfold")
    for one in (model, again):
        one.partial_fit(x[500:])
    assert equal(model.params_, again.params_)
    assert model.score(x) > before - 0.2


def test_rows_of_a_stream_are_learned_in_batches() -> None:
    x = blobs(20_000)
    model = Mixture("gaussian", 40, learner=TruncatedEM(), random_state=0)
    model.fit(iter(np.array_split(x, 7)))
    exact = Mixture("gaussian", 40, learner="mini-batch-em", random_state=0, init=model.init)
    exact.fit(iter(np.array_split(x, 7)))
    assert model.score(x) > exact.score(x) - 0.3


def test_weights_count_rows() -> None:
    x = blobs(400, 30, 2)
    counts = np.random.default_rng(0).integers(0, 4, len(x))
    settings: Any = {"learner": TruncatedEM(n_random=0, max_iter=4, tol=0.0), "random_state": 0}
    centres = x[:30]
    weighted = Mixture(Gaussian("diag"), 30, init=centres, **settings)
    weighted.fit(x, sample_weight=counts)
    repeated = Mixture(Gaussian("diag"), 30, init=centres, **settings).fit(np.repeat(x, counts, 0))
    np.testing.assert_allclose(weighted.score(x), repeated.score(x), atol=0.05)


def test_history_is_that_of_the_bound() -> None:
    model = Mixture(Gaussian("diag"), 40, learner="truncated-em", random_state=0).fit(blobs())
    bound = model.history_.bound
    assert np.array_equal(bound, model.history_.log_likelihood)
    assert np.diff(bound).min() > -1e-9


# auto


def test_auto_searches_many_components(monkeypatch: pytest.MonkeyPatch) -> None:
    model, params, x = example(Poisson(), k=8)
    backend = Threads(model, 1)
    rows, kinds = Rows(x), []
    for many, prior, of in ((8, None, 1), (9, None, 1), (8, 1.0, 1), (8, None, 2)):
        monkeypatch.setattr(auto, "MANY", many)
        learner = auto.Auto(prior_strength=prior)
        state = learner.init(backend, params)
        if of > 1:  # workers do not keep the components of rows
            state = learner.branch(model, state, 0, of)
        for _ in range(2):
            state, _ = learner.step(backend, state, rows)
            state, _ = learner.end_pass(backend, state)
        learner.check_state(model, state)
        learner.check_state(model, learner.compact(state))
        kinds.append(type(state.inner).__name__)
    assert kinds == ["TruncatedState", "EMState", "EMState", "EMState"]


# refusals


@pytest.mark.parametrize("learner", [TruncatedEM(), TruncatedMiniBatchEM()])
@pytest.mark.parametrize("family", [StudentT(), Product({0: Poisson(), 1: Gaussian()})])
def test_other_families_are_refused(learner: Any, family: Family) -> None:
    with pytest.raises(InvalidInputError, match=r"Truncated.* exponential family .*use 'em'"):
        Mixture(family, 3, learner=learner).fit(np.abs(blobs(50, 3, 2)).round())


def test_missing_cells_are_refused() -> None:
    x = blobs(50, 3, 2)
    x[3, 1] = np.nan
    with pytest.raises(InvalidInputError, match=r"missing cells.* Gaussian.*fill.*use 'em'"):
        Mixture(Gaussian("diag"), 3, learner="truncated-em", missing="marginalize").fit(x)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_candidates": 0}, "n_candidates"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"n_random": -1}, "n_random"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": -1}, "max_iter"),
        ({"criterion": "steps"}, "criterion 'steps'"),
        ({"memory": 3}, "memory is 3: None or a path is needed"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        TruncatedEM(**settings)


def test_invalid_states_are_refused() -> None:
    model, params, x = example(Gaussian("diag"))
    state, _ = passes(Threads(model, 1), FEW, params, Rows(x), 2)
    FEW.check_state(model, state)
    FEW.check_state(model, FEW.compact(state))
    for changes in ({"passes": -1}, {"weight": -1.0}, {"gains": [1.0] * 20}, {"seed": -1}):
        with pytest.raises(InvalidInputError):
            FEW.check_state(model, replace(state, **changes))
    other = replace(FEW, n_candidates=4)
    with pytest.raises(InvalidInputError, match="memory has width 3"):
        other.check_state(model, state)


def test_backends_without_the_search_say_so() -> None:
    class Plain:
        model: Model = MixtureModel(Gaussian("diag"), 2, 1)
        tile = 8

        def capability(self, kind: Any) -> None:
            return None

    with pytest.raises(InvalidInputError, match="on the CPU, and not by Plain: use engine='cpu'"):
        FewComponents(Plain(), None, Few(1, 1, 1))  # type: ignore[arg-type]


def test_pairs_are_abstract() -> None:
    assert Pairs.__abstractmethods__ == {"centres", "width", "log_joint", "statistics"}
