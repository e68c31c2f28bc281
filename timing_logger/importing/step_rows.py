"""From steps to rows: one for each phase, or one for the step, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from timing_logger.importing.step_columns import StepColumns, StepOfRank
from timing_logger.record import HOST_CLOCK, OK, RawRecord

STEP = "STEP"
"""The operation of a step of which no phases are known."""

_NS_PER_S = 10**9
_BEFORE_NS = 10**6 * _NS_PER_S
_THREAD = "MainThread"


def origin_ns(first_ns: int) -> int:
    """Return an instant long before the first, in whole seconds, from which all others are counted.

    Readers take instants for float64: of numbers as small as these no nanosecond is lost.
    """
    return max(0, first_ns // _NS_PER_S * _NS_PER_S - _BEFORE_NS)


class RowsOfRank:
    """Makes the rows of the steps of a rank, in the order of its log.

    Args:
        columns: which columns of the log say what.
        wall_offset_ns: Unix time minus the instants of rows, in ns.
    """

    def __init__(self, columns: StepColumns, wall_offset_ns: int) -> None:
        self._columns, self._wall_offset_ns = columns, wall_offset_ns
        self._at_ns = _BEFORE_NS

    def of(self, step: StepOfRank) -> Iterator[RawRecord]:
        """Yield the rows of the next step, which begins where the last ended if no instant is logged."""
        if step.end_ns >= 0:
            began_ns = step.end_ns - (0 if self._columns.time_is_start else step.lasts_ns)
            self._at_ns = max(0, began_ns - self._wall_offset_ns)
        yield from _rows_of_step(step, self._columns, self._at_ns)
        self._at_ns += step.lasts_ns


def _rows_of_step(step: StepOfRank, columns: StepColumns, at_ns: int) -> Iterator[RawRecord]:
    parts = list(zip(columns.phases, step.phases_ns, strict=True)) or [(STEP, step.lasts_ns)]
    if columns.rest:
        parts.append((columns.rest, step.lasts_ns - sum(step.phases_ns)))
    for i, (name, lasts_ns) in enumerate(parts):
        work = step.work if i == 0 and step.work >= 0 else None
        yield _row(name, step, at_ns, lasts_ns, work)
        at_ns += lasts_ns


def _row(name: str, step: StepOfRank, start_ns: int, lasts_ns: int, work: float | None) -> RawRecord:
    epoch = step.epoch if step.epoch >= 0 else None
    return (
        step.number, epoch, "", name, "", None, start_ns, start_ns + lasts_ns, HOST_CLOCK, "", None, None,
        None, _THREAD, OK, "", None, work,
    )  # fmt: skip
