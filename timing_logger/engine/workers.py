"""Workers that process files: threads, processes on this machine's cores, or a Dask cluster."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, Protocol, TypeVar

from timing_logger.errors import ConfigurationError
from timing_logger.reading.machine import usable_cores

T = TypeVar("T")
R = TypeVar("R")


class Workers(Protocol):
    """Anything that maps a function over items, in their order."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return what ``function`` returns for each item, in their order."""


class LocalWorkers(Workers, Protocol):
    """Workers on this machine.

    Attributes:
        most: how many items they work on at a time, at most.
    """

    most: int

    def started(self, n_items: int) -> AbstractContextManager[Workers]:
        """Start the workers that a number of items needs, for several calls of ``map``."""
        ...


class Threads:
    """Threads of this process.

    Args:
        most: the number of threads at most.
    """

    def __init__(self, most: int) -> None:
        self.most = most

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Map in threads that end with the call."""
        with ThreadPoolExecutor(self.most) as threads:
            return list(threads.map(function, items))

    @contextmanager
    def started(self, n_items: int) -> Iterator[Workers]:
        """Yield these threads themselves: starting them costs nothing."""
        yield self


class Processes:
    """Processes on this machine; if one is enough, the work is done in this process.

    Args:
        most: the number of processes at most; by default one for each core that this process may use.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = usable_cores() if most is None else most

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Map in processes that end with the call."""
        with self.started(len(items)) as workers:
            return workers.map(function, items)

    @contextmanager
    def started(self, n_items: int) -> Iterator[Workers]:
        """Start the workers that a number of items needs, for several calls of ``map``.

        Each process imports what it needs only once.
        """
        n_workers = min(self.most, n_items)
        if n_workers < 2:
            yield _Alone()
            return
        # Spawned: a fork would copy whatever locks threads of the caller held at that moment.
        with ProcessPoolExecutor(n_workers, multiprocessing.get_context("spawn")) as pool:
            yield _Pool(pool)


class _Alone:
    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return list(map(function, items))


class _Pool:
    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self.pool = pool

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return list(self.pool.map(function, items))


class Cluster:
    """The workers of a Dask scheduler.

    Args:
        client: a ``distributed.Client``.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Map on the workers of the cluster."""
        # Not pure: a file that has grown since is another one under the same name.
        found: list[R] = self.client.gather(self.client.map(function, list(items), pure=False))
        return found


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise ConfigurationError(
            f"--scheduler: {error.name} is not installed. Get it with "
            "pip install 'timing_logger[cluster]', on the workers too."
        ) from None


@contextmanager
def cluster(address: str) -> Iterator[Cluster]:
    """Connect to the workers of the Dask scheduler at ``address``.

    Raises:
        ConfigurationError: Dask is not installed.
    """
    with _distributed().Client(address) as client:
        yield Cluster(client)
