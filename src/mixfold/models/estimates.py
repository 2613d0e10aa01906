"""Estimates with their standard errors, covariances and confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import check_above
from mixfold.core.rows import Array
from mixfold.families.scores import ShownParameter

Intervals = dict[str, tuple[Array, Array]]


class Labels(NamedTuple):
    """Names of columns, and of the levels of some of them."""

    columns: Sequence[Any]
    levels: Mapping[int, Sequence[Any]]

    def name(self, one: ShownParameter, entry: int) -> str:
        """The name of an entry, such as "means[0, age]"."""
        component, level = one.components[entry], int(one.levels[entry])
        columns = [int(column) for column in one.columns[entry]]
        parts: list[Any] = [] if component < 0 else [component]
        parts += [self.columns[column] for column in columns]
        if level >= 0:
            known = self.levels.get(columns[0], ())
            parts.append(known[level] if level < len(known) else level)
        return f"{one.name}[{', '.join(map(str, parts))}]"


@dataclass(frozen=True)
class Estimates:
    """The parameters of a mixture as users see them, with their uncertainty.

    Attributes
    ----------
    names : list of str
        Such as "weights[0]", "means[0, age]" and "covariances[0, age, height]".
    values, errors : arrays (m,)
        Estimates and standard errors. The error is NaN where a parameter is at a limit, or cannot
        be told apart from others.
    kind : str
        How the errors were computed.
    n_rows : int
        The number of rows that they were computed from.
    log_likelihood : float
        That of these rows.
    left_to_gain : float
        By how much the log-likelihood is below its maximum, estimated from its derivatives. The
        estimates are sqrt(2 left_to_gain) standard errors away from the maximum.
    by_component : bool
        Whether the errors of every component, and those of the weights, were computed as if the
        other components were known, because there are many parameters. They are then too small
        where components overlap.
    not_identified : list of str
        The parameters that the rows cannot tell apart.
    replicates : array (B, m) or None
        Estimates from B bootstrap samples.
    """

    names: list[str]
    values: Array
    errors: Array
    kind: str
    n_rows: int
    log_likelihood: float
    left_to_gain: float
    by_component: bool
    not_identified: list[str]
    blocks: list[tuple[NDArray[np.intp], Array]] = field(repr=False)
    shown: list[ShownParameter] = field(repr=False)
    labels: Labels = field(repr=False)
    replicates: Array | None = field(default=None, repr=False)

    @property
    def covariance(self) -> Array:
        """The covariance matrix of the estimates, (m, m), in the order of `names`."""
        found = np.zeros((len(self.names), len(self.names)))
        for entries, block in self.blocks:
            found[np.ix_(entries, entries)] = block
        unknown = np.isnan(self.errors)
        found[unknown] = found[:, unknown] = np.nan
        return found

    def standard_errors(self) -> dict[str, Array]:
        """Standard errors by name and in the shape of the fitted attributes.

        In a product "means" are those of all columns, NaN where there are none, and other
        parameters are named by their columns, such as "covariances of age".
        """
        return self._arranged(self.errors)

    def confidence_intervals(self, level: float = 0.95) -> Intervals:
        """Lower and upper ends of confidence intervals, named as standard errors are.

        Weights and probabilities have normal intervals of their logits, variances, rates and other
        positive parameters of their logarithms. Those of the bootstrap are quantiles.
        """
        check_above("level", level, 0.0, 1.0)
        low, high = map(self._arranged, self.ends(float(level)))
        return {name: (low[name], high[name]) for name in low}

    def ends(self, level: float) -> tuple[Array, Array]:
        """Lower and upper ends (m,) of confidence intervals."""
        from scipy.stats import norm

        if self.replicates is not None:
            tails = 0.5 - 0.5 * level, 0.5 + 0.5 * level
            # the quantiles that a new replicate exceeds with these probabilities
            low, high = np.quantile(self.replicates, tails, axis=0, method="weibull")
            return low, high
        z, ends = float(norm.ppf(0.5 + 0.5 * level)), np.empty((2, len(self.names)))
        first = 0
        for one in self.shown:
            here = slice(first, first + len(one.values))
            ends[:, here] = _ends(one.scale, one.values, z * self.errors[here])
            first = here.stop
        return ends[0], ends[1]

    def _arranged(self, flat: Array) -> dict[str, Array]:
        """Arrays in the shape of the fitted attributes."""
        found: dict[str, Array] = {}
        first = 0
        d = len(self.labels.columns)
        for one in self.shown:
            entries = flat[first : first + len(one.values)]
            first += len(one.values)
            whole = one.factor is not None and one.name != "means"
            key = f"{one.name} of {self._label(one.factor)}" if whole else one.name
            columns, width = one.columns, d
            if whole and one.factor is not None:
                order = {place: i for i, place in enumerate(one.factor)}
                columns = np.array([[order[int(c)] for c in row] for row in columns], dtype=np.intp)
                columns, width = columns.reshape(one.columns.shape), len(one.factor)
            _put(found, key, one, columns, width, entries)
        return found

    def _label(self, factor: Sequence[int] | None) -> str:
        return ", ".join(str(self.labels.columns[place]) for place in factor or ())

    def summary(self, level: float = 0.95) -> str:
        """A table of estimates, standard errors and intervals, as statsmodels prints it.

        z and P>|z| are for the hypothesis that a parameter of any sign is zero.
        """
        from mixfold.models._summary_table import summary_table

        check_above("level", level, 0.0, 1.0)
        return summary_table(self, float(level))

    def __str__(self) -> str:
        return self.summary()


def _ends(scale: str, values: Array, away: Array) -> tuple[Array, Array]:
    """Ends of intervals that are symmetric on a scale; `away` is half their length in values."""
    from scipy.special import expit, logit

    if scale == "log":
        ratio = np.exp(away / values)
        return values / ratio, values * ratio
    if scale == "logit":
        center, step = logit(values), away / (values * (1.0 - values))
        return expit(center - step), expit(center + step)
    return values - away, values + away


def _put(
    found: dict[str, Array],
    key: str,
    one: ShownParameter,
    columns: NDArray[np.intp],
    width: int,
    entries: Array,
) -> None:
    """Put entries into their places in an array of K components and `width` columns."""
    places, shape = [], []
    if (one.components >= 0).all():
        places.append(one.components)
        shape.append(int(one.components.max()) + 1)
    for column in columns.T:
        places.append(column)
        shape.append(width)
    if (one.levels >= 0).all():
        places.append(one.levels)
        shape.append(int(one.levels.max()) + 1)
    array = found.setdefault(key, np.full(shape, np.nan))
    array[tuple(places)] = entries
    if columns.shape[1] == 2:  # the other half of symmetric matrices
        array[(*places[:-2], places[-1], places[-2])] = entries
