"""A browser for all tests of pages, and pages in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from browser import Shown, launched, shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# of this folder alone, since Playwright's event loop would disturb tests of other folders
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with launched() as running:
        yield running


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., Shown]]:
    """A function that opens an address: `show(address, width=1280, dark=False, wait=...)`."""
    opened: list[Shown] = []

    def show(address: str, *given: Any, **named: Any) -> Shown:
        opened.append(shown(browser, address, *given, **named))
        return opened[-1]

    yield show
    for one in opened:
        one.page.context.close()
