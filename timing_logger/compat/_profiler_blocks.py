"""The measurements of a runtime profiler: blocks, batches and validations, each recorded in its place.

Recording takes no lock, never raises, and does not wait, except for the device if ``synchronize`` is set.
"""

from __future__ import annotations

import logging
import operator
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from timing_logger.compat._loader_names import LoaderNames
from timing_logger.compat._scalar_windows import ScalarWindows
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.device.intervals import Columns, Interval, open_interval, wait_for_stream
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import HOST_CLOCK, OK

log = logging.getLogger("timing_logger")

TRAIN, VAL = "train", "val"


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
class Recording:
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


class Block:
    """A ``with`` block that times the work of the device, or of the host if there is no device."""

    __slots__ = ("_interval", "_name", "_on", "_operation", "_phase", "_step")

    _interval: Interval | None

    def __init__(self, on: Recording, operation: str, name: str, phase: str, step: int | None = None) -> None:
        self._on = on
        self._operation = operation
        self._name = name
        self._phase = phase
        self._step = step
        self._interval = None

    def __enter__(self) -> None:
        if self._on.synchronize:
            wait_for_stream()
        self._interval = open_interval()

    def __exit__(self, kind: type[BaseException] | None, *of_it: object) -> None:
        on, interval, self._interval = self._on, self._interval, None
        # None if nobody entered it, or a graph is being captured: the work is queued but does not run now
        if interval is not None:
            interval.end()
            if on.synchronize:
                interval.wait()
            status = OK if kind is None else f"error:{kind.__name__}"
            on.record(self._operation, self._name, self._phase, interval.columns, status, self._step)
        on.thread.idle_since_ns = perf_counter_ns()


class OptimizerBlock(Block):
    """A block that completes a step, unless an exception ends it."""

    __slots__ = ()

    _step: int

    def __exit__(self, kind: type[BaseException] | None, *of_it: object) -> None:
        super().__exit__(kind, *of_it)
        if kind is None:
            self._on.complete_step(self._step)


@contextmanager
def counted_step(on: Recording, step: int) -> Iterator[None]:
    """Complete a step on a rank that measures nothing, so that all ranks count alike."""
    yield
    on.step = step


@contextmanager
def validation(on: Recording) -> Iterator[None]:
    """Have the thread validate in the block; after it, the thread's state of training is restored."""
    thread = on.thread
    validating, fetched = thread.validating, thread.fetched
    thread.validating = True
    try:
        yield
    finally:
        thread.validating, thread.fetched = validating, fetched
        thread.idle_since_ns = perf_counter_ns()
        if not thread.validating:
            on.close_window(VAL)


class LoaderTimes:
    """Records the batches that a timed loader reports."""

    def __init__(self, on: Recording, name: str) -> None:
        self._on = on
        self._name = name

    def began(self) -> None:
        """Note that an iterator was asked for."""
        self._on.thread.idle_since_ns = perf_counter_ns()

    def fetched(self, start_ns: int, end_ns: int, status: str) -> None:
        """Note that a batch was asked for at ``start_ns``, and arrived, or failed, at ``end_ns``."""
        on, thread = self._on, self._on.thread
        phase, idle_since_ns = on.phase(self._name), thread.idle_since_ns
        on.record("DATA", self._name, phase, (start_ns, end_ns, HOST_CLOCK), status)
        if status != OK:
            return
        if phase == TRAIN and idle_since_ns is not None:
            on.record("BATCH_WAIT", self._name, phase, (idle_since_ns, end_ns, HOST_CLOCK), status)
        thread.fetched, thread.idle_since_ns = self._name, end_ns
