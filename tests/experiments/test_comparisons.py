"""The studies of many learners run end to end, on small data."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.errors import SourceError
from mixfold.core.registry import names
from mixfold.core.rows import Rows
from mixfold.experiments import (
    _held_out,
    _race,
    bmm_table2,
    find_study,
    online_kmle,
    wide_comparison,
)
from mixfold.experiments._labelled import labelled_sets, standardised
from mixfold.experiments._measures import divergence, squared_error
from mixfold.experiments._streaming import BATCH, FIRST, SCHEDULES, log_spaced, online_learners
from mixfold.experiments.templates import gaussian
from mixfold.experiments.wanted import Wanted

PNG, GIF = b"\x89PNG", b"GIF8"


def run(name: str, out: Path, n: int, data: Path | None = None) -> list[dict[str, str]]:
    find_study(name).run(Wanted(out, lambda line: None, 1, n, data))
    with (out / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


# online k-MLE


def test_online_kmle_writes_tables_curves_and_an_animation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(online_kmle, "OVERLAPS", ((6.0, 1.0), (2.0, 2.0)))
    monkeypatch.setattr(online_kmle, "SIZES", ((2, 1), (3, 2)))
    monkeypatch.setattr(online_kmle, "ROUNDS", 1)
    results = run("online-kmle", tmp_path, 1000)
    assert {r["overlap"] for r in results} == {online_kmle.label(o) for o in online_kmle.OVERLAPS}
    online = {(m, step) for step, s in SCHEDULES.items() for m in online_learners(s)}
    batch = {(m, "batch") for m in BATCH}
    assert {(r["method"], r["step"]) for r in results} == online | batch
    assert all(float(r["squared_error"]) >= 0 and float(r["divergence"]) >= 0 for r in results)
    assert (tmp_path / "online-kmle.png").read_bytes().startswith(PNG)
    assert (tmp_path / "online-kmle.gif").read_bytes().startswith(GIF)
    for name in ("online-kmle.md", "online-kmle-divergence.md", "online-kmle-lost.md"):
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines()[2:]
        assert len(lines) == len(online | batch)
    times = (tmp_path / "online-kmle-time.md").read_text(encoding="utf-8").splitlines()[2:]
    assert [float(line.split(" | ")[1]) > 0 for line in times] == [True] * 6


def test_soft_assignments_come_near_and_hard_ones_do_not() -> None:
    template = online_kmle.two_gaussians((3.0, 1.0))
    stream = online_kmle.stream_of(template, 20_000, 0)
    ends = {name: next(stream.batch(learner, [20_000])) for name, learner in BATCH.items()}
    learners = online_learners(SCHEDULES["n^-0.6"])
    ends |= {name: next(stream.online(learner, [20_000])) for name, learner in learners.items()}
    errors = {name: squared_error(template, params) for name, params in ends.items()}
    assert errors["EM"] < 0.01 < errors["k-MLE"]
    assert errors["online EM"] < errors["online k-MLE argmax"]


def test_a_stream_looked_at_more_often_is_the_same_stream() -> None:
    stream = online_kmle.stream_of(online_kmle.two_gaussians((4.0, 1.0)), 2000, 0)
    for learner in online_learners(SCHEDULES["1/n"]).values():
        seldom, often = (list(stream.online(learner, m))[-1] for m in ([2000], [500, 1300, 2000]))
        assert np.array_equal(seldom.components.means, often.components.means)


def test_divergence_is_the_closed_form_where_there_is_one() -> None:
    means, variances = np.array([0.0, 0.7]), np.array([1.0, 2.25])
    true, learned = (
        gaussian([0.5, 0.5], [[m], [m]], [[[v]], [[v]]])
        for m, v in zip(means, variances, strict=True)
    )
    ratio = variances[0] / variances[1]
    expected = 0.5 * (ratio + 0.49 / variances[1] - 1.0 - np.log(ratio))
    backend = Threads(true.model)
    assert divergence(backend, true, learned.params) == pytest.approx(expected, rel=1e-9)
    assert divergence(backend, true, true.params) == 0.0


def test_slope_of_a_power_law_is_its_exponent() -> None:
    rows = np.array(log_spaced(10**5), dtype=np.float64)
    assert (rows[0], rows[-1]) == (2 * FIRST, 10**5)
    assert online_kmle.slope((rows, np.stack([rows**-0.6, 3 * rows**-0.6]))) == pytest.approx(-0.6)


# every learner on every set


def write_sets(folder: Path) -> None:
    """A table and pictures like the real ones, three clusters each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    kinds = np.repeat(np.arange(3), 60)
    x = rng.normal(size=(180, 4)) + 4.0 * kinds[:, None]
    columns: dict[str, object] = {f"measure{j}": x[:, j] for j in range(4)}
    columns["Species"] = [f"species {k}" for k in kinds]
    pq.write_table(pa.table(columns), folder / "iris.parquet")
    centers = rng.integers(40, 200, size=(3, 25))
    y = rng.integers(3, size=300)
    pixels = (centers[y] + rng.normal(scale=8, size=(300, 25))).clip(0, 255).astype(np.uint8)
    np.savez(
        folder / "isolet_part_1_5.npz",
        X_isolet1=pixels[:200],
        y_isolet1=y[:200],
        X_isolet5=pixels[200:],
        y_isolet5=y[200:],
    )


def test_wide_comparison_runs_every_learner_within_the_budget(tmp_path: Path) -> None:
    write_sets(tmp_path)
    out = tmp_path / "out"
    results = run("wide-comparison", out, 150, tmp_path)
    assert {r["set"] for r in results} == {"iris", "isolet_part_1_5"}
    learners = {r["learner"] for r in results}
    assert learners == set(wide_comparison.contestants())
    others = {"drift-aware", "em-gradient"}  # nothing drifts here, and M-steps are exact
    assert {name.split()[0] for name in learners} == set(names("learners")) - others
    assert all(0 < int(r["passes"]) <= wide_comparison.PASSES for r in results)
    assert all(np.isfinite(float(r["log_likelihood"])) for r in results)
    found = {r["learner"]: float(r["ari"]) for r in results if r["set"] == "iris"}
    assert found["em"] > 0.9
    assert (out / "wide-comparison.png").read_bytes().startswith(PNG)
    lines = (out / "wide-comparison.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4
    assert lines[0].count("|") == len(learners) + 2


def test_labelled_sets_are_the_same_rows_every_time(tmp_path: Path) -> None:
    write_sets(tmp_path)
    first, second = (list(labelled_sets(tmp_path, 100)) for _ in range(2))
    assert [s.name for s in first] == ["iris", "isolet_part_1_5"]
    assert [(s.k, s.x.shape, s.covariance) for s in first] == [
        (3, (100, 4), "full"),
        (3, (100, 20), "diag"),
    ]
    for one, two in zip(first, second, strict=True):
        assert np.array_equal(one.x, two.x)
        assert np.array_equal(one.labels, two.labels)


def test_a_label_is_not_learned_from(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    x, label = np.random.default_rng(0).normal(size=(2, 30)), np.repeat([4, 7], 15)
    pq.write_table(pa.table({"a": x[0], "class": label, "b": x[1]}), tmp_path / "banknote.parquet")
    (found,) = labelled_sets(tmp_path, 30)
    assert np.array_equal(found.x, x.T)
    assert np.array_equal(found.labels, np.repeat([0, 1], 15))


def test_columns_are_standardised_by_those_learned_from() -> None:
    learned, judged = standardised(np.array([[1.0, 5], [3, 5]]), np.ones((1, 2)))
    assert np.array_equal(learned, [[-1, 0], [1, 0]])
    assert np.array_equal(judged, [[-1, -4]])
    constant = np.full((1000, 1), 0.1)
    assert constant.std() > 0  # by rounding
    learned, judged = standardised(constant, constant + 1.0)
    np.testing.assert_allclose(learned, 0.0, atol=1e-12)
    np.testing.assert_allclose(judged, 1.0)


def test_a_folder_without_labelled_sets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="none of the labelled sets"):
        run("wide-comparison", tmp_path / "out", 100, tmp_path)


def test_a_start_is_drawn_from_the_first_rows_alone() -> None:
    stream = online_kmle.stream_of(online_kmle.two_gaussians((6.0, 1.0)), 1000, 3)
    changed = Rows(np.concatenate([stream.rows.x[:FIRST], np.zeros((900, 1))]))
    rng = np.random.default_rng([1000, 3])
    stream.backend.model.sample(online_kmle.two_gaussians((6.0, 1.0)).params, 1000, rng)
    again = type(stream).begin(stream.backend, changed, rng, 3)
    assert np.array_equal(again.start.components.means, stream.start.components.means)


# incremental learners


def test_gmm_rates(tmp_path: Path) -> None:
    rows = {r["method"]: float(r["rows"]) for r in run("gmm-rates", tmp_path, 1000)}
    assert rows["EM"] > rows["iEM"] > rows["fiEM"] > 1000
    assert rows["EM"] > 2 * rows["oEM-vr"]
    assert (tmp_path / "gmm-rates.png").read_bytes().startswith(PNG)
    assert "slope" in (tmp_path / "gmm-rates.md").read_text()


def test_lmm_convergence(tmp_path: Path) -> None:
    last = {r["method"]: float(r["error"]) for r in run("lmm-convergence", tmp_path, 40)}
    assert last["EM"] > last["MBEM, half"] > last["incremental EM"]
    assert (tmp_path / "lmm-convergence.png").read_bytes().startswith(PNG)
    assert "passes" in (tmp_path / "lmm-convergence.md").read_text()


# Bayesian moment matching


def write_measured(folder: Path, name: str, label: str, rows: int = 200) -> None:
    """Two clusters in columns of unlike units, the last a multiple of the first."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=rows)
    x = (rng.normal(size=(rows, 2)) + 5.0 * kind[:, None]) * [1.0, 100.0]
    columns = {"a": x[:, 0], "b": x[:, 1], "c": 250.0 * x[:, 0], label: kind.astype(str)}
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def by_method(results: list[dict[str, str]], **which: str) -> dict[str, float]:
    chosen = [r for r in results if all(r[key] == value for key, value in which.items())]
    return {r["method"]: float(r["log_likelihood"]) for r in chosen}


def test_bmm_table1_compares_all_methods_on_raw_and_standardised_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_held_out, "COMPONENTS", (2, 3))
    write_measured(tmp_path, "transfusion", "donated_2007")
    results = run("bmm-table1", tmp_path / "out", 200, tmp_path)
    raw, unit = (by_method(results, scale=scale) for scale in _held_out.SCALES)
    assert set(raw) == set(unit) == set(_race.methods())
    (measured,) = _held_out.measured_sets(("transfusion",), tmp_path, 200)
    scale = np.log(_held_out.split(measured.x, 0)[0].std(axis=0)).sum()
    for method in set(raw) - {_race.SCIKIT}:  # which adds a constant to every variance
        assert unit[method] - raw[method] == pytest.approx(scale, abs=1e-6), method
    assert (tmp_path / "out" / "bmm-table1.png").read_bytes().startswith(PNG)
    for name, lines in (("", 4), ("-components", 4), ("-refined", 3)):
        text = (tmp_path / "out" / f"bmm-table1{name}.md").read_text(encoding="utf-8")
        assert len(text.splitlines()) == lines


def test_bmm_table2_writes_likelihood_time_and_what_shards_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_held_out, "COMPONENTS", (2, 3))
    monkeypatch.setattr(bmm_table2, "SIZES", (2,))
    monkeypatch.setattr(bmm_table2, "TIMED", 2)
    monkeypatch.setattr(bmm_table2, "SHAPES", {"small": (3, (4.0, 3.0, 2.0, 1.0))})
    write_measured(tmp_path, "magic", "class")
    results = run("bmm-table2", tmp_path / "out", 200, tmp_path)
    assert set(by_method(results)) == set(_race.methods())
    assert (tmp_path / "out" / "bmm-table2.png").read_bytes().startswith(PNG)
    lines = {
        name: (tmp_path / "out" / name).read_text(encoding="utf-8").splitlines()[2:]
        for name in ("bmm-table2.md", "bmm-table2-time.md", "bmm-table2-shards.md")
    }
    assert [len(found) for found in lines.values()] == [2, 2, 2]
    assert lines["bmm-table2-time.md"][1].endswith("| 4 (2.00) | 3 (1.50) | 2 (1.00) | 1 (0.50) |")


@pytest.mark.parametrize("study", ["bmm-table1", "bmm-table2"])
def test_studies_of_moment_matching_need_data(study: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="the data folder has no"):
        run(study, tmp_path / "out", 100, tmp_path)


def race(k: int) -> _race.Race:
    x = np.random.default_rng(0).normal(size=(300, 2))
    x[::2] += 6.0
    return _race.Race.begin(x, k, 0)


def test_shards_of_a_single_gaussian_lose_nothing() -> None:
    whole, parts = (_race.methods()[name](race(1))[0] for name in (_race.OBMM, _race.ODMM))
    np.testing.assert_allclose(whole.components.means, parts.components.means, rtol=1e-9)
    np.testing.assert_allclose(whole.components.scale, parts.components.scale, rtol=1e-9)


def test_rows_read_in_common_are_rows_learned() -> None:
    begun = race(2)
    whole = _race.methods()[_race.OBMM](begun)[0]
    almost = _race.distributed(0.98)(begun)[0]
    np.testing.assert_allclose(whole.components.means, almost.components.means, atol=1e-3)


def test_a_method_that_gives_up_is_said_to() -> None:
    def give_up(begun: _race.Race) -> _race.Learned:
        raise ValueError("ill-defined covariance")

    assert np.isnan(_held_out.judge(race(2), give_up, np.zeros((1, 2)))).all()
    values = {_race.OBMM: [-1.0, -1.0], _race.SCIKIT: [-1.0, np.nan]}
    assert list(_held_out.cells(values)) == ["-1.00", "fails in 1 of 2"]


def test_arrows_mark_what_the_signed_rank_test_finds() -> None:
    base = np.random.default_rng(0).normal(size=10)
    gain = np.arange(1, 11) / 10
    assert _held_out.verdict(list(base + gain), list(base)) == " ↑"
    assert _held_out.verdict(list(base - gain), list(base)) == " ↓"
    assert _held_out.verdict(list(base + gain * (-1) ** np.arange(10)), list(base)) == ""
    assert _held_out.verdict(list(base), list(base)) == ""


def test_the_number_of_components_is_that_of_the_clusters() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 2)) + 8.0 * rng.integers(3, size=900)[:, None]
    chosen = _held_out.preferred(x, 0, _race.methods())
    assert set(chosen) == set(_race.methods())
    assert chosen[_race.SCIKIT] == chosen["auto"] >= 3
