"""What several tests of this folder begin with."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from command_line import Run, table
from mixfold.cli.main import main


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process, in an empty folder, in a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def rows(tmp_path: Path) -> str:
    pyarrow.parquet.write_table(table(600), tmp_path / "rows.parquet")
    return "rows.parquet"


@pytest.fixture
def model(run: Run, rows: str) -> str:
    code, _, err = run("fit", rows, "-k", "2", "--columns", "length,wait", "-o", "a.mixfold")
    assert (code, err) == (0, "")
    return "a.mixfold"
