"""Runs the code blocks of pages of documentation, and compares or renews the outputs shown.

A page is run from top to bottom, like a notebook, in an empty folder. After a `python` block comes
what it prints and the value of its last line, after an `sh` block what its commands print; a `text`
block that follows holds that output. A comment `<!-- setup` ... `-->` holds Python that readers do
not see, such as making the files an example reads; `<!-- not run: why -->` goes before a block that
cannot be run everywhere, `<!-- ci -->` before one that `.ci/run` runs. A picture that a block saves
and the page shows is renewed too.

    python docs/run_blocks.py README.md docs/tutorial.md           # compare
    python docs/run_blocks.py --write README.md docs/tutorial.md   # renew the outputs
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

PIECES = re.compile(
    r"<!-- setup\n(?P<setup>.*?)-->"
    r"|(?P<skip><!-- (?:not run: [^>]+|ci) -->\n)?"
    r"^```(?P<kind>python|sh)\n(?P<code>.*?)^```\n(?:\n?^```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Mismatch:
    """A block whose output is not the one shown."""

    line: int
    code: str
    shown: str
    found: str

    def __str__(self) -> str:
        return f"line {self.line}:\n{self.code}shows\n{self.shown}but gives\n{self.found}"


class Page:
    """One page, run block after block with common variables."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.text, self.folder = path.read_text(encoding="utf-8"), folder
        self.variables: dict[str, object] = {"__name__": "__main__"}
        self.mismatches: list[Mismatch] = []

    def run(self) -> str:
        """The page with the outputs that its blocks have now."""
        with contextlib.chdir(self.folder):
            return PIECES.sub(self._renew, self.text)

    def _renew(self, match: re.Match[str]) -> str:
        if match["setup"] is not None:
            self._python(match["setup"])
            return match[0]
        if match["skip"]:
            return match[0]
        found = self._python(match["code"]) if match["kind"] == "python" else shell(match["code"])
        shown = match["output"] or ""
        if match["kind"] == "sh" and match["output"] is None:
            return match[0]  # commands whose output is not shown
        if doctest.OutputChecker().check_output(shown, found, FLAGS):
            return match[0]
        line = self.text.count("\n", 0, match.start()) + 1
        self.mismatches.append(Mismatch(line, match["code"], shown, found))
        block = f"```{match['kind']}\n{match['code']}```\n"
        return f"{block}\n```text\n{found}```\n" if found else block

    def _python(self, code: str) -> str:
        """What a block prints, and the value of its last line as a notebook shows it."""
        tree, printed = ast.parse(code), io.StringIO()
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, "<block>", "exec"), self.variables)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "<block>", "eval"), self.variables)
                if value is not None and not code.rstrip().endswith(";"):
                    print(repr(value))
        return printed.getvalue()


def shell(code: str) -> str:
    """What commands print; mixfold is the one of this Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        env={**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{code}ended with exit code {done.returncode}: {done.stderr}")
    return done.stdout


def reasons(path: Path) -> list[str]:
    """Why blocks of a page are not run."""
    return re.findall(r"<!-- not run: ([^>]+) -->", path.read_text(encoding="utf-8"))


def run_page(path: Path, write: bool = False) -> list[Mismatch]:
    """Run a page in an empty folder; outputs that differ are returned, and written if wanted."""
    with tempfile.TemporaryDirectory() as folder:
        page = Page(path, Path(folder))
        renewed = page.run()
        for picture in re.findall(r"\]\(pictures/([\w-]+\.png)\)", page.text) if write else ():
            if (Path(folder) / picture).is_file():
                shutil.copy(Path(folder) / picture, path.parent / "pictures" / picture)
    if write:
        path.write_text(renewed, encoding="utf-8")
    return page.mismatches


def main() -> int:
    """Run the pages that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="renew the outputs in the pages")
    wanted = parser.parse_args()
    differing = 0
    for path in wanted.pages:
        for mismatch in run_page(path.resolve(), wanted.write):
            print(f"{path}, {mismatch}")
            differing += 1
    return 1 if differing and not wanted.write else 0


if __name__ == "__main__":
    sys.exit(main())
