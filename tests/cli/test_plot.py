"""mixfold plot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from command_line import SCRIPT, Run

pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")


def colours_in(path: str) -> int:
    return len(np.unique(imread(path).reshape(-1, 4), axis=0))


def test_a_picture_of_a_model_and_of_rows(run: Run, rows: str, model: str) -> None:
    code, out, err = run("plot", model, "-o", "alone.png")
    assert (code, out, err) == (0, "saved in alone.png\n", "")
    assert run("plot", model, rows, "-o", "rows.png") == (0, "saved in rows.png\n", "")
    assert imread("alone.png").shape == imread("rows.png").shape == (720, 960, 4)
    assert colours_in("rows.png") > colours_in("alone.png") > 50
    assert run("plot", model, rows, "-o", "again.png")[0] == 0
    assert Path("again.png").read_bytes() == Path("rows.png").read_bytes()


@pytest.mark.parametrize(
    ("suffix", "beginning"), [(".svg", b"<?xml"), (".pdf", b"%PDF"), (".jpg", b"\xff\xd8")]
)
def test_the_suffix_gives_the_format(run: Run, model: str, suffix: str, beginning: bytes) -> None:
    for name in ("one", "other"):
        assert run("plot", model, "-o", f"{name}{suffix}") == (0, f"saved in {name}{suffix}\n", "")
    one, other = (Path(f"{name}{suffix}").read_bytes() for name in ("one", "other"))
    assert one.startswith(beginning)
    assert one == other


@pytest.mark.parametrize("kind", ["columns", "pairs", "history", "responsibilities"])
def test_kinds(run: Run, rows: str, model: str, kind: str) -> None:
    files = () if kind == "history" else (rows,)
    assert run("plot", model, *files, "-o", "a.svg", "--kind", kind) == (0, "saved in a.svg\n", "")
    text = Path("a.svg").read_text()
    assert {
        "columns": "<!-- wait -->",
        "pairs": "<!-- wait -->",
        "history": "<!-- passes -->",
        "responsibilities": "<!-- 600 rows, sorted by component -->",
    }[kind] in text


def test_columns_are_chosen(run: Run, rows: str, model: str) -> None:
    assert run("plot", model, rows, "-o", "a.svg", "--columns", "wait")[0] == 0
    text = Path("a.svg").read_text()
    assert "<!-- wait -->" in text
    assert "<!-- length -->" not in text
    assert "<!-- density -->" in text


MISTAKES = [
    (["-o", "a.doc"], "cannot write a.doc: the name must end in one of"),
    (["-o", "a.png", "--kind", "pie"], "unknown kind of picture 'pie'"),
    (["-o", "a.png", "--kind", "responsibilities"], "draws rows: give their FILES"),
    (["rows.parquet", "-o", "a.png", "--kind", "history"], "leave FILES out"),
    (["-o", "a.png", "--kind", "history", "--columns", "wait"], "draws no columns"),
    (["-o", "a.png", "--kind", "drift"], "which looks for no changes"),
    (["-o", "a.png", "--columns", "height"], "column 'height' is none of the model's"),
    (["-o", "a.png", "--shape", "2y"], "--shape is '2y': write HEIGHTxWIDTH"),
    (["-o", "a.png", "--shape", "3x3"], "rows have 2 columns"),
    (["-o", "rows.parquet"], "rows.parquet: the name must end in one of"),
    (["none.parquet", "-o", "a.png"], "none.parquet"),
]


def test_mistakes(run: Run, rows: str, model: str) -> None:
    for arguments, message in MISTAKES:
        code, _, err = run("plot", model, *arguments)
        assert code == 2
        assert message in err
        assert not Path("a.png").exists()


def test_an_existing_file_is_kept(run: Run, model: str) -> None:
    Path("a.png").write_text("precious")
    code, _, err = run("plot", model, "-o", "a.png")
    assert code == 2
    assert "a.png exists" in err
    assert Path("a.png").read_text() == "precious"
    assert run("plot", model, "-o", "a.png", "--force")[0] == 0
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")


def test_a_dash_is_a_png_on_standard_output(rows: str, model: str) -> None:
    done = subprocess.run(
        [SCRIPT, "plot", model, rows, "-o", "-"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"\x89PNG")
    assert b"saved in /dev/stdout" in done.stderr
    assert not Path("-").exists()
