"""mixfold select."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from mixfold.cli import _options as o
from mixfold.cli._csv_options import csv_options, found_files, with_csv


@csv_options
def select(
    files: o.Files,
    *,
    components: Annotated[
        str,
        o.option("-k", "--components", metavar="A:B", help="Numbers of components: 1:9, or 2,4,8."),
    ] = "1:9",
    family: o.Family = "gaussian",
    family_of: o.FamilyOf = None,
    covariance: Annotated[
        str | None,
        o.option("--covariance", metavar="A,B,...", help="all (default), or such as EEE,VVV."),
    ] = None,
    criterion: Annotated[
        str, o.option("--criterion", metavar="NAME", help="bic (default), icl, aic or held-out.")
    ] = "bic",
    no_drop: Annotated[
        bool,
        o.option("--no-drop", metavar=None, help="Fit also those that can hardly win."),
    ] = False,
    n_init: Annotated[
        int, o.option("--n-init", metavar="N", help="Searches for each candidate.", min=1)
    ] = 2,
    max_iter: o.MaxIter = None,
    columns: o.Columns = None,
    missing: o.Missing = "marginalize",
    unseen: o.Unseen = "error",
    weights: o.Weights = None,
    csv: dict[str, Any],
    seed: o.Seed = 0,
    threads: o.Threads = None,
    progress: o.ShowProgress = False,
    output: Annotated[Path | None, o.output("File of the best model.")] = None,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Choose the number of components and their covariance.

    FILES are as for fit. Every number is fitted with every covariance.

    Example: mixfold select @faithful -k 1:9 --criterion bic -o best.mixfold
    """
    from mixfold.cli._bar import SearchProgress
    from mixfold.cli._files import bundled, check_apart, check_model_output, save_model
    from mixfold.cli._records import check_json, print_json
    from mixfold.cli._settings import Settings
    from mixfold.cli._tables import console, print_plain
    from mixfold.estimators.auto_mixture import AutoMixture

    check_json(json, output)
    mixture = Settings(1, family, None, "auto", family_of=family_of or []).estimator()
    model = AutoMixture(
        numbers_of(components),
        _covariances(covariance),
        mixture.family,
        criterion,
        drop=not no_drop,
        n_init=n_init,
        max_iter=max_iter,
        missing=missing,
        overrides=mixture.overrides,
        unseen=unseen,
        columns=o.listed(columns),
        random_state=seed,
        n_threads=threads,
    )
    data = found_files(bundled(files), csv)
    if output is not None:
        check_apart([output], data)
        check_model_output(output, force)
    shown = SearchProgress(progress)
    model.progress = shown.update
    try:
        model.fit(with_csv(data, csv), sample_weight=weights)
    finally:
        shown.close()
        model.progress = None
    if not json:
        out = console(output)
        _show(model, out)
    if output is not None:
        save_model(model, output)
    if json:
        print_json({**_record(model), "saved_in": output})
    elif output is not None:
        print_plain(out, f"saved in {output}")


def numbers_of(text: str) -> list[int]:
    """Numbers from text such as 1:9, with both ends, or 2,4,8."""
    from mixfold.core.errors import InvalidInputError

    found: list[int] = []
    try:
        for part in text.split(","):
            first, colon, last = part.partition(":")
            found += range(int(first), int(last) + 1) if colon else [int(first)]
    except ValueError:
        raise InvalidInputError(
            f"-k is {text!r}: write numbers of components as 1:9 or 2,4,8"
        ) from None
    if not found:
        raise InvalidInputError(f"-k is {text!r}, which has no number: write the smaller one first")
    return found


def _covariances(text: str | None) -> str | list[str]:
    names = o.listed(text)
    return "all" if names is None or names == ["all"] else names


def _record(model: Any) -> dict[str, Any]:
    """The results, the best first, and the best model, as JSON."""
    from mixfold.cli._records import component_records

    results, best = _sorted_results(model), model.best_estimator_
    return {
        "criterion": model.criterion,
        "best": {"n_components": best.n_components, "covariance": _covariance(results, best)},
        "candidates": results,
        "components": component_records(best),
    }


def _sorted_results(model: Any) -> list[dict[str, Any]]:
    """The rows of the table of results, the best first."""
    results, criterion = _records(model.results_), model.criterion.replace("-", "_")
    sign = -1.0 if criterion == "held_out" else 1.0
    return sorted(
        results, key=lambda row: (row[criterion] != row[criterion], sign * row[criterion])
    )


def _covariance(results: list[dict[str, Any]], best: Any) -> str:
    """The name of the covariance of the best model, if it was chosen."""
    return str(getattr(best.family, "covariance", "")) if results[0]["covariance"] else ""


def _show(model: Any, out: Any) -> None:
    """Print the table of results, the best first, and the best model."""
    from rich import box
    from rich.table import Table

    from mixfold.cli._tables import components, counted

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    results, criterion = _sorted_results(model), model.criterion.replace("-", "_")
    shown = ["bic", "icl", "aic", *(["held_out"] if criterion == "held_out" else [])]
    headings = ["components", "covariance", "log-likelihood", "parameters", *shown]
    for heading in headings:
        right = heading != "covariance"
        table.add_column(heading.replace("_", "-"), justify="right" if right else "left")
    table.add_column("", overflow="fold")
    best = model.best_estimator_
    name = _covariance(results, best)
    for row in results:
        chosen = (row["n_components"], row["covariance"]) == (best.n_components, name)
        cells = [
            str(row["n_components"]),
            row["covariance"],
            f"{row['log_likelihood']:.2f}",
            str(row["n_parameters"]),
            *(f"{row[one]:.4f}" if one == "held_out" else f"{row[one]:.2f}" for one in shown),
            row["dropped"],
        ]
        table.add_row(*cells, style="bold green" if chosen else None)
    out.print(table)
    which = f"{counted(best.n_components, 'component')}{f' with covariance {name}' if name else ''}"
    better = "largest" if criterion == "held_out" else "smallest"
    out.print(f"best: {which}, by the {better} {model.criterion}")
    components(best, out)


def _records(table: Any) -> list[dict[str, Any]]:
    """The rows of a pandas frame or an Arrow table."""
    rows: list[dict[str, Any]] = (
        table.to_dict("records") if hasattr(table, "to_dict") else table.to_pylist()
    )
    return rows
