"""A proxy for a dataloader that times its batches, and otherwise behaves like the loader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from timing_logger.compat.runtime_profiler._blocks import LoaderTimes
from timing_logger.record import OK
from timing_logger.recording.clock import perf_counter_ns


class TimedLoader:
    """A proxy for ``loader`` with its length and attributes, whose iterators are timed.

    The host's clock measures ``next(iterator)``; the end of an iteration is not a batch.
    """

    __slots__ = ("_loader", "_times")

    _loader: Any
    _times: LoaderTimes

    def __init__(self, loader: Iterable[object], times: LoaderTimes) -> None:
        object.__setattr__(self, "_loader", loader)
        object.__setattr__(self, "_times", times)

    def __iter__(self) -> Iterator[object]:
        self._times.began()
        return TimedIterator(iter(self._loader), self._times)

    def __len__(self) -> int:
        return len(self._loader)

    def __bool__(self) -> bool:
        return bool(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_loader"), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._loader, name, value)

    def __copy__(self) -> TimedLoader:
        return type(self)(self._loader, self._times)

    def __reduce__(self) -> tuple[Callable[[object], object], tuple[object]]:
        """Pickle or deep-copy the loader itself, which is not timed in the copy or in another process."""
        return _itself, (self._loader,)

    def __repr__(self) -> str:
        return f"<timed {self._loader!r}>"


class TimedIterator(TimedLoader):
    """A timed loader that is also an iterator, as generators are."""

    __slots__ = ()

    def __iter__(self) -> Iterator[object]:
        self._times.began()
        inner = iter(self._loader)
        return self if inner is self._loader else TimedIterator(inner, self._times)

    def __next__(self) -> object:
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


def _itself(loader: object) -> object:
    return loader


def timed(loader: Iterable[object], times: LoaderTimes) -> TimedLoader:
    """Return a proxy that times ``loader``: an iterator if the loader is one."""
    return (TimedIterator if isinstance(loader, Iterator) else TimedLoader)(loader, times)
