"""Known labels on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv

import mixfold
from command_line import Run


def test_a_column_of_labels(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 200)
    x = np.array([[0.0, 0.0], [4.0, 4.0]])[1 - z] + rng.normal(size=(200, 2))
    kinds = [["new", "old"][one] if i % 5 == 0 else None for i, one in enumerate(z)]
    columns = {"u": x[:, 0], "kind": kinds, "v": x[:, 1], "w": np.ones(200)}
    pyarrow.csv.write_csv(pyarrow.table(columns), tmp_path / "rows.csv")
    code, out, err = run("fit", "rows.csv", "-k", "2", "--labels", "kind", "--weights", "w")
    assert (code, err) == (0, "")
    assert "kind" not in out
    table = [line.split()[:3] for line in out.splitlines() if line.split()[:1] in (["0"], ["1"])]
    assert [line[1] for line in table] == ["new", "old"]
    model = mixfold.load("model.mixfold")
    assert list(model.classes_) == ["new", "old"]
    assert list(model.feature_names_in_) == ["u", "v"]
    np.testing.assert_allclose(model.means_, [[4.0, 4.0], [0.0, 0.0]], atol=0.4)
    code, out, _ = run("fit", "rows.csv", "-k", "3", "--labels", "kind", "--columns", "u,v")
    assert code == 0
    table = [line.split()[:2] for line in out.splitlines() if line.split()[:1] == ["2"]]
    assert table == [["2", "-"]]  # a component that no label names
    code, out, _ = run("inspect", "model.mixfold", "--json")
    assert [one["class"] for one in json.loads(out)["components"]] == ["new", "old", None]
    code, _, err = run("fit", "rows.csv", "-k", "2", "--labels", "colour", "--force")
    assert code == 2
    assert "no column 'colour'" in err
