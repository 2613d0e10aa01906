"""Clusters that consist of several components of a mixture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mixfold.core.arrays import concatenated, to_device_of
from mixfold.core.checks import check_whole
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.value import replace
from mixfold.estimators._evaluation import noise_last
from mixfold.models.merged_components import Merges, change_point, cluster_labels


class ComponentClusters:
    """The components of a fitted mixture, merged into 1, 2, ..., K clusters.

    `Mixture.component_clusters` makes it. Clusters are numbered by their first components.

    Attributes
    ----------
    mixture : Mixture
        A copy of the fitted mixture.
    merges : array of shape (K - 1, 2)
        The numbers of the two clusters that were merged, i < j, step by step from K clusters to
        one. The union has number i, and the clusters after j have numbers that are smaller by one.
    entropies : array of shape (K,)
        The entropy of the rows' memberships, in nats, with 1, 2, ..., K clusters.
    n_clusters : int
        The number of clusters at which the slope of the entropies changes. With one or two
        components it is their number.
    n_passes : int
        How often the rows were read.
    """

    def __init__(self, mixture: Any, merges: Merges) -> None:
        self.mixture = mixture
        self.merges = merges.pairs
        self.entropies: Array = merges.entropies[::-1].copy()
        self.n_clusters = change_point(self.entropies)
        self.n_passes = merges.n_passes

    def __repr__(self) -> str:
        return f"ComponentClusters({len(self.entropies)} components, {self.n_clusters} clusters)"

    def labels(self, n_clusters: int | None = None) -> np.ndarray:
        """The cluster of every component, (K,); None is the chosen number of clusters."""
        return cluster_labels(self.merges, self._number(n_clusters))

    def predict_proba(self, X: Any, n_clusters: int | None = None) -> Any:
        """Probabilities of the clusters for every row, (n, n_clusters); noise is a last column."""
        return concatenated(list(self._probabilities(X, n_clusters)))

    def predict(self, X: Any, n_clusters: int | None = None) -> Any:
        """The most probable cluster of every row, -1 for noise."""
        parts = [part.argmax(axis=1) for part in self._probabilities(X, n_clusters)]
        model = replace(self.mixture.model_, k=self._number(n_clusters))
        return noise_last(concatenated(parts), model)

    def _probabilities(self, X: Any, n_clusters: int | None) -> Iterator[Any]:
        labels = self.labels(n_clusters)
        if self.mixture.model_.has_noise:  # which is the last column before and after
            labels = np.append(labels, labels.max() + 1)
        members = np.eye(labels.max() + 1)[labels]
        for _, r in self.mixture.iter_posteriors(X):
            yield r @ to_device_of(r, members)

    def _number(self, n_clusters: int | None) -> int:
        if n_clusters is None:
            return self.n_clusters
        check_whole("n_clusters", n_clusters)
        if n_clusters > len(self.entropies):
            raise InvalidInputError(
                f"n_clusters is {n_clusters!r}, but the mixture has {len(self.entropies)} "
                "components: give a number from 1 to that"
            )
        return int(n_clusters)

    def plot(self, ax: Any = None) -> Any:
        """Draw the entropy against the number of clusters, with the chosen number.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None is the current axes of pyplot.

        Returns
        -------
        The axes.
        """
        from mixfold.plots.lines import draw_selection

        curve = {"": (range(1, len(self.entropies) + 1), self.entropies)}
        what = "number of clusters"
        return draw_selection(curve, "entropy (nats)", ax, chosen=self.n_clusters, what=what)
