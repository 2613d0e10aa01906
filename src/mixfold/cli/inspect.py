"""mixfold inspect."""

from __future__ import annotations

from typing import Annotated, Any

from mixfold.cli import _options as o


def inspect(
    model: o.Model,
    *,
    everything: Annotated[
        bool, o.option("--all", metavar=None, help="Show every column and component.")
    ] = False,
) -> None:
    """Show the parameters and settings of a model file.

    MODEL is a file that fit wrote.

    Example: mixfold inspect model.mixfold
    """
    from mixfold.cli._files import load_mixture
    from mixfold.cli._output import column_names
    from mixfold.cli._tables import (
        chosen_families,
        components,
        console,
        facts,
        plus_minus,
        reached_per_row,
        standard_deviations,
    )
    from mixfold.core.data_limits import without_limits

    mixture = load_mixture(model)
    learner, history = mixture.learner_, mixture.history_
    reached = "not recorded"
    if len(history):
        reached = reached_per_row(history.log_likelihood[-1], history.bound[-1])
    out = console()
    out.print(
        facts(
            [
                ("file", str(model)),
                ("family", _family(without_limits(mixture.model_.family).for_complete_rows())),
                ("learner", _learner(mixture, learner)),
                ("rows", f"{mixture.n_rows_:,}"),
                ("passes", f"{mixture.n_iter_:,}" if mixture.n_iter_ else "rows came as a stream"),
                ("log-likelihood", reached),
                ("converged", "yes" if mixture.converged_ else "no"),
                ("n_degenerate", str(mixture.n_degenerate_)),
                ("components", str(len(mixture.weights_))),
                ("free parameters", f"{mixture.model_.n_parameters():,}"),
                ("columns", _columns(list(column_names(mixture)), everything)),
            ]
        )
    )
    chosen_families(mixture, out)
    components(mixture, out, everything)
    spread, product = standard_deviations(mixture), hasattr(mixture.model_.family, "factors")
    if product:
        cell = ", or the most probable category"
    elif spread is None:
        cell = ", which determines the standard deviation"
    else:
        cell = f" {plus_minus(out)} the standard deviation"
    out.print(f"[dim]A cell is the mean{cell}.[/]")


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
