"""The live page in a browser, of a command that runs as users run it."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mixfold
from browser import Shown
from command_line import SCRIPT
from mixfold import Mixture
from mixfold.report._live_page import LivePage
from mixfold.report._live_server import LiveServer
from mixfold.report._stream_watcher import StreamWatcher
from mixfold.report._watched_model import WatchedDetector
from mixfold.report.watch_options import WatchOptions
from mixfold.report.watching import detector_of
from mixfold.sources.growing_iterable import GrowingIterable

Show = Callable[..., Shown]
LIVE = "() => document.documentElement.dataset.live === 'yes'"
ROWS = "Number(document.querySelector('[data-fact=rows]').textContent.replaceAll(',', ''))"
LONG = "a rather long name of a column of numbers"
NASTY = "<script>document.title='taken'</script> $$x$$"


def rows_from(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 1.0]])
    return np.asarray(centers[rng.integers(2, size=n)] + rng.normal(size=(n, 3))).round(4)


def append(path: Path, x: np.ndarray) -> None:
    with path.open("a") as file:
        file.writelines(",".join(map(str, row)) + "\n" for row in x.tolist())


def start(folder: Path, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """The command in another process, and the address of its page."""
    # a child of a shell's background job would inherit that Ctrl-C is ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [SCRIPT, "watch", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    assert process.stdout is not None
    said = process.stdout.readline()
    found = re.fullmatch(r"the page is at (http://127\.0\.0\.1:\d+/[\w-]{32}/)\n", said)
    assert found is not None, said + process.communicate()[1]
    return process, found[1]


def stopped(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """What a process says on stderr when it has received a signal."""
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert out == ""
    assert "Traceback" not in err
    return err


def until(found: Shown, condition: str) -> None:
    """Wait for a condition; it is made a function, as the page forbids `eval`."""
    found.page.wait_for_function(f"() => {condition}", timeout=60_000.0)


def text_of(found: Shown, selector: str) -> str:
    return found.page.locator(selector).inner_text()


def test_a_command_is_watched_paused_saved_stopped_and_continued(
    show: Show, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("length,width,depth\n")
    append(path, rows_from(1500, 0))
    settings = ("rows.csv", "-k", "2", "--checkpoint", "a.checkpoint", "--false-alarm-rate", "0.01")
    process, address = start(tmp_path, *settings)
    found = show(address, wait=LIVE)
    page = found.page
    until(found, f"{ROWS} === 1500")

    append(path, rows_from(500, 1))  # live updates
    until(found, f"{ROWS} === 2000")
    strange = rows_from(3, 2)
    strange[1, 1] = 40.0
    append(path, strange)
    until(found, "document.querySelector('#alarms').textContent.includes('width = 40')")
    alarm = page.locator("#alarms tr", has_text="width = 40")
    assert alarm.locator("th").inner_text() == "2,002"

    page.keyboard.press("Tab")  # past the link to the content, to the buttons
    page.keyboard.press("Tab")
    assert found.focused() == "Pause learning"
    page.keyboard.press("Enter")
    until(found, "document.getElementById('status').dataset.status === 'paused'")
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"
    append(path, rows_from(400, 3))
    time.sleep(1.5)
    assert page.evaluate(ROWS) == 2003
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    until(found, "!document.getElementById('saved').hidden")
    # the strange row is not learned
    assert mixfold.load(tmp_path / "model.mixfold").estimator_.n_rows_ == 2002
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    until(found, f"{ROWS} === 2403")

    said = stopped(process, signal.SIGINT)
    assert "interrupted; the same command continues from a.checkpoint" in said
    until(found, "document.getElementById('status').dataset.status === 'gone'")
    assert mixfold.load(tmp_path / "model.mixfold").estimator_.n_rows_ == 2402

    append(path, rows_from(100, 4))
    process, address = start(tmp_path, *settings)
    found = show(address, wait=LIVE)
    until(found, f"{ROWS} === 2503")
    assert "continued from a.checkpoint, after 2,403 rows" in text_of(found, "#messages")
    with path.open("a") as file:  # other columns
        file.write("1,2\n" * 150)
    until(found, "document.getElementById('status').dataset.status === 'stopped'")
    assert "has 2 cells: 3 are needed" in text_of(found, "#status")
    assert found.page.locator("#pause").is_disabled()
    said = stopped(process, signal.SIGTERM)
    assert "mixfold: learning has stopped: the last 150 rows were bad" in said


class Watched:
    """A page in this process about items that are put into it."""

    def __init__(self, mixture: Any, items: list[Any], folder: Path) -> None:
        self.items, self.more = items, True
        model = WatchedDetector(detector_of(mixture, 0.01))
        options = WatchOptions(folder / "a.mixfold", interval=0.2)
        self.watcher = StreamWatcher(GrowingIterable(self._next()), model, options)
        self.server = LiveServer(self._show)
        self.watcher.start()
        self.server.start()

    def _next(self) -> Iterator[Any]:
        while self.more:
            while self.items:
                yield self.items.pop(0)
            time.sleep(0.02)

    def _show(self, document: Any) -> None:
        LivePage(self.watcher, document)

    def close(self) -> None:
        self.more = False
        self.watcher.close()
        self.server.close()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A stream of numbers and categories with names that look like code, and drift."""
    rng = np.random.default_rng(0)
    label = rng.integers(2, size=3000)
    table = pa.table(
        {
            NASTY: rng.normal(size=3000) + 4.0 * label,
            "kind": np.where(rng.random(3000) < 0.2 + 0.6 * label, "<b>one</b>", "$$two$$"),
            LONG: rng.normal(size=3000),
        }
    )
    mixture = Mixture("auto", 2, learner="drift-aware", random_state=0)
    parts = [table[first : first + 500] for first in range(0, 3000, 500)]
    found = Watched(mixture, parts, tmp_path_factory.mktemp("watched"))
    yield found
    found.close()


@pytest.mark.parametrize(("width", "dark"), [(375, True), (1280, False)])
def test_the_page_fits_the_window_and_draws_its_figures(
    show: Show, watched: Watched, width: int, dark: bool
) -> None:
    found = show(watched.server.url, width, dark=dark, wait=LIVE)
    until(found, f"{ROWS} >= 3000")
    until(found, "document.querySelectorAll('#alarms tr').length > 0")
    found.page.wait_for_timeout(500)
    assert found.width_beyond <= 0
    assert found.errors == []
    assert all(one.startswith(watched.server.url) for one in found.requests)
    painted = found.canvases(".drawing")
    assert sum(n > 500 for n in painted) >= found.page.locator("figure").count() == 6
    assert (found.background("body") < 60) == dark
    assert found.page.title().startswith("mixfold watch")
    assert NASTY in text_of(found, "#alarms")


def test_columns_can_be_chosen_and_browsers_come_and_go(show: Show, watched: Watched) -> None:
    first, second = (show(watched.server.url, wait=LIVE) for _ in range(2))
    for one in (first, second):
        until(one, f"{ROWS} >= 3000")
    menu = first.page.locator("select[data-choice=mean]")
    assert menu.locator("option").all_inner_texts() == [NASTY, LONG]
    menu.select_option(LONG)
    first.page.locator("select[data-choice=y]").select_option(LONG)
    label = "Bokeh.documents[0].get_model_by_name('pair').left[0].axis_label.text"
    until(first, f"{label} === '{LONG[:27]}…'")  # as much as there is room for on a phone
    second.page.close()
    row: dict[str, list[Any]] = {NASTY: [0.5], "kind": ["$$two$$"], LONG: [0.5]}
    watched.items.append(pa.table(row))
    until(first, f"{ROWS} === 3001")
    first.page.locator("#pause").click()
    until(first, "document.getElementById('pause').getAttribute('aria-pressed') === 'true'")
    assert watched.watcher.is_paused


# without a browser


def run(folder: Path, *arguments: str, given: str = "") -> tuple[int, str, str]:
    done = subprocess.run(
        [SCRIPT, "watch", *arguments],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_json_lines_of_standard_input_are_learned_to_their_end(tmp_path: Path) -> None:
    lines = "".join(f'{{"a": {a}, "b": {b}}}\n' for a, b, _ in rows_from(400, 0).tolist())
    code, out, err = run(tmp_path, "-", "-k", "2", "--exit-at-end", given=lines + "oops\n")
    assert code == 0, err
    assert out.startswith("the page is at http://127.0.0.1:")
    assert "'oops' is no JSON" in err
    assert "standard input has ended" in err
    assert mixfold.load(tmp_path / "model.mixfold").estimator_.n_rows_ == 400


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_model_that_cannot_be_saved_at_the_end_is_an_error(tmp_path: Path) -> None:
    append(tmp_path / "rows.csv", rows_from(300, 0))
    code, _, err = run(
        tmp_path, "rows.csv", "-k", "2", "--no-header", "--exit-at-end", "-o", "/dev/full"
    )
    assert code == 2
    assert "the model is not saved: cannot write /dev/full: No space left on device" in err


@pytest.mark.parametrize("source", ["rows.csv", "folder"])
def test_fewer_rows_than_tell_the_types_of_columns_are_learned_at_the_end(
    tmp_path: Path, source: str
) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("rows.csv", "folder/rows.csv"):
        lines = (f"{i % 7}.5,{'red' if i % 3 else 'blue'}\n" for i in range(90))
        (tmp_path / name).write_text("size,colour\n" + "".join(lines))
    code, _, err = run(tmp_path, source, "-k", "2", "--family", "auto", "--exit-at-end")
    assert code == 0, err
    assert mixfold.load(tmp_path / "model.mixfold").estimator_.n_rows_ == 90


def test_mistakes_are_told_before_anything_is_learned(tmp_path: Path, capsys: Any) -> None:
    from mixfold.cli.main import main

    path = tmp_path / "rows.csv"
    append(path, np.ones((3, 2)))
    taken = LiveServer(lambda document: None)
    try:
        for arguments, message in [
            (
                ["-k", "2", "--port", str(taken.port)],
                f"port {taken.port} of 127.0.0.1 cannot be used",
            ),
            ([], "give the number of components with -k, or a model with --model"),
            (["-k", "2", "--on-bad-row", "ask"], "unknown on_bad_row 'ask'"),
            (["-k", "2", "-o", str(path)], "exists and is not a model file"),
            (["-k", "2", "--false-alarm-rate", "2"], "rate is 2.0"),
        ]:
            output = [] if "-o" in arguments else ["-o", str(tmp_path / "a.mixfold")]
            assert main(["watch", str(path), *arguments, *output]) == 2
            assert message in capsys.readouterr().err
        assert main(["watch", str(tmp_path / "none.csv"), "-k", "2"]) == 2
        assert "there is no file or folder" in capsys.readouterr().err
    finally:
        taken.close()
