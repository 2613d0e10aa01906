"""Threads that read a model while others learn, several that learn, and interrupts.

What a thread reads must be the model after some row, and what is learned in the end must be the
same to the bit as without the other threads.
"""

from __future__ import annotations

import copy
import ctypes
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import mixfold
from attacks import Attack
from mixfold import AnnealedSGD, DriftAware, Gaussian, GaussianMixture, Mixture, OnlineEM
from mixfold.core.value import equal, field_names, is_value, replace

PATIENCE = 60.0  # seconds after which a thread counts as stuck


def gaussian(learner: Any, k: int = 3) -> Callable[[], Any]:
    """A function that makes a mixture of Gaussians."""
    return lambda: Mixture(Gaussian(), k, learner=learner, random_state=0, n_threads=1)


MODELS: dict[str, Callable[[], Any]] = {
    "rows in place": gaussian("online-em"),
    "draws in place": gaussian("online-k-mle"),
    "batches": gaussian(OnlineEM(batch_size=5)),
    "moment matching": gaussian("moment-matching"),
    "variational Bayes": gaussian("online-vb"),
    "drift, rows in place": gaussian(DriftAware(OnlineEM(), window=16)),
    "drift, batches": gaussian(DriftAware(OnlineEM(batch_size=3), window=10)),
    "annealed": lambda: Mixture(
        Gaussian("diag"), 4, learner=AnnealedSGD(cap=2.0), random_state=0, n_threads=1
    ),
    "exponential": lambda: Mixture("exponential", 3, learner="online-em", random_state=0),
    "scikit-learn": lambda: GaussianMixture(3, random_state=0, n_threads=1),
}


def clusters(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Positive rows around three centres."""
    centers = rng.uniform(1.0, 3.0, (3, d))
    return np.abs(centers[rng.integers(3, size=n)] + rng.normal(0.0, 0.3, (n, d)))


def begun(model: Any, rows: np.ndarray) -> Any:
    """The model once its stream has started."""
    return model.partial_fit(rows)


def learned(model: Any) -> list[Any]:
    """All that rows determine; which copies were made of a model shows in its snapshots alone.

    Fits to kept rows continue from an earlier read, so that they depend on reads too.
    """
    now = model._now()
    state, params = now.stream.state, now.params
    for name in ("fit", "recent"):
        if getattr(state, name, None) is not None:
            state, params = replace(state, **{name: None}), None
    return [now.stream.waiting, state, params, now.n_seen, now.n_rows]


def history_of(model: Any, rows: np.ndarray) -> list[list[Any]]:
    """What a model has learned after none, one, two ... of the rows."""
    found = [learned(model)]
    for row in rows:
        model.learn_one(row)
        found.append(learned(model))
    return found


def differences(a: Any, b: Any, path: str = "learned") -> list[str]:
    """Where two learned states are not the same, by name."""
    if equal(a, b):
        return []
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        pairs = [(f"{path}[{i}]", *pair) for i, pair in enumerate(zip(a, b, strict=True))]
    elif is_value(a) and type(a) is type(b):
        pairs = [(f"{path}.{n}", getattr(a, n), getattr(b, n)) for n in field_names(a)]
    else:
        return [f"{path}: {a!r} is not {b!r}"]
    return [found for name, one, other in pairs for found in differences(one, other, name)]


def check_same(found: list[Any], expected: list[Any], what: str) -> None:
    """Raise an error that says what differs."""
    if not equal(found, expected):
        raise AssertionError("\n".join([what, *differences(found, expected)]))


def through_a_file(model: Any, file: Path) -> Any:
    """A copy that was saved and loaded."""
    model.save(file)
    return mixfold.load(file)


class Reader:
    """Calls everything that only reads, in turn, and keeps the copies it was given."""

    def __init__(self, model: Any, rows: np.ndarray, file: Path, first: int) -> None:
        self.model, self.copies = model, list[Any]()
        calls: list[Callable[[], Any]] = [
            lambda: model.predict_proba(rows),
            lambda: self.copies.append(copy.deepcopy(model)),
            lambda: model.score(rows),
            lambda: (model.means_, model.weights_, model.n_seen_, model.params_),
            lambda: self.copies.append(pickle.loads(pickle.dumps(model))),
            lambda: (model.bic(rows), model.predict(rows), model.sample(3)),
            lambda: self.copies.append(through_a_file(model, file)),
            lambda: repr(model),
        ]
        self.calls = calls[first:] + calls[:first]

    def read(self, done: threading.Event) -> None:
        """Until the writer is done, and everything once at least."""
        while True:
            for call in self.calls:
                call()
                if done.is_set() and len(self.copies) > 2:
                    return


@contextmanager
def restless_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def together(*works: Callable[[], None]) -> None:
    """Run functions in threads; an error in one of them is an error here."""
    errors: list[BaseException] = []

    def kept(work: Callable[[], None]) -> None:
        try:
            ready.wait()
            work()
        except BaseException as error:
            errors.append(error)

    ready = threading.Barrier(len(works))
    threads = [threading.Thread(target=kept, args=(work,), daemon=True) for work in works]
    with restless_threads():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    if errors:
        raise AssertionError(f"a thread failed: {errors[0]!r}") from errors[0]
    assert not any(thread.is_alive() for thread in threads), "a thread is stuck"


def read_while_learning(
    make: Callable[[], Any], x: np.ndarray, folder: Path, readers: int = 3
) -> None:
    """Readers see the model after some row, and change nothing."""
    first, rows = x[:120], x[120:]
    known = history_of(begun(make(), first), rows)
    model, done = begun(make(), first), threading.Event()

    def write() -> None:
        try:
            for i, row in enumerate(rows):
                model.partial_fit(row[None]) if i % 7 == 6 else model.learn_one(row)
                time.sleep(0.0)  # another thread's turn
        finally:
            done.set()

    reading = [Reader(model, first[:20], folder / f"{i}.mixfold", i) for i in range(readers)]
    together(write, *(partial(reader.read, done) for reader in reading))
    check_same(learned(model), known[-1], "readers have changed what was learned")
    for reader in reading:
        for one in reader.copies:
            n = one._now().n_rows - len(first)
            check_same(learned(one), known[n], f"a copy is not the model after {n} rows")


def write_together(make: Callable[[], Any], x: np.ndarray, each: int, writers: int = 3) -> None:
    """No row is lost if several threads learn; the rows are alike, so their order is no matter."""
    model, expected = begun(make(), x), begun(make(), x)
    for _ in range(each * writers):
        expected.learn_one(x[0])

    def write(in_pairs: bool) -> None:
        if not in_pairs:
            for _ in range(each):
                model.learn_one(x[0])
            return
        for _ in range(each // 2):
            model.partial_fit(x[[0, 0]])

    together(*(partial(write, i % 3 == 2) for i in range(writers)))
    assert model.n_seen_ == expected.n_seen_, f"{model.n_seen_} rows of {expected.n_seen_}"
    check_same(learned(model), learned(expected), "the order of calls shows")


def fit_while_predicting(x: np.ndarray, readers: int = 2) -> None:
    """Readers see the old model until the new one is there, and failed fits not at all."""
    some = x[:20]
    model = Mixture(Gaussian("diag"), 2, random_state=0, n_threads=1, learner="em").fit(x)
    settings = [(k, Mixture(Gaussian("diag"), k, random_state=0, learner="em")) for k in (2, 3)]
    known = {k: other.fit(x).predict_proba(some) for k, other in settings}
    bad, done = x.copy(), threading.Event()
    bad[-1, 0] = -np.inf

    def fit() -> None:
        try:
            for k in (3, 2, 3):
                with suppress(ValueError):
                    model.fit(bad)
                model.set_params(n_components=k).fit(x)
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            found = model.predict_proba(some)
            assert np.array_equal(found, known[found.shape[1]]), "neither the old nor the new model"
            shown = copy.copy(model)
            assert len(shown.weights_) == len(shown.means_) == shown._now().model.k

    together(fit, *([read] * readers))
    assert np.array_equal(model.predict_proba(some), known[3])


def wait_for(signs: list[bool], thread: threading.Thread) -> None:
    """Wait until there is a sign from a thread, and remove it."""
    until = time.monotonic() + PATIENCE
    while not signs:
        assert thread.is_alive(), "an interrupt has ended the thread"
        assert time.monotonic() < until, "a lock is held for ever"
        time.sleep(0.0001)
    signs.clear()


def interrupt(thread: threading.Thread) -> None:
    """Raise KeyboardInterrupt in a thread, as Ctrl-C does in the main one."""
    raised = ctypes.py_object(KeyboardInterrupt)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), raised)


def interrupt_learning(make: Callable[[], Any], x: np.ndarray, pauses: np.ndarray) -> None:
    """After an interrupt a row is learned or it is not, and learning can go on."""
    first, rows = x[:120], x[120:]
    known = history_of(begun(make(), first), rows)
    model, wrong = begun(make(), first), list[str]()

    def go_on() -> None:
        done = model._now().n_rows - len(first)
        if not equal(learned(model), known[done]):
            wrong.append(f"not the model after {done} rows")
        for row in rows[done:]:
            model.learn_one(row)

    ready, over = list[bool](), list[bool]()  # an interrupt inside an Event would leave it locked

    def learn() -> None:
        while not over:
            try:
                ready.append(True)
                go_on()
                while not over:
                    time.sleep(0.001)
            except KeyboardInterrupt:
                continue

    thread = threading.Thread(target=learn, daemon=True)
    with restless_threads():
        thread.start()
        for pause in pauses:
            wait_for(ready, thread)  # no interrupt may come while another one is being caught
            thread.join(pause)
            interrupt(thread)
        wait_for(ready, thread)
        over.append(True)
        thread.join(PATIENCE)
    assert not thread.is_alive(), "a lock is held for ever"
    assert not wrong, wrong[0]
    go_on()
    check_same(learned(model), known[-1], "an interrupt has changed what was learned")


def attacks(rng: np.random.Generator, folder: Path) -> Iterator[Attack]:
    """All of these in turn, on models and rows at random."""
    while True:
        for name, make in MODELS.items():
            d = int(rng.choice([1, 2, 12]))
            x = clusters(rng, int(rng.integers(160, 260)), d)
            pauses = rng.uniform(0.0, rng.choice([0.0004, 0.004]), 30)
            each = int(rng.integers(10, 60)) * 2
            yield Attack(f"read {name}, {d=}", partial(read_while_learning, make, x, folder))
            yield Attack(f"write {name}, {d=}", partial(write_together, make, x, each))
            yield Attack(f"interrupt {name}, {d=}", partial(interrupt_learning, make, x, pauses))
        yield Attack("fit while predicting", partial(fit_while_predicting, x))
