"""A change of the number of components of a mixture."""

from __future__ import annotations

from math import isfinite

from mixfold.core.checks import check_count, check_whole
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.value import value

KINDS = ("split", "merge", "remove", "search")


@value
class ComponentDecision:
    """When and why the components of a mixture were changed.

    Components are numbered from 0, as they were before the decision. One of the parts of a
    component that was split took its place, and the other one became the last component; of two
    that were merged the first took the place of both, and later ones moved up, as they do if one
    was removed. A "search" replaced all of them by as many others.

    Parameters
    ----------
    rows : int
        The number of rows of the stream after which the decision was made.
    kind : {"split", "merge", "remove", "search"}
        What was done.
    components : tuple of int
        The components that were split, merged or removed; empty for a search.
    n_components : int
        The number of components afterwards.
    n_judged : float
        The number of rows n by which BIC judged it.
    log_likelihood : float
        By how many nats the log-likelihood of these rows rose.
    penalty : float
        By how many nats BIC's penalty, p / 2 log n, rose. The decision was made since this is less,
        or since a component was degenerate on few rows.
    """

    rows: int
    kind: str
    components: tuple[int, ...]
    n_components: int
    n_judged: float
    log_likelihood: float
    penalty: float

    @property
    def bic(self) -> float:
        """The change of BIC: negative, but for degenerate components and splits made together."""
        return 2.0 * (self.penalty - self.log_likelihood)

    def check(self) -> None:
        """Raise an error for values that no decision has."""
        check_count("rows", self.rows)
        check_whole("n_components", self.n_components)
        if self.kind not in KINDS:
            raise unknown_name("kind", self.kind, list(KINDS))
        for component in self.components:
            check_count("components", component)
        for name in ("n_judged", "log_likelihood", "penalty"):
            if not isfinite(getattr(self, name)):
                raise InvalidInputError(f"{name} is {getattr(self, name)}: it must be finite")
