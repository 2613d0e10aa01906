"""Formulas as model matrices, the same for every block of rows."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError, MissingExtraError
from mixfold.core.rows import Array
from mixfold.core.value import value

# what a row's values alone decide, and nothing that a model file could misuse
FUNCTIONS = ("C", "I", "abs", "exp", "exp10", "exp2", "log", "log10", "log2", "sqrt")
CONTEXT = {"abs": np.abs, "sqrt": np.sqrt}
ALLOWED = (
    ast.Expression,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.FloorDiv,
    ast.Mod,
    ast.Pow,
    ast.unaryop,
    ast.Call,
)


def formulaic() -> Any:
    """formulaic, or an error that says how to get it."""
    try:
        import formulaic
    except ImportError:
        raise MissingExtraError("formulaic", "formula", "a model given as a formula") from None
    return formulaic


@value
class FormulaDesign:
    """y, A and B of rows by the formulas `y ~ fixed effects` and `~ random effects`.

    `columns` are those of the rows and `levels` what their codes 0, 1, ... stand for, None where
    there are none. Columns in `numbers` are levels inside C(...) alone, and elsewhere numbers.
    `group` is the column that tells groups apart.
    """

    formula: str
    random: str
    group: str
    columns: list[str]
    levels: list[Any]
    numbers: list[str]

    @cached_property
    def _specs(self) -> tuple[Any, Any, Any]:
        """How matrices are made; learned from rows that show every level once."""
        longest = max([len(known) for known in self.levels if known is not None] or [1])
        template = np.ones((longest, len(self.levels)))
        for column, known in zip(template.T, self.levels, strict=True):
            if known is not None:
                column[:] = np.arange(longest) % len(known)
        response, fixed, random = parse(self.formula, self.random)
        frame = self._frame(template)
        with np.errstate(all="ignore"):  # the template's numbers are no data
            return _spec(response, frame), _spec(fixed, frame), _spec(random, frame)

    def _frame(self, x: Array) -> Any:
        import pandas

        frame = {}
        for name, known, column in zip(self.columns, self.levels, x.T, strict=True):
            if known is None:
                frame[name] = column
            elif name in self.numbers:
                frame[name] = _whole_as_integers(np.asarray(known))[column.astype(np.intp)]
            else:  # levels are named in their natural order: the first is the reference
                order = sorted(range(len(known)), key=known.__getitem__)
                ranks = np.argsort(order)[column.astype(np.intp)]
                levels = [known[i] for i in order]
                frame[name] = pandas.Categorical.from_codes(ranks, levels)
        return pandas.DataFrame(frame)

    @property
    def n_features(self) -> int:
        """Columns that the effects need."""
        return len(effect_variables(self.formula, self.random))

    @property
    def names(self) -> list[str]:
        """Columns of A."""
        return list(self._specs[1].column_names)

    @property
    def random_names(self) -> list[str]:
        """Columns of B."""
        return list(self._specs[2].column_names)

    def matrices(self, x: Array, response: bool = True) -> tuple[Array, Array, Array]:
        """y, A and B of rows; without the response, of rows that lack its columns."""
        if not response:
            x = self._widened(x)
        frame = self._frame(x)
        with np.errstate(all="ignore"):  # what is not finite is refused by name
            parts = [_matrix(spec, frame) for spec in self._specs[0 if response else 1 :]]
        y = parts[0] if response else np.zeros((len(x), 1))
        return y[:, 0], parts[-2], parts[-1]

    def _widened(self, x: Array) -> Array:
        """Rows of the effects' columns, with anything in those of the response."""
        wide = np.zeros((len(x), len(self.columns)))
        wanted = effect_variables(self.formula, self.random)
        wide[:, [self.columns.index(name) for name in wanted]] = x
        return wide


def _whole_as_integers(numbers: np.ndarray) -> np.ndarray:
    """Numbers whose names do not depend on how a file stores them: 1, not 1.0."""
    whole = bool((numbers == np.floor(numbers)).all())
    return numbers.astype(np.int64) if whole else numbers.astype(np.float64)


def _spec(part: Any, frame: Any) -> Any:
    how = {"na_action": "ignore", "output": "numpy", "context": CONTEXT}
    try:
        return part.get_model_matrix(frame, **how).model_spec
    except Exception as error:  # whatever formulaic's evaluation of a factor raises
        raise InvalidInputError(f"cannot make columns of the formula '{part}': {error}") from None


def _matrix(spec: Any, frame: Any) -> Array:
    return np.asarray(spec.get_model_matrix(frame, context=CONTEXT), dtype=np.float64)


def parse(formula: str, random: str) -> tuple[Any, Any, Any]:
    """Response, fixed and random effects as formulaic's formulas."""
    both = _parsed("formula", formula)
    if not hasattr(both, "lhs") or not _is_simple(both.lhs) or not _is_simple(both.rhs):
        raise InvalidInputError(
            f"formula is {formula!r}: 'response ~ fixed effects' is needed{_hint(formula)}"
        )
    if len(list(both.lhs)) != 1 or not _columns_of(both.lhs):
        raise InvalidInputError(f"formula is {formula!r}: it must have one response")
    effects = _parsed("random", random)
    if not _is_simple(effects):
        raise InvalidInputError(
            f"random is {random!r}: '~ random effects' is needed{_hint(random)}"
        )
    for name, part in (("formula", both.lhs), ("formula", both.rhs), ("random", effects)):
        _check_safe(name, part)
    if _levels_of(both.lhs):
        raise InvalidInputError(f"formula is {formula!r}: levels cannot be a response")
    for name, part in (("formula", both.rhs), ("random", effects)):
        if len(list(part)) == 0:
            raise InvalidInputError(f"{name} has no effects: '1' is an intercept")
    return both.lhs, both.rhs, effects


def _parsed(name: str, text: Any) -> Any:
    if not isinstance(text, str):
        raise InvalidInputError(f"{name} is {text!r}: a formula in quotes is needed")
    try:
        return formulaic().Formula(text)
    except MissingExtraError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise InvalidInputError(
            f"{name} is {text!r}, which cannot be read: {reason}{_hint(text)}"
        ) from None


def _is_simple(part: Any) -> bool:
    return isinstance(part, formulaic().SimpleFormula)


def _hint(text: str) -> str:
    if "|" not in text:
        return ""
    return "; instead of '(effects | g)' give random='~ effects' and group='g'"


def _factors(part: Any) -> list[Any]:
    return [factor for term in part for factor in term.factors]


class Expression:
    """A factor in Python: its tree, and the columns in it, which may be quoted by backticks."""

    def __init__(self, text: str) -> None:
        self._quoted: dict[str, str] = {}
        plain = re.sub("`([^`]*)`", self._stand_in, text)
        try:
            self.nodes = list(ast.walk(ast.parse(plain, mode="eval")))
        except SyntaxError as error:
            raise InvalidInputError(f"a formula has {text!r}: {error.msg}") from None
        self.calls = [node for node in self.nodes if isinstance(node, ast.Call)]

    def _stand_in(self, quoted: re.Match[str]) -> str:
        name = f"_quoted_{len(self._quoted)}_"
        self._quoted[name] = quoted[1]
        return name

    def columns(self) -> set[str]:
        """All names but those of functions."""
        functions = [call.func for call in self.calls]
        names = (node for node in self.nodes if isinstance(node, ast.Name))
        return {self._column(node) for node in names if node not in functions}

    def levels(self) -> set[str]:
        """Columns that are the argument of C."""
        inside = (call.args[0] for call in self.calls if _function(call) == "C")
        return {self._column(node) for node in inside if isinstance(node, ast.Name)}

    def _column(self, node: ast.Name) -> str:
        return self._quoted.get(node.id, node.id)

    def known(self) -> bool:
        """Whether it is arithmetic and functions of one row alone."""
        return all(isinstance(node, ALLOWED) for node in self.nodes) and all(
            _function(call) in FUNCTIONS for call in self.calls
        )


def _function(call: ast.Call) -> str:
    return getattr(call.func, "id", "")


def _expressions(part: Any) -> list[tuple[str, Expression]]:
    texts = (f.expr for f in _factors(part) if f.eval_method.value == "python")
    return [(text, Expression(text)) for text in texts]


def _check_safe(name: str, part: Any) -> None:
    """Refuse all but arithmetic and functions of one row: they alone are the same in any block."""
    for text, expression in _expressions(part):
        if not expression.known():
            raise InvalidInputError(
                f"{name} has {text!r}: arithmetic and {', '.join(FUNCTIONS)} of columns "
                "are known; make anything else a column of the data"
            )
        for call in expression.calls:
            if _function(call) == "C" and not [*map(type, call.args)] == [ast.Name]:
                raise InvalidInputError(
                    f"{name} has {text!r}: C takes the name of one column; make anything else "
                    "a column of the data"
                )


def _columns_of(part: Any) -> set[str]:
    plain = {str(f.expr) for f in _factors(part) if f.eval_method.value == "lookup"}
    return plain.union(*(expression.columns() for _, expression in _expressions(part)))


def _levels_of(part: Any) -> set[str]:
    return set().union(*(expression.levels() for _, expression in _expressions(part)))


def variables(formula: str, random: str) -> list[str]:
    """Columns that the formulas need, in a fixed order."""
    return sorted(set().union(*map(_columns_of, parse(formula, random))))


def response_variables(formula: str, random: str) -> set[str]:
    """Columns that the response needs."""
    return _columns_of(parse(formula, random)[0])


def effect_variables(formula: str, random: str) -> list[str]:
    """Columns that the effects need: all but the response's."""
    return sorted(set().union(*map(_columns_of, parse(formula, random)[1:])))


def level_variables(formula: str, random: str) -> set[str]:
    """Columns inside C(...), which are levels there even if they are numbers."""
    return set().union(*map(_levels_of, parse(formula, random)))
