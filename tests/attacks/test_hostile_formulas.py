"""Formulas that try to run code or to take forever; `benchmarks/attack.py` tries many more."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixfold
from attacks import run_some
from attacks._formula_texts import CODE, FORMULAS, MARK
from attacks.formulas import (
    deep_node,
    fitted,
    load_model,
    nothing_runs,
    small_table,
    swapped,
    unchecked,
    use_commands,
)
from mixfold import LinearMixedModel, LogisticMixedModel
from mixfold.core.errors import InvalidInputError, MixfoldError, ModelFileError
from mixfold.core.value import flatten
from mixfold.estimators._formula import FormulaDesign
from mixfold.estimators._formula_levels import FormulaLevelTable
from mixfold.estimators._formula_parser import parse_formulas
from mixfold.estimators._formula_tree import FormulaTree
from mixfold.estimators.formula_nodes import (
    DEEPEST,
    MOST_FACTORS,
    MOST_NODES,
    MOST_TERMS,
    FormulaCall,
    FormulaColumn,
    FormulaLevels,
    FormulaNegative,
    FormulaNumber,
    FormulaOperation,
    FormulaPolynomial,
    FormulaPower,
    FormulaStandardized,
)
from mixfold.estimators.saving import SavedModel
from mixfold.fitting.files import write

ISSUE = f"y ~ I(x * ('`' and (__import__('os').system('touch {MARK}'), 1.0)[1] or '`'))"


@pytest.fixture(scope="module")
def saved() -> SavedModel:
    return fitted()


# what the attacks rely on


def test_code_that_runs_is_noticed(tmp_path: Path) -> None:
    for name in ("eval", "exec", "compile"):
        arguments = ("file", "eval") if name == "compile" else ()
        with pytest.raises(AssertionError), nothing_runs(tmp_path):
            getattr(builtins, name)(f"'{MARK}'", *arguments)
    with pytest.raises(AssertionError, match="has run"), nothing_runs(tmp_path):
        Path(MARK).touch()
    with nothing_runs(tmp_path):
        assert eval("1 + 1") == 2


# text


@pytest.mark.parametrize("model", [LinearMixedModel, LogisticMixedModel])
def test_the_formula_of_the_report_is_refused(model: Any, tmp_path: Path) -> None:
    for formula, random in ((ISSUE, "~ 1"), ("y ~ x", ISSUE[2:])):
        with nothing_runs(tmp_path), pytest.raises(InvalidInputError, match="has no meaning here"):
            model(formula, random, "g").fit(small_table())


def test_no_code_is_a_formula(tmp_path: Path) -> None:
    with nothing_runs(tmp_path):
        for form in FORMULAS:
            for code in CODE:
                with pytest.raises(MixfoldError):
                    LinearMixedModel(form.format(code=code), group="g").fit(small_table())


NAMES = " + ".join("abcdefghijklmnopqrst")
LIMITS = [
    ("9**9**9**9", "of numbers, terms are 0 and 1 alone"),
    ("a**100000000", "a power of terms is a whole number from 1 to 6"),
    (f"({NAMES})**19", "a power of terms is a whole number from 1 to 6"),
    (f"({NAMES})**6", "more than 5000 terms"),
    (NAMES.replace("+", "*"), "interactions of more than 6 factors"),
    (NAMES.replace("+", "/"), "interactions of more than 6 factors"),
    (NAMES.replace("+", ":"), "interactions of more than 6 factors"),
    (" * ".join(["(a * b * c * d * e * f)"] * 1000), "more than 100000 products of terms"),
    (" + ".join(f"x{i}" for i in range(6000)), "more than 5000 terms"),
    ("a" + " + a" * 20_000, "more than 20000 names, numbers and operators"),
    ("(" * 9000 + "a" + ")" * 9000, "nested more than 15 deep"),
    ("log(" * 9000 + "a", "nested more than 15 deep"),
    (f"I({'-' * 9000}a)", "nested more than 15 deep"),
    (f"I({'a ** ' * 9000}a)", "nested more than 15 deep"),
    ("(" * 200_000, "characters, and at most 100000 are possible"),
    (f"I({'9' * 5000} * a)", "too large for float64"),
    ("I(1e999 * a)", "too large for float64"),
]


@pytest.mark.parametrize(("effects", "message"), LIMITS, ids=[text[:20] for text, _ in LIMITS])
def test_limits_are_named(effects: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_formulas(f"y ~ {effects}", "~ 1")
    with pytest.raises(InvalidInputError, match=message):
        parse_formulas("y ~ 1", f"~ {effects}")


def test_more_random_effects_than_statistics_can_be_held_of() -> None:
    effects = " + ".join(f"I(x + {i})" for i in range(1500))
    with pytest.raises(InvalidInputError, match="random has 1501 effects"):
        LinearMixedModel("y ~ x", f"~ {effects}", group="g").fit(small_table())


def test_powers_are_of_float64() -> None:
    for power in ("9 ** 9 ** 9 ** 9", "(9 ** 9) ** x ** 99", "x ** 1e308 ** 9"):
        with pytest.raises(InvalidInputError, match=r"row 1 \(counted from 1\): .* is (inf|nan)"):
            LinearMixedModel(f"y ~ I({power} * x)", group="g").fit(small_table())


@pytest.mark.parametrize("model", [LinearMixedModel, LogisticMixedModel])
def test_values_whose_squares_overflow_are_refused(model: Any) -> None:
    response = "y" if model is LinearMixedModel else "z"
    large = f"I({'9' * 200} * x)"
    for formula, random in (
        (f"{response} ~ {large}", "~ 1"),
        (f"{response} ~ x", f"~ 0 + {large}"),
    ):
        with pytest.raises(InvalidInputError, match="must be below 1e\\+60 in size"):
            model(formula, random, "g").fit(small_table())


def test_all_that_can_be_parsed_can_be_saved(tmp_path: Path) -> None:
    """The deepest texts make trees that model files can hold."""
    text = "x"
    for _ in range(14):
        text = f"abs(1 + 2 * {text})"
    model = LinearMixedModel(f"y ~ {text}", group="g").fit(small_table())
    model.save(tmp_path / "m.mixfold")
    loaded = mixfold.load(tmp_path / "m.mixfold")
    np.testing.assert_array_equal(loaded.predict(small_table()), model.predict(small_table()))
    assert loaded.coef_names_ == ["Intercept", text]


@pytest.mark.parametrize("function", ["bs", "standardize", "lag"])
def test_other_functions_of_all_rows_are_refused_with_the_remedy(function: str) -> None:
    with pytest.raises(InvalidInputError, match="scale and poly alone are known; make it a column"):
        parse_formulas(f"y ~ {function}(x)", "~ 1")


# model files


def test_a_model_file_has_no_text_of_its_formula(saved: SavedModel) -> None:
    tree = json.dumps(flatten(saved.learned.design, "", {}))
    assert "~" not in tree
    assert "(" not in tree


def test_load_neither_parses_nor_evaluates(
    saved: SavedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "m.mixfold"
    write(file, "model", saved)

    def never(*given: Any, **named: Any) -> Any:
        raise AssertionError("load has parsed or evaluated a formula")

    for module, name in (
        ("_observations", "parse_formulas"),
        ("_formula_tokens", "FormulaText.tokens"),
        ("_formula", "evaluate"),
        ("_formula", "FormulaDesign.matrices"),
        ("_formula", "polynomials"),
        ("_observations", "learn_constants"),
    ):
        monkeypatch.setattr(f"mixfold.estimators.{module}.{name}", never)
    assert mixfold.load(file).coef_names_[0] == "Intercept"


X = FormulaColumn("x")
CENTER: dict[str, Any] = {"function": "center", "argument": X, "mean": 0.0, "deviation": 1.0}
POLY: dict[str, Any] = {
    "argument": X,
    "degree": 2,
    "named": False,
    "centers": [1.0, 2.0],
    "scales": [1.0] * 3,
}
WRONG_POLY: list[dict[str, Any]] = [
    *({"degree": d} for d in (0, 1, 3, 7, -1, 10**9, True, 2.0, None)),
    *({"centers": c} for c in ([], [1.0], [1.0] * 3, [1.0, float("nan")], None, [X, X])),
    *({"scales": s} for s in ([], [1.0] * 2, [1.0, 0.0, 1.0], [-1.0] * 3, None, "abc")),
    {"scales": [1.0, 1.0, float("nan")]},
    {"degree": 7, "centers": [1.0] * 7, "scales": [1.0] * 8},
]
NODES: list[tuple[str, type, dict[str, Any]]] = [
    ("poly as a standardizing function", FormulaStandardized, CENTER | {"function": "poly"}),
    ("a mean that is missing", FormulaStandardized, CENTER | {"mean": None}),
    ("a mean that is not finite", FormulaStandardized, CENTER | {"mean": float("nan")}),
    ("a mean that is too large", FormulaStandardized, CENTER | {"mean": 1e300}),
    ("a center with a scale", FormulaStandardized, CENTER | {"deviation": 0.5}),
    *(
        (f"a deviation of {wrong}", FormulaStandardized, CENTER | {"function": "scale"} | wrong)
        for wrong in ({"deviation": d} for d in (0.0, -1.0, float("nan"), float("inf"), None))
    ),
    ("a center of text", FormulaStandardized, CENTER | {"argument": ISSUE}),
    ("a nested center", FormulaStandardized, CENTER | {"argument": FormulaStandardized(**CENTER)}),
    (
        "a polynomial of a center",
        FormulaPolynomial,
        POLY | {"argument": FormulaNegative(FormulaStandardized(**CENTER))},
    ),
    ("a polynomial of text", FormulaPolynomial, POLY | {"argument": ISSUE}),
    ("a polynomial of levels", FormulaPolynomial, POLY | {"argument": FormulaLevels("x")}),
    *((f"a polynomial with {wrong}", FormulaPolynomial, POLY | wrong) for wrong in WRONG_POLY),
    (
        "a polynomial in arithmetic",
        FormulaCall,
        {"function": "log", "argument": FormulaPolynomial(**POLY)},
    ),
    ("another function", FormulaCall, {"function": "__import__", "argument": X}),
    ("C as a function", FormulaCall, {"function": "C", "argument": X}),
    ("an argument that is text", FormulaCall, {"function": "log", "argument": ISSUE}),
    ("levels in arithmetic", FormulaCall, {"function": "log", "argument": FormulaLevels("x")}),
    ("another operator", FormulaOperation, {"operators": ["@"], "operands": [X, X]}),
    ("mixed operators", FormulaOperation, {"operators": ["+", "*"], "operands": [X, X, X]}),
    ("no operators", FormulaOperation, {"operators": [], "operands": [X]}),
    ("too few operands", FormulaOperation, {"operators": ["+"], "operands": [X]}),
    ("an operand that is text", FormulaOperation, {"operators": ["+"], "operands": [X, "x"]}),
    ("an exponent that is text", FormulaPower, {"base": X, "exponent": "9**9"}),
    ("a large integer", FormulaNumber, {"number": 9**99}),
    ("a number that is not finite", FormulaNumber, {"number": float("inf")}),
    ("a number that is text", FormulaNumber, {"number": CODE[0]}),
    ("a backtick", FormulaColumn, {"name": f"x` + {CODE[0]} + `x"}),
    ("no name", FormulaColumn, {"name": ""}),
    ("a name that is no text", FormulaColumn, {"name": 1}),
    ("a number alone", FormulaNumber, {"number": 1}),
]


def refused_on_load(model: SavedModel, folder: Path) -> str:
    file = folder / "crafted.mixfold"
    write(file, "model", model)
    with nothing_runs(folder), pytest.raises(ModelFileError) as error:
        mixfold.load(file)
    return str(error.value)


@pytest.mark.parametrize(("cls", "given"), [node[1:] for node in NODES], ids=[n[0] for n in NODES])
def test_other_nodes_are_refused_on_load(
    cls: type, given: dict[str, Any], saved: SavedModel, tmp_path: Path
) -> None:
    place = ("learned", "design", "tree", "factors", 1)
    refused_on_load(swapped(saved, place, unchecked(cls, given)), tmp_path)
    if cls is not FormulaNumber:
        with pytest.raises(InvalidInputError):
            cls(**given)


TREES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("text instead of a tree", (), ISSUE),
    ("text instead of a factor", ("factors", 0), ISSUE),
    ("a tree that is too deep", ("factors", 1), deep_node(DEEPEST)),
    ("too many terms", ("fixed",), [[]] * (MOST_TERMS + 1)),
    ("too many factors", ("fixed", 1), [0] * (MOST_FACTORS + 1)),
    ("no effects", ("fixed",), []),
    ("no response", ("response",), []),
    ("a response of polynomials", ("factors", 0), FormulaPolynomial(**POLY)),
    ("a factor that is not there", ("fixed", 1), [99]),
    ("a factor before the first", ("fixed", 1), [-1]),
    ("a factor twice", ("fixed", 1), [1, 1]),
    ("a factor by no number", ("fixed", 1), [True]),
    ("a term that is text", ("fixed", 1), "1"),
    ("fewer effects", ("fixed",), [[]]),
]


@pytest.mark.parametrize(("place", "new"), [tree[1:] for tree in TREES], ids=[t[0] for t in TREES])
def test_other_trees_are_refused_on_load(
    place: tuple[Any, ...], new: Any, saved: SavedModel, tmp_path: Path
) -> None:
    refused_on_load(swapped(saved, ("learned", "design", "tree", *place), new), tmp_path)


def test_large_trees_are_refused() -> None:
    wide = FormulaOperation(["+"] * MOST_NODES, [X] * (MOST_NODES + 1))
    with pytest.raises(InvalidInputError, match=f"more than {MOST_NODES}"):
        FormulaTree([FormulaColumn("y"), wide], [0], [[1]], [[]])


def test_large_designs_are_refused() -> None:
    long, many = FormulaColumn("x" * 90_000), FormulaLevels("k")
    tree = FormulaTree([FormulaColumn("y"), long, many], [0], [[1, 2]], [[]])
    for number, message in ((20_000, "20000 columns: at most 10000"), (9_000, "shorter names")):
        levels = FormulaLevelTable([*range(number)], True)
        with pytest.raises(InvalidInputError, match=message):
            FormulaDesign(tree, "g", ["k", long.name, "y"], [levels, None, None])


@pytest.mark.parametrize("name", ["formula", "random"])
def test_hostile_settings_are_text_until_fit_refuses_them(
    name: str, saved: SavedModel, tmp_path: Path
) -> None:
    place = ("settings", saved.names.index(name))
    crafted = swapped(saved, place, ISSUE if name == "formula" else ISSUE[2:])
    load_model(tmp_path, crafted)
    with nothing_runs(tmp_path):
        model = mixfold.load(tmp_path / "crafted.mixfold")
        assert len(model.predict(small_table())) == 40
        with pytest.raises(InvalidInputError, match="has no meaning here"):
            model.fit(small_table())


@pytest.mark.parametrize("command", ["inspect", "score", "fit"])
def test_commands_refuse_crafted_files(command: str, saved: SavedModel, tmp_path: Path) -> None:
    use_commands(tmp_path, saved, command)
    for place, new in ((("factors", 1), ISSUE), ((), ISSUE), (("fixed",), ISSUE)):
        crafted = swapped(saved, ("learned", "design", "tree", *place), new)
        use_commands(tmp_path, crafted, command)


def test_random_attacks(tmp_path: Path) -> None:
    run_some("formulas", 80, tmp_path)
