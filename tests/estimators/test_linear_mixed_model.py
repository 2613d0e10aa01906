"""The estimator of linear mixed models: agreement with statsmodels, and kinds of data."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import mixfold
from mixed_tables import arrays_of, table_of
from mixfold import LinearMixedModel
from mixfold.core.errors import MixfoldError, ModelFileError
from mixfold.core.rows import Array
from mixfold.core.value import equal
from mixfold.estimators._subjects import padded
from mixfold.fitting.checkpoint import Checkpoint
from mixfold.kernels.choice import tile_length
from mixfold.models.subject_rows import subject_rows
from mixfold.sources.grouped import Grouped
from mixfold.sources.opening import open_source
from mixfold.testing import sources


def statsmodels(formula: str, random: str, group: str, table: pd.DataFrame) -> Any:
    import statsmodels.formula.api as smf

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = smf.mixedlm(formula, table, groups=table[group], re_formula=random)
        return model.fit(reml=False, method="bfgs", gtol=1e-8, maxiter=500)


def wald_errors(theirs: Any) -> pd.Series:
    """From sum A'V^-1 A, the block of fixed effects of the Hessian that statsmodels computes.

    `bse_fe` is from the inverse of all of it, in which fixed effects and variances mix unless the
    design is balanced.
    """
    names = theirs.model.exog_names
    block = -theirs.model.hessian(theirs.params_object)[0][: len(names), : len(names)]
    return pd.Series(np.sqrt(np.diag(np.linalg.inv(block))), names)


def agrees(ours: LinearMixedModel, theirs: Any, rtol: float = 1e-4) -> None:
    names = ours.coef_names_
    np.testing.assert_allclose(ours.coef_, theirs.fe_params[names], rtol=rtol)
    np.testing.assert_allclose(ours.random_covariance_, theirs.cov_re, rtol=rtol)
    np.testing.assert_allclose(ours.noise_variance_, theirs.scale, rtol=rtol)
    np.testing.assert_allclose(ours.log_likelihood_, theirs.llf, rtol=1e-6)
    np.testing.assert_allclose(ours.coef_std_errors_, theirs.bse_fe[names], rtol=rtol)
    assert ours.converged_


@pytest.mark.parametrize("random", ["~ 1", "~ x"])
def test_agreement_with_statsmodels(random: str) -> None:
    table = table_of(60)
    ours = LinearMixedModel("y ~ x + kind", random, "school").fit(table)
    theirs = statsmodels("y ~ x + kind", random, "school", table)
    agrees(ours, theirs)
    effects = np.array([list(theirs.random_effects[g]) for g in ours.groups_])
    np.testing.assert_allclose(ours.random_effects_, effects, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours.predict(table), theirs.fittedvalues, rtol=1e-5)


REAL = [
    ("sleepstudy", "Reaction ~ Days", "~ Days", "Subject"),
    ("orthodont", "distance ~ age + Sex", "~ age", "Subject"),
    ("orthodont", "distance ~ age * Sex", "~ 1", "Subject"),
    ("math_achieve", "MathAch ~ SES + MEANSES", "~ SES", "School"),
    ("math_achieve", "MathAch ~ SES + Sex + Minority", "~ 1", "School"),
]


def real(name: str) -> pd.DataFrame:
    """The data set or, where no data folder is given, one like it."""
    if "MIXFOLD_DATA" in os.environ:
        return pd.read_parquet(Path(os.environ["MIXFOLD_DATA"]) / f"{name}.parquet")
    rng = np.random.default_rng(4)
    groups, rows = {"sleepstudy": (18, 10), "orthodont": (27, 4), "math_achieve": (160, 45)}[name]
    subject = np.repeat(np.arange(groups), rows)
    when = np.tile(np.arange(rows), groups)
    sex = np.where(np.arange(groups) % 3 == 0, "Female", "Male")[subject]
    ses, mean = rng.normal(size=len(subject)), rng.normal(size=groups)[subject]
    slope = 10.0 + 3.0 * rng.normal(size=groups)[subject]
    level = 250.0 + 9.0 * rng.normal(size=groups)[subject] - 40.0 * (sex == "Female")
    noise = 8.0 * rng.normal(size=len(subject))
    minority = np.where(rng.random(len(subject)) < 0.3, "Yes", "No")
    grown = level + slope * when + noise
    learned = level + slope * ses + 20.0 * mean - 5.0 * (minority == "Yes") + noise
    columns = {
        "sleepstudy": {"Reaction": grown, "Days": when, "Subject": subject},
        "orthodont": {"distance": grown, "age": when - 1.5, "Subject": subject, "Sex": sex},
        "math_achieve": {
            "MathAch": learned,
            "SES": ses,
            "MEANSES": mean,
            "Sex": sex,
            "Minority": minority,
            "School": subject,
        },
    }
    return pd.DataFrame(columns[name])


@pytest.mark.parametrize(("name", "formula", "random", "group"), REAL)
def test_agreement_with_statsmodels_on_real_data(
    name: str, formula: str, random: str, group: str, tmp_path: Path
) -> None:
    table, path = real(name), tmp_path / "sorted.parquet"
    table.to_parquet(path)
    ours = LinearMixedModel(formula, random, group).fit(table)
    theirs = statsmodels(formula, random, group, table)
    # on simulated data its optimiser may stop some digits short
    agrees(ours, theirs, rtol=1e-4 if "MIXFOLD_DATA" in os.environ else 1e-2)
    alone = LinearMixedModel(formula, random, group, standard_errors="expected").fit(table)
    errors = wald_errors(theirs)[ours.coef_names_]
    np.testing.assert_allclose(alone.coef_std_errors_, errors, rtol=1e-2)
    from_file = LinearMixedModel(formula, random, group).fit(path)
    np.testing.assert_allclose(from_file.coef_, ours.coef_, rtol=1e-5)
    np.testing.assert_allclose(from_file.random_covariance_, ours.random_covariance_, rtol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_a_singular_covariance_is_reached_in_few_passes(seed: int) -> None:
    """Where random slopes have no variance, the likelihood is highest at the border."""
    rng = np.random.default_rng(seed)
    school, x = np.repeat(np.arange(50), 6), rng.normal(size=300)
    y = 1 + 2 * x + (seed % 2) * rng.normal(size=50)[school] + rng.normal(size=300)
    table = pd.DataFrame({"y": y, "x": x, "school": school})
    ours = LinearMixedModel("y ~ x", "~ x", "school").fit(table)
    assert ours.converged_
    assert len(ours.history_) < 100
    assert ours.log_likelihood_ > statsmodels("y ~ x", "~ x", "school", table).llf - 1e-5


def same(a: LinearMixedModel, b: LinearMixedModel, rtol: float = 1e-6) -> None:
    for name in ("coef_", "coef_std_errors_", "random_covariance_", "noise_variance_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, err_msg=name)
    assert a.n_groups_ == b.n_groups_


def test_arrays_and_formulas_agree() -> None:
    table = table_of(40)
    x, y, school = arrays_of(table)
    z = np.column_stack([np.ones(len(x)), x])
    same(
        LinearMixedModel().fit(x, y, school, z),
        LinearMixedModel("y ~ x", "~ x", "school").fit(table),
    )
    same(
        LinearMixedModel(fit_intercept=False).fit(z, y, table["name"]),
        LinearMixedModel("y ~ x", group="name").fit(table),
    )


@pytest.mark.parametrize("group", ["school", "name"])
def test_files_of_any_kind_agree_with_memory(group: str, tmp_path: Path) -> None:
    table = table_of(300)
    memory = LinearMixedModel("y ~ x + kind + C(kind):x", "~ x", group).fit(table)
    arrow = pa.Table.from_pandas(table.sort_values("school"), preserve_index=False)
    pq.write_table(arrow, tmp_path / "all.parquet", row_group_size=37)
    pa.csv.write_csv(arrow, tmp_path / "all.csv")
    cut = len(arrow) // 2
    for i, part in enumerate((arrow[:cut], arrow[cut:])):  # a group goes on in the next file
        pq.write_table(part, tmp_path / f"part{i}.parquet", row_group_size=50)
    parts = [tmp_path / "part0.parquet", tmp_path / "part1.parquet"]
    blocks = [arrow[:cut], arrow[cut:]]
    for data in (tmp_path / "all.parquet", tmp_path / "all.csv", parts, blocks):
        model = LinearMixedModel("y ~ x + kind + C(kind):x", "~ x", group).fit(data)
        same(model, memory)
        assert model.coef_names_ == memory.coef_names_
        assert not hasattr(model, "random_effects_")
        groups, effects = model.predict_random(data)
        order = {name: i for i, name in enumerate(memory.groups_)}
        expected = memory.random_effects_[[order[name] for name in groups]]
        np.testing.assert_allclose(effects, expected, rtol=1e-4, atol=1e-6)


def test_neither_blocks_nor_threads_show_in_the_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(3000).sort_values("school", ignore_index=True)
    found = []
    for length, kept in ((50_000, 0), (1111, 2**28), (100, 0)):
        monkeypatch.setattr("mixfold.sources.grouped.KEPT_BYTES", kept)
        pq.write_table(pa.Table.from_pandas(table), tmp_path / "t.parquet", row_group_size=length)
        model = LinearMixedModel("y ~ x + kind", "~ x", "school", n_threads=1 + (length == 100))
        found.append(model.fit(tmp_path / "t.parquet")._learned)
    found.append(LinearMixedModel("y ~ x + kind", "~ x", "school").fit(table)._learned)
    for other in found[1:]:
        assert equal(other.scaling, found[0].scaling)
        assert equal(other.params, found[0].params)


@pytest.mark.parametrize("law", sources.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("kept", [0, 2**20])
def test_units_are_a_source(
    law: Callable[..., None], kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixfold.sources.grouped.KEPT_BYTES", kept)
    table = table_of(60).sort_values("school")[["school", "x", "y"]]
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "t.parquet", row_group_size=7)

    def fold(x: Array, starts: np.ndarray) -> Array:
        return subject_rows(x[:, :0], x[:, 1:2], x[:, 2], starts)

    expected = fold(table.to_numpy(), np.flatnonzero(np.diff(table["school"], prepend=-1)))
    columns = ["school", "x", "y"]
    for data in (tmp_path / "t.parquet", table.sample(frac=1.0, random_state=1)):
        units = Grouped(open_source(data, columns), 0, fold, 4)
        found = np.concatenate([rows.x for rows in units.blocks()])
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        law(units, found)


def test_wide_units_are_folded_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One long group makes every unit wide: they do not all fit."""
    monkeypatch.setattr("mixfold.sources.grouped.KEPT_BYTES", 2**16)
    monkeypatch.setattr("mixfold.core.source.BLOCK_ELEMENTS", 2**13)
    rng = np.random.default_rng(0)
    groups = np.concatenate([np.repeat(np.arange(1000.0), 2), np.full(500, 1000.0)])
    table = pd.DataFrame({"g": groups, "x": rng.normal(size=2500)})
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "t.parquet")
    most = 0

    def fold(x: Array, starts: np.ndarray) -> Array:
        nonlocal most
        most = max(most, len(starts))
        return padded(x[:, 1:], starts, 500)

    first = np.append(2 * np.arange(1001), 2500)
    wanted = rng.permutation(1001)[:15]
    for data in (table.sample(frac=1.0, random_state=1), tmp_path / "t.parquet"):
        units = Grouped(open_source(data, ["g", "x"]), 0, fold, 501)
        expected = padded(units.source.head(2500).x[:, 1:], first[:-1], 500)
        at = 0
        for block in units.blocks():
            np.testing.assert_array_equal(block.x, expected[at : at + len(block)])
            at += len(block)
        assert at == 1001
        assert units.head(3).x.shape == (3, 501)
        if units.random_access:
            np.testing.assert_array_equal(units.take(wanted).x, expected[wanted])
    assert most <= 16
    assert all(tile_length(d) * d <= 2**22 for d in (1, 5000, 60_001, 2**22))


def test_prediction_knows_groups_and_else_the_mean() -> None:
    table = table_of(50)
    model = LinearMixedModel("y ~ x + kind", "~ x", "name").fit(table)
    known = model.predict(table)
    assert np.var(table["y"] - known) < 1.5 * model.noise_variance_
    new = table.assign(name="a new school").drop(columns="y")
    a = np.column_stack([np.ones(len(new)), new["x"], new["kind"] == "b", new["kind"] == "c"])
    names = ["Intercept", "x", "kind[T.b]", "kind[T.c]"]
    coef = [model.coef_[model.coef_names_.index(name)] for name in names]
    np.testing.assert_allclose(model.predict(new), a @ coef)
    x, y, school = arrays_of(table)
    arrays = LinearMixedModel().fit(x, y, school)
    np.testing.assert_allclose(arrays.predict(x), arrays.coef_[0] + arrays.coef_[1] * x[:, 0])
    assert arrays.score(x, y, school) == pytest.approx(arrays.log_likelihood_ / 50)
    assert len(arrays.score_groups(x, y, school)) == 50
    effects = arrays.random_effects_[np.searchsorted(arrays.groups_, school), 0]
    np.testing.assert_allclose(arrays.predict(x, school), arrays.predict(x) + effects)


@pytest.mark.parametrize("group", ["school", "name"])
def test_a_saved_model_is_the_same(group: str, tmp_path: Path) -> None:
    table = table_of(30)
    model = LinearMixedModel("y ~ x + kind", "~ x", group).fit(table)
    model.save(tmp_path / "m.mixfold")
    loaded = mixfold.load(tmp_path / "m.mixfold")
    assert equal(loaded._learned, model._learned)
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    assert loaded.coef_names_ == model.coef_names_
    assert loaded.get_params() == model.get_params()


def test_stopping_and_resuming_ends_at_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(40)
    whole = LinearMixedModel("y ~ x", "~ x", "school", random_state=0).fit(table)
    settings: dict[str, Any] = {"checkpoint": tmp_path / "c.mixfold", "random_state": 0}
    model = LinearMixedModel("y ~ x", "~ x", "school", resume=True, **settings)
    kept = iter([None] * 7)

    def stop(self: Checkpoint, fit: Any) -> None:
        if next(kept, "stop") == "stop":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "keep", stop)
        with pytest.raises(KeyboardInterrupt):
            model.fit(table)
    assert not hasattr(model, "coef_")
    model.fit(table)
    assert equal(model._learned.params, whole._learned.params)
    assert len(model.history_) == len(whole.history_)
    with pytest.raises(ModelFileError, match="another fit"):
        model.set_params(random="~ 1").fit(table)


@pytest.mark.parametrize("learner", ["mini-batch-em", "online-em", "em"])
def test_other_learners_come_near(learner: str) -> None:
    table = table_of(400)
    best = LinearMixedModel("y ~ x", "~ x", "school").fit(table)
    model = LinearMixedModel("y ~ x", "~ x", "school", learner=learner, random_state=0).fit(table)
    np.testing.assert_allclose(model.coef_, best.coef_, rtol=0.05)
    np.testing.assert_allclose(model.noise_variance_, best.noise_variance_, rtol=0.3)
    assert model.log_likelihood_ <= best.log_likelihood_ + 1e-6


def test_known_variances_are_kept() -> None:
    table, omega = table_of(50), np.array([[2.0, 0.3], [0.3, 0.5]])
    model = LinearMixedModel("y ~ x", "~ x", "school", omega=omega, noise_variance=1.0).fit(table)
    np.testing.assert_allclose(model.random_covariance_, omega)
    assert model.noise_variance_ == pytest.approx(1.0)
    diagonal = LinearMixedModel("y ~ x", "~ x", "school", covariance="diag").fit(table)
    assert diagonal.random_covariance_[0, 1] == 0.0
    assert diagonal.log_likelihood_ > model.log_likelihood_ - 10


def test_the_documents_experiment() -> None:
    rng = np.random.default_rng(0)
    school = np.repeat(np.arange(2000), 10)
    x = rng.normal(size=(20_000, 1))
    y = 4 + 9 * x[:, 0] + rng.normal(size=2000)[school] + rng.normal(size=20_000)
    model = LinearMixedModel(omega=1.0, noise_variance=1.0).fit(x, y, school)
    assert (np.abs(model.coef_ - [4, 9]) < 4 * model.coef_std_errors_).all()


def test_the_example_of_the_docs_works_when_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "mixed-models.md").read_text()
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), {})
    assert "'hours'" in capsys.readouterr().out


def test_weights_count_groups() -> None:
    table = table_of(40)
    times = np.random.default_rng(0).integers(1, 3, size=40)
    table["w"] = times[table["school"]].astype(float)
    twice = table[table["w"] == 2].assign(school=lambda t: t["school"] + 1000)
    weighted = LinearMixedModel("y ~ x", "~ x", "school").fit(table, group_weight="w")
    repeated = LinearMixedModel("y ~ x", "~ x", "school").fit(pd.concat([table, twice]))
    for name in ("coef_", "coef_std_errors_", "random_covariance_", "log_likelihood_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-5)
    x, y, school = arrays_of(table)
    with pytest.raises(MixfoldError, match="weights differ within a group"):
        LinearMixedModel().fit(x, y, school, group_weight=np.arange(len(x)) + 1.0)
