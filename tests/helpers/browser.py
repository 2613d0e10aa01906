"""Pages in a headless Chromium.

The fixtures of `tests/report/conftest.py` use it. Where there is no Chromium, tests that ask for
`browser` or `show` are skipped, and the last line of the test run says so.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

UNTESTED = "pages were not tested in a browser"
NAMES = ("chromium", "chromium-browser", "/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
)
SECONDS = 20_000.0  # milliseconds
DRAWN = "() => document.documentElement.dataset.drawn === 'yes'"


@dataclass
class Shown:
    """A page, the errors in its console, and the addresses that it has asked for."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def width_beyond(self) -> int:
        """How far the page reaches beyond the right end of the window."""
        root = "document.documentElement"
        beyond: int = self.page.evaluate(f"{root}.scrollWidth - {root}.clientWidth")
        return beyond

    def background(self, selector: str) -> int:
        """The brightness of the background of an element, from 0 to 255."""
        code = (
            "(s) => getComputedStyle(document.querySelector(s)).backgroundColor.match(/\\d+/g)"
            ".slice(0, 3).reduce((sum, one) => sum + Number(one), 0) / 3"
        )
        found: float = self.page.evaluate(code, selector)
        return round(found)

    def canvases(self, selector: str) -> list[int]:
        """How many pixels are drawn in each canvas below an element, shadow trees included."""
        found: list[int] = self.page.evaluate(PAINTED, selector)
        return found

    def focused(self) -> str:
        """The element that has the focus, in the innermost shadow tree: name or text."""
        found: str = self.page.evaluate(FOCUSED)
        return found


PAINTED = """(selector) => {
  const found = [];
  const visit = (root) => {
    for (const one of root.querySelectorAll("*")) {
      if (one.tagName === "CANVAS" && one.width && one.height) {
        const cells = one.getContext("2d").getImageData(0, 0, one.width, one.height).data;
        let painted = 0;
        for (let i = 3; i < cells.length; i += 4) painted += cells[i] > 0;
        found.push(painted);
      }
      if (one.shadowRoot) visit(one.shadowRoot);
    }
  };
  document.querySelectorAll(selector).forEach(visit);
  return found;
}"""
FOCUSED = """() => {
  let one = document.activeElement;
  while (one && one.shadowRoot && one.shadowRoot.activeElement) one = one.shadowRoot.activeElement;
  return one ? one.getAttribute("aria-label") || one.textContent.trim().slice(0, 60) : "";
}"""


def chromium() -> str | None:
    """The path of Chromium, if there is one."""
    return next((found for found in map(shutil.which, NAMES) if found), None)


@contextmanager
def launched() -> Iterator[Browser]:
    """A running browser; the test is skipped where there is none."""
    path = chromium()
    if path is None:
        pytest.skip(f"{UNTESTED}: there is no chromium on the PATH")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield running
        finally:
            running.close()


def shown(
    browser: Browser, address: str, width: int = 1280, *, dark: bool = False, wait: str = DRAWN
) -> Shown:
    """A page in a window of this width, when the function `wait` of its script returns true."""
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light"
    )
    found = Shown(context.new_page())
    found.page.on("console", lambda one: found.errors.append(one.text) if _bad(one) else None)
    found.page.on("pageerror", lambda one: found.errors.append(str(one)))
    found.page.on("request", lambda one: found.requests.append(one.url))
    found.page.goto(address)
    found.page.wait_for_function(wait, timeout=SECONDS)
    return found


def _bad(message: Any) -> bool:
    return message.type in ("error", "warning")
