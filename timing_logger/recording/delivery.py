"""What the flush thread hands to the sinks, and what became of it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from timing_logger.recording.clock import WallClock, perf_counter_ns
from timing_logger.recording.cores.channel import Channel
from timing_logger.schema.record import NS_PER_S, RawRecord
from timing_logger.schema.sidecar import SinkCounters
from timing_logger.sinks import PartlyWritten, Sink
from timing_logger.sinks.csv import CsvSink

_CATCH_UP_NS = 250_000_000  # for which records are written before any Python code runs again

Report = Callable[[str], None]


class Destination:
    """One sink, the records that wait for it, and how many it took; the same for the first and any other.

    Attributes:
        sink: the sink.
        name: its type, and a number if others of ``options.sinks`` have that type.
        written: how many records it took.
        failed: how many it can never take, or did not take before there was no more room for them.
        lost: how many of those that it took somebody removed from outside.
        waiting: the batches that it has not taken so far.

    Args:
        most: how many records are kept while it cannot take any; None for no limit.
    """

    def __init__(self, sink: Sink, name: str, clock: WallClock, report: Report, most: int | None) -> None:
        self.sink, self.name = sink, name
        self.written = self.failed = self.lost = 0
        self.waiting: deque[Sequence[RawRecord]] = deque()
        self._clock = clock
        self._report = report
        self._most = most
        self._is_unable = False  # to take records for now
        self._is_unsynced = False

    @property
    def pending(self) -> int:
        """How many records wait."""
        return sum(map(len, list(self.waiting)))

    @property
    def progress(self) -> tuple[int, ...]:
        """Numbers of which one changes as long as records are taken."""
        return self.written, self.failed, getattr(self.sink, "progress", 0)

    def queue(self, batch: Sequence[RawRecord]) -> None:
        """Put records behind those that wait. The newest count as failed if there is no room for them."""
        room = len(batch)
        if self.waiting and self._most is not None:
            room = max(0, min(room, self._most - self.pending))
        if room:
            self.waiting.append(batch[:room])
        if room < len(batch):
            self.failed += len(batch) - room
            self._report(f"{self.name} takes too few records, and lacks those for which there is no room")

    def offer(self, *, again: bool = False) -> None:
        """Write what waits, until the sink cannot take it; after that only if it is to be tried ``again``."""
        self._is_unable = self._is_unable and not again
        while self.waiting and not self._is_unable:
            waiting = self.waiting  # a child that the sink forks gets another, which is empty
            if rest := self._rest_of(waiting[0]):
                waiting[0] = rest
            else:
                waiting.popleft()

    def _rest_of(self, batch: Sequence[RawRecord]) -> Sequence[RawRecord]:
        """Write a batch and return the records that are to be offered again."""
        try:
            self.sink.write(batch, self._clock.wall_offset_ns())
        except OSError as error:
            self._is_unable = True
            self._report(f"writing to {self.name} failed, will be tried again: {error!r}")
            taken = error.records if isinstance(error, PartlyWritten) else 0
            self.note_written(taken)
            return batch[taken:]
        except (Exception, SystemExit) as error:  # the latter cannot end a process from here
            if len(batch) > 1:
                return self._rest_of_each(batch)
            self.failed += 1
            self._report(f"a record could not be written, and {self.name} lacks it: {error!r}")
            return []
        self.note_written(len(batch))
        return []

    def _rest_of_each(self, batch: Sequence[RawRecord]) -> Sequence[RawRecord]:
        """Write each record on its own, so that only the faulty one is lost."""
        for at, record in enumerate(batch):
            if self._rest_of([record]):
                return batch[at:]
        return []

    def note_written(self, n_records: int) -> None:
        """Count records that the sink took."""
        self.written += n_records
        self._is_unsynced = self._is_unsynced or n_records > 0

    def sync(self) -> bool:
        """Have the sink make what it took safe from a crash of the machine; tell whether it is."""
        if self._is_unsynced and self._succeeds("sync"):
            self._is_unsynced = False
        return not self._is_unsynced

    def look_after(self) -> None:
        """Count and report records that were removed from outside."""
        self._succeeds("look_after", lambda found: [self._report(message) for message in found])
        self.lost = getattr(self.sink, "lost", 0)

    def give_up(self) -> int:
        """Count what waits as failed, and return how many records these are."""
        left = self.pending
        self.failed += left
        self.waiting.clear()
        if left:
            self._report(
                f"{self.name} closed without {left} records: they could not be written, and are lost"
            )
        return left

    def close(self) -> None:
        """Close the sink; an error is only reported."""
        self._succeeds("close")

    def _succeeds(self, method: str, then: Callable[[Any], object] = lambda returned: None) -> bool:
        """Call a method of the sink, if it has it; tell whether no error came, which is reported."""
        try:
            if call := getattr(self.sink, method, None):
                then(call())
        except (Exception, SystemExit) as error:
            self._report(f"{method} of {self.name} failed: {error!r}")
            return False
        return True

    def counters(self) -> SinkCounters:
        """Return what became of the records."""
        return SinkCounters(self.name, self.written - self.lost, self.failed + self.lost, self.pending)


class Delivery:
    """Hands every record to every sink; only the flush thread uses it.

    Attributes:
        first: what becomes of the records in the first sink.
        file: the timing file, if it is the only sink; else None.

    Args:
        sinks: the first one decides what counts as written, and no more records are taken from the queue
            while it cannot take those that were. For each of the others as many are kept as fit the queue.
        clock: maps instants to wall time, for the sinks.
        report: is told of trouble.
        most: how many records the queue holds.
    """

    def __init__(self, sinks: Sequence[Sink], clock: WallClock, report: Report, most: int) -> None:
        names = _names(sinks)
        self.first = Destination(sinks[0], names[0], clock, report, None)
        others = zip(sinks[1:], names[1:], strict=True)
        self._others = [Destination(sink, name, clock, report, most) for sink, name in others]
        self._all = [self.first, *self._others]
        self._clock = clock
        self.file = sinks[0] if isinstance(sinks[0], CsvSink) and not self._others else None

    @property
    def lost_by_all(self) -> int:
        """How many records that sinks took somebody removed, of all sinks together."""
        return sum(one.lost for one in self._all)

    @property
    def progress(self) -> tuple[int, ...]:
        """Numbers of which one changes as long as records are taken."""
        return tuple(number for one in self._all for number in one.progress)

    @property
    def in_hand(self) -> Sequence[RawRecord]:
        """The oldest records that the first sink could not take so far; empty if there are none."""
        return next(iter(self.first.waiting), ())

    @property
    def is_done(self) -> bool:
        """Whether no sink lacks a record that it may still take."""
        return not any(one.waiting for one in self._all)

    def hand_over(self, batch: Sequence[RawRecord]) -> None:
        """Offer new records to every sink. What one cannot take for now is kept for it."""
        if batch:
            for one in self._all:  # before any is offered: none lacks them if a sink ends or forks the thread
                one.queue(batch)
            for one in self._all:
                one.offer()

    def offer_again(self) -> None:
        """Offer the records that are kept."""
        for one in self._all:
            one.offer(again=True)

    def catch_up(self, channel: Channel) -> tuple[int, float]:
        """Write many of the records that wait in ``channel`` into the file, without the interpreter.

        What prevents it, such as a full disk, will be found again when a batch is written as usual.

        Returns:
            How many were written, perhaps none, and for how many seconds the thread then waited for the
            interpreter.
        """
        if self.file is None or not hasattr(channel, "write_oldest"):
            return 0, 0.0
        done_ns = perf_counter_ns()

        def write(descriptor: int, device: int, inode: int, n_bytes: int) -> tuple[int, int, bool]:
            nonlocal done_ns
            records, n_bytes, is_torn, done_ns = channel.write_oldest(
                self._clock.wall_offset_ns(), _CATCH_UP_NS, descriptor, device, inode, n_bytes
            )
            return records, n_bytes, is_torn

        try:
            written = self.file.append_by(write)
        except OSError:
            return 0, 0.0
        waited_s = (perf_counter_ns() - done_ns) / NS_PER_S
        self.first.note_written(written)
        return written, waited_s

    def sync(self) -> bool:
        """Have all sinks make what they took safe from a crash of the machine; tell whether all did."""
        synced = [one.sync() for one in self._all]
        return all(synced)

    def look_after(self) -> None:
        """Count and report rows that were removed from a sink's file from outside."""
        for one in self._all:
            one.look_after()

    def give_up(self) -> int:
        """Count the records that are kept as failed; return how many these are of the first sink."""
        of_first, *_ = [one.give_up() for one in self._all]
        return of_first

    def abandon(self) -> None:
        """Forget the records that are kept: in a forked child they are the parent's."""
        for one in self._all:
            one.waiting = deque()

    def close(self) -> None:
        """Close the sinks; their errors are only reported."""
        for one in self._all:
            one.close()

    def counters_of_others(self) -> list[SinkCounters]:
        """Return what became of the records in each sink but the first."""
        return [one.counters() for one in self._others]


def _names(sinks: Sequence[Sink]) -> list[str]:
    """Return how the log calls each sink: by its type, and by a number from the second of a type on."""
    seen: Counter[str] = Counter()
    names = []
    for sink in sinks:
        kind = type(sink).__name__
        seen[kind] += 1
        names.append(kind if seen[kind] == 1 else f"{kind} {seen[kind]}")
    return names
