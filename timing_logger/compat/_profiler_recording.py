"""The measurements of a runtime profiler: blocks, batches and validations, each recorded in its place.

Recording takes no lock, never raises, and does not wait, except for the device if ``synchronize`` is set.
Means are computed and written by the flush thread of a logger: only ``flush`` and ``close`` wait for it.
"""

from __future__ import annotations

import itertools
import logging
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from timing_logger.compat._intervals import TimedBlock
from timing_logger.errors import ConfigurationError
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.cores.channel import AtomicCounter
from timing_logger.recording.device.intervals import Columns
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import DEVICE_CLOCK, HOST_CLOCK, OK, Record
from timing_logger.sinks.scalars import CLOSE_WINDOW, ScalarsSink, ScalarWriter, closes_window, in_window

log = logging.getLogger("timing_logger")

TRAIN, VAL = "train", "val"

FLUSH_INTERVAL_S = 0.2
MAX_WAITING = {HOST_CLOCK: 40_000, DEVICE_CLOCK: 2_000}
"""The most records that wait to be averaged while a writer is stuck, by clock; further ones are left out.

Each record of a device holds a pair of events. There are 4096 pairs, which other timing code uses, too.
"""


class _OpenWindow:
    """A window that is filling, as the recording side counts it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.records = AtomicCounter()
        self.metadata = in_window(number)


class ScalarWindows:
    """Takes intervals; when a phase's window is closed, their means go to the writers.

    Args:
        writers, tag: see :class:`~timing_logger.sinks.scalars.ScalarsSink`.
        phases: names of the phases.
    """

    def __init__(
        self, writers: Sequence[ScalarWriter], tag: Callable[[Record], str], phases: Sequence[str]
    ) -> None:
        self._sink = ScalarsSink(writers, tag)
        self._logger = TimingLogger(0, log_dir=None, sinks=[self._sink], flush_interval=FLUSH_INTERVAL_S)
        self._recorded = AtomicCounter()
        self._left_out = AtomicCounter()
        self._open = {phase: _OpenWindow(0) for phase in phases}

    def record(self, operation: str, name: str, phase: str, columns: Columns, status: str) -> None:
        """Add an interval to the open window of ``phase``; ``columns`` are its start, end and clock."""
        start, end, clock = columns
        if self._recorded.value - self._sink.taken >= MAX_WAITING[clock]:
            self._left_out.increment()
            return
        window = self._open[phase]
        self._logger.record_interval(
            operation, start, end, None, name, phase, clock=clock, status=status, metadata=window.metadata
        )
        # Only after the record is put: an interrupt in between must not leave a window that waits for ever.
        window.records.increment()
        self._recorded.increment()

    def close_window(self, phase: str, step: int) -> None:
        """Have the means of what was recorded in ``phase`` since the last time written, for ``step``."""
        window = self._open[phase]
        if window.records.value:
            metadata = closes_window(window.number, records=window.records.value, step=step)
            self._logger.record_interval(CLOSE_WINDOW, 0, 0, None, "", phase, metadata=metadata)
            self._open[phase] = _OpenWindow(window.number + 1)

    def flush(self, timeout_s: float) -> bool:
        """Wait until the windows closed before the call are written.

        Returns:
            Whether that was done within ``timeout_s`` seconds.
        """
        return self._logger.flush(timeout_s)

    def close(self) -> None:
        """Write the closed windows and stop."""
        self._logger.close()
        if self._left_out.value:
            log.warning(
                "timing logger: %d times are in no scalar: the writers did not keep up", self._left_out.value
            )


class _Thread(threading.local):
    """The state of a thread that its blocks use.

    Attributes:
        fetched: the loader whose batch this thread got last.
        validating: whether the thread is in a validation block.
        idle_since_ns: when the thread last left a block, got a batch, or asked for an iterator, in ns of
            ``perf_counter_ns``.
    """

    def __init__(self) -> None:
        self.fetched: str | None = None
        self.validating = False
        self.idle_since_ns: int | None = None


@dataclass(eq=False)
class ProfilerRecording:
    """The destinations of measured intervals, and the step that they are numbered with.

    Attributes:
        names: the names of the loaders.
        windows: the windows that produce scalars; None on ranks that write none, and after closing.
        rows: the logger that gets a row for each interval; None for no rows.
        every_n_steps: the number of steps from which scalars are written; None for each step.
        synchronize: whether blocks wait for the device.
        step: the last step completed.
        thread: the state of the calling thread.
    """

    names: LoaderNames
    windows: ScalarWindows | None
    rows: TimingLogger | None
    every_n_steps: int | None
    synchronize: bool
    step: int = 0
    thread: _Thread = field(default_factory=_Thread)
    _warned: bool = False

    def loader_name(self, name: str | None) -> str:
        """Return the loader that a block is for: ``name``, or the loader whose batch this thread got last."""
        thread = self.thread
        return self.names.or_only(thread.fetched if name is None else name, training=not thread.validating)

    def phase(self, name: str) -> str:
        """Return ``TRAIN`` or ``VAL``: what a batch or forward pass of the loader ``name`` counts as now."""
        return VAL if self.thread.validating or self.names.is_for_validation(name) else TRAIN

    def next_step(self, stated: Any) -> int:
        """Return the number of the current step: ``stated`` if that is a whole number, else the next one."""
        if stated is None:
            return self.step + 1
        try:
            return operator.index(
                int(stated) if isinstance(stated, float) and stated.is_integer() else stated
            )
        except Exception:
            if not self._warned:
                self._warned = True
                log.warning(
                    "timing logger: step=%s is no whole number; steps are counted", type(stated).__name__
                )
        return self.step + 1

    def record(
        self,
        operation: str,
        name: str,
        phase: str,
        columns: Columns,
        status: str,
        step: int | None = None,
    ) -> None:
        """Record an interval; ``columns`` are its start, its end and its clock."""
        windows = self.windows
        if windows is not None:
            windows.record(operation, name, phase, columns, status)
        if self.rows is not None:
            start, end, clock = columns
            if step is None:
                step = self.step + 1 if phase == TRAIN else self.step
            self.rows.record_interval(
                operation, start, end, None, name, phase, step, clock=clock, status=status
            )

    def complete_step(self, step: int) -> None:
        """Complete ``step``, and have scalars written if it is due, or if a step since the last one was.

        A thread that completes a training step is no longer validating: this ends a validation that was never
        left, because of an abandoned generator or an interrupt.
        """
        last, self.step = self.step, step
        n = self.every_n_steps
        self.thread.validating = False
        if n is None or step // n != last // n:
            self.close_window(TRAIN)
            self.close_window(VAL)  # for validation outside of a validation block

    def close_window(self, phase: str) -> None:
        """Have the means since the last time written, for the last step completed."""
        windows = self.windows
        if windows is not None:
            windows.close_window(phase, self.step)

    # -- what a thread does -----------------------------------------------------------------------

    def is_idle(self) -> None:
        """Note that this thread has left a block, or asked for an iterator."""
        self.thread.idle_since_ns = perf_counter_ns()

    def fetched(self, name: str, start_ns: int, end_ns: int, status: str) -> None:
        """Note that a batch was asked for at ``start_ns``, and arrived, or failed, at ``end_ns``."""
        thread = self.thread
        phase, idle_since_ns = self.phase(name), thread.idle_since_ns
        self.record("DATA", name, phase, (start_ns, end_ns, HOST_CLOCK), status)
        if status != OK:
            return
        if phase == TRAIN and idle_since_ns is not None:
            self.record("BATCH_WAIT", name, phase, (idle_since_ns, end_ns, HOST_CLOCK), status)
        thread.fetched, thread.idle_since_ns = name, end_ns

    @contextmanager
    def counted_step(self, step: int) -> Iterator[None]:
        """Complete a step on a rank that measures nothing, so that all ranks count alike."""
        yield
        self.step = step

    @contextmanager
    def validation(self) -> Iterator[None]:
        """Have the thread validate in the block; after it, the thread's state of training is restored."""
        thread = self.thread
        validating, fetched = thread.validating, thread.fetched
        thread.validating = True
        try:
            yield
        finally:
            thread.validating, thread.fetched = validating, fetched
            self.is_idle()
            if not thread.validating:
                self.close_window(VAL)


class ProfilerBlock(TimedBlock):
    """A block of a loader's work, which completes ``step`` if it states one and no exception ends it."""

    __slots__ = ("_on", "_step")

    def __init__(
        self, on: ProfilerRecording, operation: str, name: str, phase: str, step: int | None = None
    ) -> None:
        record = partial(on.record, operation, name, phase, step=step)
        super().__init__(record, synchronize=on.synchronize)
        self._on, self._step = on, step

    def __exit__(self, kind: type[BaseException] | None, *of_it: object) -> None:
        super().__exit__(kind, *of_it)
        self._on.is_idle()
        if kind is None and self._step is not None:
            self._on.complete_step(self._step)


# -- names of dataloaders ----------------------------------------------------------------------------------


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
