"""Workers of this machine that process files: threads, or processes on its cores."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import util
from multiprocessing.context import SpawnContext, SpawnProcess
from queue import Empty, SimpleQueue
from typing import Any, NoReturn, Protocol, TypeVar

from timing_logger.errors import ClusterError, ConfigurationError, TimingLoggerError
from timing_logger.process.interrupts import held_back, undone_by
from timing_logger.process.progress import step, steps
from timing_logger.reading.machine import usable_cores

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


_GONE_S = 1.0


class Workers(Protocol):
    """Anything that maps a function over items, in their order."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return what ``function`` returns for each item, in their order."""


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
            return list(steps(threads.map(function, items)))

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
            yield _Mapping(map)
            return
        context = _Context()
        with (
            undone_by(context.end),
            ProcessPoolExecutor(n_workers, context, initializer=_end_with_parent) as pool,
        ):
            try:
                yield _Mapping(pool.map)
            except KeyboardInterrupt:
                context.kill()  # they would go on with what nobody waits for
                raise


class _Worker(SpawnProcess):
    """A process that Ctrl-C does not reach, which a terminal sends to all: who started it ends it."""

    def start(self) -> None:
        """Start with SIGINT blocked, before the process has a line of Python that could be interrupted."""
        with held_back():
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                super().start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Context(SpawnContext):
    """Starts workers, and knows them. A fork would copy whatever locks threads of the caller hold then."""

    def __init__(self) -> None:
        self._started: list[_Worker] = []

    def Process(self, *arguments: Any, **named: Any) -> _Worker:  # type: ignore[override]
        worker = _Worker(*arguments, **named)
        self._started.append(worker)
        return worker

    def kill(self) -> None:
        """Kill all that were started, and wait until they are gone."""
        for worker in self._started:
            if worker.pid is not None:
                worker.kill()
        for worker in self._started:
            if worker.pid is not None:
                worker.join(_GONE_S)

    def end(self) -> None:
        """Do the same in a process that ends without what Python does at exit."""
        self.kill()
        # Else Python's tracker of semaphores, which outlives this process, complains that some are left.
        util._run_finalizers(0)  # type: ignore[attr-defined]


def _end_with_parent() -> None:
    """Have this worker end when the process that started it is killed, which nobody can undo."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has one"

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()


class _Mapping:
    """Maps with a function such as ``map``, which returns what is there so far."""

    def __init__(self, function: Callable[..., Iterable[Any]]) -> None:
        self._map = function

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return list(steps(self._map(function, items)))
