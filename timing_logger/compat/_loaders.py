"""The dataloaders that a profiler wraps: their names, and proxies that time them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from timing_logger.compat._intervals import status_of
from timing_logger.errors import ConfigurationError
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.schema.record import OK

if TYPE_CHECKING:
    from timing_logger.compat._profiler_recording import ProfilerRecording

UNKNOWN_LOADER = "unknown"
"""The name used if the loader cannot be determined, so that its times are in no other loader's mean."""


class LoaderNames:
    """The registry of loader names: each name belongs to one loader.

    Args:
        given: names for training loaders wrapped without one, in the order of wrapping; None for "0", "1",
            ...
    """

    def __init__(self, given: Sequence[str] | None) -> None:
        self._given = given
        self._training: dict[str, bool] = {}

    def add(self, name: str | None, *, training: bool) -> str:
        """Register one more loader, and return its name: ``name``, or the next free one.

        Raises:
            ConfigurationError: the name is taken or invalid, or there is none left.
        """
        if name is None:
            name = next((free for free in self._unnamed(training) if free not in self._training), None)
            if name is None:
                raise ConfigurationError(
                    f"dataloader_names={list(self._given or ())} has no name left for one more loader: "
                    "add one, or give wrap() its name."
                )
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"name must be a text that is not empty, and is {name!r}.")
        if name in self._training:
            raise ConfigurationError(
                f"name={name!r} belongs to a loader that was wrapped before. Wrap each loader once and "
                "iterate over it as often as needed; give another one another name."
            )
        self._training[name] = training
        return name

    def is_for_validation(self, name: str) -> bool:
        """Tell whether the loader ``name`` was wrapped for validation."""
        return not self._training.get(name, True)

    def or_only(self, name: str | None, *, training: bool) -> str:
        """Return ``name``; for None, the only loader that is possible, or else :data:`UNKNOWN_LOADER`."""
        if name is None:
            possible = [each for each, trains in self._training.items() if trains or not training]
            if len(possible) == 1:
                return possible[0]
        return name if isinstance(name, str) else UNKNOWN_LOADER

    def _unnamed(self, training: bool) -> Iterator[str]:
        if not training:
            return (f"val_{number}" for number in itertools.count())
        return map(str, itertools.count()) if self._given is None else iter(self._given)


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
