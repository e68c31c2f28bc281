"""Who works on the files: this process, processes on this machine's cores, or a Dask cluster."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from typing import Any, Protocol, TypeVar

from timing_logger._cores import usable_cores
from timing_logger._dask_table import imported

T = TypeVar("T")
R = TypeVar("R")


class Workers(Protocol):
    """What maps a function over items, in their order."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]: ...


class Threads:
    """Of this process, so many."""

    def __init__(self, most: int) -> None:
        self.most = most

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        with ThreadPoolExecutor(self.most) as threads:
            return list(threads.map(function, items))


class Processes:
    """On this machine; in this process alone if one is enough.

    Args:
        most: how many processes at most; default one for each core that this process may use.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = usable_cores() if most is None else most

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        n_workers = min(self.most, len(items))
        if n_workers < 2:
            return list(map(function, items))
        with ProcessPoolExecutor(n_workers, _context()) as workers:
            return list(workers.map(function, items))


def _context() -> BaseContext:
    """How workers are started: by a server that forks itself when it has imported what they need, once.

    A fork of this process would copy whatever locks threads of the caller held at that moment.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():  # as on Windows
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([name for name in sys.modules if name.startswith("timing_logger.")])
    return context


class Cluster:
    """The workers of a Dask scheduler; what they hold stays with them."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.address: str = client.scheduler.address

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        # Not pure: a file that has grown since is another one under the same name.
        found: list[R] = self.client.gather(self.client.map(function, list(items), pure=False))
        return found


@contextmanager
def cluster(address: str | None) -> Iterator[Cluster]:
    """The workers of the scheduler at ``address``; without one, of a cluster of this machine's cores.

    Raises:
        ConfigurationError: Dask is not installed.
    """
    distributed = imported("distributed")
    if address is not None:
        with distributed.Client(address) as client:
            yield Cluster(client)
        return
    with (
        distributed.LocalCluster(
            n_workers=usable_cores(), threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as local,
        distributed.Client(local) as client,
    ):
        yield Cluster(client)
