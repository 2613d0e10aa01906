"""mixfold reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mixfold.cli import _options as o
from mixfold.experiments import find_study, study_names


def reproduce(
    study: Annotated[str, o.argument("STUDY")],
    *,
    reps: Annotated[
        int | None,
        o.option("--reps", metavar="N", help="Number of repetitions; default: the study's.", min=1),
    ] = None,
    n: Annotated[
        int | None,
        o.option("--n", metavar="N", help="Number of rows; default: the study's.", min=1),
    ] = None,
    data: Annotated[
        Path | None,
        o.option(
            "--data", metavar="FOLDER", help="Folder of larger data sets; default $MIXFOLD_DATA."
        ),
    ] = None,
    out: Annotated[
        Path, o.option("--out", metavar="FOLDER", help="Folder for results; default: reproduced.")
    ] = Path("reproduced"),
) -> None:
    """Run a paper's study again and write its tables and figures."""
    from mixfold.cli._terminal import shown
    from mixfold.core.errors import SourceError
    from mixfold.experiments.wanted import Wanted

    chosen = find_study(study)
    if data is not None and not data.is_dir():
        raise SourceError(f"the data folder {str(data)!r} does not exist")
    out.mkdir(parents=True, exist_ok=True)
    try:
        chosen.run(Wanted(out, _report, reps, n, data))
    finally:
        if not any(out.iterdir()):
            out.rmdir()
    print(f"results are in {shown(out)}")


def _report(line: str) -> None:
    print(line, flush=True)


reproduce.__doc__ = f"""{reproduce.__doc__}

STUDY is one of {", ".join(study_names())}.

Example: mixfold reproduce {study_names()[0]} --reps 10 --out results
"""
