"""A dataloader whose batches are timed: otherwise it behaves like the one it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from timing_logger.record import OK
from timing_logger.recording.clock import perf_counter_ns


class FetchTimes(Protocol):
    """Where a timed loader says what it saw."""

    def began(self) -> None:
        """Somebody asks for an iterator."""

    def fetched(self, start_ns: int, end_ns: int, status: str) -> None:
        """A batch was asked for at ``start_ns``, and there, or an error, at ``end_ns``."""


class TimedLoader:
    """Stands for ``loader``: its length, its attributes, and iterators that are timed.

    The host's clock measures ``next(iterator)``; the end of an iteration is no batch.
    """

    __slots__ = ("_loader", "_times")

    _loader: Any
    _times: FetchTimes

    def __init__(self, loader: Iterable[Any], times: FetchTimes) -> None:
        object.__setattr__(self, "_loader", loader)
        object.__setattr__(self, "_times", times)

    def __iter__(self) -> Iterator[Any]:
        self._times.began()
        return TimedIterator(iter(self._loader), self._times)

    def __len__(self) -> int:
        return len(self._loader)

    def __bool__(self) -> bool:
        return bool(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_loader"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._loader, name, value)

    def __copy__(self) -> TimedLoader:
        return type(self)(self._loader, self._times)

    def __reduce__(self) -> tuple[Any, ...]:
        """A deep copy, and what another process gets, is the loader itself: nobody times it there."""
        return _itself, (self._loader,)

    def __repr__(self) -> str:
        return f"<timed {self._loader!r}>"


class TimedIterator(TimedLoader):
    """A timed loader that is an iterator too, as generators are."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        self._times.began()
        inner = iter(self._loader)
        return self if inner is self._loader else TimedIterator(inner, self._times)

    def __next__(self) -> Any:
        start_ns = perf_counter_ns()
        try:
            batch = next(self._loader)
        except StopIteration:
            raise
        except BaseException as error:
            self._times.fetched(start_ns, perf_counter_ns(), f"error:{type(error).__name__}")
            raise
        self._times.fetched(start_ns, perf_counter_ns(), OK)
        return batch


def _itself(loader: Any) -> Any:
    return loader


def timed(loader: Iterable[Any], times: FetchTimes) -> TimedLoader:
    """``loader``, timed: an iterator if it is one."""
    return (TimedIterator if isinstance(loader, Iterator) else TimedLoader)(loader, times)
