"""Formulas as model matrices, the same for every block of rows."""

from __future__ import annotations

import ast
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
    ast.operator,
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

    `columns` are those of the rows and `levels` what their codes 0, 1, ... stand for, None for
    numbers.
    """

    formula: str
    random: str
    columns: list[str]
    levels: list[Any]

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
        return _spec(response, frame), _spec(fixed, frame), _spec(random, frame)

    def _frame(self, x: Array) -> Any:
        import pandas

        frame = {}
        for name, known, column in zip(self.columns, self.levels, x.T, strict=True):
            if known is None:
                frame[name] = column
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
    if not hasattr(both, "lhs") or not hasattr(both.rhs, "required_variables"):
        raise InvalidInputError(f"formula is {formula!r}: 'response ~ fixed effects' is needed")
    if len(list(both.lhs)) != 1:
        raise InvalidInputError(f"formula is {formula!r}: it must have one response")
    effects = _parsed("random", random)
    if hasattr(effects, "lhs") or not hasattr(effects, "required_variables"):
        raise InvalidInputError(f"random is {random!r}: '~ random effects' is needed")
    for name, part in (("formula", both.lhs), ("formula", both.rhs), ("random", effects)):
        _check_safe(name, part)
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
        raise InvalidInputError(f"{name} is {text!r}, which cannot be read: {reason}") from None


def _expressions(part: Any) -> list[Any]:
    factors = [factor for term in part for factor in term.factors]
    return [factor for factor in factors if factor.eval_method.value == "python"]


def _check_safe(name: str, part: Any) -> None:
    """Refuse all but arithmetic and functions of one row: they alone are the same in any block."""
    for factor in _expressions(part):
        for node in ast.walk(ast.parse(factor.expr, mode="eval")):
            unknown = isinstance(node, ast.Call) and getattr(node.func, "id", "") not in FUNCTIONS
            if unknown or not isinstance(node, ALLOWED):
                raise InvalidInputError(
                    f"{name} has {factor.expr!r}: arithmetic and {', '.join(FUNCTIONS)} of columns "
                    "are known; make anything else a column of the data"
                )


def variables(formula: str, random: str) -> list[str]:
    """Columns that the formulas need, in a fixed order."""
    found = (str(name) for part in parse(formula, random) for name in part.required_variables)
    return sorted(set(found))


def effect_variables(formula: str, random: str) -> list[str]:
    """Columns that the effects need: all but the response's."""
    found = (str(name) for part in parse(formula, random)[1:] for name in part.required_variables)
    return sorted(set(found))


def level_variables(formula: str, random: str) -> set[str]:
    """Columns inside C(...), which are levels even if they are numbers."""
    found: set[str] = set()
    for part in parse(formula, random):
        for factor in _expressions(part):
            for node in ast.walk(ast.parse(factor.expr, mode="eval")):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "C":
                    found |= {n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)}
    return found
