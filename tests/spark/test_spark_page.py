"""The page on Spark, whose blocks run where there is Java."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_blocks import run_page

from spark_session import unclosed_threads

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
MARK = "<!-- not run: needs Java -->\n"


@pytest.mark.usefixtures("spark")
def test_blocks_run_and_show_what_they_give(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(MARK) > 5
    page = tmp_path / "spark.md"
    # Spark writes to the folder in which it was started
    text = text.replace(MARK, "").replace('"pipeline"', repr(str(tmp_path / "pipeline")))
    page.write_text(text, encoding="utf-8")
    with unclosed_threads():
        mismatches = run_page(page)
    assert not mismatches, "\n\n".join(map(str, mismatches))
