"""What is kept of the events of a trace while it is read: a few numbers of each, nothing of nested ones."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from timing_logger.importing.imported import LeftOut
from timing_logger.importing.kineto_names import (
    BACKWARD,
    annotated,
    collective,
    is_communication_kernel,
)
from timing_logger.importing.trace_events import Args, Event

Floats = npt.NDArray[np.float64]

GLOO = "gloo:"
STEP = "ProfilerStep#"
_PARAMETERS = "record_param_comms"
_LONGEST_US = 1e12
_LATEST_US = 2**62 / 1e3

WORK, BACKWARD_WORK, COMMUNICATION = range(3)
"""Kinds of what a thread does."""


class Span(NamedTuple):
    """From when to when, in us of the trace."""

    start_us: float
    end_us: float


class Call(NamedTuple):
    """A collective or message, as a thread issued it.

    Attributes:
        span: the call, not the operation.
        thread: number of the thread.
        operation: the operation.
        args: its arguments, where the trace has them (``record_param_comms``).
    """

    span: Span
    thread: Any
    operation: str
    args: Args | None


class Ran(NamedTuple):
    """A collective or message as it was carried out, by a kernel or by a thread of gloo; or a copy."""

    span: Span
    name: str
    args: Args | None


class Annotation(NamedTuple):
    """A part of the program that has a name."""

    span: Span
    thread: Any
    operation: str
    layer: str


@dataclass
class Thread:
    """What a thread did, outermost events only."""

    starts_us: array[float] = field(default_factory=lambda: array("d"))
    ends_us: array[float] = field(default_factory=lambda: array("d"))
    kinds: array[int] = field(default_factory=lambda: array("b"))
    last: Span = field(default_factory=lambda: Span(-1.0, -1.0))

    def add(self, span: Span, kind: int) -> None:
        """Add an event, unless it is within the last one."""
        if span.start_us >= self.last.start_us and span.end_us <= self.last.end_us:
            return
        self.last = span
        self.starts_us.append(span.start_us)
        self.ends_us.append(span.end_us)
        self.kinds.append(kind)


@dataclass
class Kernels:
    """The kernels of a stream, with the correlation that leads to their launches; -1 for none."""

    starts_us: array[float] = field(default_factory=lambda: array("d"))
    ends_us: array[float] = field(default_factory=lambda: array("d"))
    correlations: array[int] = field(default_factory=lambda: array("q"))

    def add(self, span: Span, correlation: int) -> None:
        """Add a kernel."""
        self.starts_us.append(span.start_us)
        self.ends_us.append(span.end_us)
        self.correlations.append(correlation)


@dataclass
class Launches:
    """When work for a device was launched, by correlation."""

    correlations: array[int] = field(default_factory=lambda: array("q"))
    at_us: array[float] = field(default_factory=lambda: array("d"))

    def add(self, correlation: int, at_us: float) -> None:
        """Add a launch."""
        self.correlations.append(correlation)
        self.at_us.append(at_us)

    def of(self, correlations: Sequence[int], started_us: Sequence[float]) -> Floats:
        """Return when each was launched, once all are known; where that is not known, when it started."""
        wanted, started = np.asarray(correlations, np.int64), np.asarray(started_us, np.float64)
        known, at_us = self._sorted
        if not len(known):
            return started
        place = np.searchsorted(known, wanted).clip(max=len(known) - 1)
        return np.where(known[place] == wanted, at_us[place], started)

    @cached_property
    def _sorted(self) -> tuple[npt.NDArray[np.int64], Floats]:
        correlations = np.array(self.correlations, np.int64)
        order = np.argsort(correlations, kind="stable")
        return correlations[order], np.array(self.at_us)[order]


@dataclass
class Kept:
    """What is kept of the events of a trace.

    Attributes:
        steps: the steps of the profiler by number, and the thread that made them.
        threads: the outermost calls of torch's operations, by thread.
        names: the names of threads.
        calls: collectives and messages as they were issued; ``parameters`` those of which the trace has
            arguments, which lie within other calls.
        kernels: those of NCCL; ``gloo`` what threads of gloo carried out.
        streams: kernels of own work, by device and stream.
        launches: when work for devices was launched.
    """

    left_out: LeftOut
    steps: dict[int, Span] = field(default_factory=dict)
    step_thread: Any = None
    threads: dict[Any, Thread] = field(default_factory=dict)
    names: dict[Any, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    parameters: list[Call] = field(default_factory=list)
    annotations: list[Annotation] = field(default_factory=list)
    kernels: list[Ran] = field(default_factory=list)
    gloo: list[Ran] = field(default_factory=list)
    copies: list[Ran] = field(default_factory=list)
    streams: dict[tuple[Any, Any], Kernels] = field(default_factory=dict)
    launches: Launches = field(default_factory=Launches)
    pid: int = 0

    def take(self, events: list[Event]) -> None:
        """Keep what is needed of events."""
        for event in events:
            if event.ph != "X":
                if event.ph == "M" and event.name == "thread_name" and event.args is not None:
                    self.names[_hashable(event.tid)] = str(event.args.thread_name)
                continue
            keep = _KEEP.get(event.cat)
            if keep is None:
                continue
            if 0 <= event.ts <= _LATEST_US and 0 <= event.dur <= _LONGEST_US:
                keep(self, event, Span(event.ts, event.ts + event.dur))
            else:
                self.left_out.add("an event whose times are impossible")


def _keep_operation(kept: Kept, event: Event, span: Span) -> None:
    name, kind, tid = event.name, WORK, _hashable(event.tid)
    if name.startswith(BACKWARD):
        kind = BACKWARD_WORK
    elif name.endswith("::wait_tensor"):
        return  # what it waits for tells how long
    elif name.startswith(GLOO):
        kept.gloo.append(Ran(span, name, _apart(event.args)))
        return
    elif name.startswith("c10d::"):
        kind = COMMUNICATION
        if operation := collective(name):
            kept.calls.append(Call(span, tid, operation, None))
    elif name == _PARAMETERS:
        kind = COMMUNICATION
        _keep_parameters(kept, event, span)
    thread = kept.threads.get(tid)
    if thread is None:
        thread = kept.threads[tid] = Thread()
    thread.add(span, kind)


def _keep_parameters(kept: Kept, event: Event, span: Span) -> None:
    args = event.args
    operation = collective(args.collective) if args is not None else None
    if operation is not None:
        kept.parameters.append(Call(span, _hashable(event.tid), operation, _apart(args)))


def _keep_annotation(kept: Kept, event: Event, span: Span) -> None:
    name = event.name
    if name.startswith(GLOO):
        kept.gloo.append(Ran(span, name, _apart(event.args)))
    elif name.startswith(STEP):
        number = name.removeprefix(STEP)
        if number.isdecimal() and len(number) < 19:
            kept.steps[int(number)] = span
            kept.step_thread, kept.pid = _hashable(event.tid), event.pid if type(event.pid) is int else 0
    elif named := annotated(name):
        kept.annotations.append(Annotation(span, _hashable(event.tid), *named))


def _keep_kernel(kept: Kept, event: Event, span: Span) -> None:
    args = event.args or Args()
    if is_communication_kernel(event.name) or args.collective is not None:
        kept.kernels.append(Ran(span, event.name, _apart(args)))
        return
    stream = _hashable(args.device if args.device is not None else event.pid), _hashable(args.stream)
    kernels = kept.streams.get(stream)
    if kernels is None:
        kernels = kept.streams[stream] = Kernels()
    kernels.add(span, correlation_of(args))


def correlation_of(args: Args | None) -> int:
    """Return the number that an event of a device shares with its launch; -1 if it has none."""
    found = args.correlation if args is not None else None
    return found if type(found) is int and 0 <= found < 2**63 else -1


def _keep_copy(kept: Kept, event: Event, span: Span) -> None:
    kept.copies.append(Ran(span, event.name, _apart(event.args)))


def _keep_launch(kept: Kept, event: Event, span: Span) -> None:
    if (correlation := correlation_of(event.args)) >= 0:
        kept.launches.add(correlation, span.start_us)


def _apart(args: Args | None) -> Args | None:
    """Return arguments that do not hold the block of the trace that they were decoded from."""
    if args is not None:
        args.shapes, args.types = args.shapes.copy(), args.types.copy()
    return args


def _hashable(value: Any) -> Any:
    """Return the number or name of a thread, device or stream; None for what is neither."""
    return value if type(value) in (int, str) else None


_KEEP = {
    "cpu_op": _keep_operation, "Operator": _keep_operation, "user_annotation": _keep_annotation,
    "kernel": _keep_kernel, "Kernel": _keep_kernel, "gpu_memcpy": _keep_copy, "Memcpy": _keep_copy,
    "cuda_runtime": _keep_launch, "cuda_driver": _keep_launch, "Runtime": _keep_launch,
}  # fmt: skip
"""What is done with an event, by its category; those of others are not needed."""


class Axis:
    """Maps instants of a trace, in us, to those of rows, in ns, and to steps.

    Args:
        offset_ns: the instant of a row where the trace has 0.
        steps: the steps of the profiler by number.
    """

    def __init__(self, offset_ns: int, steps: dict[int, Span]) -> None:
        self._offset_ns = offset_ns
        in_order = sorted(steps.items(), key=lambda step: step[1].start_us)
        self._numbers = [number for number, _ in in_order]
        self._starts_us = np.array([span.start_us for _, span in in_order])
        self._ends_us = np.array([span.end_us for _, span in in_order])

    def interval_ns(self, span: Span) -> tuple[int, int]:
        """Return start and end of a span in ns; none is before the beginning of the axis."""
        start_ns = max(0, self._offset_ns + round(span.start_us * 1e3))
        return start_ns, max(start_ns, self._offset_ns + round(span.end_us * 1e3))

    def steps_at(self, at_us: Sequence[float] | Floats) -> list[int | None]:
        """Return the number of the step at each instant; None outside of any."""
        instants = np.asarray(at_us, np.float64)
        place = np.searchsorted(self._starts_us, instants, side="right") - 1
        if not len(self._numbers):
            return [None] * len(instants)
        inside = (place >= 0) & (instants <= self._ends_us[place])
        return [self._numbers[i] if within else None for i, within in zip(place, inside, strict=True)]

    def step_at(self, at_us: float) -> int | None:
        """Return the number of the step at an instant; None outside of any."""
        return self.steps_at([at_us])[0]


def first_instant_us(kept: Kept) -> float:
    """Return the first instant of what was kept of a trace; 0 if nothing was."""
    spans = [*kept.steps.values(), *(one.span for one in kept.annotations)]
    spans += [one.span for one in (*kept.gloo, *kept.kernels)]
    starts = [lane.starts_us for lane in kept.threads.values()]
    starts += [lane.starts_us for lane in kept.streams.values()]
    return min([*(span.start_us for span in spans), *map(min, starts)], default=0.0)
