"""The code blocks of README and docs run as they are pasted, and give the outputs shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_blocks import reasons, run_page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REASONS = {"needs a GPU", "installs packages", "needs Java", "needs a cluster", "needs a server"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run_and_show_what_they_give(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    mismatches = run_page(page)
    assert not mismatches, "\n\n".join(map(str, mismatches))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_are_left_out_for_known_reasons_only(page: Path) -> None:
    assert set(reasons(page)) <= REASONS


def test_an_output_that_differs_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\n1 + 1\n```\n\n```text\n3\n```\n\n```sh\necho a\n```\n")
    (mismatch,) = run_page(page)
    assert (mismatch.shown, mismatch.found) == ("3\n", "2\n")
    run_page(page, write=True)
    assert run_page(page) == []
