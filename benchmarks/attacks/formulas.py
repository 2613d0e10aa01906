"""Formulas that try to run code or to take forever, in text and in model files."""

from __future__ import annotations

import builtins
import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv

import mixfold
from mixfold import LinearMixedModel, LogisticMixedModel
from mixfold.cli.main import main
from mixfold.core.errors import MixfoldError, ModelFileError
from mixfold.core.value import is_value
from mixfold.estimators.formula_nodes import (
    DEEPEST,
    MOST_NODES,
    FormulaCall,
    FormulaColumn,
    FormulaNegative,
    FormulaNumber,
    FormulaOperation,
    FormulaPolynomial,
    FormulaStandardized,
)
from mixfold.estimators.learned_effects import LearnedEffects
from mixfold.estimators.saving import SavedModel, taken_apart
from mixfold.fitting.files import write
from mixfold.fitting.reading import read
from mixfold.learners.em import EM

from . import Attack
from ._formula_texts import CODE, MARK, endless_text, hostile_text, random_text

# what notices that something has run


@contextlib.contextmanager
def nothing_runs(folder: Path) -> Iterator[None]:
    """Fail if hostile code reaches Python's compiler, or leaves its mark in the folder."""
    reached: list[str] = []

    def watched(name: str) -> Callable[..., Any]:
        original = getattr(builtins, name)

        def call(source: Any, *rest: Any, **named: Any) -> Any:
            if MARK in str(source):
                reached.append(name)
                raise AssertionError(f"{name} was given the text of a formula")
            return original(source, *rest, **named)

        return call

    names = ("eval", "exec", "compile")
    with contextlib.chdir(folder), contextlib.ExitStack() as patches:
        for name in names:
            patches.enter_context(patch.object(builtins, name, watched(name)))
        yield
    assert not reached, f"a formula reached {reached[0]}"
    marks = [*folder.rglob(f"*{MARK}*")]
    for mark in marks:
        mark.unlink()
    assert not marks, "a formula has run"


def refused(action: Callable[[], object]) -> bool:
    """Whether mixfold refuses; nothing but its own errors may come out."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            action()
    except MixfoldError:
        return True
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} came out: {error}"[:500]) from error
    return False


# texts


def small_table() -> pa.Table:
    """Rows that all formulas here can be given."""
    rng = np.random.default_rng(0)
    n = 40
    x = rng.uniform(0.5, 3.0, size=n)
    y = x + rng.normal(size=n)
    kind = ["a", "b", "c", "b"] * (n // 4)
    return pa.table({"y": y, "z": y > 1.0, "x": x, "kind": kind, "g": np.arange(n) // 4})


def fit_text(folder: Path, text: str, place: str, logistic: bool) -> None:
    """Fit a model with a hostile formula, as the one or the other of its two formulas."""
    kind: Any = LogisticMixedModel if logistic else LinearMixedModel
    settings: dict[str, Any] = {"max_iter": 1, "evaluation_draws": 2} if logistic else {}
    effects = text if place == "formula" else "~" + text.partition("~")[2]
    given = {"formula": "z ~ x" if logistic else "y ~ x", "random": "~ 1", place: effects}
    model = kind(given["formula"], given["random"], "g", **settings)
    with nothing_runs(folder):
        refused(lambda: model.fit(small_table()))


# model files


def fitted() -> SavedModel:
    """A model with every kind of node in its formula, taken apart."""
    formula = "y ~ log(x + 2 * x ** 1.5) + C(kind):x + I(-(x ** 2) / 3) + poly(exp(x), degree=2)"
    model = LinearMixedModel(formula, "~ 1 + center(x) + I(2 * scale(x) ** 2)", "g")
    model.fit(small_table())
    return taken_apart(model)


def unchecked(cls: Any, given: dict[str, Any]) -> Any:
    """A value that was never checked, as a file may hold it."""
    thing = object.__new__(cls)
    for name, part in given.items():
        object.__setattr__(thing, name, part)
    return thing


def parts(thing: Any) -> dict[Any, Any]:
    """What a value or list is made of."""
    if isinstance(thing, list):
        return dict(enumerate(thing))
    if is_value(thing):
        return {field.name: getattr(thing, field.name) for field in fields(thing)}
    return {}


def places(thing: Any) -> Iterator[tuple[Any, ...]]:
    """Where something stands inside values and lists."""
    for name, part in parts(thing).items():
        yield (name,)
        for rest in places(part):
            yield (name, *rest)


def swapped(thing: Any, place: tuple[Any, ...], new: Any) -> Any:
    """The same values, unchecked, with another part at one place."""
    if not place:
        return new
    inside = parts(thing)
    inside[place[0]] = swapped(inside[place[0]], place[1:], new)
    return [*inside.values()] if isinstance(thing, list) else unchecked(type(thing), inside)


def deep_node(depth: int) -> Any:
    """An expression nested beyond all bounds."""
    node: Any = FormulaColumn("x")
    for _ in range(depth):
        node = FormulaNegative(node)
    return node


def hostile_node(rng: np.random.Generator) -> Any:
    """What has no place in the tree of a formula."""
    x, code = FormulaColumn("x"), str(rng.choice(CODE))
    centered = FormulaStandardized("center", x, 0.5, 1.0)
    polynomial = FormulaPolynomial(x, 1, False, [0.5], [1.0, 2.0])
    functions = ["__import__", "eval", "exec", "open", "getattr", "C", "poly", code, None, 3]
    number = [0, -1.0, 1e-300, 1e300, np.nan, np.inf, None, code, True, 1.0][rng.integers(10)]
    numbers, degree = [number] * int(rng.integers(8)), int(rng.integers(-1, 9))
    operators = ["@", "**", ".", "and", ":=", ",", "(", code, None, 7]
    function, operator = functions[rng.integers(10)], operators[rng.integers(10)]
    nodes: list[Callable[[], Any]] = [
        lambda: hostile_text(rng),
        lambda: code,
        lambda: f"`{code}`",
        lambda: unchecked(FormulaCall, {"function": function, "argument": x}),
        lambda: unchecked(FormulaCall, {"function": "log", "argument": code}),
        lambda: unchecked(FormulaOperation, {"operators": [operator], "operands": [x, x]}),
        lambda: unchecked(FormulaOperation, {"operators": ["+"], "operands": [x, code]}),
        lambda: unchecked(FormulaOperation, {"operators": ["+", "*"], "operands": [x, x, x]}),
        lambda: unchecked(FormulaOperation, {"operators": ["+"], "operands": [x]}),
        lambda: unchecked(FormulaColumn, {"name": f"`{code}`"}),
        lambda: unchecked(FormulaColumn, {"name": None}),
        lambda: FormulaColumn(code),
        lambda: unchecked(FormulaNumber, {"number": [code, 10**400, np.nan, -1, True, None][
            rng.integers(6)
        ]}),
        lambda: unchecked(FormulaStandardized, {
            "function": ["center", "scale", function][rng.integers(3)],
            "argument": [x, code, centered, polynomial][rng.integers(4)],
            "mean": [0.5, number][rng.integers(2)],
            "deviation": [0.5, number][rng.integers(2)],
        }),
        lambda: unchecked(FormulaPolynomial, {
            "argument": [x, code, centered, polynomial][rng.integers(4)],
            "degree": [degree, number, 2][rng.integers(3)],
            "named": [True, False, code][rng.integers(3)],
            "centers": [numbers, [0.5] * max(degree, 0), [1.0, number]][rng.integers(3)],
            "scales": [numbers, [0.5] * (degree + 1), [1.0, number, 2.0]][rng.integers(3)],
        }),
        lambda: deep_node(DEEPEST + int(rng.integers(1, 20))),
        lambda: FormulaOperation(["+"] * MOST_NODES, [x] * (MOST_NODES + 1)),
        EM,
        lambda: np.zeros(int(rng.integers(3))),
        lambda: [None, True, -1, 10**30, np.nan, np.inf, [], [[]], [code], ""][rng.integers(10)],
    ]  # fmt: skip
    return nodes[rng.integers(len(nodes))]()


def crafted_model(rng: np.random.Generator, saved: SavedModel) -> SavedModel:
    """A model whose formula has something hostile in a random place, as tree or as text."""
    learned = saved.learned
    assert isinstance(learned, LearnedEffects)
    if rng.random() < 0.1:
        setting = saved.names.index(["formula", "random"][rng.integers(2)])
        made = swapped(saved, ("settings", setting), hostile_text(rng))
    else:
        where = [("learned", "design", *rest) for rest in [(), *places(learned.design)]]
        made = swapped(saved, where[rng.integers(len(where))], hostile_node(rng))
    assert isinstance(made, SavedModel)
    return made


def load_model(folder: Path, saved: SavedModel) -> None:
    """Load a crafted file, and use what comes out."""
    file = folder / "crafted.mixfold"
    write(file, "model", saved)
    with nothing_runs(folder):
        try:
            model = mixfold.load(file)
        except ModelFileError:
            return
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} left load: {error}") from error
        table = small_table()
        refused(lambda: model.fit(table))
        model = mixfold.load(file)
        refused(lambda: model.predict(table))
        refused(lambda: model.score(table))


def use_commands(folder: Path, saved: SavedModel, command: str) -> None:
    """Give a crafted file to the command line."""
    file, rows, made = (folder / name for name in ("crafted.mixfold", "rows.csv", "made.mixfold"))
    write(file, "model", saved)
    pyarrow.csv.write_csv(small_table().select(["x", "y"]), rows)
    arguments = {
        "inspect": [str(file)],
        "score": [str(file), str(rows), "-o", str(folder / "scores.csv")],
        "fit": [str(rows), "-k", "2", "--init", str(file), "-o", str(made)],
    }[command]
    with nothing_runs(folder), contextlib.redirect_stderr(io.StringIO()) as said:
        code = main([command, *arguments])
    assert code == 2, f"exit code {code}: {said.getvalue()}"
    assert "Traceback" not in said.getvalue(), said.getvalue()


def attacks(rng: np.random.Generator, folder: Path) -> Iterator[Attack]:
    """Without end: texts to fit, and model files to load and to give to commands."""
    saved = fitted()
    write(folder / "whole.mixfold", "model", saved)
    assert isinstance(read(folder / "whole.mixfold", "model"), SavedModel)
    while True:
        place = ["formula", "random"][rng.integers(2)]
        for make in (hostile_text, random_text, endless_text):
            text = make(rng)
            run = partial(fit_text, folder, text, place, bool(rng.random() < 0.2))
            yield Attack(f"fit {place} {text[:200]!r}", run)
        for _ in range(4):
            crafted = crafted_model(rng, saved)
            yield Attack("load a crafted tree", partial(load_model, folder, crafted))
        command = ["inspect", "score", "fit"][rng.integers(3)]
        crafted = crafted_model(rng, saved)
        yield Attack(f"{command} a crafted tree", partial(use_commands, folder, crafted, command))
