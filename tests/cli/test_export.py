"""mixfold export."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow.parquet

from command_line import Run
from mixfold import load


def test_an_exported_model_gives_what_the_model_gives(run: Run, rows: str, model: str) -> None:
    code, out, err = run("export", model, "-o", "a.onnx")
    assert (code, out, err) == (0, "saved in a.onnx: inputs X\n", "")
    table = pyarrow.parquet.read_table(rows, columns=["length", "wait"])
    x = np.column_stack([column.to_numpy() for column in table.columns])
    session = onnxruntime.InferenceSession("a.onnx")
    label, _, score = session.run(None, {"X": x.astype(np.float32)})
    known = load(model)
    np.testing.assert_array_equal(label, known.predict(rows))
    np.testing.assert_allclose(score, known.score_samples(rows), rtol=1e-5)


def test_results_in_float64(run: Run, model: str) -> None:
    assert run("export", model, "-o", "a.onnx", "--dtype", "float64")[0] == 0
    session = onnxruntime.InferenceSession("a.onnx")
    assert session.get_inputs()[0].type == session.get_outputs()[1].type == "tensor(double)"


def test_mistakes(run: Run, model: str) -> None:
    code, _, err = run("export", model, "-o", "a.onnx", "--dtype", "float16")
    assert (code, Path("a.onnx").exists()) == (2, False)
    assert err.startswith("mixfold: unknown dtype 'float16'. Did you mean 'float64'?")
    Path("a.onnx").write_text("other")
    code, _, err = run("export", model, "-o", "a.onnx")
    assert (code, "a.onnx exists" in err) == (2, True)
    assert run("export", model, "-o", "a.onnx", "--force")[0] == 0
    assert run("export", model, "-o", model, "--force")[0] == 2
