"""A mkdocs hook: a line `@package` becomes the reference of all that the registry finds there."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from typing import Any

from mixfold.core.registry import find_all

BARE = "\n    options:\n      members: false\n      inherited_members: false"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Expand `@families`, `@learners` and so on."""
    return re.sub(r"^@([a-z]+)$", _listing, markdown, flags=re.MULTILINE)


def _listing(match: re.Match[str]) -> str:
    return "\n\n".join(_entry(thing) for thing in find_all(match[1]).values())


def _entry(thing: type) -> str:
    """The docstring; for values also their fields and defaults, for others their methods."""
    reference = f"::: {thing.__module__}.{thing.__name__}"
    if not is_dataclass(thing):
        return reference
    try:
        defaults = repr(thing())
    except ValueError:  # a product needs columns
        return f"{reference}{BARE}"
    return f"{reference}{BARE}\n\n```python\n{defaults}  # the defaults\n```"
