"""Shared-out work on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mixfold.core.engine import Work, tree
from mixfold.core.errors import ClusterError, MissingExtraError, MixfoldError
from mixfold.core.source import Source
from mixfold.engines.threads import available_cores

PATIENCE = 5


class Dask:
    """One graph per reduction, of which only the last result comes back.

    What workers do and the state they begin with are nodes of the graph: each worker fetches them
    once, and if one dies they are made again with all that hangs on them.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def reduce(self, work: Work, before: Any, shards: Sequence[Sequence[Source]]) -> Any:
        """The merged result of all shards."""
        root = _graph(work, before, shards)
        future = self.client.compute(root)
        try:
            return future.result()
        except MixfoldError:
            raise
        except Exception as error:
            raise ClusterError(
                f"a task failed on the cluster: {type(error).__name__}: {error}"
            ) from error
        finally:
            future.cancel()


def _graph(work: Work, before: Any, shards: Sequence[Sequence[Source]]) -> Any:
    from dask import delayed

    given = delayed(_given, pure=False)(work, before)
    begin, fold, merge = (delayed(task, pure=False) for task in (_begin, _fold, _merge))
    leaves, number = [], 0
    for i, shard in enumerate(shards):
        folded = begin(given, i)
        for partition in shard:
            folded = fold(given, folded, number, *partition.described())
            number += 1
        leaves.append(folded)
    return tree(leaves, lambda parts: merge(given, parts))


Given = tuple[Work, Any]


def _given(work: Work, before: Any) -> Given:
    return work, before


def _begin(given: Given, shard: int) -> Any:
    return given[0].begin(given[1], shard)


def _fold(given: Given, folded: Any, partition: int, opened: Any, *where: Any) -> Any:
    return given[0].fold(folded, partition, opened, *where)


def _merge(given: Given, parts: list[Any]) -> Any:
    return given[0].merge(given[1], parts)


@contextmanager
def dask_engine(cluster: str | None) -> Iterator[Dask]:
    """The engine at an address, on a "local" cluster of its own, or where the current client is."""
    client = _current() if cluster is None else None
    if client is not None:
        yield Dask(client)
        return
    with _connected(cluster) as made, made.as_current():
        yield Dask(made)


def distributed() -> Any:
    """The library, or an error that says how to get it."""
    try:
        import distributed
    except ImportError:
        raise MissingExtraError("dask and distributed", "dask", "learning on a cluster") from None
    return distributed


def _current() -> Any:
    try:
        return distributed().default_client()
    except ValueError:
        return None


@contextmanager
def _connected(cluster: str | None) -> Iterator[Any]:
    library = distributed()
    if cluster in (None, "local"):
        with (
            library.LocalCluster(
                available_cores(), 1, processes=True, dashboard_address=":0"
            ) as local,
            library.Client(local, set_as_default=False) as client,
        ):
            yield client
        return
    try:
        client = library.Client(cluster, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # addresses can be wrong in many ways
        raise ClusterError(
            f"cluster is {cluster!r}, where no Dask scheduler answers ({error}): start one with "
            "'dask scheduler', correct the address, or use 'local'"
        ) from None
    with client:
        yield client
