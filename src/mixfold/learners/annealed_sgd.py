"""Annealed stochastic gradients for Gaussian mixtures in high dimension."""

from __future__ import annotations

from math import isqrt, sqrt
from typing import Literal

import numpy as np

from mixfold.core.arrays import to_device_of
from mixfold.core.backend import Backend, Model
from mixfold.core.backend_capabilities import Annealer, required
from mixfold.core.checks import check_above, check_count, check_kind, check_whole
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.family import Family
from mixfold.core.learner import Info, Learner
from mixfold.core.limits import PRECISIONS
from mixfold.core.params import Params
from mixfold.core.rows import Array, Rows, join, no_rows
from mixfold.core.value import replace, value
from mixfold.learners._annealed_gradients import Gradients, gradients_of
from mixfold.learners._scale_warning import out_of_scale
from mixfold.learners._steps import RowCounts, positive_weights, relative_weights
from mixfold.models.annealed import (
    LEAST_SIGMA,
    UNSEEN,
    WIDEST,
    Annealed,
    AnnealingOptions,
    grid_rows,
)
from mixfold.models.column_scaling import FARTHEST, ColumnScaling, scaling_of
from mixfold.models.mixture_model import MixtureModel, MixtureParams

LARGEST_CAP = 1e15
FIRST = 256  # rows from which scales are computed
LONGEST, NEARER = 0.02, 0.4  # default step sizes
LARGEST_FLOAT32 = 3e38
HEAVIEST = 1e6  # weights are clipped to this, so that no row moves a component beyond itself
FAINT = 0.1  # initial squares of loadings relative to the noise


@value
class AnnealedSGDState:
    """The parameters and the annealing schedule, and the buffered rows.

    Rows are buffered until a batch is full or scales are known. Their weights are in units of the
    mean weight; `learned` counts them too.
    """

    annealed: Annealed
    waiting: Rows
    learned: RowCounts
    rows: int
    passes: int
    n_degenerate: int
    scaling: ColumnScaling | None = None

    def check(self, model: Model) -> None:
        """Raise an error for a state that is not valid for the model."""
        found = gradients_of(model)
        if found is None:
            raise InvalidInputError(f"{model!r} has no annealed gradients")
        self.annealed.check(found.root_shape, found.n_factors, model.k, model.d)
        model.check_rows(self.waiting)
        self.learned.check()
        if self.scaling is not None:
            self.scaling.check(model.d)
        for name in ("rows", "passes", "n_degenerate"):
            check_count(name, getattr(self, name))

    @property
    def params(self) -> MixtureParams:
        """The current mixture, in the units of the data."""
        params = self.annealed.params()
        return params if self.scaling is None else self.scaling.undo(params)


@value
class AnnealedSGD(Learner[AnnealedSGDState]):
    """Stochastic gradient ascent of a lower bound of the likelihood, with annealing.

    theta <- theta + eps grad of max_k sum_j g_kj(sigma) log w_j N_j(x), row by row. g is a Gaussian
    kernel of width sigma on a periodic grid of components, as nearly square as K allows, so that
    components to which no row was assigned learn with their neighbours. Whenever the loss stops
    improving, sigma and eps are multiplied by `decay`. Weights are a softmax. Precisions are D'D,
    with D diagonal or upper triangular as the family has it; for factor analysers D belongs to the
    noise.

    Use it for hundreds or thousands of columns, or where no good initialisation is known: means
    begin near zero and precisions at `cap`, so the data should be scaled to about [0, 1].

    Updates of diagonal and full components are compiled. For factor analysers single rows are slow:
    use a `batch_size` of 20 to 100. Values beyond 1e12 in size count as 1e12.

    Parameters
    ----------
    batch_size : int, default=1
        Rows per update.
    max_iter : int, default=3
        The largest number of passes over the data.
    cap : float, default=20.0
        The largest precision. A value above 20 makes steps shorter in proportion.
    epsilon, epsilon_end : float or None, default=None
        First and smallest step size. None is 0.02 and 0.005, and more for batches.
    sigma : float or None, default=None
        First width of the kernel; None is sqrt(K) / 2.
    sigma_end : float, default=0.01
        Smallest width of the kernel.
    delta : float, default=0.05
        The loss has stopped improving if its gain is less than this fraction of the total gain.
    decay : float, default=0.9
        Factor of sigma and epsilon when the loss has stopped improving.
    precision : {"float32", "float64"}, default="float32"
        The dtype of computations.
    scale : bool, default=False
        Whether columns are scaled by their standard deviations in the first 256 rows. Results are
        in the units of the data.

    Examples
    --------
    >>> from mixfold import AnnealedSGD, Gaussian, Mixture, datasets
    >>> x = datasets.load_faithful() / [6.0, 100.0]
    >>> learner = AnnealedSGD(epsilon=0.002, epsilon_end=0.001, max_iter=60, cap=400.0)
    >>> model = Mixture(Gaussian("diag"), 4, learner=learner, random_state=0).fit(x)
    >>> bool(model.score(x) > 1.0)
    True

    References
    ----------
    Gepperth and Pfülb (2021), Gradient-based training of Gaussian mixture models for
    high-dimensional streaming data.
    """

    supports_warm_start = True
    exchangeable = False  # components have positions on a grid
    sample_size = 100

    batch_size: int = 1
    max_iter: int = 3
    cap: float = 20.0
    epsilon: float | None = None
    epsilon_end: float | None = None
    sigma: float | None = None
    sigma_end: float = 0.01
    delta: float = 0.05
    decay: float = 0.9
    precision: Literal["float32", "float64"] = "float32"
    scale: bool = False

    @property
    def first_step(self) -> float:
        """The first step size: epsilon or, by default, at most two fifths of the stable limit.

        The default is twice as large for batches.
        """
        if self.epsilon is not None:
            return self.epsilon
        first = min(self.batch_size, 2) * min(LONGEST, NEARER / self.cap)
        return max(first, self.epsilon_end or 0.0)

    @property
    def last_step(self) -> float:
        """The last step size: epsilon_end or, by default, a quarter of the first per row."""
        if self.epsilon_end is not None:
            return self.epsilon_end
        return min(self.first_step, 0.25 * self.batch_size * min(LONGEST, self.first_step))

    def default_initializer(self, family: Family) -> str | None:
        """Means near zero ("uniform"), or near the mean of scaled rows ("around-mean")."""
        return "around-mean" if self.scale else "uniform"

    def __post_init__(self) -> None:
        check_whole("batch_size", self.batch_size)
        check_above("batch_size", self.batch_size, 0.0, 2**31 - 1)
        check_whole("max_iter", self.max_iter)
        check_above("cap", self.cap, 1.0 / LARGEST_CAP, LARGEST_CAP)
        check_above("delta", self.delta, 0.0)
        check_above("sigma_end", self.sigma_end, LEAST_SIGMA, WIDEST)
        if self.sigma is not None:
            check_above("sigma", self.sigma, LEAST_SIGMA, WIDEST)
        for name in ("epsilon", "epsilon_end"):
            if getattr(self, name) is not None:
                check_above(name, getattr(self, name), 0.0)
        check_above("epsilon_end", self.last_step, 0.0, self.first_step)
        check_above("decay", self.decay, 0.0, 1.0)
        if not isinstance(self.scale, bool):
            raise InvalidInputError(f"scale is {self.scale!r}: use True or False")
        if self.precision not in PRECISIONS:
            raise unknown_name("precision", self.precision, PRECISIONS)
        if self.first_step * self.cap >= 1.0:
            raise InvalidInputError(
                f"epsilon is {self.first_step:g} and cap {self.cap:g}: means would overshoot; the "
                "product must be below 1"
            )

    def why_unsupported(self, model: Model) -> str | None:
        if getattr(model, "is_constrained", False):
            return "gradients are of free parameters only: leave fixed and prior out, or use 'em'"
        if gradients_of(model) is not None:
            return None
        return (
            f"{getattr(model, 'family', model)!r} has no annealed gradients here: use "
            "Gaussian('diag'), Gaussian('full') without a cap or Gaussian('factor', rank=...), "
            "or a learner of the EM kind"
        )

    def can_continue_from(self, other: Learner) -> bool:
        return super().can_continue_from(other) and getattr(other, "scale", None) == self.scale

    def warnings(self, model: Model, rows: Rows) -> list[str]:
        said = uneven_grid(model.k)
        if self.scale:
            return said
        remedy = ", or use AnnealedSGD(scale=True), -O scale=true"
        return said + out_of_scale(rows, self.first_step, self.cap, remedy)

    def options(self, k: int, cap: float | None = None) -> AnnealingOptions:
        """The constant settings; the family may have a cap too."""
        most = sqrt(min(self.cap, cap or self.cap))
        return AnnealingOptions(
            grid_rows(k),
            self.sigma_end,
            self.last_step,
            self.delta,
            self.decay,
            1e-3 * most,
            most,
        )

    def init(
        self, backend: Backend, params: Params, seen: int = 0, seed: int = 0
    ) -> AnnealedSGDState:
        model = backend.model
        assert isinstance(model, MixtureModel)
        assert isinstance(params, MixtureParams)
        kind, farthest = np.dtype(self.precision), LARGEST_FLOAT32 if self.scale else FARTHEST
        found = self._gradients(model)
        full = len(found.root_shape) == 2
        unit = np.eye(model.d, dtype=kind) if full else np.ones(model.d, dtype=kind)
        means = model.family.attributes(params.components)["means"]
        loadings = None
        if found.n_factors:
            loadings = self._faint((model.k, found.n_factors, model.d), seed).astype(kind)
        annealed = Annealed(
            logits=np.log(params.weights),
            means=means.clip(-farthest, farthest).astype(kind),
            roots=np.stack([unit] * model.k) * kind.type(self.options(1, found.cap).most_root),
            sigma=0.5 * sqrt(model.k) if self.sigma is None else self.sigma,
            epsilon=self.first_step,
            loss=UNSEEN,
            before=UNSEEN,
            first=UNSEEN,
            wait=round(1.0 / self.first_step),
            looks=0,
            loadings=loadings,
        )
        return AnnealedSGDState(annealed, no_rows(model.d), RowCounts(0.0), 0, 0, 0)

    def _gradients(self, model: Model) -> Gradients:
        found = gradients_of(model)
        assert found is not None, "other models are refused"
        return found

    def _faint(self, shape: tuple[int, int, int], seed: int) -> Array:
        """Random loadings with LPL' about `FAINT` I if the noise is at the cap."""
        size = sqrt(FAINT / (self.cap * shape[2]))
        return size * np.random.default_rng(seed).standard_normal(shape)

    def restart(self, backend: Backend, state: AnnealedSGDState) -> AnnealedSGDState:
        """Restart annealing with the current parameters."""
        now = state.annealed
        hot = self.init(backend, state.params).annealed
        learned = {name: getattr(now, name) for name in ("logits", "means", "roots", "loadings")}
        return replace(state, annealed=replace(hot, **learned))

    def check_state(self, model: Model, state: AnnealedSGDState) -> None:
        check_kind("state", state, AnnealedSGDState)
        state.check(model)

    def step(
        self, backend: Backend, state: AnnealedSGDState, rows: Rows
    ) -> tuple[AnnealedSGDState, list[Info]]:
        unscaled = self.scale and state.scaling is None
        if rows.weight is not None:  # rows of weight zero are not part of a batch
            weighty = rows.where(rows.weight > 0.0)
            state = replace(state, rows=state.rows + len(rows) - len(weighty))
            rows = weighty
        weights = positive_weights(rows)
        share = relative_weights(state.learned, weights)
        if rows.weight is not None or (share != 1.0).any():
            rows = Rows(rows.x, to_device_of(rows.x, share))
        state = replace(state, learned=state.learned.after(weights))
        rows = join([state.waiting, rows]) if len(state.waiting) else rows
        if unscaled and len(rows) < FIRST:
            return replace(state, waiting=rows.copy()), []
        if unscaled:
            state = self._scaled(state, rows.cut(0, FIRST))
        whole = len(rows) - len(rows) % self.batch_size
        after, info = self._learn(backend, state, rows.cut(0, whole))
        return replace(after, waiting=rows.cut(whole, len(rows)).copy()), info

    def _scaled(self, state: AnnealedSGDState, rows: Rows) -> AnnealedSGDState:
        scaling = scaling_of(rows.on_host())
        means = scaling.apply(state.annealed.means, state.annealed.means.dtype)
        return replace(state, annealed=replace(state.annealed, means=means), scaling=scaling)

    def _learn(
        self, backend: Backend, state: AnnealedSGDState, rows: Rows
    ) -> tuple[AnnealedSGDState, list[Info]]:
        if rows.weight is not None:
            rows = Rows(rows.x, rows.weight.clip(max=HEAVIEST))
        weight = rows.total_weight()
        if not weight > 0.0:
            return replace(state, rows=state.rows + len(rows)), []
        options = self.options(backend.model.k, self._gradients(backend.model).cap)
        volume = 0.0
        if state.scaling is not None:
            rows = rows.on_host()
            x = state.scaling.apply(rows.x, state.annealed.means.dtype)
            rows, volume = Rows(x, rows.weight), state.scaling.log_volume
        else:
            rows = Rows(rows.x.clip(-FARTHEST, FARTHEST), rows.weight)
        annealer = required(backend, Annealer)
        annealed, *sums = annealer.anneal(state.annealed, rows, options, self.batch_size)
        log_likelihood, bound = (total / weight - volume for total in sums)
        info = Info(len(rows), log_likelihood, annealed.epsilon, bound)
        return replace(state, annealed=annealed, rows=state.rows + len(rows)), [info]

    def end_pass(
        self, backend: Backend, state: AnnealedSGDState
    ) -> tuple[AnnealedSGDState, list[Info]]:
        state = self._measured(state)
        after, info = self._learn(backend, state, state.waiting)
        nothing = no_rows(backend.model.d)
        return replace(after, waiting=nothing, passes=state.passes + 1), info

    def _measured(self, state: AnnealedSGDState) -> AnnealedSGDState:
        """The state with scales computed from the buffered rows, if there are enough of them."""
        wanted = self.scale and state.scaling is None and len(state.waiting) > 0
        return self._scaled(state, state.waiting) if wanted else state

    def estimate(self, backend: Backend, state: AnnealedSGDState) -> MixtureParams:
        return self._measured(state).params

    def weight_learned(self, state: AnnealedSGDState, rows: int) -> float:
        return state.learned.weight * rows / state.rows if state.rows else 0.0

    def finished(self, state: AnnealedSGDState) -> bool:
        return state.passes >= self.max_iter

    def converged(self, state: AnnealedSGDState) -> bool:
        now = state.annealed
        return now.sigma <= self.sigma_end and now.epsilon <= self.last_step


def uneven_grid(k: int) -> list[str]:
    """The warning for a number of components that is not a square."""
    rows, side = grid_rows(k), isqrt(k)
    if rows * rows == k:
        return []
    shape = f"{rows} x {k // rows}" + (", a ring" if rows == 1 else "")
    squares = " or ".join(str(m * m) for m in (side, side + 1) if m > 1)
    return [f"n_components={k} is laid out as {shape}; squares such as {squares} anneal better"]
