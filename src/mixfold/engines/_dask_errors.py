"""Errors of a Dask cluster, and their remedies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mixfold.core.errors import ClusterError, MixfoldError

MORE_MEMORY = (
    "give each worker more memory (dask worker --memory-limit, fewer threads per worker), or make "
    "partitions smaller (smaller row groups in files, repartition() or rechunk() of collections)"
)
GO_ON = (
    "check that the scheduler and its workers are running, and continue with checkpoint and resume"
)
REMEDIES = {
    "KilledWorker": f"workers died while running it, most likely for lack of memory: {MORE_MEMORY}",
    "MemoryError": f"a worker does not have enough memory: {MORE_MEMORY}",
    "CommClosedError": f"the connection was lost: {GO_ON}",
    "ConnectionError": f"the connection was lost: {GO_ON}",
    "ClosedClientError": f"the connection was closed: {GO_ON}",
    "TimeoutError": f"there was no answer in time: {GO_ON}",
    "CancelledError": f"the work was cancelled, or its workers are gone: {GO_ON}",
}
"""What can be done, by the name of an error's class."""


def remedy(error: BaseException) -> str | None:
    """The remedy for an error of a cluster; None for errors of the computation itself."""
    names = (kind.__name__ for kind in type(error).__mro__)
    return next((REMEDIES[name] for name in names if name in REMEDIES), None)


def failed(error: BaseException) -> ClusterError:
    """A `ClusterError` with the cause and a remedy."""
    what = f"a task failed on the cluster: {type(error).__name__}: {error}"
    known = remedy(error)
    return ClusterError(what if known is None else f"{what}; {known}")


@contextmanager
def on_cluster() -> Iterator[None]:
    """Convert errors of a cluster to `ClusterError`; errors of the computation are kept."""
    try:
        yield
    except MixfoldError:
        raise
    except Exception as error:
        if remedy(error) is None:
            raise
        raise failed(error) from error
