"""mixfold watch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mixfold.cli import _options as o
from mixfold.cli._csv_options import csv_options

if TYPE_CHECKING:
    from mixfold.estimators.anomaly_detector import AnomalyDetector


@csv_options
def watch(
    source: Annotated[str, o.argument("SOURCE")],
    *,
    components: Annotated[
        int | None, o.option("-k", "--components", metavar="K", help="Number of components.", min=1)
    ] = None,
    model: Annotated[
        Path | None,
        o.option("--model", metavar="MODEL", help="Go on with this model file, in place of -k."),
    ] = None,
    family: o.Family = "gaussian",
    family_of: o.FamilyOf = None,
    covariance: o.Covariance = None,
    rank: o.Rank = None,
    learner: o.Learner = "auto",
    option: o.LearnerOption = None,
    init: o.Init = "auto",
    columns: o.Columns = None,
    missing: o.Missing = "marginalize",
    unseen: o.Unseen = "error",
    csv: dict[str, Any],
    false_alarm_rate: Annotated[
        float | None,
        o.option(
            "--false-alarm-rate", metavar="RATE", help="Normal rows with alarms; default 0.001."
        ),
    ] = None,
    on_bad_row: Annotated[
        str, o.option("--on-bad-row", metavar="NAME", help="skip (default) or stop.")
    ] = "skip",
    checkpoint: Annotated[
        Path | None,
        o.option("--checkpoint", metavar="PATH", help="Save here, and continue from it."),
    ] = None,
    checkpoint_every: Annotated[
        float,
        o.option(
            "--checkpoint-every",
            metavar="SECONDS",
            help="Time between checkpoints; default 30.",
            hidden=True,
        ),
    ] = 30.0,
    exit_at_end: Annotated[
        bool, o.option("--exit-at-end", metavar=None, help="End when all rows are learned.")
    ] = False,
    port: Annotated[
        int | None,
        o.option(
            "--port", metavar="N", help="Port of the page; default: a free one.", min=1, max=65535
        ),
    ] = None,
    open_browser: Annotated[
        bool, o.option("--open/--no-open", metavar=None, help="Whether to open a browser.")
    ] = False,
    seed: o.Seed = 0,
    threads: o.Threads = None,
    output: Annotated[
        Path, o.option("-o", "--output", metavar="PATH", help="Model file; default: model.mixfold.")
    ] = Path("model.mixfold"),
    force: o.Force = False,
) -> None:
    """Learn rows as they arrive, and show a live page. SOURCE: a CSV or JSON lines file or a folder
    of Parquet or CSV files that grows, or - for standard input.

    Example: tail -f rides.csv | mixfold watch - -k 3 --learner drift-aware
    """
    from mixfold.cli._files import check_model_output, load_model, mixture_of
    from mixfold.cli._settings import Settings
    from mixfold.core.errors import InvalidInputError
    from mixfold.report.watch_options import WatchOptions
    from mixfold.report.watching import detector_of

    if (components is None) == (model is None):
        raise InvalidInputError("give the number of components with -k, or a model with --model")
    if model is not None:
        learns = load_model(model)
        mixture_of(learns).set_params(n_threads=threads)
    else:
        learns = Settings(
            components or 1,
            family,
            covariance,
            learner,
            option or [],
            init,
            columns=o.listed(columns),
            seed=seed,
            threads=threads,
            rank=rank,
            family_of=family_of or [],
            missing=missing,
            unseen=unseen,
        ).estimator()
    check_model_output(output, force)
    _check_paths(source, output, checkpoint)
    options = WatchOptions(
        output, checkpoint, checkpoint_every, on_bad_row, exit_at_end, tell=_say_message
    )
    detector = detector_of(learns, false_alarm_rate)
    _watch(source, detector, csv, options, port, open_browser)


def _say_message(message: str) -> None:
    from mixfold.cli._terminal import say

    say(message)


def _check_paths(source: str, output: Path, checkpoint: Path | None) -> None:
    from mixfold.cli._files import check_apart
    from mixfold.fitting.checkpoint import check_checkpoint

    outputs = [output, *([] if checkpoint is None else [checkpoint])]
    check_apart(outputs, [Path(source)])
    if checkpoint is not None:
        check_checkpoint(checkpoint)


def _watch(
    source: str,
    detector: AnomalyDetector,
    csv: dict[str, Any],
    options: Any,
    port: int | None,
    open_browser: bool,
) -> None:
    """Watch until the source ends or the user stops it, which is reported."""
    from mixfold.cli._stopped import Stopped
    from mixfold.cli._termination import INTERRUPTED, TERMINATED, Terminated
    from mixfold.core.errors import SourceError
    from mixfold.report.watching import columns_of, learns_numbers, watch_source
    from mixfold.sources.csv_files import PLAIN, CsvOptions
    from mixfold.sources.following import follow

    mixture = detector.estimator_
    followed = follow(
        source, columns_of(mixture), learns_numbers(mixture), CsvOptions(**csv) if csv else PLAIN
    )
    try:
        watcher = watch_source(
            followed,
            detector,
            options,
            port=port,
            ready=lambda address: print(f"the page is at {address}", flush=True),
            open_browser=open_browser,
        )
    except KeyboardInterrupt as stop:
        ended = isinstance(stop, Terminated)
        how, code = ("terminated", TERMINATED) if ended else ("interrupted", INTERRUPTED)
        again = f"; the same command continues from {options.checkpoint}"
        raise Stopped(how + (again if options.checkpoint is not None else ""), code) from None
    if watcher.error is not None:
        raise SourceError(watcher.error)
