"""mixfold compare."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from mixfold.cli import _options as o
from mixfold.cli._csv_options import csv_options, with_csv


@csv_options
def compare(
    files: o.Files,
    *,
    components: o.Components,
    learners: Annotated[
        str,
        o.option(
            "--learners",
            metavar="A,B,...",
            help="auto, em, online-em ...; '?' lists all.",
            **o.names_on_request("learners"),
        ),
    ] = "auto,em,mini-batch-em,online-em",
    option: Annotated[
        list[str] | None,
        o.option(
            "-O", "--option", metavar="A.NAME=VALUE", help="Parameter of learner A; repeatable."
        ),
    ] = None,
    family: o.Family = "gaussian",
    family_of: o.FamilyOf = None,
    covariance: o.Covariance = None,
    rank: o.Rank = None,
    init: o.Init = "auto",
    max_iter: o.MaxIter = None,
    columns: o.Columns = None,
    weights: o.Weights = None,
    csv: dict[str, Any],
    hold_out: Annotated[
        int,
        o.option("--hold-out", metavar="N", help="Hold out every Nth row; default 10.", min=2),
    ] = 10,
    cluster: o.Cluster = None,
    engine: o.Engine = None,
    seed: o.Seed = 0,
    threads: o.Threads = None,
    progress: o.ShowProgress = False,
    json: o.HiddenJson = False,
) -> None:
    """Fit with several learners and compare them on held-out rows.

    FILES are as for fit. Each learner has the same seed and a process of its own.

    Example: mixfold compare @faithful -k 2 --learners em,online-em
    """
    from mixfold.cli import _trial
    from mixfold.cli._files import bundled
    from mixfold.cli._records import print_json
    from mixfold.cli._settings import Settings, learners_named, split_options
    from mixfold.cli._streams import check_dashes, with_stdin
    from mixfold.core.errors import InvalidInputError

    chosen = learners_named(o.listed(learners) or [])
    options = split_options(chosen, option or [])
    check_dashes([init, *files])
    data = [str(file) for file in bundled(files)]
    [init] = with_stdin([init])
    settings = [
        Settings(
            components,
            family,
            covariance,
            learner,
            options[learner],
            init,
            1,
            max_iter,
            o.listed(columns),
            seed,
            threads,
            rank,
            family_of or [],
        )
        for learner in chosen
    ]
    for one in settings:
        one.estimator()
    length = _trial.count(with_csv(data, csv), settings[0], weights)
    if length < hold_out:
        raise InvalidInputError(f"{length} rows are too few to hold out every {hold_out}th")
    results = [
        _trial.in_another_process(
            {
                "settings": asdict(one),
                "data": data,
                "csv": csv,
                "weights": weights,
                "every": hold_out,
                "length": length,
                "show": progress,
                "cluster": cluster,
                "engine": engine,
            }
        )
        for one in settings
    ]
    if all("error" in result for result in results):
        raise InvalidInputError(results[0]["error"])
    if json:
        named = [{"learner": one, **r} for one, r in zip(chosen, results, strict=True)]
        print_json({"rows": length, "held_out": length // hold_out, "learners": named})
    else:
        _show(chosen, results, length, hold_out)


def _show(learners: list[str], results: list[dict[str, Any]], length: int, every: int) -> None:
    from rich import box
    from rich.table import Table

    from mixfold.cli._tables import console, print_plain

    best = max(r["log_likelihood"] for r in results if "error" not in r)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("learner")
    for heading in ("log-likelihood", "time", "passes", "memory"):
        table.add_column(heading, justify="right")
    for learner, r in zip(learners, results, strict=True):
        if "error" in r:
            table.add_row(learner, "[red]failed[/]", "", "", "")
            continue
        reached = f"{r['log_likelihood']:.6f}"
        table.add_row(
            learner,
            f"[bold green]{reached}[/]" if r["log_likelihood"] == best else reached,
            f"{r['seconds']:.2f} s",
            f"{r['passes']:.3g}",
            f"{r['memory'] / 1e6:,.0f} MB" if r["memory"] else "-",
        )
    out = console()
    out.print(table)
    held_out = length // every
    out.print(
        f"[dim]Log-likelihood per row, on {held_out:,} rows held out of {length:,}; peak memory.[/]"
    )
    for learner, r in zip(learners, results, strict=True):
        if "error" in r:
            print_plain(out, f"{learner}: {r['error']}")
