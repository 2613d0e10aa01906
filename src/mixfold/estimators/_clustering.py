"""Clusters of several components."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.utils.validation import check_is_fitted

from mixfold.core.arrays import on_host
from mixfold.core.rows import in_tiles
from mixfold.estimators._uncertainty import Uncertainty
from mixfold.estimators.component_clusters import ComponentClusters
from mixfold.fitting.placement import placement_for
from mixfold.learners.further_search import MOST_BYTES
from mixfold.models.merged_components import Weighted, merge_components


class Clustering(Uncertainty):
    """Clusters that consist of several components."""

    def component_clusters(self, X: Any, sample_weight: Any = None) -> ComponentClusters:
        """Merge components into clusters, for clusters that are not of the shape of a component.

        Step by step, the two clusters are merged whose union lowers the entropy of the rows'
        memberships most, until there is one cluster. The density is not changed.

        Rows are read once, and the responsibilities of uncertain rows are kept, if they fit into
        64 MiB; otherwise rows are read again for every merge, K - 1 times in all.

        Parameters
        ----------
        X : array, table, path or blocks
            The rows of the entropy, such as those of the fit.
        sample_weight : array of n weights, or for tables and files the name of a column
            A weight of v counts as v rows.

        Returns
        -------
        ComponentClusters
            `labels(n)` are the clusters of the components, `predict(X, n)` those of rows,
            `entropies` the entropies with 1, ..., K clusters, and `n_clusters` the number at which
            their slope changes.

        Examples
        --------
        >>> from mixfold import Gaussian, Mixture, datasets
        >>> rows = datasets.load_faithful()
        >>> model = Mixture(Gaussian("EII"), 4, random_state=0).fit(rows)
        >>> clusters = model.component_clusters(rows)
        >>> clusters.labels(2)
        array([0, 0, 1, 1])
        >>> clusters.entropies.round(1)
        array([ 0. ,  1.9, 10.2, 34.7])

        References
        ----------
        Baudry, Raftery, Celeux, Lo and Gottardo (2010), Combining mixture components for
        clustering, Journal of Computational and Graphical Statistics 19, 332-353.
        """
        check_is_fitted(self)
        model, place = self._twin(), placement_for(self.engine, X)
        learned = model._current()
        source = model._source(X, learned, place.tensor_device, sample_weight)

        def read() -> Iterator[Weighted]:
            backend = place.backend(learned.model, model.n_threads)
            for rows in in_tiles(model._checked(source, learned), backend.tile):
                backend = model._serving(backend, rows, place)
                _, responsibilities = backend.posterior(learned.params, rows)
                assert responsibilities is not None
                yield on_host(responsibilities)[:, : learned.model.k], rows.weights()

        merges = merge_components(read, learned.model.k, MOST_BYTES, source.rereadable)
        return ComponentClusters(model, merges)
