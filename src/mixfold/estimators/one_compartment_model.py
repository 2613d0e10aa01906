"""The estimator for the one-compartment pharmacokinetic model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mixfold.core.checks import check_above, check_kind
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.learner import Learner
from mixfold.core.places import cell_place
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows
from mixfold.estimators._concentrations import (
    CONCENTRATION,
    DOSE,
    SUBJECT,
    TIME,
    WEIGHT,
    check_proportional,
    check_same,
    concentration_table,
)
from mixfold.estimators._edge import check_finite
from mixfold.estimators._nonlinear import LearnedUnits, NonlinearMixed, symmetric
from mixfold.estimators._observations import Observations, positions
from mixfold.estimators._subjects import padded, subjects_of
from mixfold.fitting.loop import check_some
from mixfold.learners.monte_carlo_em import MonteCarloEM
from mixfold.models.gaussian_effects import Structure, entries
from mixfold.models.pharmacokinetic import (
    Error,
    Pharmacokinetic,
    PharmacokineticParams,
)
from mixfold.models.residual_errors import ERRORS
from mixfold.schedules.settling import Settling
from mixfold.sources.grouped import Grouped
from mixfold.sources.opening import open_source
from mixfold.sources.table import Codes

NAMES = ("ka", "V", "CL", "lag")


class OneCompartmentModel(NonlinearMixed):
    """One compartment, first-order absorption, random ka, V and CL, fitted by Monte Carlo EM.

    C(t) = D ka / (V (ka - k)) (exp(-k t) - exp(-ka t)), k = CL / V, added up over the doses, with
    log(ka, V, CL) of a subject ~ N(theta, Omega). Units are those of the data.

    Parameters
    ----------
    subject, time, dose, concentration : str
        Columns of the table.
    weight : str, default=None
        Column of body weights: V is then proportional to weight / `reference_weight`, CL to its
        power 3/4, and population values are those at the reference weight.
    dosing : {"events", "single"}, default="events"
        "events": a row whose dose is above 0 is a dose, not an observation, and its concentration
        is not read: it may be NaN, or null in a table in memory. "single": every row is an
        observation, and its dose was given to the subject once, at time 0.
    error : {"additive", "proportional", "combined"}, default="additive"
        Residual variance a^2, (b C)^2 or a^2 + (b C)^2. In (b C)^2 alone, C counts as at least
        1e-3 of the subject's largest concentration.
    covariance : {"diag", "full"}, default="diag"
        Structure of Omega.
    lag : bool, default=False
        Whether absorption begins after a lag, a fourth log-normal parameter.
    reference_weight : float, default=70.0
    learner : str or learner object, default="monte-carlo-em"
    max_iter : int, default=None
        The largest number of passes over the data; None is the learner's default.
    evaluation_draws : int, default=1000
        The number of draws from which the likelihood, the standard errors and the subjects'
        parameters are computed.
    checkpoint : path, default=None
        File to which the fit is saved every `checkpoint_every` seconds while it runs.
    resume : bool or "force", default=False
        Whether to resume from `checkpoint` if it exists. Other data are refused; "force" continues
        with them and warns.
    random_state : int, RandomState or Generator, default=None
    n_threads : int, default=None
        The number of threads; None is all cores. The result does not depend on it.
    verbose : int, default=0

    Attributes
    ----------
    parameter_names_ : list of str
        "ka", "V", "CL" and perhaps "lag".
    population_, population_std_errors_ : arrays of shape (q,)
        exp(theta) and its standard errors, by Louis' identity and the delta method. If too few
        draws make the information indefinite, squared scores are used instead.
    random_covariance_, random_covariance_std_errors_ : arrays of shape (q, q)
        Omega, of the logarithms.
    noise_, noise_std_errors_ : arrays of shape (1,) or (2,)
        a, b or both. The standard error of a deviation that goes to zero is NaN.
    log_likelihood_, log_likelihood_std_error_ : float
        The log-likelihood by importance sampling, and the standard error of this estimate.
    subjects_ : array of shape (n,)
    individual_parameters_ : array of shape (n, q)
        exp of the mean of each subject's log parameters given its data; with `weight`, as they
        would be at the reference weight.
    random_effects_, random_effects_covariance_ : arrays of shape (n, q) and (n, q, q)
        Mean deviation from theta given the data, and covariance.
    parameter_covariance_ : array
        Of theta, the free entries of Omega, and the logarithms of the noise.
    params_ : PharmacokineticParams
        theta, Omega and the noise.
    history_ : History
        `log_likelihood` and `step_size` of every pass.
    n_seen_ : int
        The number of subjects read in all passes.
    n_iter_ : int
        The number of passes over the data.
    n_degenerate_ : int
        How often a variance or the noise was raised to its floor, 1e-8 for eigenvalues of Omega
        and 1e-6 of the size of concentrations for the noise.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import OneCompartmentModel
    >>> rng = np.random.default_rng(0)
    >>> subject, time = np.repeat(np.arange(30), 8), np.tile([0.25, 0.5, 1, 2, 4, 8, 12, 24], 30)
    >>> ka, v, cl = np.exp(np.log([1.5, 30.0, 3.0]) + 0.2 * rng.normal(size=(30, 3))).T[:, subject]
    >>> c = 100 * ka / (v * ka - cl) * (np.exp(-cl / v * time) - np.exp(-ka * time))
    >>> table = {"subject": subject, "time": time, "dose": np.full(240, 100.0)}
    >>> table["concentration"] = c + 0.05 * rng.normal(size=240)
    >>> model = OneCompartmentModel(dosing="single", max_iter=30, random_state=0).fit(table)
    >>> error = (model.population_ - [1.5, 30.0, 3.0]) / model.population_std_errors_
    >>> model.parameter_names_, bool((abs(error) < 3).all())
    (['ka', 'V', 'CL'], True)

    References
    ----------
    Kuhn and Lavielle (2005); Louis (1982).
    """

    _simulation: ClassVar[Learner] = MonteCarloEM(
        draws=20, schedule=Settling(full=60), max_iter=120
    )

    def __init__(
        self,
        *,
        subject: str = "subject",
        time: str = "time",
        dose: str = "dose",
        concentration: str = "concentration",
        weight: str | None = None,
        dosing: str = "events",
        error: Error = "additive",
        covariance: Structure = "diag",
        lag: bool = False,
        reference_weight: float = 70.0,
        learner: str | Learner = "monte-carlo-em",
        max_iter: int | None = None,
        evaluation_draws: int = 1000,
        checkpoint: str | Path | None = None,
        checkpoint_every: float = 30.0,
        resume: bool | str = False,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.subject = subject
        self.time = time
        self.dose = dose
        self.concentration = concentration
        self.weight = weight
        self.dosing = dosing
        self.error = error
        self.covariance = covariance
        self.lag = lag
        self.reference_weight = reference_weight
        self.learner = learner
        self.max_iter = max_iter
        self.evaluation_draws = evaluation_draws
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, group_weight: Any = None) -> Self:
        """Learn from scratch.

        Parameters
        ----------
        X : table, dict of columns, path, list of paths, or glob
            Rows of a file must be sorted by subject.
        y : ignored
        group_weight : name of a column
            Weights of subjects; a subject of weight 2 counts twice.
        """
        with self._learning() as fitted:
            fitted._check_parameters()
            data = fitted._observations(X, fitted._columns(), group_weight)
            width = len(fitted._columns()) - 1
            table = partial(fitted._table, data)
            subjects, most = subjects_of(data.source, table, fitted._check_rows, data.label)
            model = fitted._model(most)
            fitted._check_subjects(model, data, subjects)
            fitted._learn(data, subjects, model, width + 1)
        return self

    def _observations(self, X: Any, columns: list[str], group_weight: Any = None) -> Observations:
        """Rows with these columns, of which only the subject need not be a number."""
        if group_weight is not None and not isinstance(group_weight, str):
            raise InvalidInputError(
                f"group_weight is a {type(group_weight).__name__}: the name of a column is needed"
            )
        codes = Codes()
        source = open_source(
            concentration_table(X, self.concentration), columns, group_weight, codes
        )
        for name in columns[1:]:
            if codes.values.get(name) is not None:
                raise InvalidInputError(f"column {name!r} is not numeric; choose a numeric one")
        labels, no_design = codes.values.get(columns[SUBJECT]), cast(Any, None)
        return Observations(source, no_design, labels)

    def _columns(self) -> list[str]:
        names = [self.subject, self.time, self.dose, self.concentration]
        return names if self.weight is None else [*names, self.weight]

    def _model(self, most: int) -> Pharmacokinetic:
        reference = None if self.weight is None else float(self.reference_weight)
        return Pharmacokinetic(most, self.error, self.covariance, bool(self.lag), reference)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # doses and times are columns of a table, by name
        tags.input_tags.dict = True
        return tags

    def _check_parameters(self) -> None:
        for name, known in (
            ("dosing", ("events", "single")),
            ("error", tuple(ERRORS)),
            ("covariance", ("diag", "full")),
        ):
            if getattr(self, name) not in known:
                raise unknown_name(name, getattr(self, name), known)
        if not isinstance(self.lag, bool | np.bool_):
            raise InvalidInputError(f"lag is {self.lag!r}: True or False is needed")
        check_above("reference_weight", self.reference_weight, 0.0)
        self._check_settings()

    def _check_rows(self, rows: Rows, numbers: Sequence[int]) -> None:
        columns = self._columns()
        read = Rows(self._without_ignored(rows.x), rows.weight)
        check_finite(columns, read, numbers, "group_weight")
        bad = {(DOSE, "0 or more"): read.x[:, DOSE] < 0}
        if self.weight is not None:
            bad[WEIGHT, "above 0"] = read.x[:, WEIGHT] <= 0
        for (column, need), low in bad.items():
            if low.any():
                i = int(low.argmax())
                raise InvalidInputError(
                    f"{cell_place(numbers[i], column, columns)} is {read.x[i, column]}: numbers "
                    f"{need} are needed; correct or drop such rows"
                )

    def _without_ignored(self, x: NDArray[Any]) -> Floats:
        """Rows whose concentrations at doses are 0."""
        x = np.array(x, dtype=np.float64)
        if self.dosing == "events":
            x[x[:, DOSE] > 0, CONCENTRATION] = 0.0
        return x

    def _table(
        self, data: Observations, x: NDArray[Any], starts: NDArray[np.intp]
    ) -> tuple[Floats, NDArray[np.intp]]:
        """Events of whole subjects: time, dose, concentration and perhaps weight."""
        if self.weight is not None:
            check_same(data, x, starts, WEIGHT, f"column {self.weight!r}", "give it one weight")
        events = self._without_ignored(x)[:, TIME:]
        if self.dosing == "events":
            return events, starts
        remedy = "with dosing='single' it is the same in all of them; or use dosing='events'"
        check_same(data, x, starts, DOSE, "the dose", remedy)
        given = events[starts]
        given[:, 0], given[:, 2] = 0.0, 0.0
        events[:, 1] = 0.0
        return np.insert(events, starts, given, axis=0), starts + np.arange(len(starts))

    def _check_subjects(
        self, model: Pharmacokinetic, data: Observations, subjects: Grouped
    ) -> None:
        largest = 0.0
        for keys, block in subjects.keyed_blocks():
            target = model.subjects(block.x)
            self._check_there(data, keys, "dose above 0", target.curve.amount)
            self._check_there(data, keys, "observation", target.there)
            if self.error == "proportional":
                check_proportional(data, keys, target)
            largest = max(largest, float(target.y.max()))
        if largest == 0.0:
            raise InvalidInputError(
                f"column {self.concentration!r} is nowhere above 0: concentrations are needed"
            )

    def _check_there(self, data: Observations, keys: Floats, what: str, there: Floats) -> None:
        nothing = ~(there > 0).any(axis=1)
        if nothing.any():
            other = "single" if self.dosing == "events" else "events"
            raise InvalidInputError(
                f"subject {data.label(keys[nothing][0])} has no {what}: drop it, or use "
                f"dosing={other!r} if doses are recorded that way"
            )

    def _check_learned(self, learned: LearnedUnits) -> None:
        super()._check_learned(learned)
        check_kind("model", learned.model, Pharmacokinetic)
        check_kind("design", learned.design, type(None))
        check_kind("scaling", learned.scaling, type(None))

    def _attributes(self, learned: LearnedUnits) -> dict[str, Any]:
        params: PharmacokineticParams = learned.params
        q = len(params.mean)
        i, j = entries(q, learned.model.covariance)
        errors = np.sqrt(np.diag(learned.parameter_covariance))
        population = np.exp(params.mean)
        return {
            "parameter_names_": list(NAMES[:q]),
            "population_": population,
            "population_std_errors_": population * errors[:q],
            "random_covariance_": params.covariance,
            "random_covariance_std_errors_": symmetric(errors[q : q + len(i)], i, j, q),
            "noise_": params.noise,
            "noise_std_errors_": params.noise * errors[q + len(i) :],
            "parameter_covariance_": learned.parameter_covariance,
            "subjects_": np.asarray(learned.groups),
            "individual_parameters_": np.exp(learned.effects),
            "random_effects_": learned.effects - params.mean,
            "random_effects_covariance_": learned.effect_covariances,
        }

    def predict(self, X: Any) -> Floats:
        """Concentration at every row of a table with subject, time and dose (and weight).

        A subject of `fit` is predicted with its own parameters, a new one with those of the
        population. Predictions are in the order of the table, which must fit in memory. With
        dosing="events" a subject needs the rows of its doses too.
        """
        check_is_fitted(self)
        learned: Pharmacokinetic = self._learned.model
        if (self.weight is None) != (learned.reference_weight is None):
            raise InvalidInputError(
                f"weight is {self.weight!r}, but the model was learned with"
                f"{'out' if learned.reference_weight is None else ''} body weights: fit it again"
            )
        names = [name for name in self._columns() if name != self.concentration]
        data = self._observations(X, names)
        parts = [np.asarray(rows.x, dtype=np.float64) for rows in data.source.blocks()]
        check_some(sum(map(len, parts)), 1.0)
        x = np.insert(np.concatenate(parts), CONCENTRATION, 0.0, axis=1)
        self._check_rows(Rows(x), range(len(x)))
        order = np.argsort(x[:, SUBJECT], kind="stable")
        keys, starts, counts = np.unique(x[order, SUBJECT], return_index=True, return_counts=True)
        table, begins = self._table(data, x[order], starts)
        most = int(np.diff(np.append(begins, len(table))).max())
        target = replace(learned, n_rows=most).subjects(padded(table, begins, most))
        self._check_there(data, keys, "dose above 0", target.curve.amount)
        curve = target.concentration(self._effects_of(data.labels(keys)))
        skip = 1 if self.dosing == "single" else 0  # the dose that was put before
        place = np.arange(len(x)) - np.repeat(starts, counts) + skip
        found = np.empty(len(x))
        found[order] = curve[np.repeat(np.arange(len(keys)), counts), place]
        return found

    def _effects_of(self, subjects: np.ndarray) -> Floats:
        """Log parameters of subjects."""
        number = positions(self.subjects_, subjects)
        known = (number >= 0)[:, None]
        return np.asarray(self.params_.mean + np.where(known, self.random_effects_[number], 0.0))
