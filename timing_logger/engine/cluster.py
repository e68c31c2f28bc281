"""Workers of a Dask cluster that process files, and what is said where it does not work as it should."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any, NoReturn, TypeVar

from timing_logger.errors import ClusterError, ConfigurationError, TimingLoggerError
from timing_logger.process.progress import step

T = TypeVar("T")
R = TypeVar("R")

_CONNECT_S = 5.0

PATIENCE_S = 20.0
"""How long there may be no worker: one that was killed is replaced within seconds, if somebody does that."""

_LOOK_S = 1.0
_MOST_SAID = 300


class Cluster:
    """The workers of a Dask scheduler.

    A worker that is lost costs time only: the scheduler has others do again what was kept there.

    Args:
        client: a ``distributed.Client``.
        patience_s: for how long there may be no worker; None for :data:`PATIENCE_S`.
    """

    def __init__(self, client: Any, patience_s: float | None = None) -> None:
        self.client = client
        self._patience_s = PATIENCE_S if patience_s is None else patience_s
        self._seen_s = time.monotonic()

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Map on the workers of the cluster."""
        return self.gathered(self.begun(function, items))

    def begun(self, function: Callable[[T], R], items: Sequence[T]) -> list[Any]:
        """Return futures of what ``function`` returns for each item, which stays with the workers."""
        # Not pure: a file that has grown since is another one under the same name.
        found: list[Any] = self.client.map(function, list(items), pure=False)
        return found

    def gathered(self, futures: Sequence[Any]) -> list[Any]:
        """Wait for all futures, and return what they stand for, in their order.

        Raises:
            ClusterError: the cluster cannot finish it.
        """
        done: SimpleQueue[Any] = SimpleQueue()
        for future in futures:
            future.add_done_callback(done.put)
        self._seen_s = time.monotonic()
        found = {}
        try:
            for _ in futures:
                future = self._next(done)
                found[future.key] = self._fetched(future)
                step()
        except TimingLoggerError:  # a worker says it as this process would
            raise
        except Exception as error:
            self._give_up(error)
        return [found[future.key] for future in futures]

    def _next(self, done: SimpleQueue[Any]) -> Any:
        """Return a future that is done, as soon as there is one."""
        while True:
            try:
                return done.get(timeout=_LOOK_S)
            except Empty:
                self._require_workers()

    def _fetched(self, future: Any) -> Any:
        """Return what a future stands for; if its worker was lost meanwhile, it is done again."""
        limit_s = _LOOK_S
        while True:
            try:
                return future.result(timeout=limit_s)
            except (TimeoutError, asyncio.TimeoutError):
                if future.status == "error":  # the exception is the function's own
                    raise
                self._require_workers()
                limit_s *= 2

    def _require_workers(self) -> None:
        """Raise an exception if there has been nobody to do anything for too long."""
        now_s = time.monotonic()
        if self.client.nthreads():
            self._seen_s = now_s
        elif now_s - self._seen_s > self._patience_s:
            raise ClusterError(
                f"--scheduler: {self._address} has had no worker for {self._patience_s:.0f} s. Start some "
                "(dask worker ADDRESS), or leave --scheduler out."
            )

    def _give_up(self, error: Exception) -> NoReturn:
        """Say in one line what became of the work."""
        said = " ".join(str(error).split())[:_MOST_SAID].rstrip(".") or type(error).__name__
        raise ClusterError(
            f"--scheduler: the work was not finished at {self._address}: {said}. The scheduler and its "
            "workers need this version of timing_logger, and the files under the same paths; what they print "
            "says more."
        ) from error

    @property
    def _address(self) -> str:
        return str(self.client.scheduler.address)


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise ConfigurationError(
            f"--scheduler: {error.name} is not installed. Get it with "
            "pip install 'timing_logger[cluster]', where the scheduler and the workers are, too."
        ) from None


@contextmanager
def cluster(address: str) -> Iterator[Cluster]:
    """Connect to the workers of the Dask scheduler at ``address``.

    Raises:
        ConfigurationError: Dask is not installed.
        ClusterError: there is no scheduler.
    """
    distributed = _distributed()
    try:
        client = distributed.Client(address, timeout=_CONNECT_S)
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        raise ClusterError(
            f"--scheduler: no Dask scheduler answers at {address!r} ({error}). Name the address that 'dask "
            "scheduler' printed, such as tcp://host:8786."
        ) from error
    with client:
        yield Cluster(client)
