"""The thread that learns a stream."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from threading import Event, Thread
from typing import Any

from mixfold.core.errors import MixfoldError, OutputError, SourceError
from mixfold.core.growing_source import (
    REFUSED,
    Arrived,
    BadRow,
    GrowingPosition,
    GrowingSource,
    in_good_parts,
)
from mixfold.core.places import row_place
from mixfold.report._watch_checkpoint import (
    StreamCounts,
    WatchCheckpoint,
    read_checkpoint,
    restored_model,
    saved_model,
    settings_of,
    write_checkpoint,
)
from mixfold.report._watch_state import WatchState
from mixfold.report._watched_model import WatchedModel
from mixfold.report.watch_options import WatchOptions

BATCH = 1024  # rows that are learned at once
SHORT = 2.0  # seconds without rows of which nothing is said
IDLE = 0.1  # seconds between looks for new rows
MOST_BAD = 100  # bad rows in a row after which learning stops: the source must have changed


class StreamWatcher:
    """Learns the rows of a source in a thread, until `close` is called.

    Rows wait in the source while learning is paused. After an error that concerns the source as a
    whole, and at its end, the thread learns no more, but still saves when it is asked to.
    """

    def __init__(self, source: GrowingSource, model: WatchedModel, options: WatchOptions) -> None:
        self.source, self.model, self.options = source, model, options
        self.state = WatchState(model.mixture.n_components, options.interval)
        self.finished = Event()  # the source has ended, or learning has stopped
        self.error: str | None = None
        self._settings = settings_of(model.estimator)
        self._paused, self._closing, self._wake = Event(), Event(), Event()
        self._save_wanted = Event()
        self._bad_in_a_row = self._n_bad = 0
        self._most = BATCH
        self._saved_rows: int | None = None
        self._last_checkpoint = self._last_tick = time.monotonic()
        self._last_arrival = time.time()
        self._said: set[str] = set()
        self._thread = Thread(target=self._run, name="mixfold-watch", daemon=True)
        self._continue()

    # for other threads

    def start(self) -> None:
        """Begin to learn."""
        self._thread.start()

    def pause(self, paused: bool) -> None:
        """Stop learning for a while, or continue."""
        (self._paused.set if paused else self._paused.clear)()
        self._wake.set()

    @property
    def is_paused(self) -> bool:
        """Whether learning is paused."""
        return self._paused.is_set()

    def save(self) -> None:
        """Ask for the model to be saved."""
        self._save_wanted.set()
        self._wake.set()

    def close(self) -> None:
        """Stop learning, and save."""
        self._closing.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
            if self._saved_rows != self.n_rows:
                self.error = self.error or self._save_model()
            self._save_checkpoint()
        self.source.close()

    @property
    def n_rows(self) -> int:
        """Rows learned, those before the checkpoint included."""
        return self.state.facts.n_rows

    # in the thread

    def _continue(self) -> None:
        """Continue from the checkpoint, if there is one."""
        path = self.options.checkpoint
        found = None if path is None else read_checkpoint(path, self.source.name, self._settings)
        if found is None or path is None:
            return
        if found.model is not None:
            self.model.estimator = restored_model(path, found.model)
        self.source.seek(found.position)
        counts = found.counts
        self._n_bad, self._saved_rows = counts.bad, counts.learned
        self.state.set(
            n_rows=counts.learned,
            n_scored=counts.scored,
            n_alarms=counts.alarms,
            n_bad=counts.bad,
        )
        self._tell(f"continued from {path}, after {counts.learned:,} rows")
        if not self.source.has_positions:
            self._tell(f"{self.source.name} has no positions: rows that come now are learned")

    def _run(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *rest: self._warn(str(message))
            while not self._closing.is_set():
                worked = self._work()
                try:
                    self._save_and_measure(time.monotonic())
                except Exception as error:  # told on the page, and no silent end of the thread
                    self._stop(error)
                    return
                if not worked:
                    self._wake.wait(IDLE)
                    self._wake.clear()

    def _work(self) -> bool:
        """Learn a batch; false if there is nothing to do."""
        if self.finished.is_set():
            return False
        if self._paused.is_set():
            self.state.set(status="paused", words="Paused: rows wait in the source.")
            return False
        try:
            if self._learn_next():
                return True
            self._wait()
        except Exception as error:  # of the source or the model; the page stays up and tells it
            self._stop(error)
        return False

    def _learn_next(self) -> bool:
        """Learn the rows that have arrived; false if there are none."""
        stops = self.options.on_bad_row == "stop" and self.source.has_positions
        before = self.source.position if stops else None
        arrived = self.source.poll(self._most)
        if arrived is None:
            return False
        self._show_arrival(arrived)
        if before is None:
            self._learn(arrived)
        else:
            self._learn_before_bad_row(arrived, before)
        return True

    def _show_arrival(self, arrived: Arrived) -> None:
        for notice in arrived.notices:
            self._tell(notice)
        if arrived.n:
            self._last_arrival = time.time()
            self.state.set(status="learning", words="Learning.")

    def _learn_before_bad_row(self, arrived: Arrived, before: GrowingPosition) -> None:
        """Learn rows if all are good; if not, they are read again one by one, up to the bad one."""
        bad = list(arrived.bad)
        if arrived.n and not bad:
            try:
                self._learn_part(arrived.rows)
            except REFUSED as error:
                bad = [self._refused(self.n_rows + 1, error)]
        if bad:
            self.source.seek(before)
            if self._most == 1:
                self._count_bad(bad)
            self._most = 1

    def _refused(self, number: int, error: Exception) -> BadRow:
        reason = str(error).removeprefix(f"{row_place(0)}, ")  # the row was learned by itself
        return BadRow(f"row {number:,} of {self.source.name}", reason)

    def _learn(self, arrived: Arrived) -> None:
        bad = list(arrived.bad)
        if arrived.n:
            before = self.state.facts.n_rows
            refused = [
                self._refused(before + i + 1, error)
                for i, error in in_good_parts(arrived.rows, self._learn_part)
            ]
            bad += refused
            if len(refused) < arrived.n:
                self._bad_in_a_row = -len(bad)  # they do not count, as others were good
        if bad:
            self._count_bad(bad)

    def _learn_part(self, rows: Any) -> None:
        self.state.add(self.model.learn(rows, self.n_rows), rows)

    def _count_bad(self, bad: Sequence[BadRow]) -> None:
        self._n_bad += len(bad)
        self._bad_in_a_row += len(bad)
        words = f"{bad[-1].place}: {bad[-1].reason}"
        self.state.set(n_bad=self._n_bad, last_bad=words)
        if self.options.on_bad_row == "stop":
            raise SourceError(
                f"a row is bad, {bad[0].place}: {bad[0].reason}; correct it, or leave out such "
                "rows with on_bad_row='skip' (--on-bad-row skip)"
            )
        if self._n_bad == len(bad):
            self._tell(f"a row is left out, {bad[0].place}: {bad[0].reason}")
        if self._bad_in_a_row >= MOST_BAD:
            raise SourceError(
                f"the last {self._bad_in_a_row:,} rows were bad, so the columns of the source seem "
                f"to be others than those of the model; the last one is {words}; choose columns "
                "with columns=[...] (--columns), or correct the source"
            )

    def _wait(self) -> None:
        """Nothing has arrived: say since when, or that it is the end."""
        waiting = self.source.waiting()
        if self.source.ended or (self.options.exit_at_end and self.source.has_positions):
            if self.source.read_rest():
                return
            if waiting is not None:
                self._tell(waiting)
            self.state.set(status="ended", words="The source has ended.")
            self._tell(f"{self.source.name} has ended")
            self.finished.set()
            return
        if time.time() - self._last_arrival < SHORT and waiting is None:
            return
        since = time.strftime("%H:%M:%S", time.localtime(self._last_arrival))
        words = f"No row has come since {since}." if self._is_stalled() else "Waiting for rows."
        words += "" if waiting is None else f" So far {waiting}."
        self.state.set(status="waiting", words=words)

    def _is_stalled(self) -> bool:
        return time.time() - self._last_arrival >= self.options.stalled

    def _stop(self, error: Exception) -> None:
        if isinstance(error, MixfoldError | OSError):
            self.error = str(error)
        else:
            self.error = f"{type(error).__name__}: {error}"
        self.state.set(status="stopped", words=f"Learning has stopped: {self.error}")
        self._tell(f"learning has stopped: {self.error}")
        self._save_model()
        self.finished.set()

    def _save_and_measure(self, now: float) -> None:
        """Save and measure, if it is time."""
        if self._save_wanted.is_set():
            self._save_wanted.clear()
            self._save_model()
        if now - self._last_checkpoint >= self.options.checkpoint_every:
            self._save_checkpoint()
        if now - self._last_tick >= self.options.interval and not self._is_at_rest():
            mixture = self.model.mixture
            self.state.tick(mixture if mixture.__sklearn_is_fitted__() else None, time.time())
            self.state.set(threshold_words=self.model.threshold_words)
            self._last_tick = now

    def _is_at_rest(self) -> bool:
        """Whether pictures stay as they are: learning is paused or over, and its end was shown."""
        at_rest = self._paused.is_set() or self.finished.is_set()
        shown = self.state.is_up_to_date()
        return at_rest and shown

    def _save_model(self) -> str | None:
        """Save the model, and tell it; the reason if it cannot be saved."""
        path = self.options.output
        model = self.model.estimator
        if not model.__sklearn_is_fitted__():
            self._tell("nothing was learned yet, so there is nothing to save")
            return None
        try:
            model.save(path)
        except (MixfoldError, OSError) as error:
            words = f"the model is not saved: {error}"
            self._tell(words)
            self.state.set(saved=f"not saved: {error}")
            return words
        self._saved_rows = self.n_rows
        words = f"saved in {path} after {self.n_rows:,} rows"
        self.state.set(saved=f"{words}, {time.strftime('%H:%M:%S')}")
        self._tell(f"the model is {words}")
        return None

    def _save_checkpoint(self) -> None:
        self._last_checkpoint = time.monotonic()
        if self.options.checkpoint is None:
            return
        try:
            write_checkpoint(self.options.checkpoint, self._checkpoint())
        except OutputError as error:
            self._warn(f"the checkpoint could not be written, and learning continues: {error}")

    def _checkpoint(self) -> WatchCheckpoint:
        facts = self.state.facts
        return WatchCheckpoint(
            self.source.name,
            self._settings,
            saved_model(self.model.estimator),
            self.source.position,
            StreamCounts(facts.n_rows, facts.n_scored, facts.n_alarms, facts.n_bad),
        )

    def _tell(self, message: str) -> None:
        self.state.tell(message)
        if self.options.tell is not None:
            self.options.tell(message)

    def _warn(self, message: str) -> None:
        """Tell a warning, once for each reason."""
        if message not in self._said and len(self._said) < 1000:
            self._said.add(message)
            self._tell(message)
