"""A stream that is learned in a thread, and its checkpoints."""

from __future__ import annotations

import shutil
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import mixfold
from mixfold import AnomalyDetector, Mixture
from mixfold.core.growing_source import GrowingSource
from mixfold.core.value import equal
from mixfold.errors import InvalidInputError, ModelFileError, SourceError
from mixfold.report._component_view import StableOrder, ellipses, importance, view_of
from mixfold.report._stream_watcher import StreamWatcher
from mixfold.report._watched_model import WatchedDetector
from mixfold.report.watch_options import WatchOptions
from mixfold.report.watching import columns_of, detector_of, learns_numbers, watch
from mixfold.sources.following import follow
from mixfold.sources.growing_iterable import GrowingIterable

NAMES = ["a", "b", "c"]


def rows_from(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 1.0]])
    return np.asarray(centers[rng.integers(2, size=n)] + rng.normal(size=(n, 3))).round(4)


def write(path: Path, x: np.ndarray, mode: str = "a") -> None:
    with path.open(mode) as file:
        file.writelines(",".join(map(str, row)) + "\n" for row in x.tolist())


@pytest.fixture
def stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CSV file with 3,000 rows, in an empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c\n")
    write(path, rows_from(3000))
    return path


def online(**settings: Any) -> Mixture:
    return Mixture(n_components=2, random_state=0, **{"learner": "online-em", **settings})


STARTED: list[StreamWatcher] = []


def watcher_of(
    source: GrowingSource | Path, mixture: Any = None, rate: float = 0.001, **options: Any
) -> StreamWatcher:
    mixture = online() if mixture is None else mixture
    if isinstance(source, Path):
        source = follow(source, columns_of(mixture), learns_numbers(mixture))
    model = WatchedDetector(detector_of(mixture, rate))
    made = StreamWatcher(source, model, WatchOptions(**{"interval": 0.05, **options}))
    STARTED.append(made)
    made.start()
    return made


@pytest.fixture(autouse=True)
def close_watchers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    yield
    while STARTED:
        STARTED.pop().close()


def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def learned(path: Path, **options: Any) -> StreamWatcher:
    """A watcher that has learned all rows of a file and is closed."""
    found = watcher_of(path, exit_at_end=True, **options)
    until(found.finished.is_set)
    found.close()
    return found


def has_learned(watcher: StreamWatcher, n: int) -> bool:
    return watcher.n_rows >= n


def messages(watcher: StreamWatcher) -> str:
    return "; ".join(text for _, text in watcher.state.snapshot().messages)


# learning


def test_the_rows_of_a_file_are_learned_as_by_partial_fit(stream: Path) -> None:
    found = learned(stream)
    names = dict(zip(NAMES, rows_from(3000).T, strict=True))
    whole = online().partial_fit(pa.table(names))
    assert equal(found.model.mixture.params_, whole.params_)
    assert found.state.facts.n_rows == whole.n_rows_ == 3000
    assert equal(mixfold.load("model.mixfold").estimator_.params_, whole.params_)


def test_rows_are_scored_before_they_are_learned() -> None:
    x, model = rows_from(600), WatchedDetector(detector_of(online(), 0.01))
    assert len(model.learn(x[:200], 0).log_density) == 0
    before = online().partial_fit(x[:256])
    outcome = model.learn(x[200:], 200)
    expected = before.score_samples(x[256:512])
    np.testing.assert_allclose(outcome.log_density[:256], expected, rtol=1e-12)
    assert len(outcome.log_density) == 344
    assert model.mixture.n_rows_ == 600


def test_pausing_leaves_rows_in_the_source(stream: Path) -> None:
    found = watcher_of(stream)
    until(lambda: found.n_rows == 3000)
    found.pause(True)
    write(stream, rows_from(500, 1))
    until(lambda: found.state.facts.status == "paused")
    time.sleep(0.3)
    assert found.n_rows == 3000
    found.pause(False)
    until(lambda: found.n_rows == 3500)


def test_saving_works_at_any_time_also_while_paused(stream: Path) -> None:
    found = watcher_of(stream, output=Path("here.mixfold"))
    until(lambda: found.n_rows == 3000)
    found.pause(True)
    found.save()
    until(Path("here.mixfold").exists)
    until(lambda: found.state.facts.saved)
    assert mixfold.load("here.mixfold").estimator_.n_rows_ == 3000


# restarting


def test_a_restart_learns_every_row_once(stream: Path) -> None:
    keep: dict[str, Any] = {"checkpoint": Path("rows.checkpoint")}
    first = learned(stream, **keep)
    write(stream, rows_from(1000, 1))
    with stream.open("a") as file:
        file.write("1,2,")  # half a row
    second = learned(stream, **keep)
    with stream.open("a") as file:
        file.write("3\n")
    third = learned(stream, **keep)
    assert [one.n_rows for one in (first, second, third)] == [3000, 4000, 4001]
    whole = learned(stream)
    assert equal(third.model.mixture.params_, whole.model.mixture.params_)
    assert third.state.facts.n_scored == whole.state.facts.n_scored
    assert "after 4,000 rows" in messages(third)


def test_a_restart_without_new_rows_shows_the_components(stream: Path) -> None:
    checkpoint = stream.parent / "checkpoint"
    learned(stream, checkpoint=checkpoint)
    again = watcher_of(stream, checkpoint=checkpoint)
    until(lambda: again.state.snapshot().ticks)
    assert [*again.state.snapshot().columns] == NAMES
    assert again.state.snapshot().ticks[-1].weights.sum() == pytest.approx(1.0)
    write(stream, rows_from(10, 1))
    until(partial(has_learned, again, 3010))


def test_an_error_while_pictures_are_made_is_told(
    stream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = watcher_of(stream, exit_at_end=False)
    until(partial(has_learned, found, 3000))
    monkeypatch.setattr(found.state, "tick", lambda *of: 1 / 0)
    write(stream, rows_from(10, 1))
    until(found.finished.is_set)
    found.close()
    assert found.error is not None
    assert "ZeroDivisionError" in found.error


def test_a_process_that_was_killed_continues_from_its_last_checkpoint(stream: Path) -> None:
    found = watcher_of(stream, checkpoint=Path("a.checkpoint"), checkpoint_every=1e-3)
    until(lambda: found.n_rows == 3000)
    until(Path("a.checkpoint").exists)
    found.pause(True)
    time.sleep(0.3)
    shutil.copy("a.checkpoint", "b.checkpoint")  # what a killed process leaves
    found.pause(False)
    write(stream, rows_from(1000, 1))
    again = learned(stream, checkpoint=Path("b.checkpoint"))
    assert equal(again.model.mixture.params_, learned(stream).model.mixture.params_)


def test_a_folder_continues_with_the_files_that_are_new(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    keep: dict[str, Any] = {
        "checkpoint": tmp_path / "a.checkpoint",
        "output": tmp_path / "a.mixfold",
    }
    for i in range(3):
        table = pa.table(dict(zip(NAMES, rows_from(400, i).T, strict=True)))
        pyarrow.parquet.write_table(table, folder / f"{i}.parquet")
        assert learned(folder, **keep).n_rows == 400 * (i + 1)
    assert learned(folder, **keep).n_rows == 1200


def test_checkpoints_of_other_streams_are_refused(stream: Path, tmp_path: Path) -> None:
    keep: dict[str, Any] = {"checkpoint": Path("rows.checkpoint")}
    learned(stream, **keep)
    with pytest.raises(ModelFileError, match=r"other settings: it had n_components=2, and now"):
        watcher_of(stream, Mixture(n_components=3, learner="online-em", random_state=0), **keep)
    other = tmp_path / "other.csv"
    other.write_text("a,b,c\n")
    with pytest.raises(ModelFileError, match=r"is the checkpoint of another source"):
        watcher_of(other, **keep)
    Mixture(n_components=2, checkpoint="fit.checkpoint").fit(rows_from(100))
    with pytest.raises(ModelFileError, match=r"is the checkpoint of a fit"):
        watcher_of(stream, checkpoint=Path("fit.checkpoint"))


# mistakes of the source


def test_rows_that_the_model_refuses_are_left_out_one_by_one(stream: Path) -> None:
    x = np.array([[1.0, 2.0, 3.0], [-1.0, 1.0, 1.0], [4.0, 1.0, 2.0]])
    stream.write_text("a,b,c\n" + "1,2,3\n4,5,6\n" * 100)
    write(stream, x)
    found = learned(stream, mixture=Mixture("poisson", 2, learner="online-em", random_state=0))
    facts = found.state.facts
    assert (facts.n_rows, facts.n_bad) == (202, 1)
    assert facts.last_bad.startswith(f"row 202 of {stream}: column 'a' is -1")
    assert found.error is None


def test_a_stream_with_other_columns_stops_and_the_model_is_saved(stream: Path) -> None:
    found = watcher_of(stream)
    until(lambda: found.n_rows == 3000)
    with stream.open("a") as file:
        file.write("1,2,3,4\n" * 200)
    until(found.finished.is_set)
    assert found.error is not None
    assert "has 4 cells: 3 are needed" in found.error
    assert found.state.facts.status == "stopped"
    assert mixfold.load("model.mixfold").estimator_.n_rows_ == 3000


def test_a_bad_row_stops_learning_on_request_after_those_before_it(stream: Path) -> None:
    with stream.open("a") as file:
        file.write("1,2,oops\n")
    found = learned(stream, on_bad_row="stop")
    assert found.error is not None
    assert "a row is bad" in found.error
    assert "column 'c' has 'oops'" in found.error
    assert found.n_rows == 3000


@pytest.mark.parametrize("where", ["file", "folder"])
@pytest.mark.parametrize("bad", ["1.0,warm,2.0", "1.0,1e80,2.0"])  # not a number, and too large
def test_rows_up_to_a_bad_one_are_learned_and_a_correction_is_read(
    tmp_path: Path, stream: Path, bad: str, where: str
) -> None:
    lines = stream.read_text().splitlines()
    broken = [*lines[:2500], bad, *lines[2501:]]  # the 2500th row
    stream.write_text("\n".join(broken) + "\n")
    source = stream
    if where == "folder":
        source = tmp_path / "folder"
        source.mkdir()
        stream = stream.rename(source / "rows.csv")
    options: dict[str, Any] = {"on_bad_row": "stop", "checkpoint": tmp_path / "checkpoint"}
    first = learned(source, **options)
    assert "a row is bad" in str(first.error)
    assert first.n_rows == 2499
    stream.write_text("\n".join(lines) + "\n")
    second = learned(source, **options)
    assert second.error is None
    assert second.n_rows == 3000


def test_a_model_and_a_stream_that_do_not_match_are_told(stream: Path) -> None:
    model = online().partial_fit(pa.table({"a": [1.0, 2.0, 3.0] * 9, "other": [1.0, 2.0, 5.0] * 9}))
    found = learned(stream, mixture=model)
    assert found.error is not None
    assert "has no column 'other'; its columns are a, b, c" in found.error


def test_a_stall_is_told_with_its_time(stream: Path) -> None:
    found = watcher_of(stream, stalled=0.1)
    with stream.open("a") as file:
        file.write("1,2")
    until(lambda: "No row has come since" in found.state.facts.words)
    assert "line 3,002" in found.state.facts.words


def test_what_cannot_be_saved_is_told_and_learning_goes_on(stream: Path, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    found = watcher_of(
        stream,
        output=Path("/dev/full"),
        checkpoint=folder / "a.checkpoint",
        checkpoint_every=0.05,
    )
    until(lambda: found.n_rows == 3000)
    shutil.rmtree(folder)
    until(lambda: "the checkpoint could not be written" in messages(found))
    found.save()
    until(lambda: "not saved" in found.state.facts.saved)
    assert "space" in found.state.facts.saved
    write(stream, rows_from(10))
    until(lambda: found.n_rows == 3010)
    assert messages(found).count("the checkpoint could not be written") == 1


def test_a_source_that_ends_says_so(stream: Path) -> None:
    found = watcher_of(GrowingIterable(iter([rows_from(300)])))
    until(found.finished.is_set)
    assert found.state.facts.status == "ended"
    assert found.error is None
    assert found.n_rows == 300


def test_an_iterable_is_learned_and_returned(
    stream: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = (dict(zip(NAMES, row, strict=True)) for row in rows_from(500).tolist())
    detector = watch(records, online(), exit_at_end=True)
    assert detector.estimator_.n_rows_ == 500
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")
    with pytest.raises(InvalidInputError, match=r"unknown on_bad_row 'ask'"):
        watch([], online(), on_bad_row="ask")


def test_an_iterable_with_a_bad_row_is_an_error_if_wanted(stream: Path) -> None:
    records = [dict(zip(NAMES, row, strict=True)) for row in rows_from(300).tolist()]
    broken = [*records[:250], {**records[250], NAMES[0]: "warm"}]
    with pytest.raises(SourceError, match="a row is bad"):
        watch(broken, online(), on_bad_row="stop", exit_at_end=True)


def test_families_are_chosen_from_the_first_rows(stream: Path) -> None:
    lines = ["kind,size\n", *(f"{'red' if i % 3 else 'blue'},{i % 7}\n" for i in range(500))]
    stream.write_text("".join(lines))
    found = learned(stream, mixture=Mixture("auto", 2, random_state=0))
    assert found.error is None
    assert found.n_rows == 500
    assert found.state.snapshot().columns == ["kind", "size"]
    assert found.state.snapshot().shown == (1,)


# alarms


def test_alarms_name_the_columns_that_made_them() -> None:
    model = WatchedDetector(detector_of(online(), 0.01))
    x = rows_from(4000)
    for first in range(0, 4000, 500):
        model.learn(pa.table(dict(zip(NAMES, x[first : first + 500].T, strict=True))), first)
    strange = x[:3].copy()
    strange[1, 1] = 25.0
    outcome = model.learn(pa.table(dict(zip(NAMES, strange.T, strict=True))), 4000)
    (alarm,) = outcome.alarms
    assert (alarm.row, outcome.n_alarms) == (4002, 1)
    assert alarm.log_density < alarm.threshold
    assert [(cell.column, cell.value) for cell in alarm.cells] == [("b", "25")]


def test_a_model_that_goes_on_is_scored_from_the_first_row_of_the_stream_on() -> None:
    x = rows_from(3000)
    strange = rows_from(600, 1)
    strange[580] = 30.0
    for given in (online().partial_fit(x), AnomalyDetector(online()).partial_fit(x)):
        outcome = WatchedDetector(detector_of(given)).learn(strange, 0)
        assert len(outcome.log_density) == 600
        assert 581 in [alarm.row for alarm in outcome.alarms]
        assert given.__sklearn_is_fitted__()


def test_only_the_worst_rows_of_a_batch_are_explained() -> None:
    model = WatchedDetector(detector_of(online(), 0.01))
    model.learn(rows_from(4096), 0)
    outcome = model.learn(rows_from(200, 1) + np.linspace(50.0, 4000.0, 200)[:, None], 4096)
    assert outcome.n_alarms == 200
    assert [alarm.row for alarm in outcome.alarms] == [*range(4277, 4297)]


def test_a_detector_is_given_with_its_own_rate() -> None:
    given = AnomalyDetector(online(), contamination=0.05)
    assert detector_of(given).rate_ == 0.05
    assert detector_of(AnomalyDetector()).rate_ == 0.01
    assert detector_of(online()).rate_ == 0.001
    with pytest.raises(InvalidInputError, match=r"false_alarm_rate is 0\.1, and the detector has"):
        detector_of(given, 0.1)
    with pytest.raises(InvalidInputError, match=r"mixture is a DriftAware"):
        detector_of(mixfold.DriftAware())


def test_a_checkpoint_continues_with_the_same_alarms(stream: Path) -> None:
    keep: dict[str, Any] = {"checkpoint": Path("rows.checkpoint"), "rate": 0.01}
    first = learned(stream, **keep)
    write(stream, rows_from(1000, 1))
    second, whole = learned(stream, **keep), learned(stream, rate=0.01)
    rows = [[alarm.row for alarm in one.state.snapshot().alarms] for one in (first, second, whole)]
    assert rows[0] + rows[1] == rows[2]
    assert min(map(len, rows)) > 0
    assert second.model.estimator.threshold_ == whole.model.estimator.threshold_
    with pytest.raises(ModelFileError, match=r"it had false_alarm_rate=0\.01, and now"):
        watcher_of(stream, checkpoint=Path("rows.checkpoint"))


# what pages are given


def test_components_keep_their_places() -> None:
    mixture = online().partial_fit(rows_from(500))
    view, order = view_of(mixture), StableOrder(2)
    first = order.order(view, np.ones(3))
    swapped = type(view)(view.weights[::-1], view.means[::-1], view.family, view.params)
    second = order.order(swapped, np.ones(3))
    assert first.tolist() == second[::-1].tolist()
    assert importance(view, np.ones(3)).argmax() == 0


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_ellipses_are_at_two_deviations(covariance: str) -> None:
    model = Mixture(mixfold.Gaussian(covariance), 2, random_state=0).partial_fit(rows_from(500))
    curves = ellipses(view_of(model), (2, 0))
    assert curves is not None
    marginal = model.marginal([2, 0])
    found = np.asarray(marginal.covariances_)
    matrices = {
        "full": found,
        "tied": np.stack([found, found]),
        "diag": np.eye(2) * found[:, None],
        "spherical": np.eye(2) * found.reshape(-1, 1, 1),
    }[covariance]
    for curve, mean, matrix in zip(curves, marginal.means_, matrices, strict=True):
        distance = np.einsum("ij,jk,ik->i", curve - mean, np.linalg.inv(matrix), curve - mean)
        np.testing.assert_allclose(distance, 4.0, rtol=1e-8)


def test_memory_does_not_grow_with_the_stream(tmp_path: Path) -> None:
    x = rows_from(1024)

    def blocks() -> Iterator[np.ndarray]:
        for _ in range(100):
            yield x

    options: dict[str, Any] = {
        "interval": 1e-3,
        "output": tmp_path / "a.mixfold",
        "exit_at_end": True,
    }
    tracemalloc.start()
    try:
        found, sizes = watcher_of(GrowingIterable(blocks()), rate=0.01, **options), []
        for n in (20_000, 100_000):
            until(partial(has_learned, found, n))
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    snapshot = found.state.snapshot()
    assert len(snapshot.alarms) == 100
    assert sizes[1] - sizes[0] < 2e6
