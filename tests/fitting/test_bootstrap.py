"""The weighted and the parametric bootstrap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixfold import Categorical, Gaussian, Mixture, Product
from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.families.mean_params import MeanParams
from mixfold.fitting import bootstrap
from mixfold.fitting._poisson_weights import poisson_weights
from mixfold.fitting.bootstrap import aligned, weighted_replicates
from mixfold.learners.em import EM
from mixfold.models.estimate_covariance import shown_parameters
from mixfold.models.information import MixtureScores
from mixfold.models.mixture_model import MixtureParams


def counts(n: int = 2000) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.poisson(2.0 + 8.0 * (rng.random((n, 1)) < 0.5)).astype(float)


def fitted(x: np.ndarray, family: str = "poisson", k: int = 2) -> Mixture:
    return Mixture(family, k, learner=EM(tol=1e-8), random_state=0).fit(x)


def test_weights_are_poisson_and_belong_to_rows() -> None:
    from scipy.stats import poisson

    weight = poisson_weights(7, 0, 400_000)
    expected = poisson.pmf(np.arange(8), 1.0)
    shares = np.bincount(weight.astype(int), minlength=8)[:8] / 4e5
    assert np.abs(shares - expected).max() < 0.004
    assert (np.abs(shares - expected) < 5.0 * np.sqrt(expected / 4e5)).all()
    for lag in (1, 2):
        assert abs(np.corrcoef(weight[lag:], weight[:-lag])[0, 1]) < 5.0 / np.sqrt(4e5)
    assert np.array_equal(poisson_weights(7, 40, 60), weight[40:100])
    assert np.array_equal(poisson_weights(7, 37, 61), weight[37:98])
    assert not np.array_equal(poisson_weights(8, 0, 100), weight[:100])


def replicates(model: Mixture, x: Any) -> np.ndarray:
    found = model.estimates(x, "bootstrap", n_replicates=5).replicates
    assert found is not None
    return found


def test_replicates_do_not_depend_on_blocks() -> None:
    x = counts()
    model = fitted(x)
    found = replicates(model, x)
    assert np.array_equal(found, replicates(model, [x[:3], x[3:1500], x[1500:]]))
    assert np.array_equal(found, replicates(model.set_params(n_threads=1), x))


def test_a_replicate_is_the_fit_of_the_weighted_rows() -> None:
    x = counts()
    model = fitted(x)
    found = model.estimates(x, "bootstrap", n_replicates=3, random_state=5)
    assert found.replicates is not None
    seeds = np.random.SeedSequence(5).generate_state(3)
    for seed, values in zip(seeds, found.replicates, strict=True):
        weight = poisson_weights(int(seed), 0, len(x))
        init = model.params_
        own = Mixture("poisson", 2, learner=EM(tol=1e-9), init=init).fit(x, sample_weight=weight)
        expected = np.concatenate([own.weights_, own.means_[:, 0]])
        assert np.abs(values - expected).max() < 0.1 * found.errors.min()


@pytest.mark.parametrize("kind", ["bootstrap", "parametric-bootstrap"])
def test_errors_of_a_mean_are_those_of_theory(kind: str) -> None:
    x = np.random.default_rng(1).exponential(3.0, size=(1000, 1))
    found = fitted(x, "exponential", 1).estimates(x, kind, n_replicates=400)
    # a standard deviation from 400 draws has a relative error of 3.5%
    assert found.errors[1] == pytest.approx(x.mean() / np.sqrt(1000), rel=0.15)
    low, high = found.confidence_intervals(0.9)["means"]
    assert found.replicates is not None
    inside = (low[0, 0] <= found.replicates[:, 1]) & (found.replicates[:, 1] <= high[0, 0])
    assert inside.mean() == pytest.approx(0.9, abs=0.01)


def test_quantiles_leave_out_as_much_as_a_new_replicate_would() -> None:
    x = counts(200)
    found = fitted(x).estimates(x, "bootstrap", n_replicates=39)
    assert found.replicates is not None
    low, high = found.ends(0.95)  # one of 40 is below the smallest of 39 with probability 1/40
    assert low == pytest.approx(found.replicates.min(axis=0))
    assert high == pytest.approx(found.replicates.max(axis=0))


def test_the_weighted_bootstrap_sees_that_the_family_is_wrong() -> None:
    x = np.random.default_rng(2).negative_binomial(2, 0.2, size=(1500, 1)).astype(float)
    model = fitted(x, "poisson", 1)
    sandwich = model.estimates(x, "sandwich").errors[1]
    weighted = model.estimates(x, "bootstrap", n_replicates=300).errors[1]
    assert weighted == pytest.approx(sandwich, rel=0.15)
    assert weighted > 1.8 * model.estimates(x).errors[1]


def test_components_are_aligned_with_the_fit() -> None:
    model = fitted(counts())
    like = model.params_
    swapped = MixtureParams(like.weights[::-1], MeanParams(like.components.means[::-1] + 0.1))
    found = aligned(model.model_, swapped, like)
    assert np.array_equal(found.weights, like.weights)
    assert found.components.means == pytest.approx(like.components.means + 0.1)


def test_data_that_are_read_once_are_refused() -> None:
    x = counts()
    with pytest.raises(InvalidInputError, match="read only once"):
        fitted(x).estimates(iter([x]), "bootstrap")


def test_replicates_learn_from_weighted_rows_of_weighted_data() -> None:
    x, weight = counts(), np.tile([1.0, 2.0], 1000)
    model = Mixture("poisson", 1, learner="em").fit(x, sample_weight=weight)
    found = model.estimates(x, "bootstrap", sample_weight=weight, n_replicates=2, random_state=3)
    seed = int(np.random.SeedSequence(3).generate_state(2)[0])
    both = weight * poisson_weights(seed, 0, len(x))
    assert found.replicates is not None
    expected = np.average(x[:, 0], weights=both)
    assert found.replicates[0, 1] == pytest.approx(expected, abs=0.01 * found.errors[1])


def test_all_replicates_share_the_passes() -> None:
    x, read, folded = counts(500), [], []
    model = fitted(x)

    def blocks() -> list[Rows]:
        read.append(1)
        return [Rows(x)]

    class Counted(Threads):
        def fold(self, *arguments: Any, **named: Any) -> Any:
            folded.append(1)
            return super().fold(*arguments, **named)

    backend = Counted(model.model_)
    assert len(weighted_replicates(backend, model.params_, blocks, 50, 0)) == 50
    assert len(read) < 12  # one for the scores, and as many as the slowest replicate needs
    assert len(folded) < 3 * 50  # two passes of most replicates


def groups(n: int, name: str) -> np.ndarray:
    rng = np.random.default_rng(4)
    z = (rng.random(n) < 0.4).astype(float)
    if name == "gamma":
        return rng.gamma(3.0 + 5.0 * z, 1.0 + z)[:, None]
    if name == "mixed":
        level = 1.0 * (rng.random(n) < 0.2 + 0.6 * z) + (rng.random(n) < 0.4)
        return np.column_stack([rng.normal(1.5 * z), rng.poisson(2.0 + 4.0 * z), level])
    return rng.normal(size=(n, 2)) * (1.0 + 0.2 * z[:, None]) + 2.5 * z[:, None]


CASES: dict[str, Any] = {
    **{name: Gaussian(name) for name in ("full", "tied", "diag", "spherical")},
    "gamma": "gamma",
    "log-normal": "log-normal",  # whose statistics are moments about means: learned by EM
    "mixed": Product({0: "gaussian", 1: "poisson", 2: Categorical(3)}),
    "mixed, gaps": Product({0: "gaussian", 1: "poisson", 2: Categorical(3)}),
    "full, gaps": Gaussian("full"),
    "diag, gaps": Gaussian("diag"),
}


@pytest.mark.parametrize("n", [100, 1500])
@pytest.mark.parametrize("name", CASES)
def test_replicates_are_fits_of_the_weighted_rows(name: str, n: int) -> None:
    family, x = CASES[name], groups(n, name.removesuffix(", gaps"))
    x = np.exp(x) if name == "log-normal" else x
    if name.endswith("gaps"):
        x[np.random.default_rng(0).random(x.shape) < 0.15] = np.nan
    exact = EM(tol=1e-9, accelerate=True, max_iter=5000)
    model = Mixture(family, 2, learner=exact, random_state=0).fit(x)
    found = model.estimates(x, "bootstrap", n_replicates=6, random_state=5)
    assert found.replicates is not None
    seeds = np.random.SeedSequence(5).generate_state(6)
    for seed, values in zip(seeds, found.replicates, strict=True):
        weight = poisson_weights(int(seed), 0, n)
        own = Mixture(family, 2, learner=exact, init=model.params_).fit(x, sample_weight=weight)
        scores = MixtureScores(model.model_, own.params_)
        parts = [part.values for part in shown_parameters(own.params_, scores)]
        gaps = np.abs(values - np.concatenate(parts)) / found.errors
        assert gaps.max() < 0.05


def test_parametric_replicates_vary_as_theory_says() -> None:
    x = groups(1500, "full")
    model = Mixture("gaussian", 2, learner=EM(tol=1e-8), random_state=0).fit(x)
    found = model.estimates(x, "parametric-bootstrap", n_replicates=150)
    # 150 draws: 6% of each, and the family is right
    assert np.median(found.errors / model.estimates(x).errors) == pytest.approx(1.0, abs=0.1)


def test_rows_drawn_in_every_pass_are_those_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model, found = fitted(counts()), []
    for most in (2**22, 0):
        monkeypatch.setattr(bootstrap, "MOST_KEPT", most)
        drawn = model.estimates(counts(), "parametric-bootstrap", n_replicates=3)
        assert drawn.replicates is not None
        found.append(drawn.replicates)
    assert np.array_equal(found[0], found[1])
