"""Pictures of fits, of responsibilities, of drift, and of the number of components."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from mixfold import AutoMixture, DriftAware, GaussianMixture, Mixture, datasets
from mixfold.errors import InvalidInputError, MissingExtraError
from mixfold.fitting.history import History
from mixfold.plots.lines import Curve, draw_history, draw_selection, windows

ROWS = datasets.load_faithful()


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    plt.switch_backend("agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def geyser() -> Mixture:
    return Mixture(n_components=2, learner="em", random_state=0).fit(ROWS)


def axes() -> Any:
    return Figure(layout="constrained").subplots()


def test_history_is_drawn_by_pass(geyser: Mixture) -> None:
    drawn = geyser.plot_history(axes())
    (line,) = drawn.lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, geyser.n_iter_ + 1))
    np.testing.assert_array_equal(line.get_ydata(), geyser.history_.log_likelihood)
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("passes", "log-likelihood per row")


def test_differences_by_rounding_do_not_look_like_learning() -> None:
    flat = -11.78857873 + 1e-12 * np.arange(4.0)
    ones = np.ones(4)
    history = History(np.column_stack([ones, flat, ones, ones, np.full(4, np.nan)]))
    low, high = draw_history(history, 4, axes()).get_ylim()
    assert (low, high) == (pytest.approx(flat[0] - 5e-4), pytest.approx(flat[0] + 5e-4))


def test_what_is_no_axes_is_refused(geyser: Mixture) -> None:
    for kind in ("ellipses", "columns"):
        with pytest.raises(InvalidInputError, match="ax is 3: give matplotlib Axes"):
            geyser.plot(ax=3, kind=kind)


def test_history_of_a_stream_is_drawn_by_rows() -> None:
    model = Mixture(n_components=2, learner="online-em", random_state=0).partial_fit(ROWS)
    drawn = model.plot_history(axes())
    assert drawn.get_xlabel() == "rows read"
    np.testing.assert_array_equal(drawn.lines[0].get_xdata(), model.history_.rows)


def test_a_model_without_history_is_refused(geyser: Mixture) -> None:
    with pytest.raises(InvalidInputError, match="has no history"):
        geyser.marginal([0]).plot_history(axes())


def test_responsibilities_are_stacked(geyser: Mixture) -> None:
    rows = ROWS[:50]
    drawn = geyser.plot_responsibilities(rows, axes())
    r = geyser.predict_proba(rows)
    order = np.lexsort((-r.max(axis=1), r.argmax(axis=1)))
    below = np.zeros(50)
    for k, patch in enumerate(drawn.patches):
        data = patch.get_data()
        np.testing.assert_allclose(data.baseline, below, atol=1e-12)
        np.testing.assert_allclose(data.values - data.baseline, r[order, k], atol=1e-12)
        below = data.values
    np.testing.assert_allclose(below, 1.0)


def test_drift_shows_windows_and_changes() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(6000, 1)), rng.normal(size=(6000, 1)) + 6.0])
    model = Mixture(learner=DriftAware("online-em"), random_state=0).partial_fit(x)
    drawn = model.plot_drift(axes())
    assert len(model.drifts_) >= 1
    dashed = [line.get_xdata()[0] for line in drawn.lines if line.get_linestyle() == "--"]
    assert dashed == model.drifts_.tolist()
    assert f"drift ({len(model.drifts_)})" in drawn.get_legend().get_texts()[1].get_text()


def test_windows_are_medians_and_quartiles() -> None:
    table = np.zeros((1000, 5))
    table[:, 0], table[:, 1] = np.arange(1, 1001), np.tile(np.arange(5.0), 200)
    rows, low, middle, high = windows(History(table), 200)
    np.testing.assert_array_equal(rows, np.arange(5, 1001, 5))
    assert (set(low), set(middle), set(high)) == ({1.0}, {2.0}, {3.0})


def test_a_learner_that_looks_for_no_changes_is_refused(geyser: Mixture) -> None:
    with pytest.raises(InvalidInputError, match="the learner is EM, which looks for no changes"):
        geyser.plot_drift(axes())


def test_other_estimators_have_the_same_pictures() -> None:
    auto = AutoMixture([1, 2], ["EEE", "VVV"], random_state=0).fit(ROWS)
    assert len(auto.plot(ROWS, axes()).patches) == 2 * auto.best_estimator_.n_components
    drawn = auto.plot_selection(axes())
    assert drawn.lines[-1].get_xdata()[0] == auto.best_estimator_.n_components
    theirs = GaussianMixture(2, random_state=0).fit(ROWS)
    assert len(theirs.plot(ROWS, axes()).patches) == 4


def test_selection_leaves_out_values_far_from_the_best() -> None:
    near = 100.0 + np.arange(5.0)
    curves: dict[str, Curve] = {name: (range(1, 6), near) for name in "abc"}
    curves["d"] = (range(1, 6), [9000.0, 8000.0, 109.0, 7000.0, 6000.0])
    low, high = draw_selection(curves, "BIC", axes(), chosen=3).get_ylim()
    assert low < 100.0
    assert 109.0 < high < 200.0
    high = draw_selection({"d": curves["d"]}, "BIC", axes(), chosen=3).get_ylim()[1]
    assert high > 9000.0


@pytest.mark.parametrize("name", ["plot", "plot_history", "plot_responsibilities"])
def test_an_error_names_the_extra(
    geyser: Mixture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    given = () if name == "plot_history" else (ROWS,)
    with pytest.raises(MissingExtraError, match=r"mixfold\[plot\]"):
        getattr(geyser, name)(*given)
