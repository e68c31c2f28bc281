"""Workers of this machine that process files: threads, or processes on its cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import util
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Protocol, TypeVar

from timing_logger.process.interrupts import held_back, undone_by
from timing_logger.process.progress import steps
from timing_logger.reading.machine import usable_cores

_GONE_S = 1.0

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
            yield _Alone()
            return
        context = _Context()
        with (
            undone_by(context.end),
            ProcessPoolExecutor(n_workers, context, initializer=_end_with_parent) as pool,
        ):
            try:
                yield _Pool(pool)
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


class _Alone:
    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return list(steps(map(function, items)))


class _Pool:
    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self.pool = pool

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return list(steps(self.pool.map(function, items)))
