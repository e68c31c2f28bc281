"""What the flush thread hands to the sinks, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from timing_logger.record import NS_PER_S, RawRecord
from timing_logger.recording.clock import WallClock, perf_counter_ns
from timing_logger.recording.cores.channel import Channel
from timing_logger.sinks import PartlyWritten, Sink
from timing_logger.sinks.csv import CsvSink

_CATCH_UP_NS = 250_000_000  # for which records are written before any Python code runs again


class Delivery:
    """Hands records to the sinks, and counts them; only the flush thread uses it.

    Attributes:
        written: how many records the first sink took.
        failed: how many can never be written.
        lost: how many of those that were written somebody removed from the file.
        file: the timing file, if it is the only sink; else None.

    Args:
        sinks: the first one decides what counts as written. The others get every batch that it took, and
            their errors are only reported.
        clock: maps instants to wall time, for the sinks.
        report: is told of trouble.
    """

    def __init__(self, sinks: Sequence[Sink], clock: WallClock, report: Callable[[str], None]) -> None:
        self._sink, *self._others = sinks
        self._clock = clock
        self._report = report
        self.written = self.failed = self.lost = 0
        self.file = self._sink if isinstance(self._sink, CsvSink) and not self._others else None

    @property
    def progress(self) -> tuple[int, ...]:
        """Numbers of which one changes as long as records are taken."""
        within_batch = getattr(self._sink, "progress", 0)
        return self.written, self.failed, within_batch

    def hand_over(self, batch: Sequence[RawRecord]) -> Sequence[RawRecord]:
        """Write ``batch`` and return the records that the sink could not take, to be offered again."""
        try:
            self._sink.write(batch, self._clock.wall_offset_ns())
        except OSError as error:
            self._report(f"writing failed, will be tried again: {error!r}")
            taken = error.records if isinstance(error, PartlyWritten) else 0
            self._note_written(batch[:taken])
            return batch[taken:]
        except Exception as error:
            self._report(f"a record could not be written and was dropped: {error!r}")
            if len(batch) > 1:  # write each on its own, so that only the faulty one is lost
                return [kept for record in batch for kept in self.hand_over([record])]
            self.failed += 1
            return []
        self._note_written(batch)
        return []

    def _note_written(self, batch: Sequence[RawRecord]) -> None:
        """Count the records that the first sink took, and hand them to the other sinks."""
        self.written += len(batch)
        for sink in self._others if batch else ():
            try:
                sink.write(batch, self._clock.wall_offset_ns())
            except Exception as error:
                self._report(f"{type(sink).__name__} refused records: {error!r}")

    def catch_up(self, channel: Channel) -> tuple[int, float]:
        """Write many of the records that wait in ``channel`` into the file, without the interpreter.

        What prevents it, such as a full disk, will be found again when a batch is written as usual.

        Returns:
            How many were written, perhaps none, and for how many seconds the thread then waited for the
            interpreter.
        """
        if self.file is None:
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
        self.written += written
        return written, waited_s

    def sync(self) -> None:
        """Have the first sink make what it took safe from a crash of the machine."""
        self._sink.sync()

    def look_after(self) -> None:
        """Count and report rows that were removed from a sink's file from outside."""
        for sink in (self._sink, *self._others):
            look_after = getattr(sink, "look_after", None)
            for found in look_after() if look_after else ():
                self._report(found)
        self.lost = getattr(self._sink, "lost", 0)

    def close(self) -> None:
        """Close the sinks; their errors are only reported."""
        for sink in (self._sink, *self._others):
            try:
                sink.close()
            except Exception as error:
                self._report(f"{type(sink).__name__} could not be closed: {error!r}")
