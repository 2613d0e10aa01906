"""mixfold inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from mixfold.cli import _options as o
from mixfold.cli._csv_options import csv_options, with_csv

LEVEL = 0.95


@csv_options
def inspect(
    model: o.Model,
    files: o.RowsOfFit = None,
    *,
    level: Annotated[
        float | None,
        o.option("--level", metavar="P", help="Probability of intervals; default 0.95."),
    ] = None,
    kind: Annotated[
        str, o.option("--kind", metavar="NAME", help="observed, empirical, sandwich, bootstrap.")
    ] = "observed",
    weights: o.Weights = None,
    csv: dict[str, Any],
    everything: Annotated[
        bool, o.option("--all", metavar=None, help="Show every column and component.")
    ] = False,
    json: o.Json = False,
) -> None:
    """Show the parameters and settings of a model file.

    MODEL is a file that fit wrote. With FILES, the rows of the fit, all parameters have
    standard errors and confidence intervals.

    Example: mixfold inspect model.mixfold
    """
    from mixfold.cli._files import load_beside_rows, mixture_of
    from mixfold.cli._intervals import confidence_intervals, credible_intervals, print_intervals
    from mixfold.cli._records import (
        component_records,
        detector_record,
        family_records,
        print_json,
    )
    from mixfold.cli._tables import chosen_families, components, console, facts, threshold_in_words
    from mixfold.core.checks import check_above

    if level is not None:
        check_above("--level", level, 0.0, 1.0)
    found, data = load_beside_rows(model, files or [], csv)
    mixture, alarms = mixture_of(found), detector_record(found)
    intervals = None
    if data:
        probability = LEVEL if level is None else level
        rows = with_csv(data, csv)
        intervals = confidence_intervals(mixture, rows, weights, kind, probability)
    elif level is not None:
        probability, intervals = level, credible_intervals(mixture, level)
    if json:
        print_json(
            {
                **_record(mixture, model),
                **alarms,
                "chosen_families": family_records(mixture),
                "components": component_records(mixture),
                **({} if intervals is None else {"level": probability, "intervals": intervals}),
            }
        )
        return
    out = console()
    shown = _facts(_record(mixture, model), everything)
    if alarms:
        shown.append(("alarms", threshold_in_words(found)))
    out.print(facts(shown))
    chosen_families(mixture, out)
    components(mixture, out, everything)
    out.print(f"[dim]A cell is the mean{_spread_in_words(mixture, out)}.[/]")
    if intervals is not None:
        print_intervals(intervals, probability, out)


def _record(mixture: Any, model: Path) -> dict[str, Any]:
    from mixfold.cli._output import column_names
    from mixfold.core.data_limits import without_limits

    history = mixture.history_
    recorded = len(history) > 0
    return {
        "file": str(model),
        "family": _family(without_limits(mixture.model_.family).for_complete_rows()),
        "learner": _learner(mixture, mixture.learner_),
        "rows": mixture.n_rows_,
        "passes": mixture.n_iter_,
        "log_likelihood": history.log_likelihood[-1] if recorded else None,
        "bound": history.bound[-1] if recorded else None,
        "converged": mixture.converged_,
        "n_degenerate": mixture.n_degenerate_,
        "n_components": len(mixture.weights_),
        "n_parameters": mixture.model_.n_parameters(),
        "columns": list(column_names(mixture)),
    }


def _facts(record: dict[str, Any], everything: bool) -> list[tuple[str, str]]:
    """Names and texts of a record for a table."""
    from mixfold.cli._tables import reached_per_row

    reached, passes = "not recorded", "rows came as a stream"
    if record["log_likelihood"] is not None:
        reached = reached_per_row(record["log_likelihood"], record["bound"])
    if record["passes"]:
        passes = f"{record['passes']:,}"
    return [
        ("file", record["file"]),
        ("family", record["family"]),
        ("learner", record["learner"]),
        ("rows", f"{record['rows']:,}"),
        ("passes", passes),
        ("log-likelihood", reached),
        ("converged", "yes" if record["converged"] else "no"),
        ("n_degenerate", str(record["n_degenerate"])),
        ("components", str(record["n_components"])),
        ("free parameters", f"{record['n_parameters']:,}"),
        ("columns", _columns(record["columns"], everything)),
    ]


def _spread_in_words(mixture: Any, out: Any) -> str:
    """What a cell of the table of components has besides the mean."""
    from mixfold.cli._tables import plus_minus, standard_deviations

    if hasattr(mixture.model_.family, "factors"):
        return ", or the most probable category"
    if standard_deviations(mixture) is None:
        return ", which determines the standard deviation"
    return f" {plus_minus(out)} the standard deviation"


def _learner(mixture: Any, resolved: Any) -> str:
    """The learner that was requested and, if it chose another one, that one."""
    from mixfold.core.registry import canonical, described, name_of

    asked = getattr(mixture, "learner", resolved)
    name = canonical("learners", asked) if isinstance(asked, str) else name_of(asked)
    return described(resolved) if name == name_of(resolved) else f"{name}: {described(resolved)}"


def _family(family: Any) -> str:
    """The family, or those of the columns of a product."""
    from mixfold.core.registry import described

    factors = getattr(family, "factors", None)
    if factors is None:
        return described(family)
    return ", ".join(f"{factor.label}: {described(factor.family)}" for factor in factors)


def _columns(names: list[str], everything: bool, most: int = 12) -> str:
    if everything or len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"
