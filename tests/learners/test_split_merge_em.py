"""The number of components on a stream: BIC by hand, blocks, reads, copies, files, merging."""

from __future__ import annotations

import copy
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal, poisson
from sklearn.mixture import GaussianMixture as SklearnMixture

import mixfold
from mixfold import Fixed, Gaussian, Mixture, Prior, Product, datasets
from mixfold.core.component_decision import ComponentDecision
from mixfold.core.errors import InvalidInputError
from mixfold.core.value import equal
from mixfold.families.categorical import Categorical
from mixfold.learners.split_merge_em import SplitMergeEM

CENTRES = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]])
LEARNER = "split-merge-em"


def clusters(n: int, seed: int = 0, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    return CENTRES[labels] + rng.normal(size=(n, 2)), labels


def growing(family: Any = "gaussian", most: int = 9, learner: Any = LEARNER, **more: Any) -> Any:
    return Mixture(family, most, learner=learner, **{"random_state": 0, **more})


def streamed(model: Any, x: np.ndarray, length: int) -> Any:
    for first in range(0, len(x), length):
        model.partial_fit(x[first : first + length])
    return model


def bic_by_hand(model: Any, x: np.ndarray, n_parameters: int) -> float:
    parts = [
        weight * np.atleast_1d(multivariate_normal(mean, covariance).pdf(x))
        for weight, mean, covariance in zip(
            model.weights_, model.means_, model.covariances_, strict=True
        )
    ]
    return n_parameters * log(len(x)) - 2.0 * float(np.log(np.sum(parts, axis=0)).sum())


def test_the_number_is_that_of_scikit_learns_bic() -> None:
    for x in (clusters(400)[0], clusters(320, 1, 2)[0], datasets.load_faithful()):
        oracle = [SklearnMixture(k, n_init=5, random_state=0).fit(x).bic(x) for k in range(1, 7)]
        model = growing().fit(x)
        assert model.n_components_ == 1 + int(np.argmin(oracle))
        assert bic_by_hand(model, x, 6 * model.n_components_ - 1) < min(oracle) + 0.5


def test_decisions_say_by_how_much_bic_has_changed() -> None:
    x, _ = clusters(64, 2, 2)
    model = growing().partial_fit(x)
    (decision,) = model.decisions_
    one = SklearnMixture(1).fit(x)
    two = SklearnMixture(2, n_init=5, tol=1e-8, max_iter=1000, random_state=0).fit(x)
    assert (decision.rows, decision.kind, decision.components) == (64, "split", (0,))
    assert decision.n_components == 2
    assert decision.penalty == pytest.approx(0.5 * 6.0 * log(64.0))
    gain = 64.0 * (two.score(x) - one.score(x))
    assert decision.log_likelihood == pytest.approx(gain, abs=0.2)
    assert decision.bic == pytest.approx(two.bic(x) - one.bic(x), abs=0.4)


def test_a_merge_and_a_removal_are_worth_their_parameters() -> None:
    x, labels = clusters(300, 3, 2)
    centres = np.array([[0.0, -1.0], [0.0, 1.0], [8.0, 0.0]])
    model = growing(most=3, init=centres).partial_fit(x)
    assert model.n_components_ == 2
    assert {one.kind for one in model.decisions_} <= {"merge", "remove"}
    for one in model.decisions_:
        assert one.log_likelihood > one.penalty == pytest.approx(-3.0 * log(one.n_judged))
    found = model.predict(x)
    assert max(np.mean(found == labels), np.mean(found != labels)) > 0.99


def test_one_component_until_the_first_decision() -> None:
    x, _ = clusters(63, 2, 2)
    model = growing().partial_fit(x[:3])
    assert (model.n_components_, model.decisions_) == (1, [])
    model.partial_fit(x[3:])
    assert model.n_components_ == 1
    np.testing.assert_allclose(model.means_[0], x.mean(axis=0))
    np.testing.assert_allclose(model.covariances_[0], np.cov(x.T, bias=True))


@pytest.mark.parametrize(
    "learner", [SplitMergeEM(), SplitMergeEM(recent_rows=200), SplitMergeEM(memory_budget=1)]
)
def test_blocks_and_reads_change_nothing(learner: Any) -> None:
    x, labels = clusters(700, 4)
    x = x[np.argsort(labels // 2, kind="stable")]
    whole = growing(learner=learner).partial_fit(x)
    looked, single = growing(learner=learner), growing(learner=learner)
    for first in range(0, len(x), 70):
        looked.partial_fit(x[first : first + 70]).score(x[:5])
    for row in x:
        single.learn_one(row)
    for other in (looked, single):
        assert equal(other.decisions_, whole.decisions_)
        assert other.n_components_ == whole.n_components_
        np.testing.assert_allclose(other.means_, whole.means_, atol=0.05)
    assert equal(single.params_, whole.params_)


def test_clusters_appear_and_vanish() -> None:
    x, labels = clusters(2000, 5)
    forever, recent = growing(), growing(learner=SplitMergeEM(recent_rows=256))
    numbers = []
    for k in range(4):
        for model in (forever, recent):
            streamed(model, x[labels == k], 100)
        numbers.append((forever.n_components_, recent.n_components_))
    assert numbers == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert np.linalg.norm(recent.means_[0] - CENTRES[3]) < 0.3
    kinds = {one.kind for one in recent.decisions_}
    assert "split" in kinds
    assert kinds & {"merge", "remove"}


def test_memory_is_bounded(tmp_path: Path) -> None:
    x, _ = clusters(4000, 6)
    model = streamed(growing(learner=SplitMergeEM(memory_budget=1)), x, 500)
    state = model._now().stream.state
    assert len(state.inner.kept) <= 512
    assert model.n_components_ == 4
    order = np.lexsort(model.means_.round().T)
    np.testing.assert_allclose(model.means_[order], CENTRES, atol=0.2)
    assert model.weights_.sum() == pytest.approx(1.0)


def test_the_number_is_at_most_n_components() -> None:
    x, _ = clusters(500, 7)
    assert growing(most=2).partial_fit(x).n_components_ == 2
    assert growing(most=1).partial_fit(x).decisions_ == []


def test_a_generator_and_a_table_are_read_once() -> None:
    x, _ = clusters(700, 8)
    whole = growing().fit(x)
    blocks = growing().fit(x[first : first + 90] for first in range(0, len(x), 90))
    assert whole.n_components_ == blocks.n_components_ == len(whole.weights_) == 4
    assert blocks.score(x) == pytest.approx(whole.score(x), abs=1e-9)
    assert whole.decisions_[-1].n_components == 4
    assert whole.bic(x) == pytest.approx(bic_by_hand(whole, x, 23))
    assert whole.sample(5)[0].shape == (5, 2)


def test_a_model_goes_on_after_it_was_saved_and_copied(tmp_path: Path) -> None:
    x, _ = clusters(500, 9)
    model = growing().partial_fit(x[:200])
    model.save(tmp_path / "model.mixfold")
    loaded = mixfold.load(tmp_path / "model.mixfold")
    assert (loaded.n_components, loaded.n_components_) == (9, model.n_components_)
    for other in (loaded, copy.deepcopy(model)):
        other.partial_fit(x[200:])
        assert equal(other.decisions_, growing().partial_fit(x).decisions_)
    with pytest.raises(InvalidInputError, match="n_components is 5"):
        model.set_params(n_components=5).partial_fit(x)


def test_fits_resume_from_checkpoints(tmp_path: Path) -> None:
    x, _ = clusters(500, 10)
    settings: dict[str, Any] = {"checkpoint": tmp_path / "fit", "checkpoint_every": 0.0}
    done = growing(**settings).fit(x)
    again = growing(**settings, resume=True).fit(x)
    assert equal(again.params_, done.params_)
    assert equal(again.decisions_, done.decisions_)


@pytest.mark.parametrize("learner", [SplitMergeEM(), SplitMergeEM(memory_budget=1)])
def test_copies_that_found_other_clusters_are_merged(learner: Any) -> None:
    x, labels = clusters(2400, 11)
    base = growing(learner=learner).partial_fit(x[labels < 2])
    one, two = copy.deepcopy(base), copy.deepcopy(base)
    one.partial_fit(x[labels == 2])
    two.partial_fit(x[labels == 3])
    assert (base.n_components_, one.n_components_, two.n_components_) == (2, 3, 3)
    for parts in ([one, two], [two, one]):
        merged = mixfold.merge(parts)
        assert merged.n_components_ == 4
        assert merged.n_rows_ == 2400
        order = np.lexsort(merged.means_.round().T)
        np.testing.assert_allclose(merged.means_[order], CENTRES, atol=0.3)
    assert merged.partial_fit(x[:200]).n_components_ == 4


def test_weights_count_rows() -> None:
    x, _ = clusters(150, 12)
    weighted = growing().fit(x, sample_weight=np.tile([2.0, 2.0], 75))
    once = growing().fit(x)
    # a common factor says nothing about the number of rows
    assert weighted.n_components_ == once.n_components_
    assert weighted.decisions_[-1].n_judged == once.decisions_[-1].n_judged
    heavy = np.where(np.arange(150) == 0, 1.0, 2.0)
    counted = growing().fit(x, sample_weight=heavy)
    assert counted.decisions_[0].n_judged == 127.0


@pytest.mark.parametrize(
    "given",
    [
        {"fixed": Fixed(weights="equal")},
        {"prior": Prior(means=[[0.0, 0.0], [4.0, 4.0]])},
        {"labels": [0, 1, *[-1] * 38]},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_belongs_to_some_components_is_refused(given: dict[str, Any]) -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    labels = given.get("labels")
    settings = {name: value for name, value in given.items() if name != "labels"}
    model = Mixture(n_components=2, learner="split-merge-em", **settings)
    with pytest.raises(InvalidInputError, match="belong to some of them: use 'online-em'"):
        model.fit(x, labels=labels)


def test_poisson_components_are_found() -> None:
    rng = np.random.default_rng(0)
    counts = rng.permutation(rng.poisson(np.repeat([2.0, 12.0, 40.0], 250)))[:, None]
    model = growing("poisson").partial_fit(counts)
    assert sorted(model.means_.ravel().round().tolist()) == [2.0, 12.0, 40.0]
    density = model.weights_ @ poisson(model.means_).pmf(counts.T)
    by_hand = 5.0 * log(750.0) - 2.0 * np.log(density).sum()
    assert model.bic(counts) == pytest.approx(by_hand)


def test_products_with_missing_cells_that_begin_later() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=900)
    numbers = CENTRES[labels] + rng.normal(size=(900, 2))
    levels = (labels + (rng.random(900) < 0.1)) % 3
    x = np.column_stack([numbers, levels])
    x[450:][rng.random((450, 3)) < 0.1] = np.nan
    family = Product({(0, 1): Gaussian(), 2: Categorical(levels=3)})
    model = streamed(growing(family), x, 50)
    assert model.n_components_ == 3
    assert model.score(x) > Mixture(family, 3, random_state=0).fit(x).score(x) - 0.02


def test_a_category_that_appears_when_there_are_several_components() -> None:
    pd = pytest.importorskip("pandas")
    x, labels = clusters(600, 13, 3)
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": np.array(["r", "s", "t"])[labels]})
    model = growing("auto").partial_fit(frame[:300])
    assert model.n_components_ == 3
    later = frame[300:].assign(c=lambda rows: rows["c"].replace("t", "u"))
    model.partial_fit(later)
    assert model.n_components_ == 3
    assert np.isfinite(model.score_samples(later)).all()


def test_rows_after_a_fit_begin_with_its_components() -> None:
    x, _ = clusters(800, 14)
    model = Mixture(n_components=4, random_state=0).fit(x[:400]).set_params(learner=LEARNER)
    model.partial_fit(x[400:420])
    assert (model.n_components_, model.decisions_) == (4, [])
    assert model.partial_fit(x[420:]).n_components_ == 4


def test_other_learners_have_the_number_but_no_decisions() -> None:
    model = Mixture(n_components=2, random_state=0).fit(datasets.load_faithful())
    assert model.n_components_ == 2
    with pytest.raises(AttributeError, match="split-merge-em"):
        _ = model.decisions_


def test_invalid_decisions_and_settings_are_refused() -> None:
    good = ComponentDecision(64, "split", (0,), 2, 64.0, 9.0, 6.0)
    good.check()
    invalid: tuple[dict[str, Any], ...] = (
        {"rows": -1},
        {"kind": "divide"},
        {"components": (-1,)},
        {"n_components": 0},
        {"penalty": float("nan")},
    )
    for bad in invalid:
        fields: dict[str, Any] = {name: getattr(good, name) for name in good.__match_args__}
        with pytest.raises(InvalidInputError):
            ComponentDecision(**{**fields, **bad}).check()
    with pytest.raises(InvalidInputError, match="recent_rows"):
        SplitMergeEM(recent_rows=10)
    with pytest.raises(InvalidInputError, match="cannot be restarted"):
        mixfold.DriftAware(SplitMergeEM())
