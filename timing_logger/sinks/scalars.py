"""A sink that writes mean durations to anything with ``add_scalar(tag, value, step)``, such as TensorBoard.

Records are averaged over windows. The metadata of each states its window. One more record closes the window,
and states how many records it has and the step of its means. A window is emitted when all of its records have
arrived: those that waited for a device arrive after the host's.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from timing_logger.schema.record import NS_PER_MS, OK, RawRecord, Record

log = logging.getLogger("timing_logger")

CLOSE_WINDOW = "CLOSE_WINDOW"
"""Operation of the record that closes the window of its phase; it has no duration of its own."""


class ScalarWriter(Protocol):
    """An object that takes scalars, such as ``torch.utils.tensorboard.SummaryWriter``."""

    def add_scalar(self, tag: str, value: float, step: int, /) -> object:
        """Take one point of the curve ``tag``."""


class LogWriter:
    """Writes scalars as lines of the log: ``profile/train/dl_main/time_forward_ms: 3.21``."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def add_scalar(self, tag: str, value: float, step: int, /) -> None:
        """Log one line, without the step."""
        self._logger.info("%s: %.2f", tag, value)


def in_window(number: int) -> dict[str, int]:
    """Return the metadata of a record that belongs to window ``number`` of its phase, counted from 0."""
    return {"window": number}


def closes_window(number: int, *, records: int, step: int) -> dict[str, int]:
    """Return the metadata of the record that closes window ``number``.

    Args:
        records: the number of other records in the window.
        step: the step of the window's means.
    """
    return {"window": number, "records": records, "step": step}


class _Window:
    """The sums of one window until all records have arrived.

    ``closed`` has the number of its records and its step; it is None until the window is closed.
    """

    def __init__(self) -> None:
        self.sums: dict[str, tuple[int, int]] = {}
        self.arrived = 0
        self.closed: tuple[int, int] | None = None


class _Phase:
    """The windows of one phase that are not emitted yet, by number."""

    def __init__(self) -> None:
        self.open: dict[int, _Window] = {}
        self.emitted = -1

    def window(self, number: int) -> _Window:
        """Return window ``number``, or the next one after the last emitted if that one is emitted already."""
        return self.open.setdefault(max(number, self.emitted + 1), _Window())

    def due(self, *, at_once: bool) -> Iterator[tuple[_Window, int]]:
        """Remove each window that is complete, or with ``at_once`` closed, and yield it with its step."""
        for number in sorted(self.open):
            window = self.open[number]
            if window.closed is None or (window.arrived < window.closed[0] and not at_once):
                return
            del self.open[number]
            self.emitted = number
            yield window, window.closed[1]


class ScalarsSink:
    """Writes the mean of each tag in a window, in ms; the steps of a tag come in order.

    A record counts if its status is ok and its duration is known; a tag without such records has no scalar.
    The exceptions of a writer are logged once for it, and the other writers are still served. Writers are
    never closed.

    Attributes:
        taken: records averaged so far, without those that close windows.
        progress: scalars written so far; a logger that is being closed waits as long as it grows.

    Args:
        writers: the destinations of the scalars.
        tag: returns the tag of a record.
    """

    def __init__(self, writers: Sequence[ScalarWriter], tag: Callable[[Record], str]) -> None:
        self.taken = 0
        self.progress = 0
        self._writers = tuple(writers)
        self._tag = tag
        self._phases: defaultdict[str, _Phase] = defaultdict(_Phase)
        self._reported: set[int] = set()

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        """Count a batch into its windows, and emit those that are over."""
        for raw in batch:
            self._take(Record(*raw))
        self._emit_due()

    def sync(self) -> None:
        """Do nothing: what is to be kept is up to the writers."""

    def close(self) -> None:
        """Emit the closed windows; a window that is still open is discarded."""
        self._emit_due(at_once=True)

    def _take(self, record: Record) -> None:
        if record.metadata is None:
            return
        phase, number = self._phases[record.phase], record.metadata["window"]
        in_time = number > phase.emitted  # else another thread recorded it while the window was closing
        window = phase.window(number)
        if record.operation != CLOSE_WINDOW:
            self.taken += 1
            window.arrived += in_time
            if record.status == OK and record.end_ns is not None:
                tag = self._tag(record)
                sum_ns, count = window.sums.get(tag, (0, 0))
                window.sums[tag] = sum_ns + record.end_ns - record.start_ns, count + 1
        elif in_time:
            window.closed = record.metadata["records"], record.metadata["step"]

    def _emit_due(self, *, at_once: bool = False) -> None:
        for phase in self._phases.values():
            for window, step in phase.due(at_once=at_once):
                self._emit(window, step)

    def _emit(self, window: _Window, step: int) -> None:
        for tag, (sum_ns, count) in window.sums.items():
            for writer in self._writers:
                try:
                    writer.add_scalar(tag, sum_ns / count / NS_PER_MS, step)
                except BaseException as error:  # even SystemExit, which cannot end a process from here
                    self._report(writer, error)
                self.progress += 1

    def _report(self, writer: ScalarWriter, error: BaseException) -> None:
        if id(writer) not in self._reported:
            self._reported.add(id(writer))
            log.warning("timing logger: %s took no scalar: %r", type(writer).__name__, error)
