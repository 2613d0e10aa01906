"""mixfold fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mixfold.cli import _options as o

if TYPE_CHECKING:
    from mixfold.cli._bar import Watch


def fit(
    files: o.Files,
    *,
    components: o.Components,
    family: o.Family = "gaussian",
    covariance: o.Covariance = None,
    rank: o.Rank = None,
    learner: Annotated[
        str, o.option("--learner", metavar="NAME", help="auto, em, online-em ...; '?' lists all.")
    ] = "auto",
    option: Annotated[
        list[str] | None,
        o.option("-O", "--option", metavar="NAME=VALUE", help="Of the learner; repeatable."),
    ] = None,
    init: o.Init = "auto",
    n_init: Annotated[
        int, o.option("--n-init", metavar="N", help="Start N times, keep the best.", min=1)
    ] = 1,
    passes: o.Passes = None,
    columns: o.Columns = None,
    weights: o.Weights = None,
    checkpoint: Annotated[
        Path | None,
        o.option("--checkpoint", metavar="PATH", help="Keep the fit here while it runs."),
    ] = None,
    resume: Annotated[
        bool,
        o.option(
            "--resume", metavar=None, help="Go on from there (--force-resume: with other data)."
        ),
    ] = False,
    force_resume: Annotated[
        bool,
        o.option("--force-resume", metavar=None, help="Also with other data.", hidden=True),
    ] = False,
    cluster: Annotated[
        str | None,
        o.option("--cluster", metavar="ADDRESS", help="Of a Dask scheduler, or local."),
    ] = None,
    engine: Annotated[
        str | None,
        o.option("--engine", metavar="NAME", help="cpu, gpu, or a device such as cuda:1."),
    ] = None,
    seed: o.Seed = 0,
    threads: o.Threads = None,
    progress: o.ShowProgress = False,
    output: Annotated[
        Path, o.option("-o", "--output", metavar="PATH", help="Default: model.mixfold.")
    ] = Path("model.mixfold"),
) -> None:
    """Learn a mixture from files of any size. Ctrl-C saves what was learned.

    FILES: Parquet, CSV, Arrow, .npy, folders, 'globs', or @faithful.

    Example: mixfold fit 'days/*.parquet' -k 3 --learner em -O tol=1e-4
    """
    from mixfold.cli._bar import Watch
    from mixfold.cli._files import bundled, check_apart
    from mixfold.cli._output import check_writable
    from mixfold.cli._settings import Settings
    from mixfold.core.errors import InvalidInputError

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
        passes,
        o.listed(columns),
        seed,
        threads,
        rank,
    ).estimator()
    going_on = "force" if force_resume else resume
    model.set_params(checkpoint=checkpoint, resume=going_on, cluster=cluster, engine=engine)
    data = bundled(files)
    for path in (output, checkpoint):
        if path is not None:
            check_writable(path)
            check_apart(path, data)
    planned = passes or getattr(model.learner, "passes", None)
    watch = Watch(progress, planned, n_init)
    _learn(model, data, weights, watch, output)
    model.save(output)
    _summarize(model, watch, output)


def _learn(model: Any, data: Any, weights: str | None, watch: Watch, output: Path) -> None:
    """Fit; after an interrupt save what there is and say so."""
    from mixfold.cli._stopped import Stopped

    model.progress = watch
    try:
        model.fit(data, sample_weight=weights)
    except KeyboardInterrupt:
        if watch.fit is None or not hasattr(model, "n_seen_"):
            raise Stopped("interrupted before anything was learned; nothing is saved") from None
        model.save(output)
        again = ""
        if model.checkpoint is not None:
            again = f"; go on with --checkpoint {model.checkpoint} --resume"
        raise Stopped(
            f"interrupted in pass {watch.fit.passes + 1}; what was learned from "
            f"{model.n_seen_:,} rows is saved in {output}{again}"
        ) from None
    finally:
        watch.close()


def _summarize(model: Any, watch: Watch, output: Path) -> None:
    from mixfold.cli._tables import components, console, reached_per_row

    out = console()
    components(model, out)
    if watch.fit is not None:
        done = watch.fit
        reached, passes = reached_per_row(done.log_likelihood, done.bound), done.passes
        out.print(
            f"log-likelihood {reached}, {passes} pass{'es' * (passes != 1)}, "
            f"{model.n_seen_:,} rows, {watch.seconds:.2f} s"
        )
    if not model.converged_:
        out.print("[yellow]not converged: more passes may give a better model[/]")
    if model.degeneracies_:
        out.print(
            f"[yellow]{model.degeneracies_} times a component was kept from collapsing: "
            "fewer components may be enough[/]"
        )
    for row in getattr(model, "drifts_", ()):
        out.print(f"the rows have changed: learning began anew after row {row:,}")
    out.print(f"saved in {output}", soft_wrap=True, markup=False)
