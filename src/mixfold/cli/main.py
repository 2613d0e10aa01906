"""The entry point: finds the commands, and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

USER_ERROR, INTERRUPTED, NEEDED = 2, 130, ("typer", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 2 a mistake of the user's, 130 an interrupt."""
    try:
        try:
            from mixfold.cli._app import run
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in NEEDED:
                raise
            return _say("the command line needs typer and rich: pip install 'mixfold[cli]'")
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *rest: print(
                f"mixfold: warning: {_one_line(message)}", file=sys.stderr
            )
            return _guarded(run, arguments)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)


def _guarded(run: object, arguments: Sequence[str] | None) -> int:
    import typer

    from mixfold.cli._stopped import Stopped

    try:
        code = run(arguments)  # type: ignore[operator]
        sys.stdout.flush()
    except Stopped as stopped:
        return _say(stopped, INTERRUPTED)
    except typer.Abort:
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # whoever read our output has gone; the interpreter must not flush into the void again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, ImportError) as error:
        return _say(error)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return _say_usage(error)
    return _say("interrupted", code) if code == INTERRUPTED else code


def _say_usage(error: Exception) -> int:
    """A mistake in the command line itself, as typer has found it."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "mixfold"
    message = error.format_message().rstrip(".")  # type: ignore[attr-defined]
    return _say(f"{message} (see {command} --help)")


def _say(message: object, code: int = USER_ERROR) -> int:
    print(f"mixfold: {_one_line(message)}", file=sys.stderr)
    return code


def _one_line(message: object) -> str:
    if isinstance(message, OSError) and message.strerror and message.filename is not None:
        return f"{message.filename}: {message.strerror}"
    return " ".join(str(message).split()) or type(message).__name__


if __name__ == "__main__":
    sys.exit(main())
