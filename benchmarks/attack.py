"""Attack mixfold for some minutes, and print a table of attacks tried and failed.

    python benchmarks/attack.py --minutes 10 --seed 0

Every kind runs in processes of its own, so that crashes and endless loops are counted.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue

import numpy as np

from attacks import attacks_of, kinds

PATIENCE = 120.0  # seconds after which an attack counts as endless
ROUND = 20.0  # seconds that a kind runs before it is another kind's turn


@dataclass
class Tally:
    """Attacks of one kind."""

    tried: int = 0
    failures: list[str] = field(default_factory=list)


def attack_here(kind: str, seed: int, seconds: float) -> None:
    """Run attacks in this process, and say on stdout what is tried and what came of it."""
    said = sys.stdout
    sys.stdout = sys.stderr  # what the attacked code prints is not ours
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        for name, run in attacks_of(kind)(np.random.default_rng(seed), Path(folder)):
            print(f"try {name!r}", file=said, flush=True)
            try:
                run()
            except Exception as error:
                last = traceback.format_exception_only(error)[-1].strip()
                print(f"failed {last!r}", file=said, flush=True)
            else:
                print("held", file=said, flush=True)
            if time.monotonic() > until:
                return


def attack_elsewhere(kind: str, seed: int, seconds: float, tally: Tally) -> None:
    """Run attacks of a kind in another process, and count them."""
    command = [sys.executable, __file__, "--kind", kind, "--seed", str(seed)]
    child = subprocess.Popen(
        [*command, "--seconds", str(seconds)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    lines: Queue[str | None] = Queue()
    threading.Thread(target=_forward, args=(child, lines), daemon=True).start()
    trying = "start of the process"
    while True:
        try:
            line = lines.get(timeout=PATIENCE)
        except Empty:
            child.kill()
            tally.failures.append(f"{trying}: no end after {PATIENCE:.0f} s (seed {seed})")
            break
        if line is None:
            break
        if line.startswith("try "):
            trying, tally.tried = line[4:], tally.tried + 1
        elif line.startswith("failed "):
            tally.failures.append(f"{trying}: {line[7:]} (seed {seed})")
    code = child.wait()
    if code < 0 and code != -signal.SIGKILL:
        tally.failures.append(f"{trying}: {signal.Signals(-code).name} (seed {seed})")
    elif code > 0:
        tally.failures.append(f"{trying}: the process ended with exit code {code} (seed {seed})")


def _forward(child: subprocess.Popen[str], lines: Queue[str | None]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        lines.put(line.rstrip("\n"))
    lines.put(None)


def attack(minutes: float, seed: int, chosen: list[str]) -> dict[str, Tally]:
    """Take turns among kinds until the time is over."""
    tallies = {kind: Tally() for kind in chosen}
    until, turn = time.monotonic() + 60.0 * minutes, 0
    while turn < len(chosen) or time.monotonic() < until:
        kind = chosen[turn % len(chosen)]
        seconds = min(ROUND, 60.0 * minutes / len(chosen))
        attack_elsewhere(kind, seed + turn, seconds, tallies[kind])
        turn += 1
    return tallies


def print_table(tallies: dict[str, Tally]) -> None:
    """One line per kind, then every failure."""
    print(f"| {'kind':<12} | {'tried':>8} | {'failed':>6} |")
    print(f"|{'-' * 14}|{'-' * 9}:|{'-' * 7}:|")
    for kind, tally in tallies.items():
        print(f"| {kind:<12} | {tally.tried:>8,} | {len(tally.failures):>6,} |")
    for kind, tally in tallies.items():
        for failure in tally.failures:
            print(f"{kind}: {failure}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=kinds(), help="attacks of one kind only")
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.seconds is not None:
        attack_here(given.kind, given.seed, given.seconds)
        return 0
    tallies = attack(given.minutes, given.seed, [given.kind] if given.kind else kinds())
    print_table(tallies)
    return 1 if any(tally.failures for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
