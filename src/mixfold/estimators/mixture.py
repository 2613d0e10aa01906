"""The estimator for every family and learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from mixfold.core.checks import check_kind, check_least, check_whole
from mixfold.core.conjugate import Prior
from mixfold.core.data_limits import without_limits
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.family import Family
from mixfold.core.initializer import Initializer
from mixfold.core.learner import Learner
from mixfold.core.registry import is_called
from mixfold.core.source import Source
from mixfold.estimators._changing_family import Given
from mixfold.estimators._chosen_families import (
    Choice,
    choices_of,
    chosen_product,
    for_stream,
    with_levels,
)
from mixfold.estimators._clustering import Clustering
from mixfold.estimators._column_facts import DATES, column_facts
from mixfold.estimators._edge import family_from, learner_from, open_data
from mixfold.estimators._evaluation import MARGINALIZE
from mixfold.estimators._known_labels import check_classes
from mixfold.estimators._new_columns import AUTO, NEW_COLUMNS
from mixfold.estimators._noise import check_noise
from mixfold.estimators._table_notes import TableNotes
from mixfold.families.product import Product
from mixfold.fitting.initialization import initializer_for
from mixfold.fitting.placement import placement_for
from mixfold.models.fixed import Fixed

OWN_LEVEL = "own-level"


class Mixture(Clustering):
    """A finite mixture of any family, fitted by any learner, from any source.

    Components are sorted by their means, unless `init` gave them an order, or `partial_fit` has
    changed them since.

    Parameters
    ----------
    family : str or family object, default="gaussian"
        The distribution of the components: "gaussian", "poisson", "gamma", "bernoulli" and others,
        or e.g. `Gaussian(covariance="diag")` or `Binomial(trials=9)`. `Product({"age": Gaussian(),
        "visits": Poisson()})` gives columns families of their own, and "auto" chooses one for each
        column of a table, by its type and a sample of its values: see `chosen_families_`.
    n_components : int, default=1
        The number of components K; the largest number for the learner "split-merge-em".
    learner : str or learner object, default="auto"
        The algorithm: "auto", "em", "mini-batch-em", "online-em", "incremental-em" and others, or
        e.g. `OnlineEM(batch_size=100)`.
    init : str, initializer object, parameters, means or fitted model, default="auto"
        "k-means++", "k-means", "k-mle++", "random-labels", "random-rows"; for Gaussians also
        "raw-k-means", "standardized-k-means", "sphered-k-means", "projection-pursuit",
        "hierarchical", "concentric" and "directional"; `params_` of a model, an array of K means,
        or a fitted mixture. "auto" is k-means++, or k-mle++ for families without second moments;
        the learner "auto" then compares all kinds that serve the family.
    n_init : int, default=1
        Number of initialisations; the fit with the highest likelihood, or lower bound, is kept.
    max_iter : int, default=None
        The largest number of passes over the data; None is the learner's default.
    noise : True, number or pair of lists, default=None
        A further component of constant density, so that rows far from all others do not change the
        components. It is 1 / V in a box: that of all rows (True), which are read once more, the
        same box scaled to a volume, or the box from `low` to `high`, as `noise=(low, high)`, which
        `partial_fit` and data that can be read only once need. Its weight is `noise_weight_`,
        `predict` is -1 for its rows, and `predict_proba` has a last column for it.
    missing : {"marginalize", "error"}, default="marginalize"
        What is done with missing cells (NaN, None, null). "marginalize" integrates them out: the
        likelihood is that of the observed cells; "error" refuses them.
    overrides : mapping, default=None
        Families of columns that take the place of those chosen by `family="auto"`.
    unseen : {"error", "own-level"}, default="error"
        What is done with categories that were not learned. "error" refuses them in prediction, and
        `partial_fit` and `learn_one` make levels of them; "own-level" gives all categories that
        were not in the first data one level of their own.
    classes : list, default=None
        Names of the labels of `fit`, in the order of their components; a name that is given twice
        has two components. None is the numbers of components, or names in the order of sorting.
    fixed : Fixed, default=None
        Parameters that are known, or that components share, such as `Fixed(weights="equal")`.
    prior : Prior, default=None
        A conjugate prior, under which learners of the EM kind find the parameters of highest
        posterior density. Bayesian learners have a parameter of their own for it.
    columns : list of str, default=None
        Columns of a table or file to use; None is all.
    new_columns : {"auto", "learn", "ignore", "error"}, default="auto"
        What is done with columns of a later row or table of a stream that the first did not have.
        "learn" learns them as if they had been there with missing cells, as long as the learner
        has kept all rows, as its "auto" does within its `memory_budget`; "ignore" warns once;
        "error" refuses rows with them, and does not read them of tables. "auto" does this for
        tables, and for rows that are dicts learns them where that is possible, and ignores them
        elsewhere; it warns of both. Columns that a dict lacks have missing cells in any case.
    checkpoint : path, default=None
        File to which the fit is saved every `checkpoint_every` seconds while it runs.
    resume : bool or "force", default=False
        Whether to resume from `checkpoint` if it exists. Other data are refused; "force" continues
        with them and warns.
    cluster : str, Client, cluster or Spark session, default=None
        "local", the address of a Dask scheduler, a `Client` or e.g. a `LocalCluster`, "spark", or a
        Spark session or its address, whose workers read the files; None is this process or, for
        collections of Dask and Spark, the current client, a local cluster, or their session. The
        result does not depend on the number of workers, and "serial" gives it without any.
    engine : str, default=None
        "cpu"; "gpu", or a device of torch such as "cuda:1"; "torch:cpu" runs the code for GPUs on
        the CPU. None is the CPU, or the device of X if it is a tensor. See the page on GPUs.
    random_state : int, RandomState or Generator, default=None
        Seed of the random numbers; an int makes fits reproducible.
    n_threads : int, default=None
        The number of threads; None is all cores. The result does not depend on it.
    verbose : int, default=0
        If above 0, progress is printed on stderr.

    Attributes
    ----------
    weights_ : array of shape (K,)
    noise_weight_ : float
        The weight of noise; with it, all weights sum to one. Only with `noise`.
    means_ : array of shape (K, d)
    covariances_ : array
        For Gaussians, in scikit-learn's shape for the covariance type; not for "factor".
    precisions_, precisions_cholesky_ : arrays
        Inverses of the covariances and their Cholesky factors, for the same models.
    loadings_, noise_variance_ : arrays of shapes (K, rank, d) and (K, d)
        For `Gaussian("factor", rank=q)`: covariances are `loadings_[k].T @ loadings_[k]` plus the
        noise on the diagonal, as of scikit-learn's `FactorAnalysis`.
    params_ : MixtureParams
        Weights and all parameters of the components.
    model_, learner_ : MixtureModel and learner
        The fitted mixture, and the learner with all settings resolved for the data.
    n_rows_ : int
        The number of rows learned, each counted once.
    n_seen_ : int
        The number of rows read in all passes: 816 after three passes over 272 rows.
    n_iter_ : int
        The number of passes that `fit` made; 0 if all rows were given to `partial_fit`.
    lower_bound_ : float
        The log-likelihood per row in the last pass, or the lower bound that the learner maximises;
        for "auto" with several components of Gaussians or products, the log prior density is added.
        Only learners that update once per pass, such as EM, have one; `score` always works.
    history_ : History
        `log_likelihood`, `step_size`, `rows` and `time` of every pass or update, and `bound`, what
        a learner maximises, where that is not the likelihood itself. Of many, some are kept: at
        most 4096 of a fit and 512 of a stream, with the first and the last.
    converged_ : bool
        Whether the learner has converged: for EM and "auto", whether less than `tol` nats of the
        log-likelihood are left to gain.
    chosen_families_ : list of (column, family, reason, levels)
        What `family="auto"` has chosen for every column, why, and the levels in the order of their
        codes: sorted after `fit`, in the order in which they appeared in a stream. `column` is a
        tuple where real columns that depend on one another have a joint distribution.
    parameters_ : dict
        For products, the parameters of every column, or group of columns.
    components_in_use_ : array
        Of `OnlineVB(sparse=True)`: the components with at least one row, the largest first.
    classes_ : array
        The names of the labels, in the order of their components, if there were labels.
    n_components_ : int
        The number of components.
    decisions_ : list of ComponentDecision
        When and why the learner "split-merge-em" has changed the number of components.
    n_degenerate_ : int
        How many components are at a limit in some column: as narrow as the data's resolution
        allows, or with the smallest mean or probability.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture(n_components=2, random_state=0).fit(datasets.load_faithful())
    >>> model.weights_.round(2)
    array([0.36, 0.64])
    >>> model.predict([[1.8, 52.0], [4.5, 82.0]])
    array([0, 1])
    """

    def __init__(
        self,
        family: str | Family = "gaussian",
        n_components: int = 1,
        *,
        learner: str | Learner = "auto",
        init: Any = "auto",
        n_init: int = 1,
        max_iter: int | None = None,
        noise: Any = None,
        missing: str = MARGINALIZE,
        overrides: Any = None,
        unseen: str = "error",
        classes: Sequence[Any] | None = None,
        fixed: Fixed | None = None,
        prior: Prior | None = None,
        columns: Sequence[str] | None = None,
        new_columns: str = AUTO,
        checkpoint: str | Path | None = None,
        checkpoint_every: float = 30.0,
        resume: bool | str = False,
        cluster: Any = None,
        engine: str | None = None,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.family = family
        self.n_components = n_components
        self.learner = learner
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.noise = noise
        self.missing = missing
        self.overrides = overrides
        self.unseen = unseen
        self.classes = classes
        self.fixed = fixed
        self.prior = prior
        self.columns = columns
        self.new_columns = new_columns
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.cluster = cluster
        self.engine = engine
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    def _family(self) -> Family:
        if isinstance(self.family, Integral):
            raise InvalidInputError(
                f"family is {self.family!r}, as the family comes before the number of components: "
                f"write Mixture(n_components={self.family!r})"
            )
        return family_from(self.family)

    @property
    def _typed(self) -> bool:
        """Whether the family depends on the types of the columns."""
        return is_called(self.family, "auto") or isinstance(self.family, Product)

    @property
    def _chooses_families(self) -> bool:
        return self._typed

    @property
    def _given_product(self) -> Product | None:
        """The families of columns that the user has given."""
        given = self.family if isinstance(self.family, Product) else self.overrides
        if given is None or isinstance(given, Product):
            return given
        return Product(given) if given else None

    def _given_families(self) -> Given:
        given = self._given_product
        return {} if given is None else {factor.label: factor.family for factor in given.factors}

    @property
    def _levels_grow(self) -> bool:
        return self._typed and self.unseen != OWN_LEVEL and self._learner().adds_levels

    def _family_for(self, X: Any, sample_weight: Any, stream: bool = False) -> Family:
        other, given = self.unseen == OWN_LEVEL, self._given_product
        if isinstance(self.family, Product) and isinstance(X, Source):
            return self.family  # `open_training` has chosen it and set the notes
        self._notes = None
        if not self._typed:
            return self._family()
        if isinstance(self.family, Product) and not self.family.names:
            return self.family
        facts = column_facts(X, self._table_columns(), sample_weight)
        if isinstance(self.family, Product):
            product, reasons = with_levels(self.family, facts, other), None
        else:
            # kernels for devices have products of single columns only
            groups = placement_for(self.engine, X).is_default
            product, reasons = chosen_product(facts, given, other, groups)
        dates = {str(one.name): one.kind for one in facts if one.holds == DATES}
        self._notes = TableNotes(reasons, tuple(dates), tuple(dates.values()))
        return for_stream(product, facts, given) if stream and self._levels_grow else product

    @property
    def chosen_families_(self) -> list[Choice]:
        """What `family="auto"` has chosen for every column, and why."""
        here = self.__dict__  # read once: another thread may replace it
        notes, learned = here.get("_notes"), here.get("_learned")
        if notes is None or notes.reasons is None or learned is None:
            raise AttributeError("only mixtures that were fitted with family='auto' have chosen")
        return choices_of(learned.model.family, notes.reasons)

    def open_training(self, X: Any, sample_weight: Any = None) -> Source:
        """The rows of data as `fit` reads them, whose parts can be given to `fit` and `score`.

        Families that are chosen by the data are chosen here, and stay the same in all parts.
        """
        self._check_parameters()
        settings = self._settings(self._family_for(X, sample_weight))
        source = open_data(
            self._twin(),
            X,
            sample_weight,
            self._table_columns(),
            reset=True,
            cells=settings.cells,
        )
        if self._typed:
            self.set_params(family=settings.family, overrides=None)
        return source

    def _table_columns(self) -> Sequence[str] | None:
        """The columns that are read: those of a product, if it names them."""
        if self._features is not None:
            return list(self._features)
        names = self.family.names if isinstance(self.family, Product) else None
        return self.columns if self.columns is not None else names

    def _known_family(self) -> Family:
        if not self.__sklearn_is_fitted__():
            if is_called(self.family, "auto"):
                raise InvalidInputError(
                    "family is 'auto', which chooses families from the columns of a table: give "
                    "some rows to fit or partial_fit before single ones"
                )
            return self._family()
        if not self._typed:
            return self._family()
        return without_limits(self._learned.model.family).for_complete_rows()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allows_missing
        return tags

    def _learner(self) -> Learner:
        return learner_from(self.learner)

    def _start(self, family: Family, learner: Learner) -> Initializer:
        return initializer_for(self.init, family, learner.default_initializer(family))

    def _check_parameters(self) -> None:
        check_whole("n_components", self.n_components)
        check_whole("n_init", self.n_init)
        for name in ("max_iter", "n_threads"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        check_noise(self.noise)
        if self.new_columns not in NEW_COLUMNS:
            raise unknown_name("new_columns", self.new_columns, NEW_COLUMNS)
        for name, other in (("missing", MARGINALIZE), ("unseen", OWN_LEVEL)):
            if getattr(self, name) not in (other, "error"):
                raise unknown_name(name, getattr(self, name), [other, "error"])
        if self.overrides is not None and not is_called(self.family, "auto"):
            raise InvalidInputError(
                f"overrides is {self.overrides!r} and family is {self.family!r}: overrides need "
                "family='auto'"
            )
        if not isinstance(self.overrides, Mapping | Product | None):
            raise InvalidInputError(
                f"overrides is {self.overrides!r}: give a dict of columns and families"
            )
        check_least("checkpoint_every", self.checkpoint_every, 0.0)
        check_classes(self.classes)
        if self.fixed is not None:
            check_kind("fixed", self.fixed, Fixed)
        if self.prior is not None:
            check_kind("prior", self.prior, Prior)
            if self.fixed is not None:
                raise InvalidInputError("fixed and prior cannot be combined: leave one of them out")
