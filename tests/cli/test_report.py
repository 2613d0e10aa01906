"""The command that writes a report."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow.parquet
import pytest

from command_line import SCRIPT, Run, table

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")


def test_report_is_a_page_about_model_and_rows(run: Run, rows: str, model: str) -> None:
    code, out, err = run("report", model, rows, "--title", "Geysers & <others>")
    assert (code, err) == (0, "")
    assert "saved in report.html" in out
    page = Path("report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>Geysers &amp; &lt;others&gt;</title>" in page
    assert "The data were rows.parquet." in page
    assert "600" in page
    assert run("report", model, rows)[0] == 0  # a page is replaced


@pytest.mark.parametrize("output", ["/dev/stdout", "-"])
def test_report_can_be_piped(run: Run, rows: str, model: str, output: str) -> None:
    done = subprocess.run(
        [SCRIPT, "report", model, rows, "-o", output], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"<!DOCTYPE html>")
    assert done.stdout.rstrip().endswith(b"</html>")
    assert b"saved in /dev/stdout" in done.stderr
    assert not Path("-").exists()


def test_mistakes_are_one_line_and_nothing_is_written(
    run: Run, rows: str, model: str, tmp_path: Path
) -> None:
    pyarrow.parquet.write_table(table(5).drop_columns(["wait"]), tmp_path / "narrow.parquet")
    pyarrow.parquet.write_table(table(0), tmp_path / "empty.parquet")
    (tmp_path / "notes.txt").write_text("not a page")
    before = sorted(tmp_path.iterdir())
    for arguments, words in (
        ((model, "narrow.parquet"), "has no column 'wait'"),
        ((model, "empty.parquet"), "no rows"),
        ((model, "nowhere.csv"), "there is no file 'nowhere.csv'"),
        ((model, rows, "-o", "folder/report.html"), "there is no folder"),
        ((model, rows, "-o", rows), "is both input and output"),
        ((model, rows, "-o", "notes.txt"), "is no page: choose another -o"),
        ((rows, rows), "not a mixfold file"),
    ):
        code, out, err = run("report", *arguments)
        assert (code, out) == (2, ""), arguments
        assert words in " ".join(err.split()), arguments
        assert err.count("mixfold:") == 1
    assert sorted(tmp_path.iterdir()) == before
    assert Path("notes.txt").read_text() == "not a page"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(run: Run, rows: str, model: str) -> None:
    code, _, err = run("report", model, rows, "-o", "/dev/full")
    assert (code, err.strip()) == (2, "mixfold: cannot write /dev/full: No space left on device")
