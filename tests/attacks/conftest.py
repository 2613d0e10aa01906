"""What several tests of this folder begin with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mixfold import Mixture
from mixfold.cli.main import main
from outputs import Run, X


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in a folder with in/a.csv, in/b.csv and m.mixfold."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for name, rows in (("a", X), ("b", X + 1.0)):
        np.savetxt(f"in/{name}.csv", rows, "%.6f", ",", header="u,v", comments="")
    Mixture(n_components=2, columns=["u", "v"], random_state=0).fit("in/a.csv").save("m.mixfold")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run
