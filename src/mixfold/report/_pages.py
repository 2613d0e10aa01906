"""Pages from templates, in which all texts are escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment() -> Any:
    """The templates of pages. "base.html" has the style, the landmarks and the theme.

    Pages extend it by the blocks `head`, `lead`, `contents`, `main`, `footer` and `scripts`;
    "blocks.html" has a macro `write` for the blocks of sections.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name, file in (("style", "style.css"), ("theme", "theme.js"), ("pictures", "pictures.js")):
        made.globals[name] = Markup((TEMPLATES / file).read_text(encoding="utf-8"))
    return made


def rendered(template: str, **values: Any) -> str:
    """The text of a page; values are escaped, except those of type `markupsafe.Markup`."""
    text: str = environment().get_template(template).render(**values)
    return text
