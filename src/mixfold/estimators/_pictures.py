"""Pictures of fitted mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.core.arrays import on_host
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array as Floats
from mixfold.estimators._evaluation import Evaluation, noise_last
from mixfold.models.noise_mixture import NoiseParams
from mixfold.sources.array_source import ArraySource

if TYPE_CHECKING:
    from mixfold.plots.fitted_mixture import FittedMixture

MOST_ROWS = 5000  # that are drawn


class Pictures(Evaluation):
    """Pictures of what a mixture has learned, with matplotlib."""

    def plot(
        self,
        X: Any = None,
        ax: Any = None,
        *,
        kind: str = "auto",
        columns: Sequence[str | int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> Any:
        """Draw the mixture, and rows if they are given.

        A component has the same colour in all pictures, and a line that is wider the larger its
        weight. Of more than 5000 rows a sample is drawn, the same in every call.

        Parameters
        ----------
        X : array, table, path or blocks, default=None
            Rows, such as those of the fit.
        ax : matplotlib Axes or array of Axes, default=None
            Where to draw; None is the current axes of pyplot or, for several panels, a new figure.
            Several panels divide the place of a single Axes.
        kind : {"auto", "columns", "ellipses", "pairs", "profiles", "images"}, default="auto"
            "columns" has a panel for each column: densities and a rug of rows for numbers, bars for
            counts and levels. "ellipses" are of one and two standard deviations in two columns,
            "pairs" all pairs of up to six columns, "profiles" the means of many columns as parallel
            lines, and "images" the means as pictures. "auto" chooses by what the columns hold.
        columns : list of str or int, default=None
            The columns to draw; None is all.
        shape : (height, width) or (height, width, 3), default=None
            The shape of rows that are pictures.

        Returns
        -------
        The Axes, or an array of Axes if there are several panels.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from mixfold import Mixture, datasets
        >>> rows = datasets.load_faithful()
        >>> model = Mixture(n_components=2, random_state=0).fit(rows)
        >>> axes = model.plot(rows, Figure().subplots())
        >>> axes.get_xlabel(), len(axes.patches)  # two ellipses for each component
        ('x0', 4)
        """
        from mixfold.plots.mixture import draw_mixture

        fitted = self._fitted_mixture(X)
        if columns is not None:
            fitted = fitted.of_columns(self._chosen(fitted, columns))
        return draw_mixture(fitted, ax, kind, shape)

    def plot_history(self, ax: Any = None) -> Any:
        """Draw the log-likelihood per row against passes, or against rows where there are more.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None is the current axes of pyplot.

        Returns
        -------
        The Axes.
        """
        from mixfold.plots.lines import draw_history

        check_is_fitted(self)
        learned = self._now()
        return draw_history(learned.history, learned.n_iter, ax)

    def plot_responsibilities(self, X: Any, ax: Any = None) -> Any:
        """Draw the responsibilities of rows as bars that the components divide.

        Parameters
        ----------
        X : array, table, path or blocks
            Rows, of which a sample of 5000 is drawn if there are more.
        ax : matplotlib Axes, default=None
            Where to draw; None is the current axes of pyplot.

        Returns
        -------
        The Axes.
        """
        from mixfold.plots.responsibilities import draw_responsibilities

        check_is_fitted(self)
        params = self._current().params
        noise = params.noise if isinstance(params, NoiseParams) else None
        return draw_responsibilities(self._sampled(X)[1], params.weights, noise, ax)

    def plot_drift(self, ax: Any = None) -> Any:
        """Draw the log-likelihood of windows of the stream, and the `drifts_` that were found.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None is the current axes of pyplot.

        Returns
        -------
        The Axes.
        """
        from mixfold.plots.lines import draw_drift

        check_is_fitted(self)
        learned = self._now()
        drifts = learned.attributes().get("drifts_")
        if drifts is None:
            raise InvalidInputError(
                f"the learner is {type(learned.learner).__name__}, which looks for no changes: use "
                "learner=DriftAware('online-em')"
            )
        return draw_drift(learned.history, drifts, ax)

    def _fitted_mixture(self, X: Any) -> FittedMixture:
        """The mixture with the names of its columns and a sample of rows."""
        from mixfold.plots.fitted_mixture import Column, FittedMixture

        check_is_fitted(self)
        learned = self._current()
        names = getattr(self, "feature_names_in_", None)
        known = range(learned.n_features) if names is None else names
        levels = self._cells_of(learned.model.family, True).levels
        dates = {} if self._notes is None else self._notes.dates
        columns = tuple(
            Column(
                f"x{j}" if names is None else str(name),
                levels.get(str(name)),
                dates.get(str(name), ""),
            )
            for j, name in enumerate(known)
        )
        x, labels = None, None
        if X is not None:
            x, responsibilities = self._sampled(X)
            labels = noise_last(responsibilities.argmax(axis=1), learned.model)
        return FittedMixture(learned.model, learned.params, columns, x, labels, names is not None)

    def _sampled(self, X: Any) -> tuple[Floats, Floats]:
        """A sample of rows and their responsibilities, the same in every call."""
        source = self.open_rows(X)
        rows = source.sample(MOST_ROWS, np.random.default_rng(0)).on_host()
        known = ArraySource(rows.x, None, source.columns)
        parts = [on_host(part) for _, part in self.iter_posteriors(known)]
        return np.asarray(rows.x, dtype=np.float64), np.concatenate(parts)

    def _chosen(self, fitted: FittedMixture, columns: Sequence[str | int]) -> list[int]:
        """The numbers of columns that are given by names or numbers."""
        names = [column.name for column in fitted.columns]
        if isinstance(columns, str) or not len(columns):
            raise InvalidInputError(f"columns is {columns!r}: give a list of columns")
        found = []
        for column in columns:
            number = names.index(column) if column in names else column
            if not isinstance(number, int) or not 0 <= number < len(names):
                raise InvalidInputError(
                    f"column {column!r} is none of the model's: they are "
                    f"{', '.join(map(repr, names))}"
                )
            found.append(number)
        return found
