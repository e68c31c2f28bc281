"""Means of durations, for anything that has ``add_scalar(tag, value, step)``: TensorBoard, say.

Records are averaged over windows. Each says in its metadata which window it belongs to; one more
record closes the window, and says how many there are and at which step the means stand. A window
is emitted when all of its records are there: those that waited for a device arrive after the host's.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from timing_logger.record import NS_PER_MS, OK, RawRecord, Record

log = logging.getLogger("timing_logger")

CLOSE_WINDOW = "CLOSE_WINDOW"
"""Operation of the record that closes the window of its phase; it has no duration of its own."""


class ScalarWriter(Protocol):
    """Takes scalars, as ``torch.utils.tensorboard.SummaryWriter`` does."""

    def add_scalar(self, tag: str, value: float, step: int, /) -> Any: ...


class LogWriter:
    """Writes scalars as lines of the log: ``profile/train/dl_main/time_forward_ms: 3.21``."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def add_scalar(self, tag: str, value: float, step: int, /) -> None:
        self._logger.info("%s: %.2f", tag, value)


def in_window(number: int) -> Mapping[str, Any]:
    """Metadata of a record that belongs to window ``number`` of its phase, counted from 0."""
    return {"window": number}


def closes_window(number: int, *, records: int, step: int) -> Mapping[str, Any]:
    """Metadata of the record that closes window ``number``, which has so many others."""
    return {"window": number, "records": records, "step": step}


class _Window:
    """Sums until all records are there. ``records`` and ``step`` are None until it is closed."""

    def __init__(self) -> None:
        self.sums: dict[str, tuple[int, int]] = {}
        self.arrived = 0
        self.records: int | None = None
        self.step: int | None = None

    @property
    def complete(self) -> bool:
        return self.records is not None and self.arrived >= self.records

    def add(self, tag: str, elapsed_ns: int) -> None:
        sum_ns, count = self.sums.get(tag, (0, 0))
        self.sums[tag] = sum_ns + elapsed_ns, count + 1


class _Phase:
    """The windows of one phase that are not emitted yet, by number."""

    def __init__(self) -> None:
        self.open: dict[int, _Window] = {}
        self.emitted = -1

    def window(self, number: int) -> _Window:
        """The window, or the next one where it is emitted already."""
        return self.open.setdefault(max(number, self.emitted + 1), _Window())

    def due(self, *, at_once: bool) -> Iterator[tuple[_Window, int]]:
        """Take out each window that is complete, or with ``at_once`` closed, and give it with its step."""
        for number in sorted(self.open):
            window = self.open[number]
            if window.step is None or not (window.complete or at_once):
                return
            del self.open[number]
            self.emitted = number
            yield window, window.step


class ScalarsSink:
    """Writes the mean of each tag in a window, in ms; the steps of a tag come in order.

    A record counts if its status is ok and its duration is known; a tag without any has no scalar.
    What a writer raises is logged once for it, and the others are served. Writers are never closed.

    Attributes:
        taken: records averaged so far, those that close windows not counted.
        progress: scalars written so far; a logger that is closed waits for a sink that gets on.

    Args:
        writers: where the scalars go.
        tag: the tag of a record.
    """

    def __init__(self, writers: Sequence[ScalarWriter], tag: Callable[[Record], str]) -> None:
        self.taken = 0
        self.progress = 0
        self._writers = tuple(writers)
        self._tag = tag
        self._phases: defaultdict[str, _Phase] = defaultdict(_Phase)
        self._reported: set[int] = set()

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        for raw in batch:
            self._take(Record(*raw))
        self._emit_due()

    def sync(self) -> None:
        pass

    def close(self) -> None:
        """Emit what is closed; a window that is open was never due."""
        self._emit_due(at_once=True)

    def _take(self, record: Record) -> None:
        if record.metadata is None:
            return
        phase, number = self._phases[record.phase], record.metadata["window"]
        in_time = number > phase.emitted  # else another thread recorded it while the window was being closed
        window = phase.window(number)
        if record.operation != CLOSE_WINDOW:
            self.taken += 1
            window.arrived += in_time
            if record.status == OK and record.end_ns is not None:
                window.add(self._tag(record), record.end_ns - record.start_ns)
        elif in_time:
            window.records, window.step = record.metadata["records"], record.metadata["step"]

    def _emit_due(self, *, at_once: bool = False) -> None:
        for phase in self._phases.values():
            for window, step in phase.due(at_once=at_once):
                self._emit(window, step)

    def _emit(self, window: _Window, step: int) -> None:
        for tag, (sum_ns, count) in window.sums.items():
            for writer in self._writers:
                try:
                    writer.add_scalar(tag, sum_ns / count / NS_PER_MS, step)
                except BaseException as error:  # SystemExit, too: on this thread it could end nothing
                    self._report(writer, error)
                self.progress += 1

    def _report(self, writer: ScalarWriter, error: BaseException) -> None:
        if id(writer) not in self._reported:
            self._reported.add(id(writer))
            log.warning("timing logger: %s took no scalar: %r", type(writer).__name__, error)
