"""The rows of collectives and messages, from what was kept of a trace.

Over NCCL a collective is its kernel, which the trace links to the call with its arguments. Over gloo it lasts
from the call to the end of what a thread of gloo does for it; these threads take calls in their order, so the
n-th call of a kind is the n-th that they carry out.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from timing_logger.importing.imported import integer
from timing_logger.importing.kineto_events import (
    COMMUNICATION,
    Axis,
    Call,
    Kept,
    Ran,
    Span,
    correlation_of,
)
from timing_logger.importing.kineto_names import (
    MESSAGES,
    ROOTED,
    Group,
    bytes_of_type,
    collective,
    group_of,
    kernel_operation,
)
from timing_logger.importing.kineto_work import Lane, Lanes, outermost
from timing_logger.importing.trace_events import Args
from timing_logger.schema.record import DEVICE_CLOCK, HOST_CLOCK, OK, WAIT, RawRecord

LATE_US = 5e3
"""How long after the end of an operation a thread that waited for it calls the next one, at most.

On a host with more threads than cores, it waits for a core first.
"""

EARLY_US = 1e3
"""How long before the noted end it may do so: the thread of gloo wakes who waits, and then notes the end."""

_LEAST_GAP_US = 20.0


class _Gap(NamedTuple):
    """A gap between two calls, and the call before it if that issues an operation."""

    span: Span
    issue: Span | None


def waits_in_gaps(calls: Lane, operations: Sequence[Span]) -> list[Span]:
    """Return the wait of a thread for each operation; it is of no length if the thread did not wait.

    Args:
        calls: its outermost calls; those of the kind ``COMMUNICATION`` do nothing but issue an operation.
        operations: from the issue of each operation to its end.
    """
    gaps = _gaps_of(calls)
    ends = [gap.span.end_us for gap in gaps]
    reached_us = -np.inf
    found = [Span(end_us, end_us) for _, end_us in operations]
    for i in sorted(range(len(operations)), key=lambda i: operations[i].start_us):
        issued_us, end_us = operations[i]
        gap = _gap_of(operations[i], gaps, bisect_left(ends, end_us))
        if gap is not None and end_us > reached_us:
            from_us = max(gap.span.start_us, issued_us, reached_us)
            reached_us = max(from_us, min(end_us, gap.span.end_us))
            found[i] = Span(from_us, reached_us)
    return found


def _gaps_of(calls: Lane) -> list[_Gap]:
    if not len(calls.starts_us):
        return []
    until_us, is_issue = np.append(calls.starts_us[1:], np.inf), calls.kinds == COMMUNICATION
    return [
        _Gap(
            Span(float(calls.ends_us[i]), float(until_us[i])),
            Span(float(calls.starts_us[i]), float(calls.ends_us[i])) if is_issue[i] else None,
        )
        for i in np.flatnonzero(until_us - calls.ends_us >= _LEAST_GAP_US).tolist()
    ]


def _gap_of(operation: Span, gaps: Sequence[_Gap], place: int) -> _Gap | None:
    """Return the gap in which a thread waited for an operation, of those around its end; None for none."""
    issued_us, end_us = operation
    before = gaps[place - 1] if place > 0 else None
    around = gaps[place] if place < len(gaps) and gaps[place].span.start_us < end_us else None
    if around and around.issue and around.issue.start_us <= issued_us <= around.issue.end_us:
        return around
    early_us = end_us - before.span.end_us if before and before.span.end_us > issued_us else np.inf
    late_us = around.span.end_us - end_us if around else np.inf
    if early_us <= EARLY_US and early_us < late_us:
        return before
    return around if late_us <= LATE_US else None


_EARLY_US = 1.0  # a thread of gloo may note its begin before the call that woke it is noted


class Operation(NamedTuple):
    """A collective or message: where it was issued, and when it was under way.

    Attributes:
        name: the operation.
        span: from when to when it was under way.
        issued_us: when it was issued, which tells its step and its number.
        thread: the thread that issued it; None if that is not known.
        args: its arguments.
        stream: the stream of its kernel; "" on the host.
        n_bytes: the bytes that were sent; None if they are not known.
    """

    name: str
    span: Span
    issued_us: float
    thread: Any
    args: Args
    stream: str
    n_bytes: int | None


@dataclass
class Numbers:
    """Numbers the collectives of each group, where the trace does not.

    Attributes:
        from_step: the step whose first collective has the number 0; None for the first of the trace.
    """

    from_step: int | None = None
    _next: Counter[str] = field(default_factory=Counter)

    def of(self, group: str, step: int | None) -> int | None:
        """Return the number of the next collective of a group; None before that step."""
        if self.from_step is not None and not self._next[group] and (step is None or step < self.from_step):
            return None
        self._next[group] += 1
        return self._next[group] - 1


def communication_rows(
    kept: Kept, axis: Axis, lanes: Lanes, only: Group | None, unnamed: str, from_step: int | None
) -> Iterator[RawRecord]:
    """Yield the rows of collectives and messages, and those of waits for what gloo did.

    Args:
        kept: what was kept of the trace.
        axis: the axis of its instants.
        lanes: its threads.
        only: the only group of the run; None if there are several, or it is not known.
        unnamed: the name of a group that is not told; it differs from rank to rank, so that nothing is
            matched by it.
        from_step: as for :class:`Numbers`.
    """
    numbers = Numbers(from_step)
    on_host, on_device = list(_carried_out_by_gloo(kept)), list(_kernels(kept))
    waited = dict(_waits(kept, on_host, lanes))
    for one in sorted([*on_host, *on_device], key=lambda one: one.issued_us):
        group = group_of(one.args) or only or Group(unnamed, None)
        step = axis.step_at(one.issued_us)
        row = _row(one, group, axis, lanes, step, numbers)
        yield row
        if id(one) in waited:
            start_ns, end_ns = axis.interval_ns(waited[id(one)])
            yield (*row[:3], WAIT, *row[4:6], start_ns, end_ns, *row[8:])


def _row(
    one: Operation, group: Group, axis: Axis, lanes: Lanes, step: int | None, numbers: Numbers
) -> RawRecord:
    start_ns, end_ns = axis.interval_ns(one.span)
    is_message = one.name in MESSAGES
    stated = None if is_message else integer(one.args.seq)
    seq = stated if is_message or stated is not None else numbers.of(group.name, step)
    goes_on = "" if one.stream else "I"
    return (
        step, None, "", f"{goes_on}{one.name}", "", one.n_bytes, start_ns, end_ns,
        DEVICE_CLOCK if one.stream else HOST_CLOCK, group.name, group.size, seq, _peer(one, group),
        lanes.name(one.thread), OK, one.stream,
    )  # fmt: skip


def _peer(one: Operation, group: Group) -> int | None:
    if one.name in MESSAGES:
        return group.place_of(one.args.to_rank if one.name == "SEND" else one.args.from_rank)
    return integer(one.args.rank) if one.name in ROOTED else None


# -- NCCL ------------------------------------------------------------------------------------------


def _kernels(kept: Kept) -> Iterator[Operation]:
    """Yield what kernels did; several kernels of one call are one operation."""
    called = {one.args.external_id: one for one in kept.parameters if one.args and _is_id(one.args)}
    launched_us = kept.launches.of(
        [correlation_of(ran.args) for ran in kept.kernels], [ran.span.start_us for ran in kept.kernels]
    )
    of_call: dict[Any, list[tuple[Ran, float]]] = defaultdict(list)
    for ran, at_us in zip(kept.kernels, launched_us.tolist(), strict=True):
        args = ran.args or Args()
        is_called = _is_id(args) and args.external_id in called
        of_call[args.external_id if is_called else id(ran)].append((ran, at_us))
    for key, kernels in of_call.items():
        if (one := _kernel(kernels, called.get(key))) is not None:
            yield one
        else:
            kept.left_out.add("a kernel of NCCL of which nothing tells the operation", len(kernels))
    lacking = len(called) - len(called.keys() & of_call.keys())
    if lacking and not kept.gloo:
        kept.left_out.add("a collective that has no kernel of its own in the trace", lacking)


def _is_id(args: Args) -> bool:
    return type(args.external_id) is int


def _kernel(kernels: list[tuple[Ran, float]], call: Call | None) -> Operation | None:
    first, launched_us = kernels[0]
    stated = first.args or Args()
    args = call.args if call is not None and call.args is not None else stated
    name = collective(args.collective) or kernel_operation(first.name)
    if name is None:
        return None
    span = Span(min(k.span.start_us for k, _ in kernels), max(k.span.end_us for k, _ in kernels))
    return Operation(
        name, span, call.span.start_us if call else launched_us, call.thread if call else None, args,
        f"cuda:{stated.device}/{stated.stream}", _bytes_stated(args),
    )  # fmt: skip


def _bytes_stated(args: Args) -> int | None:
    n_elements, each = integer(args.n_elements), bytes_of_type(args.dtype)
    if n_elements is None or each is None:
        return None
    return integer(n_elements * each)


# -- gloo ------------------------------------------------------------------------------------------


def _carried_out_by_gloo(kept: Kept) -> Iterator[Operation]:
    waiting: dict[str, deque[Call]] = defaultdict(deque)
    for call in sorted(_calls(kept), key=lambda call: call.span.start_us):
        waiting[call.operation].append(call)
    for ran in sorted(kept.gloo, key=lambda ran: ran.span.start_us):
        name = collective(ran.name)
        queue = waiting[name or ""]
        if name is None:
            kept.left_out.add("an operation of gloo of an unknown kind")
        elif not queue or queue[0].span.start_us > ran.span.start_us + _EARLY_US:
            kept.left_out.add("a collective that was issued before the trace begins")
        else:
            yield _carried_out(name, queue.popleft(), ran)
    if kept.gloo and not kept.kernels and (lacking := sum(map(len, waiting.values()))):
        kept.left_out.add("a collective that ends after the trace does", lacking)


def _calls(kept: Kept) -> list[Call]:
    """Return the calls of which each is one: a call with arguments lies within another that has none."""
    if not kept.parameters:
        return kept.calls
    inner = sorted((one.thread is None, str(one.thread), one.span) for one in kept.parameters)
    starts: dict[str, list[float]] = defaultdict(list)
    for _, thread, span in inner:
        starts[thread].append(span.start_us)
    outer = [call for call in kept.calls if not _holds_one(call, starts.get(str(call.thread), []))]
    return [*outer, *kept.parameters]


def _holds_one(call: Call, starts_us: list[float]) -> bool:
    place = int(np.searchsorted(starts_us, call.span.start_us))
    return place < len(starts_us) and starts_us[place] <= call.span.end_us


def _carried_out(name: str, call: Call, ran: Ran) -> Operation:
    args = call.args or Args()
    n_bytes = _bytes_stated(args)
    return Operation(
        name, Span(call.span.start_us, max(call.span.start_us, ran.span.end_us)), call.span.start_us,
        call.thread, args, "", _bytes_of_shapes(ran.args) if n_bytes is None else n_bytes,
    )  # fmt: skip


def _bytes_of_shapes(args: Args | None) -> int | None:
    """Return the bytes of the tensors of an operation, where the profiler recorded shapes."""
    if args is None or not (bytes(args.shapes) and bytes(args.types)):
        return None
    try:
        shapes, types = json.loads(bytes(args.shapes)), json.loads(bytes(args.types))
        tensors = [(shape, bytes_of_type(kind)) for shape, kind in zip(shapes, types, strict=False) if kind]
        total = sum(math.prod(shape) * each for shape, each in tensors if each)
    except (ValueError, TypeError, RecursionError, OverflowError):
        return None
    return integer(total) if all(each for _, each in tensors) else None


def _waits(kept: Kept, on_host: list[Operation], lanes: Lanes) -> Iterator[tuple[int, Span]]:
    """Yield the identity of operations, and when the threads that issued them were blocked on them."""
    of_thread: dict[Any, list[Operation]] = defaultdict(list)
    for one in on_host:
        of_thread[lanes.main if lanes.is_main(one.thread) else one.thread].append(one)
    for thread, operations in of_thread.items():
        if thread in kept.threads:
            spans = waits_in_gaps(outermost(kept.threads[thread]), [one.span for one in operations])
            yield from zip(map(id, operations), spans, strict=True)
