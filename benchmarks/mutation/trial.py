"""Running tests on one changed module, in a child process that can be stopped."""

from __future__ import annotations

import ast
import os
import resource
import sys
import time
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

PASSED, FAILED, STOPPED = "passed", "failed", "stopped"
MEMORY = 24 * 2**30


class Changed(MetaPathFinder, Loader):
    """Finds one module as compiled from a changed tree."""

    def __init__(self, module: str, path: str, code: CodeType) -> None:
        self.module, self.path, self.code = module, path, code

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Only that module; the others are found as ever."""
        return ModuleSpec(name, self, origin=self.path) if name == self.module else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed code."""
        module.__file__ = self.path
        exec(self.code, module.__dict__)


def trial(module: str, path: str, tree: ast.Module, command: str, seconds: float) -> str:
    """What becomes of a command of pytest when a module is what its tree says."""
    child = os.fork()
    if child == 0:
        _run(
            Changed(module, path, compile(ast.fix_missing_locations(tree), path, "exec")),
            command,
            seconds,
        )
    began = time.monotonic()
    while time.monotonic() - began < 60.0 + 10.0 * seconds:  # the processor may be busy
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if os.WIFSIGNALED(status):
                return STOPPED
            return PASSED if os.WEXITSTATUS(status) == 0 else FAILED
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return STOPPED


def _run(changed: Changed, command: str, seconds: float) -> None:
    """Run pytest quietly, and never return."""
    import shlex

    code = 1
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        limit = int(seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        sys.meta_path.insert(0, changed)
        import pytest

        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *shlex.split(command)]))
    finally:
        os._exit(code)
