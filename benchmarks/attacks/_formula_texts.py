"""Texts of formulas that try to run code, or to take forever."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MARK = "formula-has-run"  # a file that all hostile code tries to make

CODE = (
    f"__import__('os').system('touch {MARK}')",
    f'__import__("pathlib").Path("{MARK}").touch()',
    f"open('{MARK}', 'w').close()",
    f"exec(\"open('{MARK}', 'w')\")",
    f"eval(\"open('{MARK}', 'w')\")",
    f"(lambda: open('{MARK}', 'w'))()",
    f"[open(q, 'w') for q in ['{MARK}']][0]",
    f"(q := open('{MARK}', 'w'))",
    f"f\"{{open('{MARK}', 'w')}}\"",
    f"getattr(__builtins__, 'open')('{MARK}', 'w')",
    f"__builtins__['open']('{MARK}', 'w')",
    f"().__class__.__base__.__subclasses__()[0].__init__.__globals__['{MARK}']",
    f"np.save('{MARK}', 1.0)",
    f"np.__dict__['save']('{MARK}', 1.0)",
    f"x.to_csv('{MARK}')",
    f"x.values.tofile('{MARK}')",
    f"ｅｘｅｃ('{MARK}')",
    f"__import__('os').popen('touch {MARK}').read()",
)
FORMULAS = (
    "y ~ I(x * ('`' and ({code}, 1.0)[1] or '`'))",
    'y ~ I(x * ("`" and ({code}, 1.0)[1] or "`"))',
    "y ~ I(x * ('''`''' and ({code}, 1.0)[1] or '''`'''))",
    "y ~ I(x * ('\\'`' and ({code}, 1.0)[1] or '`'))",
    "y ~ I(`x` * ('`' if {code} else '`'))",
    "y ~ I({code})",
    "y ~ {{{code}}}",
    "y ~ {code}",
    "y ~ x + log({code})",
    "y ~ C({code})",
    "y ~ C(x, contr={code})",
    "y ~ C(x, levels=[{code}])",
    "y ~ bs(x, df={code})",
    "y ~ hashed(x, levels={code})",
    "y ~ poly(x, {code})",
    "y ~ poly(x, degree={code})",
    "y ~ poly({code}, 2)",
    "y ~ poly(x, 2, {code})",
    "y ~ center({code})",
    "y ~ scale(x, ddof={code})",
    "scale({code}) ~ center(x)",
    "y ~ `x`.{code}",
    "y ~ x.__class__.__init__({code})",
    "y ~ x[{code}]",
    "y ~ x @ {code}",
    "y ~ x; {code}",
    "y ~ x\n{code}",
    "y ~ I(x\n, {code})",
    "y ~ I(x) # `\n + {code} # `",
    "y ~ x\x00{code}",
    "y ~ x %{code}% x",
    "y ~ x | {code}",
    "y ~ (1 | {code})",
    "y ~ [x ~ {code}]",
    "y ~ x ** {code}",
    "y ~ x:{code}",
    "{code} ~ x",
    "I({code}) ~ x",
    "y ~ `{code}`",
    "y ~ I(`{code}`)",
    "y ~ 'x' + {code}",
    "y ~ I(x if {code} else x)",
    "y ~ I(x < {code})",
    "y ~ I(not {code})",
    "y ~ I(x and {code})",
    "y ~ I(*{code})",
    "y ~ I(**{code})",
    "y ~ I(yield {code})",
    "y ~ I(await {code})",
    "y ~ I(x := {code})",
)
PIECES = (
    *("`", "'", '"', "\\", "(", ")", "[", "]", "{", "}", "~", "|", "@", ";", ":", "**", "^", "%"),
    *("\n", "\x00", "\u2028", "\ud800", "#", ".", ",", "__class__", "lambda:", ":=", "0x1", "1e9"),
    *(
        " ",
        "//",
        "I(",
        "C(",
        "log(",
        "center(",
        "poly(",
        ", 2)",
        "=",
        "`x`",
        "'''",
        "ⅰ",
        "−",
        "x",
        "y",
        "-",
        "+",
        "9" * 20,
    ),
)


def hostile_text(rng: np.random.Generator) -> str:
    """A formula with code in it, and sometimes some pieces of syntax in random places."""
    text = str(rng.choice(FORMULAS)).format(code=rng.choice(CODE))
    for _ in range(rng.integers(4) if rng.random() < 0.7 else 0):
        place = int(rng.integers(len(text) + 1))
        text = text[:place] + PIECES[rng.integers(len(PIECES))] + text[place:]
    return text


def random_text(rng: np.random.Generator) -> str:
    """Pieces of syntax in any order."""
    pieces = [*PIECES, *CODE, "x", "kind", "log", "2", "**"]
    chosen = rng.integers(len(pieces), size=rng.integers(1, 30))
    return "y ~ " + " ".join(pieces[i] for i in chosen)


def endless_text(rng: np.random.Generator) -> str:
    """A formula that would take forever, or all memory, if it were not bounded."""
    n = int(10 ** rng.uniform(2, 5))
    names = [f"x{i}" for i in range(rng.integers(8, 30))]
    texts: list[Callable[[], str]] = [
        lambda: "9" + "**9" * n,
        lambda: f"x ** {10**20 + n}",
        lambda: f"({' + '.join(names)}) ** {rng.integers(3, 25)}",
        lambda: "(" * n + "x" + ")" * n,
        lambda: f"I({'-' * n}x)",
        lambda: f"I({'x ** ' * n}x)",
        lambda: f"I({'(x + 1) * ' * n}x)",
        lambda: "log(" * n + "x" + ")" * n,
        lambda: "center(" * n + "x" + ")" * n,
        lambda: "poly(" * n + "x" + ", 6)" * n,
        lambda: f"poly(x, {n})",
        lambda: ":".join(f"poly(x ** {i}, 6)" for i in range(2, 8)),
        lambda: " + ".join(f"scale(x ** 1.{i})" for i in range(n)),
        lambda: " * ".join(names),
        lambda: " / ".join(names),
        lambda: ":".join(names),
        lambda: " * ".join(["(x1 * x2 * x3 * x4 * x5 * x6)"] * n),
        lambda: " + ".join(f"x{i}" for i in range(n)),
        lambda: "x + " * n + "x",
        lambda: f"I({'9' * n} * x)",
        lambda: f"`{'x' * n}`",
        lambda: f"I({'9 ** ' * 10}x)",
        lambda: f"I(x ** {'9' * 15})",
        lambda: "x" + " - x" * n,
    ]
    return "y ~ " + texts[rng.integers(len(texts))]()
