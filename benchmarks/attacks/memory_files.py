"""Memory files of incremental EM: used by two fits at once, damaged, or of something else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from attacks import Attack
from mixfold import FastIncrementalEM, IncrementalEM, Mixture
from mixfold.core.errors import MixfoldError
from mixfold.core.value import equal

PASSES = 4


def rows(seed: int = 0, n: int = 300) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + 5.0 * rng.integers(3, size=(n, 1))


def mixture(memory: Any, kind: Any = IncrementalEM, **more: Any) -> Mixture:
    learner = kind(batch_size=20, memory=memory, max_iter=PASSES)
    return Mixture(n_components=3, learner=learner, random_state=0, **more)


class At:
    """Does something once, in the middle of a fit, when so many rows have been seen."""

    def __init__(self, seen: int, act: Callable[[], None]) -> None:
        self.seen, self.act = seen, act
        self.acted = False

    def update(self, fit: Any, length: int | None) -> None:
        """Called after every block."""
        if fit.rows_seen >= self.seen and not self.acted:
            self.acted = True
            self.act()

    def close(self) -> None:
        """At the end."""


class Stopped(Exception):
    """Stands for a crash."""


def stop() -> None:
    raise Stopped


def during(memory: Path, kind: Any, act: Callable[[], None]) -> None:
    """A fit during which something is tried, and which must end as if nothing had been."""
    model = mixture(memory, kind)
    model.progress = At(2 * len(rows()), act)
    model.fit(rows())
    assert model.progress.acted
    assert equal(model.params_, mixture(None, kind).fit(rows()).params_), "the bits differ"


def why_unsupported(act: Callable[[], object]) -> str | None:
    """What an error of mixfold says, if there is one."""
    try:
        act()
    except MixfoldError as error:
        return str(error)
    return None


def is_refused(fit: Callable[[], object], files: list[Path]) -> None:
    """A fit must be refused and leave these files as they were."""
    before = [file.read_bytes() for file in files]
    message = why_unsupported(fit)
    assert message is not None, "it was accepted"
    assert any(str(file) in message for file in files), message
    assert [file.read_bytes() for file in files] == before, "a file was changed"


def two_fits_in_a_process(memory: Path, rng: np.random.Generator) -> None:
    kinds = [IncrementalEM, FastIncrementalEM]
    one, two = (kinds[i] for i in rng.integers(2, size=2))
    files = [Path(f"{memory}.{side}") for side in (0, 1)]
    during(memory, one, lambda: is_refused(lambda: mixture(memory, two).fit(rows(1)), files))


OTHER = """
import sys
import numpy as np
from mixfold import IncrementalEM, Mixture
try:
    Mixture(n_components=2, learner=IncrementalEM(memory=sys.argv[1])).fit(np.eye(9))
except ValueError as error:
    sys.exit(str(error))
"""


def two_processes(memory: Path, rng: np.random.Generator) -> None:
    def other() -> None:
        before = [Path(f"{memory}.{side}").read_bytes() for side in (0, 1)]
        command = [sys.executable, "-c", OTHER, str(memory)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        assert found.returncode == 1, "the other process was let in"
        assert f"{memory}.0 cannot be locked" in found.stderr, found.stderr
        assert before == [Path(f"{memory}.{side}").read_bytes() for side in (0, 1)]

    during(memory, IncrementalEM, other)


def a_file_of_something_else(memory: Path, rng: np.random.Generator) -> None:
    file = Path(f"{memory}.{rng.integers(2)}")
    file.write_bytes(rng.bytes(int(rng.integers(1, 5000))))
    is_refused(lambda: mixture(memory).fit(rows()), [file])


def _flipped(data: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(data)))
    return data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]


def _shortened(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: int(rng.integers(len(data)))]


def _zeroed(data: bytes, rng: np.random.Generator) -> bytes:
    start, stop = np.sort(rng.integers(len(data), size=2))
    return data[:start] + bytes(int(stop - start) + 1) + data[stop + 1 :]


def _garbage(data: bytes, rng: np.random.Generator) -> bytes:
    return rng.bytes(len(data))


DAMAGES = {"flipped": _flipped, "shortened": _shortened, "zeroed": _zeroed, "garbage": _garbage}


def a_damaged_file(memory: Path, rng: np.random.Generator) -> None:
    """A fit that was killed goes on to the same bits, or is refused; never to other bits."""
    kind = [IncrementalEM, FastIncrementalEM][rng.integers(2)]
    alone = mixture(None, kind).fit(rows())
    kept = {"checkpoint": f"{memory}.kept", "checkpoint_every": 0.0}
    model = mixture(memory, kind, **kept)
    model.progress = At(int(rng.integers(1, PASSES)) * len(rows()), stop)
    with suppress(Stopped):
        model.fit(rows())
    damage = str(rng.choice([*DAMAGES, "another fit", "nothing"]))
    if damage == "another fit":
        mixture(memory, kind).fit(rows(2))
    elif damage in DAMAGES:
        file = Path(f"{memory}.{rng.integers(2)}")
        file.write_bytes(DAMAGES[damage](file.read_bytes() or b"?", rng))
    again = mixture(memory, kind, resume=True, **kept)
    message = why_unsupported(lambda: again.fit(rows()))
    if message is None:
        assert equal(again.params_, alone.params_), f"{damage}: the bits differ"
    else:
        assert damage != "nothing", message
        assert str(memory) in message, message


KINDS = [two_fits_in_a_process, a_file_of_something_else, a_damaged_file, a_damaged_file]
RARE = two_processes  # which takes a new process


def attacks(rng: np.random.Generator, folder: Path) -> Iterator[Attack]:
    """All kinds in turn, each on a memory of its own."""
    for number in count():
        kind = RARE if number % 50 == 49 else KINDS[number % len(KINDS)]
        seed, memory = int(rng.integers(2**31)), folder / f"memory-{number}"

        def run(kind: Any = kind, seed: int = seed, memory: Path = memory) -> None:
            kind(memory, np.random.default_rng(seed))

        yield Attack(f"{kind.__name__} (seed {seed})", run)
