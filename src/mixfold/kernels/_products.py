"""E-steps on a device by products of float64 matrices, in chunks of bounded size."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from mixfold.core.capabilities import LowRankKernel
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.rows import Array, stretches
from mixfold.families.gaussian import LOG_2PI
from mixfold.kernels._device_factors import Factors, factors_on
from mixfold.kernels._factors import Division
from mixfold.kernels._forms import form_of, has_form
from mixfold.kernels._term_values import term_values
from mixfold.kernels._terms import Places, Terms, places_on
from mixfold.kernels.optional_torch import Tensor, torch
from mixfold.kernels.reference import NEGLIGIBLE
from mixfold.models.mixture_model import MixtureModel, MixtureParams

CHUNK_ELEMENTS = 2**23


def chunk_length(width: int) -> int:
    """Rows per chunk: depends on the model alone, so that results do not depend on the machine."""
    return int(2 ** (max(1, CHUNK_ELEMENTS // width).bit_length() - 1))


class Whitened(NamedTuple):
    """Gaussians with whitened rows W_k (x - mu_k), with W (K, d, d), or (K, 1, d) if diagonal."""

    means: Tensor
    whiten: Tensor
    offset: Tensor

    def local(self, x: Tensor) -> Tensor:
        """Whitened rows W_k (x - mu_k), (K, n, d)."""
        centred = x - self.means
        if self.whiten.shape[1] == 1:
            return centred * self.whiten
        return centred @ self.whiten.transpose(1, 2)

    def log_joint(self, x: Tensor, local: Tensor) -> Tensor:
        """log w_k p(x | k), (K, n)."""
        return self.offset - 0.5 * local.square().sum(dim=2)

    def table(self, r: Tensor, local: Tensor) -> Tensor:
        """Sums of local rows and of their squares, or of all their products, (K, s)."""
        first = [r.sum(dim=1)[:, None], (r[:, None] @ local)[:, 0]]
        if self.whiten.shape[1] == 1:
            return torch().cat([*first, (r[:, None] @ local.square())[:, 0]], dim=1)
        i, j = torch().tril_indices(local.shape[2], local.shape[2], device=local.device)
        square = (local * r[:, :, None]).transpose(1, 2) @ local
        second = square.flatten(1).index_select(1, i * local.shape[2] + j)
        return torch().cat([*first, second], dim=1)


class Linear(NamedTuple):
    """Families whose sufficient statistics are the columns; rows are not transformed."""

    eta: Tensor
    offset: Tensor
    counts: bool

    def local(self, x: Tensor) -> Tensor:
        """The rows, (1, n, d)."""
        return x[None]

    def log_joint(self, x: Tensor, local: Tensor) -> Tensor:
        """log w_k p(x | k), (K, n)."""
        joint = self.eta @ x.T + self.offset
        return joint - torch().lgamma(x + 1.0).sum(dim=1) if self.counts else joint

    def table(self, r: Tensor, local: Tensor) -> Tensor:
        """Sums of rows, (K, 1 + d)."""
        return torch().cat([r.sum(dim=1)[:, None], (r[:, None] @ local)[:, 0]], dim=1)


Form = Whitened | Linear | Terms | Factors


def upload(array: Array, device: Any) -> Tensor:
    """Parameters as float64 on the device."""
    return torch().tensor(array, dtype=torch().float64, device=device)


def whitened(means: Array, whiten: Array, offset: Array, device: Any) -> Whitened:
    """Gaussians on the device: `whiten` is (K, d, d) or (K, d), `offset` is (K,)."""
    if whiten.ndim == 2:
        whiten = whiten[:, None]
    return Whitened(
        upload(means[:, None], device), upload(whiten, device), upload(offset[:, None], device)
    )


class Products:
    """The same sums as `kernels/reference.py`, in the same layout."""

    def __init__(self, model: MixtureModel, device: Any) -> None:
        self.model, self.device = model, device
        self._gaussians, self._factorial = form_of(model.family)
        self._low_rank = model.family if isinstance(model.family, LowRankKernel) else None
        self._is_product = self._low_rank is None and not has_form(model)
        self._places: Places | None = None
        self._division = Division(model)
        width = model.k * model.d
        if self._is_product:  # rows have values for all levels of categories, once for all k
            width = max(width, model.family.n_sums(model.d))
        self.chunk = chunk_length(width)

    def prepare(self, params: MixtureParams) -> Form:
        """Parameters on the device."""
        family, logs = cast(ExponentialFamily, self.model.family), np.log(params.weights)
        if self._low_rank is not None:
            return factors_on(self.device, self._low_rank.low_rank(params.components), logs)
        if self._is_product:
            return self._terms(params.components, logs)
        if self._gaussians is not None:
            known = self._gaussians.whitened(params.components)
            offset = logs - 0.5 * self.model.d * LOG_2PI - known.log_determinant
            return whitened(known.means, known.whiten, offset, self.device)
        eta = family.to_natural(params.components)
        offset = upload((logs - family.log_normalizer(eta))[:, None], self.device)
        return Linear(upload(eta, self.device), offset, self._factorial)

    def _terms(self, components: Any, logs: Array) -> Terms:
        terms = term_values(self._division.divide(components), logs)
        if self._places is None:
            self._places = places_on(self.device, terms)
        return Terms(
            self._places,
            upload(terms.coefficients, self.device),
            *(upload(terms.of_normal(i)[:, None], self.device) for i in (1, 2)),
        )

    def sums(self, form: Form, x: Tensor, weight: Tensor | None, tile: int) -> Tensor:
        """The sums of each tile, (tiles, n_sums)."""

        def expect(rows: Tensor, cut: slice) -> Tensor:
            local = form.local(rows)
            log_density, r = posterior(form, rows, local)
            r = torch().where(r < NEGLIGIBLE, 0.0, r)
            if weight is not None:
                log_density, r = log_density * weight[cut], r * weight[cut]
            return self._flat(form, log_density.sum(), r, local)

        return self._tiles(x, tile, expect)

    def moments(
        self, form: Form, x: Tensor, weight: Tensor | None, responsibilities: Tensor, tile: int
    ) -> Tensor:
        """The sums of each tile under given responsibilities (n, K), without likelihood."""

        def given(rows: Tensor, cut: slice) -> Tensor:
            r = responsibilities[cut].T
            r = r if weight is None else r * weight[cut]
            return self._flat(form, rows.new_zeros(()), r, form.local(rows))

        return self._tiles(x, tile, given)

    def posterior(self, form: Form, x: Tensor, responsibilities: bool) -> tuple[Tensor, Tensor]:
        """log p(x) of every row and, if wanted, its responsibilities (n, K)."""
        log_density = x.new_empty(len(x), dtype=torch().float64)
        found = (
            x.new_empty((len(x), self.model.k), dtype=torch().float64) if responsibilities else None
        )
        for cut in stretches(len(x), self.chunk):
            rows = x[cut].double()
            log_density[cut], r = posterior(form, rows, form.local(rows))
            if found is not None:
                found[cut] = r.T
        return log_density, found

    def _tiles(self, x: Tensor, tile: int, work: Any) -> Tensor:
        """Apply `work` to the rows of each tile, chunk by chunk."""
        tiles = list(stretches(len(x), tile))
        found = x.new_zeros((len(tiles), self.model.n_sums), dtype=torch().float64)
        for i, whole in enumerate(tiles):
            for part in stretches(whole.stop - whole.start, self.chunk):
                cut = slice(whole.start + part.start, whole.start + part.stop)
                # a copy, since the rounding of products may depend on memory alignment
                found[i] += work(x[cut].to(torch().float64, copy=True), cut)
        return found

    def _flat(self, form: Form, log_likelihood: Tensor, r: Tensor, local: Any) -> Tensor:
        """Sums of a chunk from weighted responsibilities (K, n) and local rows."""
        return torch().cat([log_likelihood[None], form.table(r, local).ravel()])


def posterior(form: Form, x: Tensor, local: Any) -> tuple[Tensor, Tensor]:
    """log p(x), (n,), and responsibilities, (K, n)."""
    joint = form.log_joint(x, local)
    # not exp(joint - log density), which loses digits far from all components
    return torch().logsumexp(joint, dim=0), torch().softmax(joint, dim=0)
