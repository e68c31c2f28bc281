"""The rows of a rank's own work and of its copies, from what was kept of a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from timing_logger.importing.imported import integer
from timing_logger.importing.kineto_events import (
    BACKWARD_WORK,
    WORK,
    Annotation,
    Axis,
    Floats,
    Kept,
    Kernels,
    Launches,
    Span,
    Thread,
    correlation_of,
)
from timing_logger.importing.kineto_names import copy_operation, thread_name
from timing_logger.importing.trace_events import Args
from timing_logger.schema.record import DEVICE_CLOCK, HOST_CLOCK, OK, RawRecord

MAIN_THREAD = "MainThread"
COMPUTE, BACKWARD = "COMPUTE", "BACKWARD"

_HOST_GAP_US = 1e3
"""Operations of a thread that are no further apart are one row: between them Python prepares the next."""

_DEVICE_GAP_US = 20.0
"""The same for kernels of a stream, between which nothing is computed."""

_AUTOGRAD = "pt_autograd"


class Lanes(NamedTuple):
    """The threads of a program.

    Attributes:
        main: number of the thread that makes the steps.
        names: the names of threads.
    """

    main: Any
    names: dict[Any, str]

    @classmethod
    def of(cls, kept: Kept) -> Lanes:
        """Find the thread that makes the steps: the profiler tells, or it is the one that does most."""
        names = {tid: thread_name(name) for tid, name in kept.names.items()}
        main = kept.step_thread
        if main is None:
            own = {
                tid: len(thread.kinds)
                for tid, thread in kept.threads.items()
                if not names.get(tid, "").startswith(_AUTOGRAD)
            }
            main = max(own, key=lambda tid: own[tid], default=None)
        return cls(main, names)

    def is_main(self, thread: Any) -> bool:
        """Tell whether a thread is the main one, or makes a backward pass for it, which waits meanwhile."""
        return thread == self.main or self.names.get(thread, "").startswith(_AUTOGRAD)

    def name(self, thread: Any) -> str:
        """Return the name of a thread in rows."""
        if self.is_main(thread):
            return MAIN_THREAD
        return f"{self.names.get(thread, 'thread')} {thread}"


def work_rows(kept: Kept, axis: Axis, lanes: Lanes) -> Iterator[RawRecord]:
    """Yield the rows of own work: annotations, backward passes, what else is computed, and copies."""
    yield from _annotation_rows(kept.annotations, axis, lanes)
    covered = _union([one.span for one in kept.annotations if lanes.is_main(one.thread)])
    for tid, thread in kept.threads.items():
        if lanes.is_main(tid):
            yield from _thread_rows(thread, axis, covered, only_backward=bool(kept.streams))
    for (device, stream), kernels in kept.streams.items():
        yield from _stream_rows(kernels, axis, kept.launches, f"cuda:{device}/{stream}")
    yield from _copy_rows(kept, axis)


def _row(
    axis: Axis, span: Span, step: int | None, operation: str, layer: str = "", thread: str = MAIN_THREAD,
    clock: str = HOST_CLOCK, stream: str = "", n_bytes: int | None = None,
) -> RawRecord:  # fmt: skip
    start_ns, end_ns = axis.interval_ns(span)
    return (
        step, None, layer, operation, "", n_bytes, start_ns, end_ns, clock, "", None, None, None, thread, OK,
        stream,
    )  # fmt: skip


# -- the host --------------------------------------------------------------------------------------


def _annotation_rows(annotations: list[Annotation], axis: Axis, lanes: Lanes) -> Iterator[RawRecord]:
    steps = axis.steps_at([one.span.start_us for one in annotations])
    for one, step in zip(annotations, steps, strict=True):
        yield _row(axis, one.span, step, one.operation, one.layer, lanes.name(one.thread))


def _thread_rows(
    thread: Thread, axis: Axis, covered: list[Span], *, only_backward: bool
) -> Iterator[RawRecord]:
    """Yield the rows of what a thread did: backward passes, and all else that lies in no annotation."""
    lane = outermost(thread)
    if not len(lane.kinds):
        return
    steps, inside = axis.steps_at(lane.starts_us), _is_inside(lane.starts_us, covered)
    is_backward = lane.kinds == BACKWARD_WORK
    apart = ~is_backward[1:] & (lane.starts_us[1:] - lane.ends_us[:-1] > _HOST_GAP_US)
    differ = (np.diff(lane.kinds) != 0) | (inside[1:] != inside[:-1]) | _differ(steps)
    first = [0, *(np.flatnonzero(apart | differ) + 1).tolist()]
    for begin, end in zip(first, [*first[1:], len(steps)], strict=True):
        span = Span(float(lane.starts_us[begin]), float(lane.ends_us[end - 1]))
        if is_backward[begin]:
            yield _row(axis, span, steps[begin], BACKWARD)
        elif lane.kinds[begin] == WORK and not inside[begin] and not only_backward:
            yield _row(axis, span, steps[begin], COMPUTE)


def _differ(steps: Sequence[int | None]) -> np.typing.NDArray[np.bool_]:
    """Tell for each but the first whether it is of another step than the one before."""
    return np.array([one != before for before, one in pairwise(steps)], np.bool_)


class Lane(NamedTuple):
    """Events that follow each other, as arrays."""

    starts_us: Floats
    ends_us: Floats
    kinds: np.typing.NDArray[np.int8]


def outermost(thread: Thread) -> Lane:
    """Return the events of a thread that lie in no others, in their order."""
    starts, ends = np.array(thread.starts_us), np.array(thread.ends_us)
    kinds = np.array(thread.kinds, np.int8)
    order = np.lexsort((-ends, starts))
    starts, ends, kinds = starts[order], ends[order], kinds[order]
    until = np.concatenate([[-np.inf], np.maximum.accumulate(ends)[:-1]]) if len(ends) else ends
    is_outer = starts >= until
    return Lane(starts[is_outer], ends[is_outer], kinds[is_outer])


def _union(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.start_us <= found[-1].end_us:
            found[-1] = Span(found[-1].start_us, max(found[-1].end_us, span.end_us))
        else:
            found.append(span)
    return found


def _is_inside(at_us: Floats, spans: list[Span]) -> np.typing.NDArray[np.bool_]:
    if not spans:
        return np.zeros(len(at_us), np.bool_)
    starts, ends = (np.array(values) for values in zip(*spans, strict=True))
    place = np.searchsorted(starts, at_us, side="right") - 1
    return (place >= 0) & (at_us < ends[place])


# -- devices ---------------------------------------------------------------------------------------


def _stream_rows(kernels: Kernels, axis: Axis, launches: Launches, stream: str) -> Iterator[RawRecord]:
    starts, ends = np.array(kernels.starts_us), np.array(kernels.ends_us)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    steps = axis.steps_at(launches.of(np.array(kernels.correlations)[order], starts))  # type: ignore[arg-type]
    first = [0, *(np.flatnonzero((starts[1:] - ends[:-1] > _DEVICE_GAP_US) | _differ(steps)) + 1).tolist()]
    for begin, end in zip(first, [*first[1:], len(starts)], strict=True):
        span = Span(float(starts[begin]), float(ends[end - 1]))
        yield _row(axis, span, steps[begin], COMPUTE, clock=DEVICE_CLOCK, stream=stream)


def _copy_rows(kept: Kept, axis: Axis) -> Iterator[RawRecord]:
    launched_us = kept.launches.of(
        [correlation_of(one.args) for one in kept.copies], [one.span.start_us for one in kept.copies]
    )
    for one, step in zip(kept.copies, axis.steps_at(launched_us), strict=True):
        operation = copy_operation(one.name)
        if operation is None:
            kept.left_out.add("a copy neither between host and device nor within a device")
            continue
        args = one.args or Args()
        stream, n_bytes = f"cuda:{args.device}/{args.stream}", integer(args.bytes)
        yield _row(axis, one.span, step, operation, clock=DEVICE_CLOCK, stream=stream, n_bytes=n_bytes)
