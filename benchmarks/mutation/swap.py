"""Putting the code of a changed tree into a module that is imported already."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType


def swap(module: ModuleType, tree: ast.Module, line: int) -> bool:
    """Make a module do what its changed tree says; whether anything was found to change.

    Functions get their new code wherever they are held; values assigned in the module or in a class
    are computed again, here and wherever they were imported by name.
    """
    path = str(module.__file__)
    compiled = compile(ast.fix_missing_locations(tree), path, "exec")
    new = {(code.co_qualname, code.co_firstlineno): code for code in inner(compiled)}
    found = False
    gc.unfreeze()  # frozen things are not listed
    for function in [thing for thing in gc.get_objects() if type(thing) is FunctionType]:
        old = function.__code__
        other = new.get((old.co_qualname, old.co_firstlineno))
        if old.co_filename == path and other is not None and other != old:
            function.__code__, found = other, True
    return found or assign(module, tree, line)


def inner(code: CodeType) -> Iterator[CodeType]:
    """All code inside code."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from inner(constant)


def assign(module: ModuleType, tree: ast.Module, line: int) -> bool:
    """Compute again what is assigned by the statement of that line outside functions."""
    places: list[tuple[object, list[ast.stmt]]] = [(module, tree.body)]
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            places.append((getattr(module, node.name), node.body))
    for owner, body in places:
        for statement in body:
            if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
                continue
            if not statement.lineno <= line <= (statement.end_lineno or statement.lineno):
                continue
            code = compile(ast.Expression(statement.value), "changed", "eval")
            value = eval(code, dict(vars(module)), dict(vars(owner)))
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if not isinstance(target, ast.Name):
                    return False
                _set(owner, target.id, value)
            return True
    return False


def _set(owner: object, name: str, value: object) -> None:
    """Set a value, also in modules that have imported it by its name."""
    old = getattr(owner, name)
    setattr(owner, name, value)
    if isinstance(owner, ModuleType):
        for module in list(sys.modules.values()):
            if isinstance(module, ModuleType) and vars(module).get(name) is old:
                setattr(module, name, value)
