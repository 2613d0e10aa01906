"""Random effects in a formula, (effects | group), as lme4 writes them."""

from __future__ import annotations

from typing import Any, NamedTuple

from mixfold.core.errors import InvalidInputError
from mixfold.estimators._formula_tokens import FormulaText, Token

NEEDED = "random effects are written (effects | group), as in 'y ~ x + (1 | a) + (x | b)'"


class Bar(NamedTuple):
    """The formula of random effects, and the columns whose values together are the group."""

    random: str
    columns: list[str]


def split_bars(formula: Any) -> tuple[str, list[Bar]]:
    """The formula of fixed effects, and all random effects: (x | a / b) is of a and of a:b."""
    text = FormulaText("formula", formula, bars=True)
    tokens = text.tokens()
    fixed, bars, place = "", list[Bar](), 0
    while tokens[place].kind != "end":
        end = _end_of_bar(tokens, place)
        if end is None:
            fixed += _source(text, tokens, place, place + 1)
            place += 1
            continue
        bars += _bars(text, tokens, place, end)
        fixed = _without_sum(text, fixed, tokens[place])
        place = end + 1
    if not bars:
        raise InvalidInputError(f"formula is {formula!r}: {NEEDED}")
    return fixed, bars


def _source(text: FormulaText, tokens: list[Token], first: int, last: int) -> str:
    return text.text[tokens[first].start : tokens[last].start]


def _is(token: Token, *operators: str) -> bool:
    return token.kind == "operator" and token.text in operators


def _end_of_bar(tokens: list[Token], place: int) -> int | None:
    """The number of the token ")" if (effects | group) begins at `place`."""
    if not _is(tokens[place], "("):
        return None
    depth, found = 0, False
    for number in range(place, len(tokens)):
        depth += _is(tokens[number], "(") - _is(tokens[number], ")")
        found |= depth == 1 and _is(tokens[number], "|")
        if depth == 0:
            return number if found else None
    return None


def _without_sum(text: FormulaText, fixed: str, token: Token) -> str:
    """The fixed effects before (effects | group), without the sign between them."""
    before = fixed.rstrip()
    if before.endswith("+"):
        return before[:-1]
    if before.endswith("~"):
        return before + " 1 "
    raise text.error_at(token.start, f"{NEEDED}, behind ~ or +")


def _bars(text: FormulaText, tokens: list[Token], place: int, end: int) -> list[Bar]:
    depth, middle = 0, place
    for middle in range(place, end):
        depth += _is(tokens[middle], "(") - _is(tokens[middle], ")")
        if depth == 1 and _is(tokens[middle], "|"):
            break
    random = _source(text, tokens, place + 1, middle).strip()
    if not random:
        raise text.error_at(tokens[place].start, f"it has no effects; {NEEDED}")
    return [Bar(random, columns) for columns in _columns(text, tokens[middle + 1 : end + 1])]


def _columns(text: FormulaText, tokens: list[Token]) -> list[list[str]]:
    """a, a:b or a / b, which is a and a:b; the last token is behind them."""
    found: list[list[str]] = []
    names: list[str] = []
    for name, operator in zip(tokens[::2], tokens[1::2], strict=False):
        if name.kind != "name" or not _is(operator, "/", ":", ")"):
            break
        names = [*names, name.text]
        if _is(operator, "/", ")"):
            found.append(names)
        if operator is tokens[-1]:
            return found
    raise text.error_at(
        tokens[0].start, "a group is a column, or columns as in a:b and in a / b, which is a + a:b"
    )
