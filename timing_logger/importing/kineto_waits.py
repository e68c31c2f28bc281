"""How long a thread was blocked on operations of gloo, which no event of a trace says.

While a thread waits, it calls none of torch's operations. A gap between two calls is a wait if an operation
ends in it, or just after it, that

- was issued by the last call before the gap, as by ``all_reduce``; or
- ends shortly before the gap does, as in the reducer of DDP, which goes on with what was reduced.

A thread waits for operations in the order in which it issued them. Of one that ends otherwise nobody waited.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.importing.kineto_axis import Floats
from timing_logger.importing.kineto_events import Span

LATE_US = 5e3
"""How long after the end of an operation a thread that waited for it calls the next one, at most.

On a host with more threads than cores, it waits for a core first.
"""

EARLY_US = 1e3
"""How long before the noted end it may do so: the thread of gloo wakes who waits, and then notes the end."""

_LEAST_GAP_US = 20.0


class Calls(NamedTuple):
    """The outermost calls of a thread, in order.

    Attributes:
        starts_us, ends_us: from when to when.
        is_issue: whether the call does nothing but issue an operation.
    """

    starts_us: Floats
    ends_us: Floats
    is_issue: np.typing.NDArray[np.bool_]


class Waited(NamedTuple):
    """A wait for an operation.

    Attributes:
        place: which operation.
        span: from when to when; of no length if nobody waited.
    """

    place: int
    span: Span


class _Gap(NamedTuple):
    """A gap between two calls, and the call before it if that issues an operation."""

    span: Span
    issue: Span | None


def waits_in_gaps(calls: Calls, operations: Sequence[Span]) -> Iterator[Waited]:
    """Yield the wait of a thread for each operation.

    Args:
        calls: its calls.
        operations: from the issue of each operation to its end.
    """
    gaps = _gaps_of(calls)
    ends = [gap.span.end_us for gap in gaps]
    reached_us = -np.inf
    for i in sorted(range(len(operations)), key=lambda i: operations[i].start_us):
        issued_us, end_us = operations[i]
        gap = _gap_of(operations[i], gaps, bisect_left(ends, end_us))
        if gap is None or end_us <= reached_us:
            yield Waited(i, Span(end_us, end_us))
            continue
        from_us = max(gap.span.start_us, issued_us, reached_us)
        reached_us = max(from_us, min(end_us, gap.span.end_us))
        yield Waited(i, Span(from_us, reached_us))


def _gaps_of(calls: Calls) -> list[_Gap]:
    if not len(calls.starts_us):
        return []
    until_us = np.append(calls.starts_us[1:], np.inf)
    return [
        _Gap(
            Span(float(calls.ends_us[i]), float(until_us[i])),
            Span(float(calls.starts_us[i]), float(calls.ends_us[i])) if calls.is_issue[i] else None,
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
