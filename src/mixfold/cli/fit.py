"""mixfold fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mixfold.cli import _options as o
from mixfold.cli._csv_options import csv_options, found_files, with_csv

if TYPE_CHECKING:
    from mixfold.cli._bar import Watch
    from mixfold.sources.location import Location

MOVED = 5  # columns that are shown for a drift


@csv_options
def fit(
    files: o.Files,
    *,
    components: o.Components,
    family: o.Family = "gaussian",
    family_of: o.FamilyOf = None,
    covariance: o.Covariance = None,
    rank: o.Rank = None,
    learner: o.Learner = "auto",
    option: o.LearnerOption = None,
    init: o.Init = "auto",
    n_init: Annotated[
        int, o.option("--n-init", metavar="N", help="Fit N times and keep the best.", min=1)
    ] = 1,
    max_iter: o.MaxIter = None,
    columns: o.Columns = None,
    missing: o.Missing = "marginalize",
    unseen: o.Unseen = "error",
    weights: o.Weights = None,
    labels: o.Labels = None,
    false_alarm_rate: Annotated[
        float | None,
        o.option(
            "--false-alarm-rate",
            metavar="RATE",
            help="Save a detector that raises so many false alarms.",
        ),
    ] = None,
    csv: dict[str, Any],
    checkpoint: Annotated[
        Path | None,
        o.option(
            "--checkpoint", metavar="PATH", help="Save the fit here; also --resume, --force-resume."
        ),
    ] = None,
    resume: Annotated[
        bool,
        o.option("--resume", metavar=None, help="Resume from the checkpoint.", hidden=True),
    ] = False,
    force_resume: Annotated[
        bool,
        o.option(
            "--force-resume",
            metavar=None,
            help="Resume even if the data have changed.",
            hidden=True,
        ),
    ] = False,
    cluster: o.Cluster = None,
    engine: o.Engine = None,
    seed: o.Seed = 0,
    threads: o.Threads = None,
    progress: o.ShowProgress = False,
    output: Annotated[Path, o.output("Model file; default: model.mixfold.")] = Path(
        "model.mixfold"
    ),
    force: o.Force = False,
    json: o.HiddenJson = False,
) -> None:
    """Fit a mixture to files of any size. FILES: Parquet, CSV, Arrow, .npy,
    folders, 'globs', URLs, @faithful, - (stdin). Ctrl-C saves. Also --json.

    Example: mixfold fit 'days/*.parquet' -k 3 --learner em -O tol=1e-4
    """
    from mixfold.cli._bar import Watch, budget_of
    from mixfold.cli._files import bundled, save_model
    from mixfold.cli._records import check_json, detector_record, print_json
    from mixfold.cli._settings import Settings
    from mixfold.cli._streams import check_dashes, with_stdin
    from mixfold.core.errors import InvalidInputError

    check_json(json, output)
    check_dashes([init, *files])
    [init] = with_stdin([init])
    if (resume or force_resume) and checkpoint is None:
        raise InvalidInputError("--resume needs --checkpoint PATH to resume from")
    model = Settings(
        components,
        family,
        covariance,
        learner,
        option or [],
        init,
        n_init,
        max_iter,
        o.listed(columns),
        seed,
        threads,
        rank,
        family_of or [],
        missing,
        unseen,
    ).estimator()
    _check_alarms(false_alarm_rate, weights, labels)
    going_on = "force" if force_resume else resume
    model.set_params(checkpoint=checkpoint, resume=going_on, cluster=cluster, engine=engine)
    data = found_files(bundled(files), csv)
    _check_outputs(model, output, force, [*data, Path(init)])
    watch = Watch(progress, budget_of(model.learner, max_iter), n_init)
    rows = with_csv(data, csv)
    _learn(model, rows, {"sample_weight": weights, "labels": labels}, watch, output)
    detector = None
    if false_alarm_rate is not None:
        detector = _detector(model, rows, false_alarm_rate, output)
    save_model(detector or model, output)
    if json:
        print_json(
            {**_record(model, watch), **detector_record(detector), "saved_in": output},
        )
    else:
        _summarize(model, detector, watch, output)


def _check_alarms(rate: float | None, weights: str | None, labels: str | None) -> None:
    """Refuse settings of a detector before the fit begins."""
    from mixfold.core.errors import InvalidInputError
    from mixfold.estimators.anomaly_detector import AnomalyDetector
    from mixfold.estimators.mixture import Mixture

    if rate is None:
        return
    for option, column in (("--weights", weights), ("--labels", labels)):
        if column is not None:
            raise InvalidInputError(
                f"{option} {column} and --false-alarm-rate {rate:g}: the threshold is that of rows "
                "that count alike and have no labels; leave one of them out"
            )
    AnomalyDetector.from_mixture(Mixture(), false_alarm_rate=rate)


def _detector(model: Any, rows: Any, rate: float, output: Path) -> Any:
    """The detector around a fitted mixture; after an interrupt the mixture alone is saved."""
    from mixfold.cli._files import save_model
    from mixfold.cli._stopped import Stopped
    from mixfold.cli._termination import INTERRUPTED, TERMINATED, Terminated
    from mixfold.estimators.anomaly_detector import AnomalyDetector

    try:
        return AnomalyDetector.from_mixture(model, rows, false_alarm_rate=rate)
    except KeyboardInterrupt as stop:
        ended = isinstance(stop, Terminated)
        how, code = ("terminated", TERMINATED) if ended else ("interrupted", INTERRUPTED)
        save_model(model, output)
        raise Stopped(
            f"{how} while the threshold was computed; the mixture is saved in {output} without it",
            code,
        ) from None


def _check_outputs(model: Any, output: Path, force: bool, inputs: list[Location]) -> None:
    from mixfold.cli._files import check_apart, check_model_output
    from mixfold.fitting.checkpoint import check_checkpoint

    outputs = [output]
    if model.checkpoint is not None:
        outputs.append(model.checkpoint)
    memory = getattr(model.learner, "memory", None)
    if memory is not None:
        outputs += [Path(memory), Path(f"{memory}.0"), Path(f"{memory}.1")]
    check_apart(outputs, inputs)
    check_model_output(output, force)
    if model.checkpoint is not None:
        check_checkpoint(model.checkpoint)


def _learn(model: Any, data: Any, named: dict[str, str | None], watch: Watch, output: Path) -> None:
    """Fit the model; after an interrupt, save what was learned and report it.

    `named` are the columns of weights and labels.
    """
    from mixfold.cli._files import save_model
    from mixfold.cli._stopped import Stopped
    from mixfold.cli._tables import counted
    from mixfold.cli._termination import INTERRUPTED, TERMINATED, Terminated

    model.progress = watch
    try:
        model.fit(data, **named)
    except KeyboardInterrupt as stop:
        ended = isinstance(stop, Terminated)
        how, code = ("terminated", TERMINATED) if ended else ("interrupted", INTERRUPTED)
        if watch.fit is None or not hasattr(model, "n_seen_"):
            raise Stopped(f"{how} before anything was learned; nothing is saved", code) from None
        save_model(model, output)
        again = ""
        if model.checkpoint is not None and model.checkpoint.is_file():
            again = f"; continue with --checkpoint {model.checkpoint} --resume"
        stopped = watch.fit
        rows = f"{stopped.row:,} rows"
        if stopped.passes:
            rows = f"{counted(stopped.passes, 'pass')} over {stopped.length:,} rows and {rows} more"
        raise Stopped(
            f"{how} in pass {stopped.passes + 1}; the model learned from {rows} is saved in "
            f"{output}{again}",
            code,
        ) from None
    finally:
        watch.close()


def _record(model: Any, watch: Watch) -> dict[str, Any]:
    """What the fit has found, as JSON."""
    from mixfold.cli._records import component_records, family_records

    done, found = watch.fit, {}
    if done is not None:
        found = {
            "log_likelihood": done.log_likelihood,
            "bound": done.bound,
            "rows": done.length,
            "passes": done.passes,
            "seconds": watch.seconds,
        }
    return {
        **found,
        "converged": model.converged_,
        "n_degenerate": model.n_degenerate_,
        "drifts": getattr(model, "drifts_", ()),
        "chosen_families": family_records(model),
        "components": component_records(model),
    }


def _summarize(model: Any, detector: Any, watch: Watch, output: Path) -> None:
    from mixfold.cli._tables import (
        chosen_families,
        components,
        console,
        counted,
        print_plain,
        reached_per_row,
        threshold_in_words,
    )

    out = console(output)
    chosen_families(model, out)
    components(model, out)
    if watch.fit is not None:
        done = watch.fit
        best = f", best of {watch.starts} starts" if watch.starts > 1 else ""
        out.print(
            f"log-likelihood {reached_per_row(done.log_likelihood, done.bound)}{best}, "
            f"{counted(done.length, 'row')}, {counted(done.passes, 'pass')}, {watch.seconds:.2f} s"
        )
    if not model.converged_:
        out.print("[yellow]not converged: more passes may give a better model[/]")
    if model.n_degenerate_:
        out.print(
            f"[yellow]degenerate components: {model.n_degenerate_} of {len(model.weights_)}; fewer "
            "may be enough[/]"
        )
    if detector is not None:
        out.print(f"alarms {threshold_in_words(detector)}")
    moved = getattr(model, "drift_columns_", ())
    for row, columns in zip(getattr(model, "drifts_", ()), moved, strict=True):
        most = ", ".join(f"{c} {far:+.1f}" for c, far in [*columns.items()][:MOVED])
        shown = f"; columns moved, in deviations: {most}" if most else ""
        out.print(f"drift was detected: the learner was restarted after row {row:,}{shown}")
    print_plain(out, f"saved in {output}")
