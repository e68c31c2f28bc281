"""RuntimeProfiler: the time of each dataloader for fetching, forward, backward and optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from timing_logger.compat._loader_names import LoaderNames
from timing_logger.compat._profiler_blocks import (
    TRAIN,
    VAL,
    Block,
    LoaderTimes,
    OptimizerBlock,
    Recording,
    counted_step,
    validation,
)
from timing_logger.compat._profiler_options import (
    RuntimeArguments,
    RuntimeOptions,
    options_from_config,
)
from timing_logger.compat._scalar_windows import ScalarWindows
from timing_logger.errors import ConfigurationError
from timing_logger.recording.cores.no_span import NO_SPAN
from timing_logger.recording.lifecycle import Closable
from timing_logger.recording.options import shows_options
from timing_logger.recording.sampling import check_integer
from timing_logger.schema.defaults import FLUSH_TIMEOUT_S
from timing_logger.schema.record import Record
from timing_logger.sinks.scalars import ScalarWriter

if TYPE_CHECKING:
    from typing_extensions import Unpack
from collections.abc import Callable, Iterator
from typing import Any

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.schema.record import OK

Loader = TypeVar("Loader", bound=Iterable[object])
TimedBlock = AbstractContextManager[object]


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

    @shows_options(RuntimeOptions)
    def __init__(
        self,
        writer: ScalarWriter | Sequence[ScalarWriter] | None = None,
        **arguments: Unpack[RuntimeArguments],
    ) -> None:
        options = RuntimeOptions(writer=writer, **arguments)
        rows = options.timing_logger if options.profile_training else None
        windows = ScalarWindows(options.writers, scalar_key, (TRAIN, VAL)) if options.writers else None
        self._measuring = rows is not None or windows is not None
        self._recording = Recording(
            LoaderNames(options.dataloader_names),
            windows,
            rows,
            every_n_steps=options.log_scalars_every_n_steps,
            synchronize=options.synchronize,
        )

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
        return cls(writer, **options_from_config(config, options))

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
        times = LoaderTimes(self._recording, self._recording.names.add(name, training=training))
        if not self._measuring:
            return loader
        return timed(loader, times)  # type: ignore[return-value]  # the proxy behaves like the loader

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

    def forward(self, name: str | None = None) -> TimedBlock:
        """Time a forward pass, with its loss.

        Args:
            name: the loader that the batch is from. None for the loader whose batch this thread got last; if
                it got none, for the only loader that there is, or else "unknown".
        """
        if not self._measuring:
            return NO_SPAN
        loader = self._recording.loader_name(name)
        return Block(self._recording, "FORWARD", loader, self._recording.phase(loader))

    def backward(self, name: str | None = None) -> TimedBlock:
        """Time a backward pass.

        Args:
            name: as in :meth:`forward`.
        """
        if not self._measuring:
            return NO_SPAN
        return Block(self._recording, "BACKWARD", self._recording.loader_name(name), TRAIN)

    def optimizer(self, name: str | None = None, step: int | None = None) -> TimedBlock:
        """Time an optimizer step, which completes a step of training.

        Args:
            name: as in :meth:`forward`.
            step: the number of this step if the caller counts steps; None for one more than the last.
        """
        recording = self._recording
        number = recording.next_step(step)
        if not self._measuring:
            return counted_step(recording, number)
        loader = recording.loader_name(name)
        return OptimizerBlock(recording, "OPTIMIZER", loader, TRAIN, number)

    def validation(self) -> TimedBlock:
        """Mark a ``with`` block in which this thread's fetching and forward passes count as validation.

        When the block ends, validation's scalars are written, for the last step completed.
        """
        return validation(self._recording) if self._measuring else NO_SPAN

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


# -- a dataloader whose batches are timed ----------------------------------------------------------------


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
