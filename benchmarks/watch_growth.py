"""Memory of `mixfold watch` during a million rows, an hour of simulated stream.

    python benchmarks/watch_growth.py [--rows 1000000] [--speed 40] [--browser]

Rows are appended to a CSV file, 278 in every simulated second, which is `speed` times shorter than
a real one; so are the ticks of the page and the time between checkpoints. So there are four times
as many ticks as the page keeps. With `--browser` a page is open in Chromium. The memory of this
process, and that of the objects of the page's scripts after garbage collection, at every tenth of
the rows.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from _tables import heading
from mixfold import Mixture
from mixfold.report.watch_options import WatchOptions
from mixfold.report.watching import detector_of, watched
from mixfold.sources.following import follow

RATE, EVERY, PARTS = 278, 30.0, 10
CENTERS = np.array([[0.0, 0.0, 20.0], [5.0, 0.0, 25.0], [1.0, 6.0, 21.0]])


def rows_from(n: int, rng: np.random.Generator, part: float) -> np.ndarray:
    """Rows of three components, one of which moves, and one row in 700 far from all."""
    label = rng.integers(3, size=n)
    x = CENTERS[label] + rng.normal(size=(n, 3))
    x[label == 1, 0] += 2.0 * np.sin(9.0 * part)
    far = rng.random(n) < 1 / 700
    x[far, rng.integers(3, size=int(far.sum()))] += 9.0
    return x


def megabytes() -> float:
    """The memory of this process that is in use."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


@contextmanager
def page_in_browser(address: str, wanted: bool) -> Iterator[Callable[[], float]]:
    """A page, and a function that gives the megabytes of the objects of its scripts."""
    if not wanted:
        yield lambda: float("nan")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page()
        page.goto(address)
        session = page.context.new_cdp_session(page)

        def used() -> float:
            session.send("HeapProfiler.collectGarbage")
            return float(session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6

        yield used
        browser.close()


def measure(learner: str, n: int, speed: float, browser: bool) -> list[str]:
    """The lines of a table about one learner."""
    rng, lines, done = np.random.default_rng(0), list[str](), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "rows.csv"
        path.write_text("a,b,c\n")
        mixture: Any = Mixture(n_components=3, learner=learner, random_state=0)
        options = WatchOptions(
            folder / "a.mixfold", folder / "a.checkpoint", EVERY / speed, interval=1.0 / speed
        )
        with (
            watched(follow(path), detector_of(mixture), options) as (watcher, address),
            page_in_browser(address, browser) as page,
            path.open("a") as file,
        ):
            began, processor = time.monotonic(), time.process_time()
            while done < n:
                np.savetxt(file, rows_from(RATE, rng, done / n), "%.4f", ",")
                file.flush()
                done += RATE
                time.sleep(max(0.0, began + done / RATE / speed - time.monotonic()))
                if done * PARTS // n > (done - RATE) * PARTS // n:
                    while watcher.n_rows < done:
                        time.sleep(0.01)
                    cells = [f"{done:,}", f"{megabytes():.1f}", f"{page():.1f}"]
                    cells += [f"{(time.process_time() - processor) / done * 1e6:.0f}"]
                    lines.append(f"| {learner} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--speed", type=float, default=40.0)
    parser.add_argument("--learners", default="auto,online-em,drift-aware")
    parser.add_argument("--browser", action="store_true")
    given = parser.parse_args()
    print(
        heading("learner", "rows", "process, MB", "page's objects, MB", "µs of processor per row")
    )
    for learner in given.learners.split(","):
        for line in measure(learner, given.rows, given.speed, given.browser):
            print(line, flush=True)


if __name__ == "__main__":
    main()
