"""Models that learned in different places become one, or are refused."""

from __future__ import annotations

import copy
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mixfold
from mixfold import AnnealedSGD, GaussianMixture, Mixture
from mixfold.cli.main import main
from mixfold.core.capabilities import LatentFactors
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.value import digest, equal
from mixfold.families.gaussian import Gaussian
from mixfold.families.negative_binomial import NegativeBinomialSizes
from mixfold.fitting.component_order import reorder
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_vb import OnlineVB
from mixfold.testing.families import all_variants, example_mixture

FAMILIES = all_variants(2)
CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])


def blobs(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.asarray(rng.normal(size=(n, 2)) + CENTRES[rng.integers(3, size=n)])


X = blobs(3000)
START = Mixture(n_components=3, random_state=0).fit(X[:200])


def mixture(**settings: Any) -> Mixture:
    return Mixture(**{"n_components": 3, "init": START, "random_state": 0, **settings})


def parts(n: int = 3, **settings: Any) -> list[Mixture]:
    return [mixture(**settings).fit(part) for part in np.array_split(X, n)]


def near(model: Any, other: Any, atol: float) -> None:
    order = np.argsort(model.means_[:, 0] + 2 * model.means_[:, 1])
    order_of_other = np.argsort(other.means_[:, 0] + 2 * other.means_[:, 1])
    np.testing.assert_allclose(model.means_[order], other.means_[order_of_other], atol=atol)
    np.testing.assert_allclose(model.weights_[order], other.weights_[order_of_other], atol=atol)


# what is merged


@pytest.mark.parametrize(
    "learner", ["em", "auto", "online-em", "k-mle", "incremental-em", "moment-matching"]
)
def test_fits_with_a_common_state(learner: str) -> None:
    merged = mixfold.merge(parts(learner=learner))
    near(merged, mixture(learner=learner).fit(X), 0.25)
    assert merged.n_seen_ == sum(part.n_seen_ for part in parts(learner=learner))


@pytest.mark.parametrize("learner", ["em", "online-em", OnlineEM(batch_size=64)])
def test_the_order_does_not_matter(learner: Any) -> None:
    models = parts(learner=learner)
    found = {digest(mixfold.merge(list(order)).params_) for order in itertools.permutations(models)}
    assert len(found) == 1


def test_beliefs_multiply_and_the_prior_is_divided_out() -> None:
    models = parts(learner="moment-matching")
    merged = mixfold.merge(models)
    prior = merged._learned.stream.state.prior
    gained = sum(model.posterior_.alpha - prior.alpha for model in models)
    np.testing.assert_allclose(merged.posterior_.alpha, prior.alpha + gained, rtol=1e-12)
    found = merged.credible_intervals()["means"]
    assert (found[1] - found[0] < np.subtract(*models[0].credible_intervals()["means"][::-1])).all()
    streams = parts(learner=OnlineVB(form="streaming", n_rows=3000))
    near(mixfold.merge(streams), merged, 0.1)
    other = mixture(learner="moment-matching", init="auto").fit(X)
    refused([models[0], other], "no common state")
    refused([models[0], other], "prior", align=True)


def test_seeds_do_not_matter() -> None:
    models = [mixture(learner="online-em", random_state=i).fit(X[i::2]) for i in (0, 1)]
    near(mixfold.merge(models), START, 0.5)


def test_one_model_is_what_it_is() -> None:
    (model,) = parts(1, learner="online-em")
    assert equal(mixfold.merge([model]).params_, model.params_)


def test_inputs_stay_as_they_are() -> None:
    models = parts(learner="online-em")
    before = [digest(model._learned) for model in models]
    mixfold.merge(models)
    assert [digest(model._learned) for model in models] == before


def test_merged_models_merge_again() -> None:
    a, b, c = parts(learner="online-em")
    twice = mixfold.merge([mixfold.merge([a, b]), c])
    near(twice, mixfold.merge([a, b, c]), 1e-12)
    assert twice.n_seen_ == len(X)
    d, e, f = parts(learner="em")
    near(mixfold.merge([mixfold.merge([d, e]), f]), mixfold.merge([d, e, f]), 1e-12)


@pytest.mark.parametrize("learner", ["em", "online-em"])
def test_a_merged_model_goes_on_and_is_saved(learner: str, tmp_path: Path) -> None:
    merged = mixfold.merge(parts(learner=learner))
    n = merged.n_seen_
    merged.save(tmp_path / "all")
    loaded = mixfold.load(tmp_path / "all")
    for model in (merged, loaded):
        model.partial_fit(X[:100])
    assert merged.n_seen_ == loaded.n_seen_ == n + 100
    assert equal(merged.params_, loaded.params_)


# common states


def test_copies_of_a_stream_count_what_they_share_once(tmp_path: Path) -> None:
    base = mixture(learner="online-em").partial_fit(X[:1000])
    base.save(tmp_path / "base")
    sites = [mixfold.load(tmp_path / "base") for _ in range(2)]
    for site, rows in zip(sites, (X[1000:2000], X[2000:]), strict=True):
        site.partial_fit(rows)
    merged = mixfold.merge(sites)
    assert merged.n_seen_ == 3000
    assert merged._learned.stream.state.rows == 3000
    rows = merged.partial_fit(X[:7])._learned.stream.state.rows
    assert rows == 3007


@pytest.mark.parametrize("learner", [OnlineEM(batch_size=64), MiniBatchEM(sampling="stream")])
def test_rows_of_an_incomplete_batch_count_once(learner: Any) -> None:
    base = mixture(learner=learner).partial_fit(X[:210])
    sites = [copy.deepcopy(base).partial_fit(rows) for rows in (X[210:241], X[241:272])]
    merged = mixfold.merge(sites)
    assert merged.n_seen_ == 272
    learned = merged._learned.stream.state
    assert learned.rows == 272
    assert learned.learned.weight == pytest.approx(272.0)


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_an_original_and_its_copy(copier: Any) -> None:
    model = mixture(learner="online-em").partial_fit(X[:1000])
    other = copier(model)
    model.partial_fit(X[1000:1500])
    other.partial_fit(X[1500:])
    assert mixfold.merge([model, other]).n_seen_ == 3000


@pytest.mark.parametrize("learner", ["online-em", "moment-matching", MiniBatchEM(batch_size=64)])
def test_an_original_that_learned_nothing_more_adds_nothing(learner: Any) -> None:
    model = mixture(learner=learner).partial_fit(X[:1000])
    sites = [copy.deepcopy(model).partial_fit(rows) for rows in (X[1000:2000], X[2000:])]
    merged, expected = mixfold.merge([model, *sites]), mixfold.merge(sites)
    assert (merged.n_seen_, merged.n_rows_) == (3000, 3000)
    near(merged, expected, 1e-9)


@pytest.mark.parametrize("learner", ["auto", "split-merge-em"])
def test_sites_that_save_after_as_many_rows_keep_what_they_learned(learner: str) -> None:
    """What a site has learned when it is saved is not what another one of as many rows has."""
    base = mixture(learner=learner, init="auto").partial_fit(X[:500])
    sites = [copy.deepcopy(base).partial_fit(rows) for rows in (X[500:1000], X[1000:1500])]
    sites = [copy.deepcopy(site) for site in sites]
    for site, rows in zip(sites, (X[1500:2000], X[2000:2500]), strict=True):
        site.partial_fit(rows)
    merged = mixfold.merge(sites)
    assert (merged.n_seen_, merged.n_rows_) == (2500, 2500)
    near(merged, copy.deepcopy(base).partial_fit(X[500:2500]), 0.05)


def test_averaged_copies_count_what_they_share_once() -> None:
    learner = AnnealedSGD(scale=True)
    base = Mixture(Gaussian("diag"), 4, learner=learner, random_state=0).fit(X[:1000])
    sites = [copy.deepcopy(base).partial_fit(rows) for rows in (X[1000:2000], X[2000:])]
    merged = mixfold.merge(sites)
    assert merged.n_rows_ == 3000
    assert merged.n_seen_ == base.n_seen_ + 2000


def test_a_site_that_saves_and_loads_stays_in_the_family(tmp_path: Path) -> None:
    site = mixture(learner="online-em").partial_fit(X[:500])
    for i in range(10):
        site.save(tmp_path / "site")
        site = mixfold.load(tmp_path / "site").partial_fit(X[500 + i : 501 + i])
    other = mixture(learner="online-em").partial_fit(X[600:])
    assert mixfold.merge([site, other]).n_seen_ == 510 + 2400


def test_a_fit_that_goes_on_in_two_places() -> None:
    base = mixture().fit(X[:1000])
    sites = [copy.deepcopy(base).partial_fit(rows) for rows in (X[1000:2000], X[2000:])]
    assert mixfold.merge(sites).n_seen_ == base.n_seen_ + 2000


# alignment


@pytest.mark.parametrize("learner", ["em", "online-em"])
def test_components_are_aligned(learner: str) -> None:
    orders = ([0, 1, 2], [2, 0, 1], [1, 0, 2])
    models = [
        mixture(init=START.means_[order], learner=learner).fit(X[i::3])
        for i, order in enumerate(orders)
    ]
    assert not np.allclose(models[1].means_, models[0].means_, atol=1.0)
    merged = mixfold.merge(models, align=True)
    np.testing.assert_allclose(merged.means_, models[0].means_, atol=0.3)
    near(merged, mixture(learner=learner).fit(X), 0.2)
    merged.partial_fit(X[:10])


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_every_family_is_aligned(family: Family) -> None:
    d = 2 + (family.n_factors if isinstance(family, LatentFactors) else 0)
    _, params, x = example_mixture(family, 3, d, 2000, np.random.default_rng(3))
    order = [2, 0, 1]
    other = Mixture(family, 3, init=params, learner="em").fit(x)
    bounded = min(s.high for s in family.supports(d)) < np.inf or family.given_total
    bounded = bounded or isinstance(family, NegativeBinomialSizes)  # sizes are hardly determined
    # rows of few values do not determine a mixture: another fit would be elsewhere
    start = reorder(other.params_, np.array(order)) if bounded else other.means_[order]
    passes = 1 if bounded else None
    again = Mixture(family, 3, init=start, learner="em", max_iter=passes, random_state=1).fit(x)
    models = [other, again]
    np.testing.assert_allclose(mixfold.merge(models, align=True).means_, other.means_, 0.02, 0.1)


def test_alignment_far_from_zero() -> None:
    far = [Mixture("gaussian", 3, random_state=i).fit(X[i:] + 1e7) for i in range(2)]
    merged = mixfold.merge(far, align=True)
    np.testing.assert_allclose(merged.means_ - 1e7, far[0].means_ - 1e7, atol=0.01)


# what is refused


def refused(models: list[Any], *words: str, align: bool = False) -> None:
    with pytest.raises(InvalidInputError) as error:
        mixfold.merge(models, align)
    for word in words:
        assert word in str(error.value)


def test_different_models_are_refused() -> None:
    model = mixture().fit(X)
    named = mixture().fit(pd.DataFrame(X, columns=["a", "b"]))
    other = mixture().fit(pd.DataFrame(X, columns=["b", "a"]))
    refused([model, Mixture(Gaussian("diag"), 3).fit(X)], "family", "diag", "full", align=True)
    refused([model, Mixture("gaussian", 2).fit(X)], "n_components", "3", "2", align=True)
    refused([model, Mixture("gaussian", 3).fit(X[:, :1])], "columns", "2", "1", align=True)
    refused([named, other], "columns", "'a', 'b'", "'b', 'a'", align=True)
    refused([named, model], "columns", "None")
    refused([model, GaussianMixture(3).fit(X)], "GaussianMixture", "Mixture")
    refused([model, mixture(learner="online-em").fit(X)], "learner", "OnlineEM", "Auto")
    refused([], "empty")
    refused([model, 3], "models[1]", "int")
    refused([model, mixture().fit(X)], "same", "twice")


def test_models_without_a_common_state_are_refused() -> None:
    models = [mixture(init="auto", random_state=i).fit(X[i:]) for i in range(2)]
    refused(models, "no common state", "init", "align=True")
    streams = [mixture(init="auto", learner="online-em").partial_fit(X[i::2]) for i in range(2)]
    refused(streams, "no common state")
    merged = mixfold.merge(streams, align=True)
    refused([merged, streams[0]], "no common state")


def test_learners_that_differ_are_refused() -> None:
    models = [mixture(learner=MiniBatchEM()).fit(X[:n]) for n in (1000, 2000)]
    refused(models, "the learner", "batch_size")


def test_a_stream_that_has_not_begun_is_refused() -> None:
    model = Mixture("gaussian", 3, learner="online-em", random_state=0)
    refused([model.partial_fit(X[:5]), mixture(learner="online-em").fit(X)], "models[0]", "5 rows")


# files


def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for i in range(2):
        np.save(f"part{i}.npy", X[i::2])
    np.save("few.npy", X[:200])
    learner = ("-k", "3", "--learner", "online-em")
    assert main(["fit", "few.npy", "-k", "3", "-o", "start.mixfold"]) == 0
    for i in range(2):
        fit = ["fit", f"part{i}.npy", *learner, "--init", "start.mixfold", "-o", f"{i}.mixfold"]
        assert main(fit) == 0
    assert main(["merge", "0.mixfold", "1.mixfold", "-o", "all.mixfold"]) == 0
    assert "2 models of 3,000 rows" in capsys.readouterr().out
    merged = mixfold.load("all.mixfold")
    models = [mixfold.load(f"{i}.mixfold") for i in range(2)]
    assert equal(merged.params_, mixfold.merge(models).params_)
    assert main(["merge", "0.mixfold", "start.mixfold", "-o", "x.mixfold"]) == 2
    assert "learner" in capsys.readouterr().err
    assert main(["fit", "part0.npy", *learner, "--seed", "5", "-o", "5.mixfold"]) == 0
    assert main(["merge", "0.mixfold", "5.mixfold", "-o", "x.mixfold"]) == 2
    assert "align" in capsys.readouterr().err
    assert main(["merge", "0.mixfold", "5.mixfold", "--align", "-o", "x.mixfold"]) == 0
    assert main(["fit", "part0.npy", *learner, "--init", "none.mixfold"]) == 2
    assert "none.mixfold" in capsys.readouterr().err
