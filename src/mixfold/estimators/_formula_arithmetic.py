"""Arithmetic in formulas, with the precedence of Python; nothing is evaluated.

sum      = quotient {("+" | "-") quotient}
quotient = signed {("*" | "/" | "//" | "%") signed}
signed   = ("-" | "+") signed | atom ["**" signed]
atom     = column | number | function "(" sum ")" | "(" sum ")"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mixfold.core.errors import InvalidInputError
from mixfold.estimators._formula_tokens import FormulaText, Token
from mixfold.estimators.formula_nodes import (
    FUNCTIONS,
    KNOWN,
    PRODUCTS,
    STANDARDIZING,
    SUMS,
    Expression,
    FormulaCall,
    FormulaColumn,
    FormulaNegative,
    FormulaNumber,
    FormulaOperation,
    FormulaPower,
    FormulaStandardized,
)

MOST_NESTED = 15  # a level makes three nodes at most, which keeps trees within DEEPEST
NEED_OTHER_ROWS = ("standardize", "bs", "ns", "cr", "cc", "cs", "lag")


class ArithmeticParser:
    """Reads the tokens of one text, from the first to the last."""

    def __init__(self, text: FormulaText) -> None:
        self.text = text
        self._tokens = text.tokens()
        self._place = 0
        self._nested = 0

    # tokens

    @property
    def next(self) -> Token:
        """The token to be read."""
        return self._tokens[self._place]

    @property
    def following(self) -> Token:
        """The token behind the next."""
        return self._tokens[min(self._place + 1, len(self._tokens) - 1)]

    def advance(self) -> Token:
        """Read a token; the end stays where it is."""
        token, self._place = self.next, min(self._place + 1, len(self._tokens) - 1)
        return token

    def at(self, *operators: str) -> bool:
        """Whether the next token is one of some operators."""
        return self.next.kind == "operator" and self.next.text in operators

    def take(self, operator: str) -> bool:
        """Read an operator if it is the next token."""
        found = self.at(operator)
        if found:
            self.advance()
        return found

    def expect(self, operator: str) -> Token:
        """Read an operator that must be the next token."""
        token = self.next
        if not self.take(operator):
            raise self.unexpected(f"{operator!r} is missing")
        return token

    def unexpected(self, reason: str = "") -> InvalidInputError:
        """An error about the next token."""
        if not reason:
            reason = f"a column, a function or a number is missing, or an operator; {KNOWN}"
        return self.text.error_at(self.next.start, reason)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """One level further inside, as far as that is possible."""
        self._nested += 1
        if self._nested > MOST_NESTED:
            raise self.text.error(
                f"it is nested more than {MOST_NESTED} deep, which is the most that is possible; "
                "make what is inside a column of the data"
            )
        yield
        self._nested -= 1

    # arithmetic

    def sum(self) -> Expression:
        """Sums and differences."""
        return self._chain(SUMS, self._quotient)

    def _quotient(self) -> Expression:
        return self._chain(PRODUCTS, self._signed)

    def _chain(self, kind: tuple[str, ...], read: Callable[[], Expression]) -> Expression:
        operands, operators = [read()], list[str]()
        while self.at(*kind):
            operators.append(self.advance().text)
            operands.append(read())
        if not operators:
            return operands[0]
        first = operands[0]
        if isinstance(first, FormulaOperation) and first.operators[0] in kind:  # (a + b) + c
            operators = [*first.operators, *operators]
            operands = [*first.operands, *operands[1:]]
        return FormulaOperation(operators, operands)

    def _signed(self) -> Expression:
        if self.take("-"):
            with self.nested():
                return FormulaNegative(self._signed())
        if self.take("+"):
            with self.nested():
                return self._signed()
        base = self._atom()
        if self.at("^"):
            raise self.unexpected("inside functions, powers are written **")
        if not self.take("**"):
            return base
        with self.nested():
            return FormulaPower(base, self._signed())

    def _atom(self) -> Expression:
        token = self.next
        if token.kind == "number":
            return self._number(self.advance())
        if token.kind == "name":
            return self.column_or_call()
        if self.take("("):
            with self.nested():
                found = self.sum()
            self.expect(")")
            return found
        raise self.unexpected()

    def _number(self, token: Token) -> FormulaNumber:
        number = float(token.text)
        if number == float("inf"):
            raise self.text.error_at(token.start, "the number is too large for float64")
        whole = token.text.isdigit() and number <= 2**53
        return FormulaNumber(int(number) if whole else number)

    def column_or_call(self) -> Expression:
        """A column, or a function of one argument."""
        token = self.advance()
        if token.quoted or not self.take("("):
            return FormulaColumn(token.text)
        self._check_function(token)
        with self.nested():
            argument = self.sum()
        if self.at(","):
            raise self.unexpected(f"{token.text} takes one argument")
        self.expect(")")
        if token.text in STANDARDIZING:
            return FormulaStandardized(token.text, argument, 0.0, 1.0)
        return FormulaCall(token.text, argument)

    def _check_function(self, token: Token) -> None:
        end = token.start + len(token.text)
        if token.text in NEED_OTHER_ROWS:
            raise self.text.error_in(
                token.start,
                end,
                f"of functions that depend on all rows, {', '.join(STANDARDIZING)} and poly alone "
                "are known; make it a column of the data",
            )
        if token.text in ("C", "poly"):
            raise self.text.error_in(
                token.start,
                end,
                f"{token.text} cannot be a part of arithmetic, since it has several columns; write "
                "it as a term of its own, or make that a column of the data",
            )
        if token.text not in FUNCTIONS and token.text not in STANDARDIZING:
            raise self.text.error_in(token.start, end, f"it is not a known function; {KNOWN}")
