"""Two processes that share a device: each makes a pass over its rows, and the models are merged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import mixfold
from gpu_rows import blobs
from mixfold import Mixture

ONE_PASS = """
import sys, warnings
import numpy as np
import mixfold

rows, start, out, engine = sys.argv[1:]
model = mixfold.load(start)
passed = mixfold.Mixture(n_components=3, learner="em", init=model, max_iter=1, engine=engine)
warnings.simplefilter("ignore")  # one pass does not converge
passed.fit(np.load(rows)).save(out)
"""


def test_passes_of_two_processes_are_those_of_one(device: str, tmp_path: Path) -> None:
    x = blobs().astype(np.float32)
    start = Mixture(n_components=3, learner="em", random_state=0).fit(x[:50])
    whole = Mixture(n_components=3, learner="em", init=start, max_iter=2).fit(x)
    start.save(tmp_path / "merged.mixfold")
    for i, part in enumerate(np.array_split(x, 2)):
        np.save(tmp_path / f"{i}.npy", part)
    for _ in range(2):
        started = [
            subprocess.Popen(
                [
                    *(sys.executable, "-c", ONE_PASS, f"{i}.npy"),
                    *("merged.mixfold", f"{i}.mixfold", f"torch:{device}"),
                ],
                cwd=tmp_path,
            )
            for i in range(2)
        ]
        assert [one.wait(120) for one in started] == [0, 0]
        merged = mixfold.merge([mixfold.load(tmp_path / f"{i}.mixfold") for i in range(2)])
        merged.save(tmp_path / "merged.mixfold")
    np.testing.assert_allclose(merged.means_, whole.means_, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(merged.weights_, whole.weights_, rtol=1e-5)
