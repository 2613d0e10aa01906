"""The papers' studies run end to end, on small data."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from mixfold.backends.threads import Threads
from mixfold.core.errors import SourceError
from mixfold.core.value import equal
from mixfold.experiments import class_incremental, find_study, mnist_pca, study_names, templates
from mixfold.experiments._measures import adjusted_rand, evaluate, squared_error
from mixfold.experiments._methods import Contest, random_labels
from mixfold.experiments._simulation import replicate
from mixfold.experiments._simulation_table import SIMULATIONS
from mixfold.experiments.wanted import Wanted
from mixfold.models.mixture_model import MixtureParams
from mixfold.sources.array_source import ArraySource

BATCHES = [f"n/{part}{mark}" for part in (5, 10, 50, 100) for mark in ("", " P", " T", " PT")]
METHODS = ["EM", "EM (converged)", *BATCHES]
PNG = b"\x89PNG"


def run(name: str, out: Path, data: Path | None = None, reps: int = 1, n: int = 600) -> list[str]:
    lines: list[str] = []
    find_study(name).run(Wanted(out, lines.append, reps, n, data))
    return lines


def table(path: Path) -> dict[str, list[dict[str, float]]]:
    by_method: dict[str, list[dict[str, float]]] = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            method = row.pop("method")
            by_method.setdefault(method, []).append({k: float(v) for k, v in row.items()})
    return by_method


def write_species(folder: Path, name: str, label: str, d: int, sizes: list[int]) -> None:
    """A table like the real one: measurements, then the species' name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    kinds = np.repeat(np.arange(len(sizes)), sizes)
    x = rng.normal(size=(len(kinds), d)) + 6.0 * kinds[:, None]
    columns: dict[str, object] = {f"measure{j}": x[:, j] for j in range(d)}
    columns[label] = [f"species {k}" for k in kinds]
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def test_every_study_of_the_paper_is_offered() -> None:
    templates = ["iris", "wreath", "flea", "elki", "exp", "poi"]
    simulated = {f"{name}{i}" for name in templates for i in (1, 2)}
    assert simulated | {"mnist-pca"} <= set(study_names())
    for name in sorted(simulated):
        assert SIMULATIONS[name].n == (10**6 if name.endswith("1") else 10**7)


@pytest.mark.parametrize("name", ["elki1", "exp2", "poi1"])
def test_a_study_writes_table_and_plots(name: str, tmp_path: Path) -> None:
    lines = run(name, tmp_path, reps=2, n=2000)
    assert len(lines) == 2
    assert (tmp_path / f"{name}.png").read_bytes().startswith(PNG)
    summary = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    assert [line.split(" | ")[0].strip("| ") for line in summary.splitlines()[2:]] == METHODS
    results = table(tmp_path / f"{name}.csv")
    assert list(results) == METHODS
    for rows in results.values():
        assert [row["replication"] for row in rows] == [0.0, 1.0]
        for row, whole in zip(rows, results["EM (converged)"], strict=True):
            assert row["seconds"] > 0
            assert -1.0 <= row["ari"] <= 1.0
            assert row["squared_error"] >= 0
            assert abs(row["log_likelihood"] - whole["log_likelihood"]) < 2.0
    assert all(row["passes"] == 10 for method in BATCHES for row in results[method])


def test_a_study_repeats_itself() -> None:
    first, second = (replicate(templates.poisson(), 300, 0) for _ in range(2))
    for one, two in zip(first, second, strict=True):
        assert {**one, "seconds": 0} == {**two, "seconds": 0}


def test_species_templates_come_from_the_data_folder(tmp_path: Path) -> None:
    write_species(tmp_path, "iris", "Species", 4, [50, 50, 50])
    write_species(tmp_path, "flea", "species", 6, [21, 31, 22])
    iris, flea = (templates.species(name, tmp_path) for name in ("iris", "flea"))
    assert (iris.model.k, iris.model.d, flea.model.k, flea.model.d) == (3, 4, 3, 6)
    assert np.allclose(iris.params.weights, 1 / 3)
    assert np.allclose(flea.params.weights, np.array([21, 31, 22]) / 74)
    run("flea1", tmp_path / "out", tmp_path)
    results = table(tmp_path / "out" / "flea1.csv")
    assert list(results) == METHODS
    assert results["EM (converged)"][0]["ari"] > 0.2


def test_wreath_template_is_a_fit_of_fourteen_components(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    angle = np.repeat(2 * np.pi * np.arange(14) / 14, 20)
    x = 15 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(size=(280, 2)) / 2
    pq.write_table(pa.table({"x1": x[:, 0], "x2": x[:, 1]}), tmp_path / "wreath.parquet")
    template = templates.wreath(tmp_path)
    assert template.model.k == 14
    assert template.params.weights.sum() == pytest.approx(1.0)
    radii = np.linalg.norm(template.params.components.means, axis=1)
    assert np.allclose(radii, 15, atol=1.0)


def test_a_missing_data_folder_or_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MIXFOLD_DATA", raising=False)
    with pytest.raises(SourceError, match="MIXFOLD_DATA"):
        run("iris1", tmp_path)
    with pytest.raises(SourceError, match=r"iris\.parquet"):
        run("iris1", tmp_path, tmp_path)


def test_mnist_study_on_a_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {d: mnist_pca.AUTHORS[d] for d in (10, 20)}
    monkeypatch.setattr(mnist_pca, "AUTHORS", few)
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=1200).astype(np.uint8)
    centers = rng.integers(256, size=(10, 30))
    x = np.clip(centers[y] + rng.normal(scale=30, size=(1200, 30)), 0, 255).astype(np.uint8)
    np.savez(
        tmp_path / "mnist.npz", X_train=x[:1000], y_train=y[:1000], X_test=x[1000:], y_test=y[1000:]
    )
    run("mnist-pca", tmp_path / "out", tmp_path, reps=2, n=1100)
    assert (tmp_path / "out" / "mnist-pca.png").read_bytes().startswith(PNG)
    summary = (tmp_path / "out" / "mnist-pca.md").read_text(encoding="utf-8")
    assert [line.split()[1] for line in summary.splitlines()[2:]] == ["10", "20"]
    results = table(tmp_path / "out" / "mnist-pca.csv")
    assert set(results) == {"EM", "n/10", "n/10 P", mnist_pca.KMEANS}
    assert all(-1 <= row["ari"] <= 1 for rows in results.values() for row in rows)


def test_adjusted_rand_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=500)
    guess = np.where(rng.random(500) < 0.7, truth, rng.integers(3, size=500))
    counts = np.zeros((4, 4))
    np.add.at(counts, (truth, guess), 1)
    assert adjusted_rand(counts) == pytest.approx(adjusted_rand_score(truth, guess))
    assert adjusted_rand(np.diag([5, 7])) == 1.0


def test_squared_error_does_not_depend_on_the_order_of_components() -> None:
    template = templates.elki()
    components = template.params.components
    order = [2, 0, 1]
    shuffled = MixtureParams(
        template.params.weights[order],
        type(components)(components.means[order], components.scale[order]),
    )
    assert squared_error(template, shuffled) == 0.0
    moved = type(components)(components.means[order] + 0.1, components.scale[order])
    assert squared_error(template, MixtureParams(shuffled.weights, moved)) == pytest.approx(0.06)


def test_an_exponential_is_compared_by_its_rate() -> None:
    template = templates.exponential()
    rates = np.array([[1.0], [9.0], [17.0]])
    params = MixtureParams(template.params.weights, type(template.params.components)(1.0 / rates))
    assert squared_error(template, params) == pytest.approx(4.0)


def test_truncation_that_never_happens_changes_no_bit() -> None:
    """What lets a study learn once for both."""
    from dataclasses import replace

    template = templates.elki()
    rng = np.random.default_rng(0)
    x, labels = template.model.sample(template.params, 2000, rng)
    source, backend = ArraySource(x), Threads(template.model)
    contest = Contest(backend, source, random_labels(template.model, source, rng), seed=0)
    learner = contest._learner(10)
    plain = contest.learn(learner)
    truncated = contest.learn(replace(learner, truncation=1000.0))
    assert truncated.state.truncations == 0
    assert equal(plain.state.params, truncated.state.params)
    assert equal(plain.state.average, truncated.state.average)
    outcomes = {name: params for name, params, _ in contest.truncated_too(10)}
    assert list(outcomes) == ["n/10", "n/10 P", "n/10 T", "n/10 PT"]
    assert equal(outcomes["n/10"], plain.state.params)
    assert equal(outcomes["n/10 PT"], plain.state.average)
    log_likelihood, _ = evaluate(backend, plain.state.params, source, labels)
    assert log_likelihood == pytest.approx(
        backend.posterior(plain.state.params, source.whole(), False)[0].mean()
    )


def test_truncation_that_happens_is_counted_and_learned_apart() -> None:
    """Rows spread wider than the first region allows send every iterate back."""
    near = templates.gaussian([0.5, 0.5], [[-1.0], [1.0]], [[[1.0]], [[1.0]]])
    far = templates.gaussian([0.5, 0.5], [[-2000.0], [2000.0]], [[[1.0]], [[1.0]]])
    x, _ = far.model.sample(far.params, 1000, np.random.default_rng(0))
    contest = Contest(Threads(near.model), ArraySource(x), near.params, seed=0)
    fits = {name: fit for name, _, fit in contest.truncated_too(10)}
    assert fits["n/10"].state.truncations == 0
    assert fits["n/10 T"].state.truncations > 0


def test_class_incremental_on_a_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_incremental, "K", 9)
    rng = np.random.default_rng(0)
    y = np.arange(9000) % 10
    x = rng.integers(256, size=(10, 12))[y] * 0.7 + rng.integers(76, size=(9000, 12))
    x = np.clip(x, 0, 255).astype(np.uint8)
    np.savez(
        tmp_path / "mnist.npz", X_train=x[:8000], y_train=y[:8000], X_test=x[8000:], y_test=y[8000:]
    )
    out = tmp_path / "out"
    lines = run("class-incremental", out, tmp_path, reps=1, n=7000)
    assert len(lines) == 2
    assert (out / "class-incremental.png").read_bytes().startswith(PNG)
    summary = (out / "class-incremental.md").read_text(encoding="utf-8").splitlines()
    assert len(summary) == 2 + 2 * 5
    with (out / "class-incremental.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 5 * 10
    learned = [r for r in rows if r["task"] == "0, then 1-9" and r["method"] == "annealed SGD"]
    assert float(learned[0]["before"]) > float(learned[0]["after"])
    assert all(float(r["after"]) > float(r["before"]) for r in learned[1:])
    aware = [r for r in rows if r["task"] == "0-8, then 9" and "drift" in r["method"]]
    assert {r["boundary"] for r in aware} == {str(3 * 6300)}
