"""Every change of one operator, comparison, constant or function that a module allows."""

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
# what only a reader sees, and what is only there for the laws
SKIPPED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
UNTESTED = ("__repr__", "example", "variants", "scipy_log_density")


class Change(NamedTuple):
    """What becomes of one node of a module."""

    module: str
    line: int
    column: int
    words: str
    text: str
    apply: Callable[[], None]
    revert: Callable[[], None]


def changes(module: str, source: str) -> tuple[ast.Module, list[Change]]:
    """The tree of a module, and its possible changes; one at a time is to be applied."""
    tree, lines, found = ast.parse(source), source.splitlines(), list[Change]()
    for node in reached(tree):
        for words, apply, revert in changes_of(node):
            line = int(getattr(node, "lineno", 0))
            text = lines[line - 1].strip()
            found.append(
                Change(
                    module, line, int(getattr(node, "col_offset", 0)), words, text, apply, revert
                )
            )
    return tree, found


def reached(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes whose change can matter, in order."""
    yield node
    for name, part in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "bases"):
            continue
        for child in part if isinstance(part, list) else [part]:
            if isinstance(child, ast.AST) and not _is_skipped(node, child):
                yield from reached(child)


def _is_skipped(parent: ast.AST, node: ast.AST) -> bool:
    if isinstance(parent, ast.ClassDef) and isinstance(node, ast.AnnAssign):
        return True  # the default of a field is a setting
    hidden = isinstance(node, ast.FunctionDef) and node.name in UNTESTED
    return hidden or isinstance(node, SKIPPED)


Step = tuple[str, Callable[[], None], Callable[[], None]]


def changes_of(node: ast.AST) -> Iterator[Step]:
    """The changes of one node by itself."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        yield _swap(node, "op", OPERATORS[type(node.op)]())
    elif isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            other = COMPARISONS[type(op)]()
            yield _swap(node, "ops", [*node.ops[:i], other, *node.ops[i + 1 :]], (op, other))
    elif isinstance(node, ast.BoolOp):
        yield _swap(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield _swap(node, "op", ast.UAdd())
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        negated = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        yield ("condition negated", *_setters(node, "test", negated))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield _swap(node, "value", _other(node.value), (node.value, _other(node.value)))
    elif isinstance(node, ast.Name) and node.id in ("max", "min"):
        yield _swap(node, "id", FUNCTIONS[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
        other_name = FUNCTIONS[node.attr]
        yield _swap(node, "attr", other_name, (node.attr, other_name))


def _other(value: complex) -> complex:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    assert isinstance(value, float)
    return 1.0 if value == 0.0 else 1.5 * value


def _swap(
    node: ast.AST, name: str, new: object, shown: tuple[object, object] | None = None
) -> Step:
    old = getattr(node, name)
    before, after = shown or (old, new)
    return (f"{_words(before)} -> {_words(after)}", *_setters(node, name, new))


def _setters(
    node: ast.AST, name: str, new: object
) -> tuple[Callable[[], None], Callable[[], None]]:
    old = getattr(node, name)
    return (lambda: setattr(node, name, new)), (lambda: setattr(node, name, old))


def _words(thing: object) -> str:
    return type(thing).__name__ if isinstance(thing, ast.AST) else repr(thing).strip("'")
