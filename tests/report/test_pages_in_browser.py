"""The report in a browser: layout, colours, keyboard, menus, and nothing from the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from browser import DRAWN, Shown, shown
from mixfold import AutoMixture, Mixture, datasets
from mixfold.report import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NASTY = "<script>document.title='taken'</script> $$x$$"
Show = Callable[..., Shown]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report about numbers, counts and categories with holes and names that look like code."""
    rng, n = np.random.default_rng(0), 400
    label = rng.integers(2, size=n)
    table = pd.DataFrame(
        {
            NASTY: rng.normal(size=n) + 4.0 * label,
            "a rather long name of a column of numbers": rng.normal(size=n) - label,
            "visits": rng.poisson(2.0 + 6.0 * label),
            "wages": np.exp(rng.normal(size=n) + 2.0 * label),
            "kind": np.where(rng.random(n) < 0.2 + 0.6 * label, "<b>one</b>", "$$two$$"),
        }
    )
    table.loc[::7, "wages"] = np.nan
    model = Mixture("auto", 2, random_state=0).fit(table)
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(model, table, path, title=f"Report of {NASTY}")
    return path.as_uri()


@pytest.fixture(scope="module")
def found(browser: Browser, page: str) -> Iterator[Shown]:
    """The page in a wide and light window, for all tests that leave it as it is."""
    opened = shown(browser, page)
    yield opened
    opened.page.context.close()


@pytest.mark.parametrize(("width", "dark"), [(375, False), (375, True), (1280, True)])
def test_the_page_fits_the_window_and_draws_its_figures(
    show: Show, page: str, width: int, dark: bool
) -> None:
    check_drawn(show(page, width, dark=dark), page, dark)


def test_the_page_fits_a_wide_window(found: Shown, page: str) -> None:
    check_drawn(found, page, False)


def check_drawn(found: Shown, page: str, dark: bool) -> None:
    assert found.width_beyond <= 0
    assert found.errors == []
    assert found.requests == [page]
    painted = found.canvases(".drawing")
    figures = found.page.locator("figure").count()
    assert len(painted) >= figures >= 8
    assert sum(n > 500 for n in painted) >= figures
    assert (found.background("body") < 60) == dark
    assert (found.background("section") < 60) == dark


def test_figures_follow_the_colours_of_the_page(found: Shown) -> None:
    colour = "Array.from(Bokeh.documents[0].all_models).find(m => m.type === 'LinearAxis')"
    light = found.page.evaluate(f"{colour}.axis_label_text_color")
    for scheme, equal in (("dark", "!=="), ("light", "===")):
        found.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found.page.wait_for_function(f"() => {colour}.axis_label_text_color {equal} '{light}'")
    assert found.errors == []


def test_texts_of_data_are_texts(found: Shown) -> None:
    assert found.page.title() == f"Report of {NASTY}"
    assert NASTY in found.page.locator("h1").inner_text()
    assert found.page.locator("main b").count() == 0
    assert "<b>one</b>" in found.page.locator("#rows").inner_text()


def test_everything_is_reached_by_the_keyboard(found: Shown) -> None:
    found.page.reload()
    found.page.wait_for_function(DRAWN)
    keyboard = found.page.keyboard
    keyboard.press("Tab")
    assert found.focused() == "Skip to the content"
    keyboard.press("Enter")
    assert found.page.evaluate("location.hash") == "#main"
    reached = set()
    for _ in range(60):
        keyboard.press("Tab")
        reached.add(found.focused())
    assert {"Zoom in", "Show the whole picture", "Numbers of this picture"} <= reached
    assert "Weights of the components, the largest first" in reached  # a table that may scroll


def test_a_tool_works_by_the_keyboard(found: Shown) -> None:
    spans = (
        "() => Array.from(Bokeh.documents[0].all_models).filter(m => m.type === 'Figure')"
        ".map(f => f.x_range.end - f.x_range.start)"
    )
    before = found.page.evaluate(spans)
    found.page.keyboard.press("Tab")
    while found.focused() != "Zoom in":
        found.page.keyboard.press("Tab")
    found.page.keyboard.press("Enter")
    zoomed = f"(before) => ({spans})().some((span, i) => span < 0.99 * before[i])"
    found.page.wait_for_function(zoomed, arg=before)


def test_menus_choose_what_pictures_show(found: Shown) -> None:
    model = "Bokeh.documents[0].get_model_by_name"
    for name, axis, source in (
        ("Upwards", "scatter-y", f"{model}('scatter-points').data.y"),
        ("Column", "histogram-x", f"{model}('histogram').data.left"),
    ):
        cells = f"Array.from({source})"
        before = found.page.evaluate(cells)
        menu = found.page.get_by_label(name, exact=True).first
        menu.select_option(label="a rather long name of a column of numbers")
        label = found.page.evaluate(f"{model}('{axis}').axis_label.text")
        assert label == "a rather long name of a col…"  # as there is room for on a phone
        menu.select_option(label="wages")
        label = found.page.evaluate(f"{model}('{axis}').axis_label.text")
        assert label == "wages"
        assert found.page.evaluate(cells) != before
    assert found.errors == []


def test_landmarks_headings_and_pictures_have_names(found: Shown) -> None:
    page = found.page
    assert page.locator("html").get_attribute("lang") == "en"
    for landmark in ("header", "nav", "main", "footer", "h1"):
        assert page.locator(landmark).count() == 1, landmark
    levels = page.evaluate(
        "Array.from(document.querySelectorAll('h1, h2, h3')).map(h => Number(h.tagName[1]))"
    )
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.locator("section:not([aria-labelledby])").count() == 0
    for figure in page.locator("figure").all():
        assert len(figure.locator("figcaption").inner_text()) > 40
        assert figure.locator("details table").count() >= 1
    for attribute in ("aria-labelledby", "aria-describedby", "for"):
        named = page.locator(f"[{attribute}]").all()
        assert named
        for one in named:
            assert page.locator(f"#{one.get_attribute(attribute)}").count() == 1


def test_a_selection_is_drawn(show: Show, tmp_path: Path) -> None:
    rows = datasets.load_faithful()
    auto = AutoMixture([1, 2, 3], ["EEE", "VVV"], random_state=0).fit(rows)
    write_report(auto, rows, tmp_path / "report.html")
    found = show((tmp_path / "report.html").as_uri(), 375)
    text = found.page.locator("#selection").inner_text()
    assert "6 candidates were compared" in text
    assert "3 components with covariance EEE" in text
    assert min(found.canvases("#selection .drawing")[:1]) > 500
    assert (found.errors, found.width_beyond) == ([], 0)


def test_images_are_drawn_where_rows_are_pictures(show: Show, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((200, 64)) + 3.0 * np.eye(2)[rng.integers(2, size=200)].repeat(32, axis=1)
    model = Mixture("gaussian", 2, random_state=0, max_iter=3).fit(x)
    write_report(model, x, tmp_path / "report.html")
    found = show((tmp_path / "report.html").as_uri(), 375)
    assert "8 by 8 pixels" in found.page.locator("#rows").inner_text()
    assert (found.errors, found.width_beyond) == ([], 0)
