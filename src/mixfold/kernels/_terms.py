"""Products of families by products of float64 matrices on a device."""

from __future__ import annotations

from typing import Any, NamedTuple

from mixfold.kernels._term_values import COLUMN, LEVEL, OBSERVED, TermValues
from mixfold.kernels.optional_torch import Tensor, torch

ROWS = 1024  # of one product of matrices: one of all rows would occupy few processors
# deviations from the origin, whose square is what moments about it lose in precision
FAR_SINGLE, FAR_DOUBLE = 1e4, 1e2


class Places(NamedTuple):
    """Numbers of columns, levels and sums on the device; see `TermValues`.

    `plain` are the columns that are values, `coded` those of the levels, `observed` those whose
    cells may be missing. `totals` are where the total of each normal term is among the sums.
    """

    plain: Tensor
    coded: Tensor
    levels: Tensor
    observed: Tensor
    normal: Tensor
    counts: Tensor
    totals: Tensor
    order: Tensor


def places_on(device: Any, terms: TermValues) -> Places:
    """The places of all terms, which do not depend on parameters."""
    coded = terms.columns(LEVEL)
    first = len(terms.columns(COLUMN))
    return Places(
        *(
            torch().tensor(numbers, dtype=torch().int64, device=device)
            for numbers in (
                terms.columns(COLUMN),
                coded,
                terms.levels[first : first + len(coded)],
                terms.columns(OBSERVED),
                [one.column for one in terms.normal],
                terms.counts,
                [terms.order[one.total] for one in terms.normal],
                terms.order,
            )
        )
    )


class LocalRows(NamedTuple):
    """A one and the values of every row, (n, 1 + p), and z = (x - m) s of normal terms (K, n, c).

    Both are 0 where cells are missing.
    """

    values: Tensor
    z: Tensor


class Terms(NamedTuple):
    """Offset and coefficients (K, 1 + p), means and inverse scales of normal terms (K, 1, c)."""

    places: Places
    coefficients: Tensor
    means: Tensor
    scales: Tensor

    def local(self, x: Tensor) -> LocalRows:
        """Values and whitened columns."""
        at = self.places
        values = [
            x.new_ones((len(x), 1)),
            self._known(x[:, at.plain]),
            (x[:, at.coded] == at.levels).double(),
            (~x[:, at.observed].isnan()).double(),
        ]
        z = (x[:, at.normal] - self.means) * self.scales
        return LocalRows(torch().cat(values, dim=1), self._known(z))

    def _known(self, x: Tensor) -> Tensor:
        """Zeros for what is missing."""
        return x.nan_to_num() if len(self.places.observed) else x

    def log_joint(self, x: Tensor, local: LocalRows) -> Tensor:
        """log w_k p(x | k), (K, n)."""
        joint = self.coefficients @ local.values.T - 0.5 * local.z.square().sum(dim=2)
        counts = self._known(x[:, self.places.counts])
        return joint - torch().lgamma(counts + 1.0).sum(dim=1)

    def table(self, r: Tensor, local: LocalRows) -> Tensor:
        """The table of sums (K, s) from responsibilities (K, n)."""
        moment = r[:, :, None] * local.z
        sums = [
            sums_of_values(r, local.values),
            moment.sum(dim=1),
            (moment * local.z).sum(dim=1),
        ]
        return torch().cat(sums, dim=1)[:, self.places.order]


def fused_types(terms: Terms) -> list[Any]:
    """The types of rows of which moments about a common origin keep enough digits."""
    means, scales = terms.means[:, 0], terms.scales[:, 0]
    away = (means - means.mean(dim=0)).abs() * scales
    farthest = float(away.max()) if away.numel() else 0.0
    limits = {torch().float32: FAR_SINGLE, torch().float64: FAR_DOUBLE}
    return [kind for kind, most in limits.items() if farthest <= most]


def sums_of_values(r: Tensor, values: Tensor) -> Tensor:
    """r values, (K, 1 + p), as a sum over products of `ROWS` rows."""
    pad, more = torch().nn.functional.pad, -r.shape[1] % ROWS
    responsibilities = pad(r, (0, more)).reshape(len(r), -1, ROWS)
    blocks = pad(values, (0, 0, 0, more)).reshape(-1, ROWS, values.shape[1])
    return (responsibilities.transpose(0, 1) @ blocks).sum(dim=0)
