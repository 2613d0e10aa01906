"""The engine that runs on a Dask cluster."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from mixfold.backends.threads import available_cores
from mixfold.core.engine import Engine, Folded, RowResult, RowWork, Work, tree
from mixfold.core.errors import ClusterError, MissingExtraError, MixfoldError
from mixfold.core.source import Source
from mixfold.engines._dask_collection import (
    distinct_values,
    first_values,
    is_collection,
    open_collection,
)
from mixfold.engines._dask_errors import failed
from mixfold.engines._dask_results import mapped, summed
from mixfold.sources.table import Codes

PATIENCE = 5
ATTEMPTS = 4
DEFAULTS = (None, "dask")
SCHEMES = ("tcp", "tls", "ws", "wss", "ucx", "inproc")


class Dask(Engine):
    """Submits one task graph per reduction; only the final result is returned.

    The functions and the initial state are sent once to every worker. Dask runs a task where its
    inputs are, so if only one worker had them, the others would be idle.
    """

    served = "'local', the address of a Dask scheduler, a Client or a cluster of Dask"

    def __init__(self, client: Any) -> None:
        self.client = client

    @classmethod
    def accepts(cls, cluster: object) -> bool:
        """Accept any address that no other engine accepts; Dask reports invalid ones."""
        if not isinstance(cluster, str):
            return is_client(cluster) or is_cluster(cluster)
        scheme, separator, _ = cluster.partition("://")
        return not separator or scheme in SCHEMES

    @classmethod
    def holds(cls, data: Any) -> bool:
        return is_collection(data)

    @classmethod
    def open(
        cls,
        data: Any,
        columns: Sequence[str] | None,
        weight: str | None,
        codes: Codes | None = None,
    ) -> Source:
        return open_collection(data, columns, weight, codes)

    @classmethod
    def in_memory(cls) -> str:
        return "X.compute()"

    @classmethod
    def in_sorted_files(cls) -> str:
        return "X.sort_values(group).to_parquet(...)"

    @classmethod
    def typed_table(cls, data: Any) -> Any:
        return first_values(data)

    @classmethod
    def distinct_values(cls, data: Any, column: str, most: int) -> Any:
        return distinct_values(data, column)

    @classmethod
    def connect(cls, cluster: Any) -> AbstractContextManager[Engine]:
        return dask_engine(cluster)

    @classmethod
    def map_rows(
        cls, data: Any, work: RowWork, result: RowResult, columns: Sequence[str] | None, codes: Any
    ) -> object:
        return mapped(data, work, result, open_collection(data, columns, None, codes))

    @classmethod
    def total(
        cls, data: Any, work: RowWork, columns: Sequence[str] | None, codes: Any, cluster: Any
    ) -> Any:
        with client_of(cluster):
            return summed(work, open_collection(data, columns, None, codes))

    def reduce(
        self, work: Work[Folded], before: object, shards: Sequence[Sequence[Source]]
    ) -> Folded:
        """The merged result of all shards; it is computed again if all workers have died."""
        from concurrent.futures import CancelledError

        for _ in range(ATTEMPTS):
            try:
                return self._computed(work, before, shards)
            except MixfoldError:
                raise
            except CancelledError as error:
                reason: Exception = error
            except Exception as error:
                raise failed(error) from error
        raise failed(reason) from reason

    def _computed(
        self, work: Work[Folded], before: object, shards: Sequence[Sequence[Source]]
    ) -> Folded:
        (given,) = self.client.scatter([(work, before)], broadcast=True, hash=False)
        future = self.client.compute(graph(given, shards))
        try:
            folded: Folded = future.result()
            return folded
        finally:
            future.cancel()


def graph(given: Any, shards: Sequence[Sequence[Source]]) -> Any:
    """The task graph of the whole reduction."""
    from dask import delayed

    first, fold, merge = (delayed(task, pure=False) for task in (_first, _fold, _merge))
    leaves, number = [], 0
    for i, (start, *rest) in enumerate(shards):
        folded = first(given, i, number, *start.recipe())
        for n, partition in enumerate(rest, number + 1):
            folded = fold(given, folded, n, *partition.recipe())
        number += 1 + len(rest)
        leaves.append(folded)
    return tree(leaves, lambda parts: merge(given, parts))


FromParams = tuple[Work[Any], Any]


def _first(given: FromParams, shard: int, partition: int, opened: Any, *where: Any) -> Any:
    work, before = given
    return work.fold(work.begin(before, shard), partition, opened, *where)


def _fold(given: FromParams, folded: Any, partition: int, opened: Any, *where: Any) -> Any:
    return given[0].fold(folded, partition, opened, *where)


def _merge(given: FromParams, parts: list[Any]) -> Any:
    return given[0].merge(given[1], parts)


@contextmanager
def dask_engine(cluster: Any) -> Iterator[Dask]:
    """The engine at an address or client, on a new "local" cluster, or at the current client."""
    client = cluster if is_client(cluster) else None
    if client is not None and client.status != "running":
        raise ClusterError(f"cluster is {cluster!r}, which is {client.status}: give another client")
    if isinstance(cluster, str | None) and cluster in DEFAULTS:
        client = _current()
    if client is not None:
        yield Dask(client)
        return
    with _connected(cluster) as made, made.as_current():
        yield Dask(made)


@contextmanager
def client_of(cluster: Any) -> Iterator[None]:
    """Compute collections on a client or cluster that was given, else where Dask would."""
    if not (is_client(cluster) or is_cluster(cluster)):
        yield
        return
    with dask_engine(cluster) as engine, engine.client.as_current():
        yield


def is_client(thing: object) -> bool:
    """Whether `thing` is a synchronous client, without importing Dask."""
    library = sys.modules.get("distributed")
    return library is not None and isinstance(thing, library.Client) and not thing.asynchronous


def is_cluster(thing: object) -> bool:
    """Whether `thing` is a cluster of Dask, such as a `LocalCluster`, without importing it."""
    library = sys.modules.get("distributed")
    return library is not None and isinstance(thing, library.deploy.Cluster)


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
def _safe_path() -> Iterator[None]:
    """Prevent new processes from importing modules of the working folder."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        del os.environ["PYTHONSAFEPATH"]
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


@contextmanager
def _connected(cluster: Any) -> Iterator[Any]:
    library = distributed()
    if isinstance(cluster, str | None) and cluster in (*DEFAULTS, "local"):
        with (
            _safe_path(),
            library.LocalCluster(
                n_workers=available_cores(),
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
            ) as local,
            library.Client(local, set_as_default=False) as client,
        ):
            yield client
        return
    client, reason = None, ""
    try:
        client = library.Client(cluster, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # an invalid address can raise any error
        reason = str(error)
    if client is None:
        # a client that failed to connect raises an error at the end of the interpreter
        gc.collect()
        raise ClusterError(
            f"cluster is {cluster!r}, where no Dask scheduler answers ({reason}): start one with "
            "'dask scheduler', correct the address, or use 'local'"
        )
    with client:
        yield client
