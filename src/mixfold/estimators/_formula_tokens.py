"""The text of a formula as tokens, and errors that show where it goes wrong."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from mixfold.core.errors import InvalidInputError
from mixfold.estimators.formula_nodes import KNOWN, MOST_CHARACTERS, MOST_NODES, shortened

PATTERN = re.compile(
    r"(?P<space>[ \t\r\n]+)"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[^\W\d][\w.]*)"
    r"|`(?P<quoted>[^`]+)`"
    r"|(?P<operator>\*\*|//|[-+*/%:^|~(){},=])"
)


class Token(NamedTuple):
    """A piece of a formula, and where it begins; `quoted` names stood in backticks."""

    kind: str
    text: str
    start: int
    quoted: bool = False


class FormulaText:
    """The text given as `formula` or `random`; `bars` is whether (effects | g) is part of it."""

    def __init__(self, parameter: str, text: Any, bars: bool = False) -> None:
        if not isinstance(text, str):
            raise InvalidInputError(f"{parameter} is {text!r}: a formula in quotes is needed")
        self.parameter, self.text, self._bars = parameter, text, bars
        if len(text) > MOST_CHARACTERS:
            raise self.error(
                f"it has {len(text)} characters, and at most {MOST_CHARACTERS} are possible"
            )

    def error(self, reason: str) -> InvalidInputError:
        """What is wrong with the formula as a whole."""
        hint = ""
        if "|" in self.text and not self._bars:
            hint = (
                "; instead of '(effects | g)' give random='~ effects' and group='g', or use "
                "CrossedMixedModel"
            )
        return InvalidInputError(f"{self.parameter} is {shortened(self.text)}: {reason}{hint}")

    def error_in(self, start: int, end: int, reason: str) -> InvalidInputError:
        """What is wrong with a piece of the formula."""
        piece = shortened(self.text[start:end])
        return InvalidInputError(f"{self.parameter} has {piece}: {reason}")

    def error_at(self, start: int, reason: str) -> InvalidInputError:
        """What is wrong at a place in the formula."""
        rest = self.text[start:]
        place = f"at {shortened(rest, 40)}" if rest else "at its end"
        return self.error(f"it cannot be read {place}: {reason}")

    def tokens(self) -> list[Token]:
        """All tokens, and one for the end."""
        found: list[Token] = []
        start = 0
        while start < len(self.text):
            match = PATTERN.match(self.text, start)
            if match is None:
                raise self.error_at(start, f"{self.text[start]!r} has no meaning here; {KNOWN}")
            kind = str(match.lastgroup)
            quoted = kind == "quoted"
            if kind != "space":
                found.append(Token("name" if quoted else kind, match[kind], start, quoted))
            if len(found) > MOST_NODES:
                raise self.error(
                    f"it has more than {MOST_NODES} names, numbers and operators, which is the "
                    "most that is possible"
                )
            start = match.end()
        return [*found, Token("end", "", len(self.text))]
