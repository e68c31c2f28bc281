"""Detect calls that do not end: the flush thread looks for them while the training thread hangs.

What a process stood in when it began and recorded nothing for long is kept when it goes on or ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeAlias

from timing_logger.recording.autograd_threads import (
    frame_of_main_thread,
    frames_of_program,
    is_library,
    short_path,
)
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.open_calls import OpenCalls
from timing_logger.schema.record import INFLIGHT, NS_PER_S, RawRecord, Record, is_message
from timing_logger.schema.sidecar import GroupProgress, OpenCallInfo, Stall

_MOST_FRAMES = 12
_MOST_TOLD = 100

HeldBack: TypeAlias = "Callable[[int], Iterable[tuple[object, RawRecord]]]"
"""Maps an instant in ns to what has waited for a device since before it: intervals and their records."""


class Standing(NamedTuple):
    """How far a process has come, for its sidecar.

    The fields of :class:`~timing_logger.schema.sidecar.RunInfo` explain each.
    """

    open_calls: list[OpenCallInfo]
    groups: list[GroupProgress]
    idle_stack: list[str]
    last_progress_counter_ns: int
    longest_stall: Stall | None
    last_stall: Stall | None
    signal: str
    ended_by: str
    untimed: dict[str, int]
    process_group: str


class HangWatch:
    """Finds the calls of one logger that have been open for too long, and writes a row for each, once.

    Attributes:
        at_once: True to have the next look write all open calls, whatever their age.
        signal: the name of the signal that the process received, if the logger handles it.
        ended_by: the type of the exception that ends the process; "" if none does.

    Args:
        open_calls: the logger's open calls.
        hang_after_s: seconds after which a call counts as hanging.
    """

    def __init__(self, open_calls: OpenCalls, hang_after_s: float) -> None:
        self.at_once = False
        self.signal = ""
        self.ended_by = ""
        self._last_stall: Stall | None = None
        self._longest_stall: Stall | None = None
        self._open_calls = open_calls
        self._hang_after_ns = int(hang_after_s * NS_PER_S)
        self._told: dict[object, list[RawRecord]] = {}
        self._seen = 0
        self._progress_ns = perf_counter_ns()

    def look(self, held_back: HeldBack, accepted: int) -> None:
        """Write a row for each call that has been open for too long and that was not written before.

        Args:
            held_back: returns the records that have waited for a device since before an instant.
            accepted: the number of records accepted so far, from which progress is detected.
        """
        self._note_progress(accepted)
        now_ns = perf_counter_ns()
        self._open_calls.channel.note_standing(self._open_now(), self._groups(), now_ns, self._progress_ns)
        told = dict(self._too_old(held_back))
        for call in told.keys() - self._told.keys():
            self._write(told[call])
        self._told = told
        if self._hangs(now_ns):
            self._note_stall(now_ns)

    def standing(self) -> Standing:
        """Return how far the process has come and what hangs, for its sidecar."""
        return Standing(
            open_calls=self._told_calls(),
            groups=self._groups(),
            idle_stack=_idle_stack() if self._hangs(perf_counter_ns()) else [],
            last_progress_counter_ns=self._progress_ns,
            longest_stall=self._longest_stall,
            last_stall=self._last_stall,
            signal=self.signal,
            ended_by=self.ended_by,
            untimed=dict(self._open_calls.untimed),
            process_group=self._open_calls.process_group,
        )

    # -- parts ----------------------------------------------------------------------------------

    def _hangs(self, now_ns: int) -> bool:
        return now_ns - self._progress_ns > self._hang_after_ns

    def _note_stall(self, now_ns: int) -> None:
        """Note that the process stands still; what comes later overwrites neither the longest nor the last.

        The stack of the main thread is that of the first look: at the end of a stall it is in an exception
        handler, or on its way out.
        """
        since_ns, last, longest = self._progress_ns, self._last_stall, self._longest_stall
        stack = last.stack if last is not None and last.since_counter_ns == since_ns else _idle_stack()
        stall = Stall(since_ns, now_ns, self._told_calls(), self._groups(), stack)
        self._last_stall = stall
        if longest is None or now_ns - since_ns >= longest.until_counter_ns - longest.since_counter_ns:
            self._longest_stall = stall

    def _told_calls(self) -> list[OpenCallInfo]:
        told = [record for records in self._told.values() for record in records]
        return [OpenCallInfo.of(record) for record in told[:_MOST_TOLD]]

    def _note_progress(self, accepted: int) -> None:
        seen = accepted + sum(group.collectives for group, _ in self._open_calls.groups())
        if seen != self._seen:
            self._seen, self._progress_ns = seen, perf_counter_ns()

    def _open_now(self) -> Iterator[RawRecord]:
        for call in self._open_calls:
            if not call.is_in_ring:
                yield from call.open_records(INFLIGHT)

    def _too_old(self, held_back: HeldBack) -> Iterator[tuple[object, list[RawRecord]]]:
        at_once, self.at_once = self.at_once, False
        before_ns = perf_counter_ns() - (0 if at_once else self._hang_after_ns)
        for call in self._open_calls:
            if call.start_ns < before_ns:
                yield call, list(call.open_records(INFLIGHT))
        for interval, record in held_back(before_ns):
            yield interval, [record]

    def _write(self, records: list[RawRecord]) -> None:
        for record in records:
            self._seen += 1  # a row written here does not count as progress
            self._open_calls.channel.put(record)

    def _groups(self) -> list[GroupProgress]:
        first_open: dict[str, int] = {}
        for call in self._open_calls:
            for raw in map(Record._make, call.open_records(INFLIGHT)):
                if raw.seq is not None and not is_message(raw.operation):
                    first_open[raw.group] = min(raw.seq, first_open.get(raw.group, raw.seq))
        return [
            GroupProgress(name, group.size, group.collectives, first_open.get(name, group.collectives))
            for group, name in self._open_calls.groups()
        ]


def _idle_stack() -> list[str]:
    return list(islice(_main_thread_stack(), _MOST_FRAMES))


def _main_thread_stack() -> Iterator[str]:
    """Yield the main thread's innermost call outside of these packages, then the user's calls around it."""
    innermost = True
    for frame in frames_of_program(frame_of_main_thread()):
        file = frame.f_code.co_filename
        if innermost or not is_library(file):
            yield f"{short_path(file)}:{frame.f_lineno} in {frame.f_code.co_name}"
            innermost = False
