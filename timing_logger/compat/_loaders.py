"""The dataloaders that a profiler wraps: proxies that time them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from timing_logger.compat._intervals import status_of
from timing_logger.compat._profiler_recording import ProfilerRecording
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.schema.record import OK


class TimedLoader:
    """A proxy for ``loader`` with its length and attributes, whose iterators are timed.

    The host's clock measures ``next(iterator)``; the end of an iteration is not a batch.

    Args:
        on: is told of iterators and batches.
        name: the loader's.
    """

    __slots__ = ("_loader", "_name", "_on")

    _loader: Any
    _name: str
    _on: ProfilerRecording

    def __init__(self, loader: Iterable[object], on: ProfilerRecording, name: str) -> None:
        for slot, value in (("_loader", loader), ("_on", on), ("_name", name)):
            object.__setattr__(self, slot, value)

    def __iter__(self) -> Iterator[object]:
        self._on.is_idle()
        return TimedIterator(iter(self._loader), self._on, self._name)

    def __len__(self) -> int:
        return len(self._loader)

    def __bool__(self) -> bool:
        return bool(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_loader"), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._loader, name, value)

    def __copy__(self) -> TimedLoader:
        return type(self)(self._loader, self._on, self._name)

    def __reduce__(self) -> tuple[Callable[[object], object], tuple[object]]:
        """Pickle or deep-copy the loader itself, which is not timed in the copy or in another process."""
        return _itself, (self._loader,)

    def __repr__(self) -> str:
        return f"<timed {self._loader!r}>"


class TimedIterator(TimedLoader):
    """A timed loader that is also an iterator, as generators are."""

    __slots__ = ()

    def __iter__(self) -> Iterator[object]:
        self._on.is_idle()
        inner = iter(self._loader)
        return self if inner is self._loader else TimedIterator(inner, self._on, self._name)

    def __next__(self) -> object:
        start_ns = perf_counter_ns()
        try:
            batch = next(self._loader)
        except StopIteration:
            raise
        except BaseException as error:
            self._on.fetched(self._name, start_ns, perf_counter_ns(), status_of(type(error)))
            raise
        self._on.fetched(self._name, start_ns, perf_counter_ns(), OK)
        return batch


def _itself(loader: object) -> object:
    return loader


def timed(loader: Iterable[object], on: ProfilerRecording, name: str) -> TimedLoader:
    """Return a proxy that times ``loader``: an iterator if the loader is one."""
    return (TimedIterator if isinstance(loader, Iterator) else TimedLoader)(loader, on, name)
