"""Every change of one operator, comparison, constant or function that a module allows.

Not changed, because no test can be asked to notice it: strings and the text of errors, annotations,
default values of arguments and of fields, numbers that a module or a class names (settings),
constants below 1e-6 (they guard against rounding), `strict` of `zip` and the like, and functions
that are there for tests.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
FUNCTIONS = {
    "maximum": "minimum",
    "minimum": "maximum",
    "max": "min",
    "min": "max",
    "any": "all",
    "all": "any",
    "exp": "expm1",
    "log": "log1p",
    "sum": "mean",
    "mean": "sum",
    "argmax": "argmin",
    "argmin": "argmax",
    "sqrt": "square",
    "square": "sqrt",
}
SKIPPED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
SKIPPED_FIELDS = ("annotation", "returns", "decorator_list", "type_params", "bases")
SKIPPED_DEFAULTS = ("defaults", "kw_defaults")
SKIPPED_KEYWORDS = ("strict", "stacklevel", "copy")
UNTESTED = ("__repr__", "example", "variants", "scipy_log_density")
SMALLEST = 1e-6
LONG, NEAR = 120, 40  # letters of a line that is shown


class Change(NamedTuple):
    """What becomes of one node of a module."""

    file: str
    line: int
    column: int
    before: str
    after: str
    apply: Callable[[], None]
    revert: Callable[[], None]


def changes(file: str, source: str) -> tuple[ast.Module, list[Change]]:
    """The tree of a module, and its possible changes; one at a time is to be applied."""
    tree, found = ast.parse(source), list[Change]()
    for node, statement in reached(tree, tree):
        for apply, revert in changes_of(node):
            whole = shown(statement)
            apply()
            before, after = difference(whole, shown(statement))
            revert()
            line = int(getattr(node, "lineno", 0))
            column = int(getattr(node, "col_offset", 0))
            found.append(Change(file, line, column, before, after, apply, revert))
    return tree, found


def shown(statement: ast.AST) -> str:
    """One line of code: a statement, or the first line of one that contains others."""
    return ast.unparse(ast.fix_missing_locations(statement)).splitlines()[0]


def shared(a: str, b: str) -> int:
    """How many first letters two texts share."""
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def difference(before: str, after: str) -> tuple[str, str]:
    """Two lines that differ in one place; of long ones what is near that place."""
    if max(len(before), len(after)) <= LONG:
        return before, after
    first = shared(before, after)
    last = shared(before[:first:-1], after[:first:-1])
    start = max(0, first - NEAR)

    def part(line: str) -> str:
        stop = len(line) - last + NEAR
        return ("... " if start else "") + line[start:stop] + (" ..." if stop < len(line) else "")

    return part(before), part(after)


def reached(node: ast.AST, statement: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Nodes whose change can matter, in order, each with the statement it is part of."""
    statement = node if isinstance(node, ast.stmt | ast.excepthandler) else statement
    yield node, statement
    for name, part in ast.iter_fields(node):
        if name in SKIPPED_FIELDS or name in SKIPPED_DEFAULTS:
            continue
        for child in part if isinstance(part, list) else [part]:
            if isinstance(child, ast.AST) and not _is_skipped(node, child):
                yield from reached(child, statement)


def _is_skipped(parent: ast.AST, node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef) and node.name in UNTESTED:
        return True
    if isinstance(parent, ast.ClassDef):  # the default of a field is a setting
        return isinstance(node, ast.AnnAssign) or _is_named_number(node)
    if isinstance(parent, ast.Module) and (isinstance(node, ast.If) or _is_named_number(node)):
        return True  # imports for annotations, and settings that have names
    if isinstance(node, ast.keyword) and node.arg in SKIPPED_KEYWORDS:
        return True
    return isinstance(node, SKIPPED)


def _is_named_number(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign):
        return False
    plain = ast.BinOp | ast.UnaryOp | ast.Tuple | ast.operator | ast.unaryop | ast.Load
    return all(
        isinstance(part, plain)
        or (isinstance(part, ast.Constant) and not isinstance(part.value, bool))
        for part in ast.walk(node.value)
    )


Step = tuple[Callable[[], None], Callable[[], None]]


def changes_of(node: ast.AST) -> Iterator[Step]:
    """The changes of one node by itself."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        yield _setters(node, "op", OPERATORS[type(node.op)]())
    elif isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            other = COMPARISONS[type(op)]()
            yield _setters(node, "ops", [*node.ops[:i], other, *node.ops[i + 1 :]])
    elif isinstance(node, ast.BoolOp):
        yield _setters(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield _setters(node, "op", ast.UAdd())
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and not _is_simple(node.test):
        negated = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        yield _setters(node, "test", negated)
    elif isinstance(node, ast.Constant) and _is_number(node.value):
        assert isinstance(node.value, bool | int | float)
        yield _setters(node, "value", _other(node.value))
    elif isinstance(node, ast.Name) and node.id in ("max", "min"):
        yield _setters(node, "id", FUNCTIONS[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
        yield _setters(node, "attr", FUNCTIONS[node.attr])


def _is_simple(test: ast.expr) -> bool:
    """Whether the negation of a condition is the change of its comparison."""
    return isinstance(test, ast.Compare) and isinstance(
        test.ops[0], ast.Is | ast.IsNot | ast.Eq | ast.NotEq | ast.In | ast.NotIn
    )


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return value == 0.0 or abs(value) >= SMALLEST
    return isinstance(value, bool | int)


def _other(value: float) -> float:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return 1.0 if value == 0.0 else 1.5 * value


def _setters(node: ast.AST, name: str, new: object) -> Step:
    old = getattr(node, name)
    return (lambda: setattr(node, name, new)), (lambda: setattr(node, name, old))
