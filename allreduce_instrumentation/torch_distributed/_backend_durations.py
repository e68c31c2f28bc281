"""NCCL's own durations, as rows beside the rows of the calls, where torch tells them to a hook.

With ``TORCH_NCCL_ENABLE_TIMING=1``, or if it is told to, torch's NCCL backend measures each collective
between two events in its own stream, and reports it to a hook, on a separate thread. torch identifies the
collective by the group's number for it. Which operation has that number is noted right after the operation
was issued. The newer backend ``nccl2`` takes no hook: for it there is ``_work_durations``.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from time import perf_counter_ns
from typing import Any, NamedTuple
from weakref import ref

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d_in_c

import timing_logger.recording.device.accelerator as accelerators
from allreduce_instrumentation.torch_distributed._backends import has_nccl2
from allreduce_instrumentation.torch_distributed._operations import DeviceOperation, GroupOperation
from timing_logger.recording.cores.chosen import Span
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import DEVICE_CLOCK, NS_PER_MS, OK, Record, is_message

BACKEND = "BACKEND"
"""The operation of these rows: a separate name, so that sums do not count each collective twice."""

MAX_OPEN = 4096
"""How many of a group's latest collectives are kept until the other half of their row arrives."""

_NAMES = ("nccl", "nccl-legacy")
_SWITCH = "TORCH_NCCL_ENABLE_TIMING"
_ON = ("y", "yes", "1", "t", "true")  # the values that torch's getCvarBool takes as true

# Messages have numbers of their own, and so has a batch of them, which cannot be told from other batches.
_OPERATIONS: Any = vars(c10d_in_c)["OpType"]
_NUMBERED_APART = (
    _OPERATIONS.SEND, _OPERATIONS.RECV, _OPERATIONS.RECVANYSOURCE, _OPERATIONS.COALESCED,
)  # fmt: skip

# torch's steady clock and Python's perf_counter are the same clock if both are CLOCK_MONOTONIC
_STEADY_CLOCK_IS_OURS = "CLOCK_MONOTONIC" in time.get_clock_info("perf_counter").implementation


CAN_BE_TOLD = hasattr(dist.ProcessGroup, "_enable_collectives_timing")
"""Whether this torch can switch NCCL's timing on without the variable."""

log = logging.getLogger("timing_logger")


def switched_on() -> bool:
    """Tell whether the environment switches NCCL's timing on for all groups."""
    return os.environ.get(_SWITCH, "").lower() in _ON


class BackendDurations:
    """Writes one row per collective of a group with the duration that NCCL reports."""

    def __init__(self, group: dist.ProcessGroup, halves: _Halves) -> None:
        self._group = group
        self._halves = halves

    @classmethod
    def of(
        cls, group: dist.ProcessGroup, backends: Mapping[str, str], wanted: bool = False
    ) -> BackendDurations | None:
        """Ask NCCL for its durations, if ``TORCH_NCCL_ENABLE_TIMING`` is set or they are wanted.

        Args:
            group: an untimed group over which nothing was called yet, as torch reads the hook without a
                lock.
            backends: the backend for each type of device.
            wanted: switch NCCL's timing on for this group if the variable does not.

        Returns:
            None if the group has no NCCL or its timing is off, or if torch takes no hook, of which the log
            tells: another one is registered, say.
        """
        if not (wanted or switched_on()) or not any(name in _NAMES for name in backends.values()):
            return None
        halves = _Halves()  # the hook must not hold the group, which holds the hook
        try:
            if not switched_on():
                group._enable_collectives_timing()  # type: ignore[attr-defined]
            group._get_sequence_number_for_group()  # type: ignore[attr-defined]
            group._register_on_completion_hook(halves.completed)  # type: ignore[attr-defined]
        except (RuntimeError, ValueError) as error:  # a hook is registered already, or torch takes none
            reason = str(error).partition("\n")[0]
            log.warning("group %s will have no rows %s: torch says %r", group.group_desc, BACKEND, reason)
            return None
        return cls(group, halves)

    def note(self, operation: GroupOperation, work: dist.Work | None) -> None:
        """Note the number of ``operation``, which this thread has just issued; messages are left out.

        torch's number does not count messages.
        """
        if isinstance(operation, DeviceOperation) and not is_message(operation.operation):
            number: int = self._group._get_sequence_number_for_group()  # type: ignore[attr-defined]
            self._halves.issued(number, operation)

    def collect(self) -> None:
        """Do nothing: torch's thread brings the other halves."""


class _Completed(NamedTuple):
    """The half of a row that NCCL reports: end and duration in ns. The other half is a span."""

    end_ns: int
    duration_ns: int


class _Halves:
    """Halves of rows by the collective's number; the thread that brings the second half writes the row.

    The halves come from two threads, in any order. There is no lock: torch's thread must not delay training.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Span | _Completed] = {}

    def issued(self, number: int, span: Span) -> None:
        completed = self._other(number, span)
        if isinstance(completed, _Completed):
            write_row(span, *completed)

    def completed(self, info: Any) -> None:
        """Take NCCL's half of a row; torch calls this hook with its ``WorkInfo``."""
        try:
            if info.op_type in _NUMBERED_APART:
                return
            here = _Completed(_end_ns(info.time_finished), _nanoseconds(info.active_duration))
            issued = self._other(info.seq, here)
            if isinstance(issued, Span):
                write_row(issued, *here)
        except BaseException:  # torch would abort the communicators
            pass

    def _other(self, number: int, half: Span | _Completed) -> Span | _Completed | None:
        """Return the other half of the row; if it has not come yet, keep ``half`` and return None."""
        found = self._waiting.setdefault(number, half)  # atomic: of two threads one comes second
        if found is half:
            self._waiting.pop(number - MAX_OPEN, None)
            return None
        return None if type(found) is type(half) else self._waiting.pop(number, None)


def write_row(span: Span, end_ns: int, duration_ns: int) -> None:
    """Write the row of what NCCL says of the operation of ``span``."""
    record = Record(
        span.iteration, span.epoch, span.layer_name, BACKEND, span.phase, span.message_size_bytes,
        max(0, end_ns - duration_ns), end_ns, DEVICE_CLOCK,
        span.group, span.group_size, span.seq, span.peer, span.thread, OK,
        metadata={"of": span.operation, "by": "nccl"},
    )  # fmt: skip
    span.caller.channel.put(record)


def _end_ns(time_finished: object) -> int:
    """Return when torch noticed the end, on the axis of ``perf_counter_ns``; if unknown, the current time."""
    if isinstance(time_finished, timedelta) and _STEADY_CLOCK_IS_OURS:
        return min(_nanoseconds(time_finished), perf_counter_ns())
    return perf_counter_ns()  # an older torch gives a time of day


def _nanoseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000


class WorkDurations:
    """Writes one row per collective of a group with the duration that its work tells.

    Args:
        device: the one on which the group works; None for the current one.
    """

    def __init__(self, device: torch.device | None) -> None:
        self._index = None if device is None else device.index
        self._open: deque[tuple[DeviceOperation, dist.Work]] = deque()
        self._lock = threading.Lock()  # threads of autograd issue operations as well

    @classmethod
    def of(cls, group: dist.ProcessGroup, wanted: bool = False) -> WorkDurations | None:
        """Have the works of ``group`` measured, if ``TORCH_NCCL_ENABLE_TIMING`` is set or it is wanted.

        Args:
            group: an untimed group.
            wanted: measure this group if the variable does not say so.

        Returns:
            None if the group has no ``nccl2``, if nobody wants its durations, or if a further backend of the
            group cannot be told to measure.
        """
        if not (wanted or switched_on()) or not has_nccl2(group):
            return None
        try:
            group._enable_collectives_timing()  # type: ignore[attr-defined]
        except RuntimeError:  # the log has it from the hook, which torch refuses as well
            return None
        return cls(group.bound_device_id)

    def note(self, operation: GroupOperation, work: dist.Work | None) -> None:
        """Keep the ``work`` of ``operation``, which this thread has just issued; messages are left out."""
        self.collect()
        if (
            work is not None
            and isinstance(operation, DeviceOperation)
            and not is_message(operation.operation)
        ):
            with self._lock:
                self._open.append((operation, work))
                if len(self._open) > MAX_OPEN:  # what hangs keeps those behind it
                    self._open.popleft()

    def collect(self) -> None:
        """Write the rows of the works that are complete by now, in the order of their issue.

        None are written where to ask would break a graph capture.
        """
        accelerator = accelerators.find_accelerator() if self._open else None
        if accelerator is None:
            return
        index = accelerator.current_index() if self._index is None else self._index
        with self._lock, accelerator.asking(index) as is_harmless:
            while is_harmless and self._open and _is_complete(self._open[0][1]):
                _write(*self._open.popleft())

    def collect_before_close(self, logger: TimingLogger) -> None:
        """Have ``logger`` collect before it is closed, unless the group, which holds this, is gone."""
        held_by_the_group = ref(self)

        def collect() -> None:
            durations = held_by_the_group()
            if durations is not None:
                durations.collect()

        logger.before_close(collect)


def _is_complete(work: dist.Work) -> bool:
    try:
        return work.is_completed()
    except RuntimeError:  # the device failed: the caller's own wait says so
        return True


def _write(operation: DeviceOperation, work: dist.Work) -> None:
    try:
        duration_ns = round(work._get_duration() * NS_PER_MS)  # type: ignore[attr-defined]
    except RuntimeError:  # it failed or was aborted
        return
    write_row(operation, perf_counter_ns(), duration_ns)
