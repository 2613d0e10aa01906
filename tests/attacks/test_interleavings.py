"""Another thread at the moments that matter, in the middle of a call."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attacks.concurrency import MODELS, begun, clusters, gaussian, learned
from mixfold import AnomalyDetector, DriftAware, Mixture, OnlineEM
from mixfold.core.value import equal
from mixfold.estimators._row_stream import CompiledRowStream, DriftRowStream, RowStream, Settled

X = clusters(np.random.default_rng(0), 400, 2)
PAUSE = 0.02  # seconds after which another thread is taken to wait for the end of the call


def meanwhile(work: Callable[[], Any]) -> threading.Thread:
    """A thread that has done the work, or waits for the end of this call."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PAUSE)
    return thread


def online() -> Any:
    return begun(MODELS["rows in place"](), X[:120])


def test_a_row_learned_while_a_read_replaces_fits_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within windows and at their ends."""
    make, more, threads = gaussian(DriftAware(OnlineEM(), window=5)), list(X[120:140]), list[Any]()
    model, plain = begun(make(), X[:120]), begun(make(), X[:120])
    replace_fits = DriftRowStream._continue_from

    def replace_slowly(live: DriftRowStream, settled: Settled) -> None:
        threads.append(meanwhile(lambda: model.learn_one(more.pop(0))))
        replace_fits(live, settled)

    monkeypatch.setattr(DriftRowStream, "_continue_from", replace_slowly)
    while more:
        model.learn_one(more.pop(0))
        model._now()
        threads[-1].join()
    monkeypatch.undo()
    for row in X[120:140]:
        plain.learn_one(row)
    assert len(threads) == 10
    assert equal(learned(model), learned(plain))


def test_a_row_is_learned_while_another_thread_reads_the_first_time() -> None:
    model, threads = online(), list[threading.Thread]()

    class Shown(tuple[str, ...]):
        """Names of attributes; whoever looks for one lets another thread evaluate a row."""

        def __contains__(self, name: object) -> bool:
            if name == "family" and not threads:
                threads.append(threading.Thread(target=model.score_one, args=(X[0],)))
                threads[0].start()
                threads[0].join()
            return super().__contains__(name)

    model._shows = Shown(model._shows)
    model.learn_one(X[120])
    assert len(threads) == 1
    assert model._now().n_rows == 121


def test_rows_that_are_learned_during_a_read_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So numbers of rows are those of the parameters."""
    model, more = online(), [X[121]]
    model.learn_one(X[120])
    known, count = model._now(), vars(CompiledRowStream)["done"].fget

    def learn_after_counting(live: RowStream) -> Any:
        found = count(live)
        if more:
            model._live.learn(more.pop())
        return found

    monkeypatch.setattr(CompiledRowStream, "done", property(learn_after_counting))
    found = model._live.current()
    assert not more
    assert found is None or (found.n_rows, found.n_seen) == (known.n_rows, known.n_seen)


def test_a_thread_reads_the_parameters_after_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though another one stores those before it at the same moment."""
    model = online()
    model.learn_one(X[120])
    earlier = model._live.params()
    model.learn_one(X[121])

    class Overwritten:
        """What is stored is replaced at once."""

        def __get__(self, live: Any, kind: Any) -> tuple[int, Any]:
            return 1, earlier

        def __set__(self, live: Any, stored: Any) -> None:
            pass

    monkeypatch.setattr(CompiledRowStream, "_last", Overwritten(), raising=False)
    found = model._live.params()
    monkeypatch.undo()
    assert equal(found, model._now().params)


def test_a_copy_of_a_detector_has_whole_rows() -> None:
    """Its mixture and its threshold have learned the same rows."""
    detector, threads = AnomalyDetector(online(), false_alarm_rate=0.01).fit(X), list[Any]()
    copies = list[Any]()
    mixture = detector.estimator_
    learn = mixture.learn_one

    def learn_slowly(x: Any) -> Mixture:
        learn(x)
        threads.append(meanwhile(lambda: copies.append(copy.deepcopy(detector))))
        threads.append(meanwhile(lambda: copies.append(detector._now())))
        return mixture

    mixture.__dict__["learn_one"] = learn_slowly
    detector.learn_one(X[0])
    for thread in threads:
        thread.join()
    states = [one if not isinstance(one, AnomalyDetector) else one._now() for one in copies]
    assert [one.stream.n_rows for one in states] == [1, 1]
    assert [one.mixture.learned.n_rows for one in states] == [401, 401]
