"""The entry point: runs a command, and reports errors as one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mixfold.cli._stopped import Stopped
from mixfold.cli._terminal import abandon, say, usable_streams
from mixfold.cli._termination import INTERRUPTED, TERMINATED, terminations

FAILED, USER_ERROR, NEEDED = 1, 2, ("typer", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default with the arguments of the process.

    Returns the exit code: 0 for success, 1 for a failure of the system such as too little memory, 2
    for a mistake of the user, 130 for an interrupt, 143 for SIGTERM.
    """
    with usable_streams(), terminations(last=arguments is None) as termination:
        try:
            code = _run(arguments)
            termination.ending = True
        except KeyboardInterrupt:
            termination.ending = True
            ended = termination.received
            code = _say("terminated", TERMINATED) if ended else _say("interrupted", INTERRUPTED)
        except SystemExit:  # typer raises it when the reader of the output has closed the pipe
            code = FAILED
    return _flush(code)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        from mixfold.cli._app import run
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        return _say("the command line needs typer and rich: pip install 'mixfold[cli]'")
    try:
        code = run(arguments)
    except Exception as error:
        return _say_error(error)
    if code == INTERRUPTED:  # typer raises it for an interrupt
        raise KeyboardInterrupt
    return code


def _say_error(error: Exception) -> int:
    """Print an error in one line; unexpected errors are raised again."""
    import typer

    if isinstance(error, Stopped):
        return _say(error, error.code)
    if isinstance(error, typer.Abort):
        raise KeyboardInterrupt
    if BrokenPipeError in (type(error), type(error.__cause__)):  # nobody reads the output any more
        return FAILED
    if isinstance(error, MemoryError):
        return _say(error, FAILED)
    if isinstance(error, ValueError | OSError | ImportError):
        return _say(error)
    if hasattr(error, "format_message"):
        return _say_usage(error)
    raise error


def _say_usage(error: Exception) -> int:
    """Print an error in the command line that typer has found."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "mixfold"
    message = error.format_message().rstrip(".")  # type: ignore[attr-defined]
    return _say(f"{message} (see {command} --help)")


def _say(message: object, code: int = USER_ERROR) -> int:
    say(message)
    return code


def _flush(code: int) -> int:
    """Flush the streams; if that fails, the interpreter must not try again at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            abandon(stream)
            code = code or FAILED
    return code


if __name__ == "__main__":
    sys.exit(main())
