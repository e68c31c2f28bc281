"""RuntimeProfiler: the time of each dataloader for fetching, forward, backward and optimizer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from timing_logger.compat._intervals import check_logger, check_switches, status_of
from timing_logger.compat._profiler_recording import (
    TRAIN,
    VAL,
    LoaderNames,
    ProfilerBlock,
    ProfilerRecording,
    ScalarWindows,
)
from timing_logger.errors import ConfigurationError
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.cores.protocols import NO_SPAN
from timing_logger.recording.lifecycle import Closable
from timing_logger.recording.logger import TimingLogger
from timing_logger.recording.sampling import check_integer
from timing_logger.schema.defaults import FLUSH_TIMEOUT_S
from timing_logger.schema.record import OK, Record
from timing_logger.sinks.scalars import LogWriter, ScalarWriter

if TYPE_CHECKING:
    from typing_extensions import Unpack


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


_PLACES = {
    "profile_training": ("training", "profile_training"),
    "log_scalars_every_n_steps": ("logging", "log_scalars_every_n_steps"),
    "dataloader_names": ("data", "train", "dataloader_names"),
}
"""The path of each option in a configuration file."""

Loader = TypeVar("Loader", bound=Iterable[object])
Timed = AbstractContextManager[object]


class RuntimeArguments(TypedDict, total=False):
    """The arguments of :class:`RuntimeProfiler` after ``writer``."""

    profile_training: bool
    dataloader_names: Sequence[str] | None
    log_scalars_every_n_steps: int | None
    rank: int
    synchronize: bool
    timing_logger: TimingLogger | None
    log: bool | logging.Logger


class RuntimeProfiler(Closable):
    """Times data, forward, backward and optimizer per dataloader, and writes their means as scalars.

    The keys are ``profile/train/dl_{name}/time_{what}_ms`` for data, forward, backward, optimizer and
    batch_wait, and ``profile/val/dl_{name}/time_{what}_ms`` for data and forward.

    - *data* is ``next(iterator)``, by the host's clock.
    - *batch_wait* is the time between batches: from when this thread last left a block, got a batch or asked
    for an iterator, until it has the batch. It therefore contains *data*.
    - The others are the device's work for a block, by the device's clock, or by the host's if there is no
    device. Nothing waits for the device, unless ``synchronize`` is set.

    Leaving :meth:`optimizer` completes a step. If the step is due, scalars are written then: the means over
    everything since the last time. Those of validation are written when its block ends. A separate thread
    writes them, so no writer can hold up training or raise into it. An exception in a block is passed on; its
    duration is in no mean, its row has the status ``error:<type>``, and no step is completed.

    Args:
        writer: an object with ``add_scalar(tag, value, step)``, such as TensorBoard's SummaryWriter; or a
            list of such objects.
        profile_training: False for a profiler that only counts steps, and returns loaders as they are.
        dataloader_names: names of the training loaders, in the order of wrapping; None for "0", "1", ...
        log_scalars_every_n_steps: a step divisible by this is due, or the first one after it; None for every
            step.
        rank: this process's rank; scalars are written on rank 0 alone.
        synchronize: wait for the current stream before each block and at its end. Costs speed; work queued
            before a block is then complete when it begins.
        timing_logger: gets every interval as a row, on every rank: operation DATA, BATCH_WAIT, FORWARD,
            BACKWARD or OPTIMIZER; layer_name is the loader, phase "train" or "val", and iteration the current
            step, or for "val" the last one completed.
        log: True to write scalars as lines of the log "timing_logger", level INFO; or a logger for them.

    Raises:
        ConfigurationError: an argument is of the wrong type or out of range, or rank 0 has no place to write
            to.
    """

    def __init__(
        self,
        writer: ScalarWriter | Sequence[ScalarWriter] | None = None,
        *,
        profile_training: bool = True,
        dataloader_names: Sequence[str] | None = None,
        log_scalars_every_n_steps: int | None = None,
        rank: int = 0,
        synchronize: bool = False,
        timing_logger: TimingLogger | None = None,
        log: bool | logging.Logger = False,
    ) -> None:
        check_switches(profile_training=profile_training, synchronize=synchronize)
        check_logger(timing_logger)
        every_n_steps = log_scalars_every_n_steps
        if every_n_steps is not None:
            every_n_steps = check_integer("log_scalars_every_n_steps", every_n_steps, minimum=1)
        names = LoaderNames(_distinct_names(dataloader_names))
        writers = [*_writers(writer), *_log_writers(log)]
        writes = check_integer("rank", rank, minimum=0) == 0 and profile_training
        if writes and not writers and timing_logger is None:
            raise ConfigurationError(
                "writer and timing_logger are None and log is False, so there is nowhere to write to: give "
                "one, or pass profile_training=False."
            )
        windows = ScalarWindows(writers, scalar_key, (TRAIN, VAL)) if writes and writers else None
        rows = timing_logger if profile_training else None
        self._measuring = rows is not None or windows is not None
        self._recording = ProfilerRecording(names, windows, rows, every_n_steps, synchronize)

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, object],
        writer: ScalarWriter | Sequence[ScalarWriter] | None = None,
        **options: Unpack[RuntimeArguments],
    ) -> RuntimeProfiler:
        """Create a profiler from the mapping in a configuration file, whose other entries are ignored.

        Args:
            config: may have ``training.profile_training``, ``logging.log_scalars_every_n_steps`` and
                ``data.train.dataloader_names``.
            writer, options: the other arguments of :class:`RuntimeProfiler`.

        Raises:
            ConfigurationError: as for :class:`RuntimeProfiler`, or an argument has two values.
        """
        return cls(writer, **_options_from_config(config, options))

    # -- dataloaders ------------------------------------------------------------------------------

    def wrap(self, loader: Loader, name: str | None = None, training: bool = True) -> Loader:
        """Return a proxy that times ``loader``, and has its length and attributes.

        The proxy can be iterated as often as the loader. Wrap a loader once, not once per epoch, and after
        any code that checks its class. The proxy of an iterator is an iterator.

        Args:
            name: None for the next of ``dataloader_names``; for validation "val_0", "val_1", ...
            training: False for a loader whose times are always validation's.

        Returns:
            The proxy; ``loader`` itself if this rank measures nothing.

        Raises:
            ConfigurationError: the name is taken, there is none left, or the loader cannot be iterated.
        """
        if not hasattr(loader, "__iter__"):
            raise ConfigurationError(f"loader must be something to iterate over, and is {loader!r}.")
        name = self._recording.names.add(name, training=training)
        if not self._measuring:
            return loader
        kind = TimedIterator if isinstance(loader, Iterator) else TimedLoader
        return kind(loader, self._recording, name)  # type: ignore[return-value]  # the proxy behaves like the loader

    def wrap_all(self, loaders: Iterable[Loader], training: bool = True) -> list[Loader]:
        """Wrap each of ``loaders`` as :meth:`wrap` does; they are named in their order.

        Raises:
            ConfigurationError: as for :meth:`wrap`, or ``loaders`` is a mapping, whose keys are no loaders.
        """
        if isinstance(loaders, Mapping):
            raise ConfigurationError(
                f"loaders must be a list of loaders, and is a {type(loaders).__name__}: "
                "wrap each with its name."
            )
        return [self.wrap(loader, training=training) for loader in loaders]

    # -- blocks -----------------------------------------------------------------------------------

    def forward(self, name: str | None = None) -> Timed:
        """Time a forward pass, with its loss.

        Args:
            name: the loader that the batch is from. None for the loader whose batch this thread got last; if
                it got none, for the only loader that there is, or else "unknown".
        """
        if not self._measuring:
            return NO_SPAN
        loader = self._recording.loader_name(name)
        return ProfilerBlock(self._recording, "FORWARD", loader, self._recording.phase(loader))

    def backward(self, name: str | None = None) -> Timed:
        """Time a backward pass.

        Args:
            name: as in :meth:`forward`.
        """
        if not self._measuring:
            return NO_SPAN
        return ProfilerBlock(self._recording, "BACKWARD", self._recording.loader_name(name), TRAIN)

    def optimizer(self, name: str | None = None, step: int | None = None) -> Timed:
        """Time an optimizer step, which completes a step of training.

        Args:
            name: as in :meth:`forward`.
            step: the number of this step if the caller counts steps; None for one more than the last.
        """
        recording = self._recording
        number = recording.next_step(step)
        if not self._measuring:
            return recording.counted_step(number)
        loader = recording.loader_name(name)
        return ProfilerBlock(recording, "OPTIMIZER", loader, TRAIN, number)

    def validation(self) -> Timed:
        """Mark a ``with`` block in which this thread's fetching and forward passes count as validation.

        When the block ends, validation's scalars are written, for the last step completed.
        """
        return self._recording.validation() if self._measuring else NO_SPAN

    # -- steps, flushing and closing ------------------------------------------------------------------

    @property
    def global_step(self) -> int:
        """The last step completed, 0 until the first one is. Set it when training resumes.

        Set it to -1 to count steps from 0.

        Raises:
            ConfigurationError: it is set to something other than an integer >= -1.
        """
        return self._recording.step

    @global_step.setter
    def global_step(self, step: int) -> None:
        self._recording.step = check_integer("global_step", step, minimum=-1)

    def flush(self, timeout: float = FLUSH_TIMEOUT_S) -> bool:
        """Wait until the writers have the scalars that are due.

        Args:
            timeout: the longest time to wait, in seconds.

        Returns:
            Whether they have them within the time.
        """
        windows = self._recording.windows
        return windows is None or windows.flush(timeout)

    def close(self) -> None:
        """Write the scalars that are due, and none after that. Call it before closing the writer.

        Calling it again is harmless.
        """
        self._recording.close_window(VAL)
        windows, self._recording.windows = self._recording.windows, None
        if windows is not None:
            windows.close()


def scalar_key(record: Record) -> str:
    """Return the tag of a record's scalar, such as ``profile/train/dl_main/time_forward_ms``."""
    return f"profile/{record.phase}/dl_{record.layer_name}/time_{record.operation.lower()}_ms"


# -- options ---------------------------------------------------------------------------------------------


def _options_from_config(config: Mapping[str, object], options: Mapping[str, object]) -> dict[str, Any]:
    """Return ``options`` together with those of :data:`_PLACES` that ``config`` has.

    Raises:
        ConfigurationError: a group is no mapping, or an option has two values.
    """
    found = dict(options)
    for name, (*groups, key) in _PLACES.items():
        group: Any = config
        for depth in range(len(groups) + 1):
            if not isinstance(group, Mapping):
                where = ".".join(groups[:depth]) or "config"
                raise ConfigurationError(f"{where} must be a mapping of names to values, and is {group!r}.")
            if depth < len(groups):
                group = {} if group.get(groups[depth]) is None else group[groups[depth]]
        if key not in group:
            continue
        if name in options and options[name] != group[key]:
            raise ConfigurationError(
                f"{name}={options[name]!r} contradicts {'.'.join(groups)}.{key}={group[key]!r} of the "
                "configuration: leave one of them out."
            )
        found[name] = group[key]
    return found


def _distinct_names(names: Sequence[str] | None) -> list[str] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigurationError(f"dataloader_names must be a list of names, and is {names!r}.")
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"dataloader_names must be texts that are not empty, and are {names!r}.")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"dataloader_names must differ from each other, and are {names!r}.")
    return list(names)


def _writers(writer: Any) -> list[ScalarWriter]:
    given = [] if writer is None else list(writer) if isinstance(writer, list | tuple) else [writer]
    for each in given:
        if not callable(getattr(each, "add_scalar", None)):
            raise ConfigurationError(
                f"writer must have add_scalar(tag, value, step), or be a list of such, and is {each!r}."
            )
    return given


def _log_writers(log: bool | logging.Logger) -> list[LogWriter]:
    if isinstance(log, logging.Logger):
        return [LogWriter(log)]
    if not isinstance(log, bool):
        raise ConfigurationError(f"log must be True, False or a logging.Logger, and is {log!r}.")
    return [LogWriter(logging.getLogger("timing_logger"))] if log else []
