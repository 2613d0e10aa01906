"""The report of a model: what it says is what the model and the rows say."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mixfold import AutoMixture, Gaussian, GaussianMixture, Mixture, datasets
from mixfold.errors import InvalidInputError, MissingExtraError
from mixfold.report import write_report
from mixfold.report._colours import COLOURS, NEUTRAL
from mixfold.report._pages import TEMPLATES
from mixfold.report._survey import survey

MOST_BYTES = 5_000_000


def text_of(path: Path) -> str:
    """The words of a page, without scripts and styles."""
    page = path.read_text(encoding="utf-8")
    page = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def written(model: Any, rows: Any, folder: Path, **named: Any) -> str:
    path = folder / "report.html"
    write_report(model, rows, path, **named)
    assert path.stat().st_size < MOST_BYTES
    return text_of(path)


@pytest.fixture(scope="module")
def faithful() -> Mixture:
    return Mixture(n_components=2, random_state=0).fit(datasets.load_faithful())


def test_numbers_are_those_of_the_model(faithful: Mixture, tmp_path: Path) -> None:
    rows = datasets.load_faithful()
    text = written(faithful, rows, tmp_path)
    assert f"Log-likelihood per row {faithful.score(rows):.2f}" in text
    assert f"{faithful.bic(rows):,.1f}" in text
    assert f"{faithful.aic(rows):,.1f}" in text
    single = Mixture(n_components=1, learner="em").fit(rows).score(rows)
    assert f"against {single:.2f} for one component" in text
    assert f"Component 1: {faithful.weights_[1]:.1%} of the rows" in text
    strangest = faithful.score_samples(rows).argmin()
    assert f"Most probable component {strangest + 1} x" in text


@pytest.mark.parametrize("length", [1, 50, 272])
def test_blocks_of_any_length_give_the_same_survey(faithful: Mixture, length: int) -> None:
    rows = datasets.load_faithful()
    blocks = (rows[first : first + length] for first in range(0, len(rows), length))
    found, whole = survey(faithful, blocks, 0, "blocks"), survey(faithful, rows, 0, "rows")
    np.testing.assert_array_equal(found.sample.x, whole.sample.x)
    np.testing.assert_array_equal(found.strangest.numbers, whole.strangest.numbers)
    np.testing.assert_allclose(found.profiles.means, whole.profiles.means, rtol=1e-12)
    np.testing.assert_allclose(found.stretches.means, whole.stretches.means, rtol=1e-12)
    np.testing.assert_allclose(found.log_likelihood, whole.log_likelihood, rtol=1e-12)
    assert found.n == whole.n == 272


def test_large_data_are_read_once_and_few_rows_are_kept(faithful: Mixture) -> None:
    read = []

    def blocks() -> Iterator[np.ndarray]:
        rows, _ = faithful.sample(40_000)
        for part in np.array_split(rows, 10):
            read.append(len(part))
            yield part

    found = survey(faithful, blocks(), 0, "blocks")
    assert sum(read) == found.n == 40_000
    assert len(found.sample) == 10_000
    assert len(found.strangest) == 10
    assert not found.is_complete_sample
    assert abs(found.sample.numbers.mean() - 20_000) < 500


def test_reasons_do_not_depend_on_the_units_of_columns(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(400, 3)) * [8000.0, 0.001, 10.0]
    rows[7] = 3000.0, 0.0061, 2.0
    table = pd.DataFrame(rows, columns=["income", "ratio", "age"])
    text = written(Mixture(random_state=0).fit(table), table, tmp_path)
    assert re.search(r"8 ratio is 0\.0061\d*, where [-.\de]+ is expected\. ", text)


def test_a_table_with_categories_and_holes(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 300
    label = rng.integers(2, size=n)
    days = np.datetime64("2026-01-01") + (30 * label + rng.integers(5, size=n)).astype("m8[D]")
    table = pd.DataFrame(
        {
            "height": rng.normal(170.0 + 30.0 * label),
            "colour": np.where(label == 1, "red", "blue"),
            "visits": rng.poisson(3.0 + 9.0 * label),
            "day": days.astype("datetime64[s]"),
        }
    )
    table.loc[::10, "height"] = np.nan
    model = Mixture("auto", 2, random_state=0).fit(table)
    text = written(model, table, tmp_path)
    assert "colour is “red” in nearly all of its rows, against hardly any of the others" in text
    assert "day is 2026-0" in text
    assert "Rows with missing cells 30 (10.0%)" in text
    assert re.search(r"height is \d+\.\d on average, against \d+\.\d in the other rows", text)


@pytest.mark.parametrize(("k", "d"), [(1, 1), (2, 300)])
def test_few_and_many_columns(tmp_path: Path, k: int, d: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, d)) + 3.0 * rng.integers(k, size=(150, 1))
    model = Mixture(Gaussian("diag"), k, random_state=0, max_iter=5).fit(x)
    text = written(model, x, tmp_path)
    assert ("All rows belong to one component" in text) == (k == 1)
    assert "x0" in text


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.LearningWarning")
def test_a_single_row(faithful: Mixture, tmp_path: Path) -> None:
    text = written(faithful, [[2.0, 50.0]], tmp_path)
    assert "There are too few rows to say whether they change" in text
    assert "likelihood and criteria are those of the 1 row of this report" in text


def test_other_estimators(tmp_path: Path) -> None:
    rows = datasets.load_faithful()
    text = written(GaussianMixture(2, random_state=0).fit(rows), rows, tmp_path)
    assert "Estimator GaussianMixture" in text
    noisy = Mixture(n_components=2, noise=True, random_state=0).fit(rows)
    assert "2 and noise" in written(noisy, rows, tmp_path)
    auto = AutoMixture([1, 2], ["EEE"], criterion="held-out", random_state=0).fit(rows)
    text = written(auto, rows, tmp_path)
    held_out = float(np.max(auto.results_["held_out"]))
    assert f"Held-out log-density per row {held_out:.2f}" in text
    assert "Selection" in text


# promised and realised


def verdicts(text: str) -> tuple[str, bool]:
    """Whether alarms and columns agree with the model."""
    alarms = text.partition("By chance (95%) Agrees")[2].partition("distribution of")[0]
    return alarms, "every column agrees with the model within chance" in text


def test_rows_from_the_model_agree_with_it(faithful: Mixture, tmp_path: Path) -> None:
    rows, _ = faithful.sample(5000)
    alarms, columns = verdicts(written(faithful, rows, tmp_path, seed=1))
    assert columns
    assert alarms.count(" yes") >= 2
    assert alarms.count(" no") <= 1


def test_rows_from_elsewhere_do_not(faithful: Mixture, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_t(2.0, size=(5000, 2)) * [1.0, 13.0] + [3.5, 70.0]
    alarms, columns = verdicts(written(faithful, rows, tmp_path))
    assert not columns
    assert " yes" not in alarms


@pytest.mark.parametrize("moving", [False, True])
def test_drift_is_found_where_there_is_some(moving: bool, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(3000, 2))
    model = Mixture(n_components=1).fit(x)
    x[1500:, 1] += 2.0 * moving
    text = written(model, x, tmp_path)
    assert ("The log-likelihood of the rows changes over time" in text) == moving
    assert ("The log-likelihood shows no drift" in text) != moving
    moved = text.partition("Columns whose means move most")[2].partition("The means of")[0]
    assert ("x1 rows" in moved) == moving
    assert "x0 rows" not in moved


def test_a_strange_cell_is_the_reason_of_a_strange_row(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 1))
    table = pd.DataFrame(z + 0.1 * rng.normal(size=(500, 3)), columns=["a", "b", "c"])
    table.loc[123, "b"] = table.loc[123, "a"] + 4.0
    model = Mixture(n_components=1).fit(table.drop(index=123))
    text = written(model, table, tmp_path)
    expected = table.loc[123, ["a", "c"]].mean()
    reason = re.search(r"Most probable component 124 b is (\S+), where (\S+) is expected", text)
    assert reason is not None
    np.testing.assert_allclose(float(reason[1]), table.loc[123, "b"], rtol=0.01)
    np.testing.assert_allclose(float(reason[2]), expected, atol=0.1)


# the page


def test_the_same_seed_gives_the_same_words(faithful: Mixture, tmp_path: Path) -> None:
    rows = datasets.load_faithful()
    texts = {re.sub(r"\d\d:\d\d UTC", "", written(faithful, rows, tmp_path)) for _ in range(2)}
    assert len(texts) == 1


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def schemes() -> list[dict[str, str]]:
    """The colours of the light and of the dark page."""
    style = (TEMPLATES / "style.css").read_text()
    light, dark, *_ = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", one)) for one in (light, dark)]


def test_texts_and_colours_have_enough_contrast() -> None:
    for scheme in schemes():
        for text in ("text", "soft", "accent", "axis"):
            for ground in ("page", "card"):
                assert contrast(scheme[text], scheme[ground]) >= 4.5, (text, ground)
        assert contrast(scheme["text"], scheme["accent-soft"]) >= 4.5
        assert contrast(scheme["text"], scheme["warn-soft"]) >= 4.5
        assert all(contrast(one, scheme["card"]) >= 3.0 for one in (*COLOURS, NEUTRAL))


def test_headings_are_in_order(faithful: Mixture, tmp_path: Path) -> None:
    write_report(faithful, datasets.load_faithful(), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    levels = list(map(int, re.findall(r"<h([1-6])", page)))
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


# bad input


def test_nothing_is_written_if_the_rows_do_not_fit(faithful: Mixture, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("as before")
    for rows, words in (
        (np.zeros((5, 3)), "3 features"),
        (np.zeros((0, 2)), "no rows|0 sample"),
        (iter([]), "no rows|empty"),
        ([[np.inf, 1.0]], "infinity"),
    ):
        with pytest.raises(ValueError, match=words):
            write_report(faithful, rows, path)
    assert path.read_text() == "as before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_model_that_is_not_fitted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted"):
        write_report(Mixture(), [[1.0]], tmp_path / "report.html")


def test_rows_outside_the_support_are_named(tmp_path: Path) -> None:
    model = Mixture("poisson", 1).fit([[1.0], [2.0], [5.0]])
    blocks = iter([np.ones((3, 1)), np.array([[1.0], [-1.0]])])
    with pytest.raises(InvalidInputError, match="row 5"):
        write_report(model, blocks, tmp_path / "report.html")


def test_without_bokeh_the_extra_is_named(
    faithful: Mixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bokeh.plotting", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mixfold\[report\]'"):
        write_report(faithful, datasets.load_faithful(), tmp_path / "report.html")
