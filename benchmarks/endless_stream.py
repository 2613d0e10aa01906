"""Memory and time of `learn_one` over a long stream.

    python benchmarks/endless_stream.py [LEARNER] [ROWS]

LEARNER is "auto" by default and ROWS ten million, of three Gaussians in four columns. Every
hundredth row is scored before it is learned. After every tenth of the rows come the processor time
of learning one of them, without that of drawing them, the resident memory and the size of the saved
model.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from _tables import heading
from mixfold import Mixture

BLOCK, PARTS, EVERY, MIB = 10_000, 10, 100, 2**20
PAGE = resource.getpagesize()


def learn(model: Mixture, rng: np.random.Generator, rows: int) -> float:
    """Seconds of processor time in which so many rows are learned."""
    seconds = 0.0
    for _ in range(rows // BLOCK):
        block = rng.normal(size=(BLOCK, 4)) + 4.0 * rng.integers(3, size=(BLOCK, 1))
        start = time.process_time()
        for i, row in enumerate(block):
            if i % EVERY == 0 and hasattr(model, "weights_"):
                model.score_one(row)
            model.learn_one(row)
        seconds += time.process_time() - start
    return seconds


def main() -> None:
    learner = sys.argv[1] if len(sys.argv) > 1 else "auto"
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
    model, rng = Mixture("gaussian", 3, learner=learner, random_state=0), np.random.default_rng(0)
    part = rows // PARTS
    print(heading(f"rows, {learner}", "learn_one, us", "resident, MiB", "model file, MiB"))
    for i in range(PARTS):
        micros = 1e6 * learn(model, rng, part) / part
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / MIB
        with tempfile.TemporaryDirectory() as folder:
            model.save(path := Path(folder) / "m")
            size = path.stat().st_size / MIB
        print(f"| {(i + 1) * part:,} | {micros:.2f} | {resident:.0f} | {size:.1f} |", flush=True)


if __name__ == "__main__":
    main()
