"""What the sections of a page consist of; the template writes each kind of block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mixfold.report._colours import Mark


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `role` is "", "note" or "warning"."""

    kind: ClassVar[str] = "paragraph"
    text: str
    role: str = ""


@dataclass(frozen=True)
class Sentences:
    """A list of sentences."""

    kind: ClassVar[str] = "sentences"
    sentences: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """Names and values, side by side."""

    kind: ClassVar[str] = "facts"
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """A table of texts; columns that are not in `words` hold numbers, aligned to the right.

    `more` says what was left out.
    """

    kind: ClassVar[str] = "table"
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = (0,)
    more: str = ""

    def is_number(self, column: int) -> bool:
        """Whether a column holds numbers."""
        return column not in self.words


@dataclass(frozen=True)
class Choice:
    """A menu above a picture; what it does is said in the script of the page."""

    key: str
    label: str
    options: Sequence[str]
    selected: int = 0


@dataclass(frozen=True)
class Picture:
    """A figure of Bokeh with its title, a description in words, and its numbers as tables.

    `choices` are menus, and `data` what the script of the page needs for them. `key` and `div` are
    set when the page is written.
    """

    kind: ClassVar[str] = "picture"
    title: str
    alternative: str
    figure: Any
    tables: Sequence[Table]
    legend: Sequence[Mark] = ()
    choices: Sequence[Choice] = ()
    data: Any = None
    key: str = ""
    div: Any = ""


@dataclass(frozen=True)
class Details:
    """Blocks that are shown on request."""

    kind: ClassVar[str] = "details"
    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Group:
    """Blocks about one thing, under a heading of their own, with its colour at the side."""

    kind: ClassVar[str] = "group"
    title: str
    blocks: Sequence[Block]
    colour: str = ""


Block = Paragraph | Sentences | Facts | Table | Picture | Details | Group
