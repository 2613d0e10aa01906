"""The entry point: finds the commands, and turns errors into one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mixfold.cli._stopped import Stopped
from mixfold.cli._terminal import abandon, say, usable_streams
from mixfold.cli._termination import INTERRUPTED, TERMINATED, terminations

FAILED, USER_ERROR, NEEDED = 1, 2, ("typer", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of the process, which is to end then.

    0 is success, 1 a failure of the system such as too little memory, 2 a mistake of the user's,
    130 an interrupt, 143 a termination.
    """
    with usable_streams(), terminations(last=arguments is None) as termination:
        try:
            code = _run(arguments)
            termination.ending = True
        except KeyboardInterrupt:
            termination.ending = True
            ended = termination.received
            code = _say("terminated", TERMINATED) if ended else _say("interrupted", INTERRUPTED)
        except SystemExit:  # typer's, when whoever read our output has gone
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
    if code == INTERRUPTED:  # typer's word for an interrupt
        raise KeyboardInterrupt
    return code


def _say_error(error: Exception) -> int:
    """What went wrong, in one line; errors that nobody has foreseen are raised again."""
    import typer

    if isinstance(error, Stopped):
        return _say(error, error.code)
    if isinstance(error, typer.Abort):
        raise KeyboardInterrupt
    if isinstance(error, BrokenPipeError):  # whoever read our output has gone
        return FAILED
    if isinstance(error, MemoryError):
        return _say(error, FAILED)
    if isinstance(error, ValueError | OSError | ImportError):
        return _say(error)
    if hasattr(error, "format_message"):
        return _say_usage(error)
    raise error


def _say_usage(error: Exception) -> int:
    """A mistake in the command line itself, as typer has found it."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "mixfold"
    message = error.format_message().rstrip(".")  # type: ignore[attr-defined]
    return _say(f"{message} (see {command} --help)")


def _say(message: object, code: int = USER_ERROR) -> int:
    say(message)
    return code


def _flush(code: int) -> int:
    """Write what is left to write; the interpreter must not try again, and fail, when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            abandon(stream)
            code = code or FAILED
    return code


if __name__ == "__main__":
    sys.exit(main())
