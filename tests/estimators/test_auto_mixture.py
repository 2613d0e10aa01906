"""The choice of the number of components and of their covariance."""

from __future__ import annotations

import csv
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import mixfold
from mixfold import EM, AutoMixture, Gaussian, Mixture, StudentT, datasets
from mixfold.core.errors import InvalidInputError, MissingExtraError
from mixfold.estimators import _candidate_starts
from mixfold.estimators._covariance_names import FOURTEEN, same_model
from mixfold.families._covariance_shapes import SAME
from mixfold.learners import neighbouring_starts
from mixfold.sources.array_source import ArraySource

FIXTURES = Path(__file__).parents[1] / "fixtures" / "mclust_bic.csv"
SLOW = ("VEE", "EVE", "VVE")  # whose M-steps have inner iterations
COLUMNS = [
    *("n_components", "covariance", "log_likelihood", "n_parameters", "bic", "icl", "aic"),
    *("n_degenerate", "converged", "dropped", "seconds", "n_init", "restarts", "start"),
]


def three_groups(n: int = 300) -> np.ndarray:
    rng = np.random.default_rng(4)
    centers = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    return np.asarray(centers[rng.integers(3, size=n)] + rng.normal(size=(n, 2)))


@pytest.fixture(scope="module")
def fitted() -> AutoMixture:
    return AutoMixture(range(1, 6), ["EII", "EEE", "VVV"], random_state=0).fit(three_groups())


# agreement with mclust


def rows_of(name: str) -> np.ndarray:
    return np.asarray(datasets.load_faithful()) if name == "faithful" else load_iris().data


def mclust(name: str) -> dict[tuple[str, int], float]:
    """BIC of mclust 6.0 with the sign of scikit-learn; NaN where it has no estimate."""
    with FIXTURES.open() as file:
        rows = [row for row in csv.DictReader(file) if row["data"] == name]
    return {
        (row["model"], int(row["components"])): -float(row["bic"].replace("NA", "nan"))
        for row in rows
    }


@pytest.mark.parametrize(
    ("covariance", "most"), [([n for n in FOURTEEN if n not in SLOW], 3), (SLOW, 2)]
)
@pytest.mark.parametrize("name", ["faithful", "iris"])
def test_bic_is_that_of_mclust_or_better(name: str, covariance: Any, most: int) -> None:
    x, theirs = rows_of(name), mclust(name)
    auto = AutoMixture(range(1, most + 1), covariance, drop=False, random_state=0).fit(x)
    ours = auto.results_.set_index(["covariance", "n_components"]).bic
    assert len(ours) == len(covariance) * most
    for cell, bic in ours.items():
        assert not bic > theirs[cell] + 0.5, (cell, bic, theirs[cell])
    best = min((theirs[cell] for cell in ours.index), default=np.nan)
    assert auto.bic(x) <= best + 0.1


def test_the_chosen_models_are_those_of_mclust() -> None:
    for name, k, covariance in (("faithful", 3, "EEE"), ("iris", 2, "VEV")):
        known = mclust(name)
        assert min(known, key=lambda cell: known[cell]) == (covariance, k)
        names = ["EEE", "VEV", "VVV"]
        best = AutoMixture(range(1, 5), names, random_state=0).fit(rows_of(name)).best_estimator_
        assert (best.n_components, best.model_.family.covariance) == (k, covariance)


# searches and restarts


def test_results_count_searches_and_restarts() -> None:
    names = ["EII", "VVV"]
    auto = AutoMixture(range(1, 4), names, n_init=3, drop=False, random_state=0).fit(three_groups())
    table = auto.results_.set_index(["covariance", "n_components"])
    assert (table.n_init == 3).all()
    # up to three splits of K - 1 components, and three merges and three left out of K + 1
    assert (table.restarts.xs(1, level=1) == 0).all()
    assert table.restarts.loc["EII", 2] == 1 + 6
    assert (table.restarts.xs(3, level=1) == 2).all()
    single = AutoMixture(3, "EII", random_state=0).fit(three_groups()).results_.iloc[0]
    assert (single.n_init, single.restarts, single.start) == (2, 0, "search")
    dropped = AutoMixture(range(1, 6), names, random_state=0).fit(three_groups()).results_
    before = dropped.dropped.str.contains("after a split")
    assert before.any()
    assert (dropped.n_init[before] == 0).all()
    assert (dropped.restarts[before] > 0).all()


# the criteria


def test_criteria_are_those_of_their_definitions(fitted: AutoMixture) -> None:
    x, best = three_groups(), fitted.best_estimator_
    assert best.n_components == 3
    joint = np.stack(
        [
            multivariate_normal(mean, best.covariances_[k] * np.eye(2)).logpdf(x)
            + np.log(best.weights_[k])
            for k, mean in enumerate(best.means_)
        ],
        axis=1,
    )
    total = np.logaddexp.reduce(joint, axis=1)
    r = np.exp(joint - total[:, None])
    row = fitted.results_.query("n_components == 3 and covariance == 'EII'").iloc[0]
    assert best.model_.family.covariance == "EII"
    p = 2 + 6 + 1
    bic = p * np.log(len(x)) - 2.0 * total.sum()
    entropy = -(r[r > 0] * np.log(r[r > 0])).sum()
    assert row.n_parameters == p
    assert row.log_likelihood == pytest.approx(total.sum(), rel=1e-9)
    assert row.bic == pytest.approx(bic, rel=1e-9)
    assert row.aic == pytest.approx(2 * p - 2.0 * total.sum(), rel=1e-9)
    assert row.icl == pytest.approx(bic + 2.0 * entropy, rel=1e-9)
    assert row.icl == pytest.approx(fitted.icl(x), rel=1e-9)


def test_held_out_rows_are_not_learned_from() -> None:
    x = three_groups(400)
    auto = AutoMixture(range(1, 4), ["VII"], criterion="held-out", random_state=1).fit(x)
    best = auto.best_estimator_
    assert best.n_components == 3
    assert list(auto.results_.columns) == [*COLUMNS[:7], "held_out", *COLUMNS[7:]]
    n_held_out = len(x) - best.n_rows_
    assert 20 <= n_held_out <= 60
    changed = x.copy()
    found = [i for i in range(len(x)) if _is_held_out(x, i, auto)]
    assert len(found) == n_held_out
    changed[found] += 0.5
    again = AutoMixture(range(1, 4), ["VII"], criterion="held-out", random_state=1).fit(changed)
    fixed = again.results_.n_components == 3
    assert again.results_[fixed].log_likelihood.item() == pytest.approx(
        auto.results_[fixed].log_likelihood.item(), rel=1e-12
    )
    held_out = auto.results_[fixed].held_out.item()
    assert held_out == pytest.approx(best.score(x[found]), rel=1e-12)
    assert held_out == auto.results_.held_out.max()


def _is_held_out(x: np.ndarray, i: int, auto: AutoMixture) -> bool:
    from mixfold.estimators._held_out_rows import RandomPart

    source = ArraySource(np.arange(len(x), dtype=float)[:, None])
    part = RandomPart(source, auto.held_out_fraction, 1, held_out=True)
    return bool(np.isin(i, np.concatenate([rows.x[:, 0] for rows in part.blocks()])))


# candidates


def test_results_have_a_row_for_each_candidate(fitted: AutoMixture) -> None:
    table = fitted.results_
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == COLUMNS
    assert len(table) == 15
    kept = table[table.dropped == ""]
    assert kept.converged.all()
    assert table.bic.idxmin() in kept.index
    ones = table[table.n_components == 1]
    assert (ones.dropped[ones.covariance == "VVV"] == "the same model as EEE").all()


def test_dropping_does_not_change_the_choice(fitted: AutoMixture) -> None:
    x = three_groups()
    all_of_them = AutoMixture(range(1, 6), ["EII", "EEE", "VVV"], drop=False, random_state=0).fit(x)
    assert (fitted.results_.dropped != "").sum() > 5
    reasons = set(all_of_them.results_.dropped)
    assert reasons == {"", "the same model as EEE"}
    np.testing.assert_allclose(fitted.means_, all_of_them.means_, rtol=1e-6)  # other starts


def test_starts_by_splits_and_merges_find_more_than_the_search_alone() -> None:
    x = load_iris().data
    auto = AutoMixture(range(2, 6), ["EEE"], drop=False, random_state=0).fit(x)
    assert {"split", "merge"} & set(auto.results_.start)
    for k, reached in zip(auto.results_.n_components, auto.results_.log_likelihood, strict=True):
        alone = Mixture(auto.best_estimator_.family, k, learner=auto.learner_, random_state=0)
        assert reached >= len(x) * alone.fit(x).score(x) - 0.01


def test_a_candidate_on_few_rows_is_reported_and_not_chosen() -> None:
    rng = np.random.default_rng(0)
    x = np.vstack([rng.normal(size=(60, 2)), [[50.0, 50.0]] * 3])
    table = AutoMixture([1, 2], ["VVV"], drop=False, random_state=0).fit(x)
    row = table.results_.iloc[1]
    assert (row.n_degenerate, table.best_estimator_.n_components) == (1, 1)
    assert "degenerate and have few rows" in row.dropped
    assert row.bic < table.results_.iloc[0].bic


def test_a_candidate_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    original = neighbouring_starts.split_starts

    def failing(*args: Any) -> Any:
        if args[2].model.k == 3:
            raise np.linalg.LinAlgError("Singular matrix")
        return original(*args)

    monkeypatch.setattr(_candidate_starts, "split_starts", failing)
    auto = AutoMixture([1, 2, 3], ["VVV"], random_state=0).fit(three_groups())
    assert auto.results_.dropped[2] == "it failed: Singular matrix"
    assert np.isnan(auto.results_.bic[2])
    assert auto.best_estimator_.n_components == 2


def test_names_of_the_same_model() -> None:
    assert {same_model(name, 1, 3) for name in FOURTEEN} == {"EII", "EEI", "EEE"}
    assert {same_model(name, 2, 1) for name in FOURTEEN} == {"EII", "VII"}
    assert {same_model(name, 1, 1) for name in FOURTEEN} == {"EII"}
    assert [same_model(name, 2, 3) for name in FOURTEEN] == list(FOURTEEN)
    for name in FOURTEEN:
        pair = [mixfold.Gaussian(one).n_parameters(1, 3) for one in (name, same_model(name, 1, 3))]
        assert pair[0] == pair[1]


def test_other_families() -> None:
    rng = np.random.default_rng(0)
    x = rng.poisson(np.array([2.0, 30.0])[rng.integers(2, size=200)])[:, None].astype(float)
    auto = AutoMixture([1, 2, 3], family="poisson", random_state=0).fit(x)
    assert auto.best_estimator_.n_components == 2
    assert set(auto.results_.covariance) == {""}
    auto = AutoMixture([2, 3, 4], family=StudentT(degrees=50.0), random_state=0).fit(three_groups())
    assert auto.best_estimator_.n_components == 3
    assert set(auto.results_.covariance) == {"full", "diag"}


def test_a_table_of_mixed_columns_with_missing_cells() -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=300)
    frame = pd.DataFrame({"x": rng.normal(8.0 * z), "y": np.where(z > 0, "a", "b")})
    frame.loc[::7, "x"] = np.nan
    auto = AutoMixture([1, 2, 3], family="auto", random_state=0).fit(frame)
    assert auto.best_estimator_.n_components == 2
    assert len(auto.chosen_families_) == 2
    assert list(auto.feature_names_in_) == ["x", "y"]
    assert not auto.impute(frame).isna().any(axis=None)


# data


def test_files_are_read_in_the_same_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file larger than the memory for samples gives the same for blocks of all lengths."""
    x = three_groups(3000)
    monkeypatch.setattr(_candidate_starts, "MOST_BYTES", 8 * 2 * 1000)
    fits, passes = [], []
    for size in (3000, 700):
        pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1]}), tmp_path / "x.parquet", size)
        read = count_passes(monkeypatch)
        auto = AutoMixture(range(1, 5), ["EII", "VVV"], random_state=0)
        fits.append(auto.fit(tmp_path / "x.parquet"))
        passes.append(read[0])
    np.testing.assert_array_equal(fits[0].means_, fits[1].means_)
    others = ["bic", "icl", "dropped", "start", "converged"]
    pd.testing.assert_frame_equal(fits[0].results_[others], fits[1].results_[others], rtol=1e-12)
    assert fits[0].best_estimator_.n_components == 3
    assert fits[0].best_estimator_.n_rows_ == 3000
    # the number of passes is that of the slowest candidate, and two for the sample and the criteria
    last = max(int(why.rpartition(" ")[2]) for why in fits[0].results_.dropped if "pass " in why)
    assert passes[0] == passes[1] == 2 + max(last, fits[0].n_iter_)


def count_passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    from mixfold.sources.parquet import Parquet

    monkeypatch.undo()
    monkeypatch.setattr(_candidate_starts, "MOST_BYTES", 8 * 2 * 1000)
    read, original = [0], Parquet.blocks

    def blocks(self: Any, *args: Any) -> Any:
        read[0] += 1
        return original(self, *args)

    monkeypatch.setattr(Parquet, "blocks", blocks)
    return read


def test_blocks_that_are_read_once_are_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    x = three_groups()
    blocks = (x[i : i + 50] for i in range(0, 300, 50))
    auto = AutoMixture([2, 3], ["EII"], random_state=0).fit(blocks)
    whole = AutoMixture([2, 3], ["EII"], random_state=0).fit(x)
    np.testing.assert_array_equal(auto.means_, whole.means_)
    monkeypatch.setattr(_candidate_starts, "MOST_BYTES", 1000)
    with pytest.raises(InvalidInputError, match=r"300 rows can be read only once.*a file"):
        auto.fit(x[i : i + 50] for i in range(0, 300, 50))
    np.testing.assert_array_equal(auto.means_, whole.means_)


def test_a_weight_of_two_is_a_row_twice() -> None:
    x = three_groups(120)
    weight = np.random.default_rng(0).integers(0, 3, size=len(x))
    settings: dict[str, Any] = {"n_components": [2, 3], "covariance": ["EEE"], "random_state": 0}
    weighted = AutoMixture(**settings).fit(x, sample_weight=weight)
    repeated = AutoMixture(**settings).fit(np.repeat(x, weight, axis=0))
    np.testing.assert_allclose(weighted.results_.bic, repeated.results_.bic, rtol=1e-7)


def test_the_result_does_not_depend_on_threads() -> None:
    fits = [
        AutoMixture([2, 3], ["VVV"], random_state=0, n_threads=n).fit(three_groups())
        for n in (1, 3)
    ]
    np.testing.assert_array_equal(fits[0].means_, fits[1].means_)


# delegation


def test_the_methods_are_those_of_the_best(fitted: AutoMixture, tmp_path: Path) -> None:
    x, best = three_groups(), fitted.best_estimator_
    for name in ("predict", "predict_proba", "score", "score_samples", "bic", "explain"):
        np.testing.assert_array_equal(getattr(fitted, name)(x), getattr(best, name)(x))
    np.testing.assert_array_equal(fitted.sample(5)[0], best.sample(5)[0])
    assert fitted.marginal([0]).n_features_in_ == 1
    assert fitted.n_rows_ == 300
    fitted.save(tmp_path / "best.mixfold")
    saved = mixfold.load(tmp_path / "best.mixfold")
    assert isinstance(saved, Mixture)
    np.testing.assert_array_equal(saved.means_, fitted.means_)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(x), fitted.predict(x))
    assert best.partial_fit(x[:10]).n_rows_ == 310


@pytest.mark.parametrize("name", SAME)
def test_standard_errors_are_those_of_the_same_covariance(name: str) -> None:
    x = three_groups()
    auto = AutoMixture([3], [name], random_state=0).fit(x)
    other = Mixture(Gaussian(SAME[name]), 3, learner=EM(), init=auto.params_, max_iter=1).fit(x)
    found, own = auto.standard_errors(x), other.standard_errors(x)
    assert {"weights", "means"} <= set(found)
    for part, errors in own.items():
        np.testing.assert_allclose(found[part], errors, rtol=0.02)


def test_before_a_fit_the_methods_say_so() -> None:
    with pytest.raises(NotFittedError):
        AutoMixture().predict([[1.0]])
    with pytest.raises(AttributeError, match=r"results_.*call fit first"):
        AutoMixture().results_  # noqa: B018
    assert not hasattr(AutoMixture(), "means_")


def test_all_fitted_methods_of_mixture_are_there() -> None:
    learning = {
        "fit",
        "partial_fit",
        "learn_one",
        "open_training",
        "learn_many",
        "progress",
        "waits_for_rows",
        "set_partial_fit_request",
    }
    names = {name for name in dir(Mixture) if name[0] != "_" and name[-1] != "_"} - learning
    settings = set(Mixture().get_params(deep=False))
    assert names - settings <= set(dir(AutoMixture))


def test_plot_draws_a_line_for_each_covariance(fitted: AutoMixture) -> None:
    axes = Figure().subplots()
    assert fitted.plot_selection(axes) is axes
    assert [line.get_label() for line in axes.lines[:3]] == ["EII", "EEE", "VVV"]
    row = fitted.results_[fitted.results_.covariance == "EEE"]
    np.testing.assert_array_equal(axes.lines[1].get_xdata(), row.n_components)
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), row.bic)
    assert "smaller is better" in axes.get_ylabel()


def test_plot_without_matplotlib_names_the_extra(
    fitted: AutoMixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"mixfold\[plot\]"):
        fitted.plot_selection()


def test_without_pandas_results_are_an_arrow_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    auto = AutoMixture([1, 2], ["EII"], random_state=0).fit(three_groups())
    assert isinstance(auto.results_, pa.Table)
    assert auto.results_.column_names == COLUMNS
    assert len(auto.plot_selection(Figure().subplots()).lines[0].get_xdata()) == 2


# bad input


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_components": range(3, 1)}, ["n_components", "range(3, 1)", "empty", "range(1, 10)"]),
        ({"n_components": [0, 1]}, ["n_components", "0", ">= 1"]),
        ({"n_components": "1:9"}, ["n_components", "'1:9'", "range(1, 10)"]),
        ({"n_components": [2, 500]}, ["n_components", "500", "300 distinct rows", "above 300"]),
        ({"covariance": ["VVX"]}, ["covariance", "'VVX'", "VVV"]),
        ({"covariance": []}, ["covariance", "[]", "at least one"]),
        ({"covariance": 3}, ["covariance", "3", "'all'"]),
        ({"covariance": "VVV", "family": "laplace"}, ["covariance", "'VVV'", "laplace", "leave"]),
        ({"covariance": ["VEV"], "family": StudentT()}, ["'VEV'", "StudentT", "diag"]),
        ({"criterion": "BICC"}, ["criterion", "'BICC'", "bic"]),
        ({"held_out_fraction": 0.0}, ["held_out_fraction", "0.0"]),
        ({"criterion": "held-out", "held_out_fraction": 1e-9}, ["held_out_fraction", "no row"]),
        ({"n_init": 0}, ["n_init", "0"]),
        ({"family": "gausian"}, ["gausian", "gaussian"]),
    ],
)
def test_bad_settings_are_refused_and_the_model_stays(
    settings: dict[str, Any], words: list[str]
) -> None:
    x = three_groups()
    auto = AutoMixture([1, 2], ["EII"], random_state=0).fit(x)
    before = auto.means_.copy()
    with pytest.raises(InvalidInputError) as error:
        auto.set_params(**({"covariance": "all"} | settings)).fit(x)
    for word in words:
        assert word in str(error.value)
    np.testing.assert_array_equal(auto.means_, before)


def test_rows_outside_the_support_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="row 3"):
        AutoMixture([1, 2], family="poisson").fit([[1.0], [2.0], [-3.0], [4.0]])


@pytest.mark.parametrize(("n", "d"), [(12, 14), (25, 30)])
def test_components_of_too_few_rows_for_their_covariances_are_not_chosen(n: int, d: int) -> None:
    x = np.random.default_rng(0).normal(size=(n, d))
    model = AutoMixture(range(1, 3), ["EII", *SLOW, "VEV"], random_state=0).fit(x)
    table = model.results_
    assert "covariance='EII'" in repr(model.best_estimator_.family)
    assert (table.dropped[table.covariance != "EII"] != "").all()
