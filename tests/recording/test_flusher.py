"""The flush thread's work, done by the test itself: no thread is started, and time goes on when told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from limits import LIMIT_S
from misbehaving_sinks import FullDiskSink
from scripted_device import ScriptedAccelerator

from timing_logger.recording import flusher as flusher_module
from timing_logger.recording.clock import WallClock
from timing_logger.recording.cores.channel import Channel, ChannelCounts
from timing_logger.recording.device.devices import when_events_are_low
from timing_logger.recording.device.intervals import open_interval
from timing_logger.recording.flusher import CLOSE_GRACE_S, Flusher
from timing_logger.recording.sidecar_writer import Account
from timing_logger.schema.defaults import RECORD_LATE_S
from timing_logger.schema.record import START, RawRecord, Record
from timing_logger.schema.sidecar import Counters
from timing_logger.sinks.csv import CsvSink
from timing_logger.sinks.memory import MemorySink


def record(layer: str = "a", start_ns: int = 0, end_ns: int | None = 1) -> RawRecord:
    return tuple(
        Record(0, 0, layer, "A", "", None, start_ns, end_ns, "host", "", None, None, None, "main", "ok")
    )


class RingChannel(Channel):
    """One that is backed by a file, as the native core's may be."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.released: list[int] = []
        self.unreadable = 0
        self.has_file = True

    def release(self) -> None:
        self.released.append(len(self))

    def remove_file(self) -> None:
        self.has_file = False

    def counts(self) -> ChannelCounts:
        return super().counts()._replace(unreadable=self.unreadable)


class Sidecar:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.refreshed: list[Account] = []
        self.closed: list[tuple[Counters, float]] = []
        self.told: list[tuple[str, float]] = []

    def refresh(self, account: Account) -> None:
        self.refreshed.append(account)

    def close(self, account: Account, *, timeout_s: float) -> None:
        self.closed.append((account.counters, timeout_s))

    def tell(self, account: Account, *, timeout_s: float) -> None:
        self.told.append((account.last_error, timeout_s))


class Watch:
    """Finds nothing that hangs; ``trouble`` is raised if it is told."""

    def __init__(self) -> None:
        self.looks: list[int] = []
        self.trouble: BaseException | None = None

    def look(self, held_back: object, accepted: int) -> None:
        self.looks.append(accepted)
        if self.trouble is not None:
            raise self.trouble

    def standing(self) -> str:
        return "standing"


class Time:
    """Stands still, but for what waits: each wait ends ``late_s`` after it should."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.late_s = 0.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def thread_time_ns(self) -> int:
        return 0

    def sleep(self, pause_s: float) -> None:
        self.take(pause_s, in_vain=False)

    def take(self, pause_s: float, *, in_vain: bool = True) -> Any:
        """Stands for a mailbox into which nothing comes."""
        self.waits.append(round(pause_s, 6))
        self.now_s += pause_s + self.late_s
        if in_vain:
            raise TimeoutError

    def put(self, item: object) -> None:
        """Nobody takes it."""


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What a flusher is made of, without a thread."""
    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
    return SimpleNamespace(channel=RingChannel(8), sidecar=Sidecar(), watch=Watch())


@pytest.fixture
def time(parts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Time:
    """The time of a flusher whose thread seems to live, and never answers."""
    time = Time()
    monkeypatch.setattr(flusher_module, "time", time)
    monkeypatch.setattr(flusher_module, "Mailbox", lambda: time)
    monkeypatch.setattr(threading.Thread, "is_alive", lambda thread: True)
    return time


def new(parts: SimpleNamespace, *sinks: Any, fsync: bool = False, **options: Any) -> Flusher:
    return Flusher(
        parts.channel, sinks or (MemorySink(),), options.get("sidecar", parts.sidecar), WallClock(),
        parts.watch, interval_s=1.0, device_timeout_s=options.get("device_timeout_s", 3.0), fsync=fsync,
    )  # fmt: skip


def layers(sink: MemorySink) -> list[str]:
    return [record.layer_name for record in sink.records]


# -- counting --------------------------------------------------------------------------------------------


def test_each_record_is_pending_then_written_or_dropped(parts: SimpleNamespace) -> None:
    flusher = new(parts)
    for _ in range(10):
        parts.channel.put(record())
    assert flusher.counters == Counters(accepted=10, written=0, dropped=2, pending=8)
    assert flusher.flush(1)
    assert flusher.counters == Counters(accepted=10, written=8, dropped=2, pending=0)


def test_what_was_damaged_in_memory_counts_as_dropped_and_is_told(
    parts: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    flusher = new(parts)
    parts.channel.put(record())
    parts.channel.unreadable = 1
    assert flusher.counters == Counters(accepted=1, written=0, dropped=1, pending=0)
    flusher.flush(1)
    assert "records were damaged in memory and are dropped: 1 so far" in caplog.text


class LossySink(MemorySink):
    """Finds, when it is looked after, that a row of it is gone."""

    lost = 0

    def look_after(self) -> list[str]:
        self.lost += 1
        return []


def test_rows_that_are_found_to_be_gone_count_as_dropped_and_the_flush_as_failed(
    parts: SimpleNamespace,
) -> None:
    flusher = new(parts, LossySink())
    parts.channel.put(record())
    assert not flusher.flush(1)
    assert flusher.counters == Counters(accepted=1, written=0, dropped=1, pending=0)


# -- draining --------------------------------------------------------------------------------------------


class Batches(MemorySink):
    """Remembers how many records came at once, and which were put while it wrote."""

    def __init__(self, also: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self._also = also

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        self._also()
        self.sizes.append(len(batch))
        super().write(batch, wall_offset_ns)


def test_records_are_handed_over_1024_at_a_time_and_their_room_is_free_after_each_batch(
    parts: SimpleNamespace,
) -> None:
    parts.channel = RingChannel(3000)
    sink = Batches()
    flusher = new(parts, sink)
    for _ in range(2049):
        parts.channel.put(record())
    assert flusher.flush(1)
    assert sink.sizes == [1024, 1024, 1]
    assert parts.channel.released == [1025, 1, 0]
    assert len(parts.sidecar.refreshed) == 4, "after each, and at the end"


def test_a_drain_writes_what_waited_when_it_began_and_leaves_what_came_meanwhile(
    parts: SimpleNamespace,
) -> None:
    sink = Batches(lambda: parts.channel.put(record("late")))
    flusher = new(parts, sink)
    parts.channel.put(record())
    assert flusher.flush(1)
    assert sink.sizes == [1]
    assert len(parts.channel) == 1


def test_what_a_sink_cannot_take_keeps_its_room_and_is_offered_first_at_the_next_drain(
    parts: SimpleNamespace,
) -> None:
    sink = FullDiskSink()
    flusher = new(parts, sink)
    parts.channel.put(record("a"))
    assert not flusher.flush(1)
    assert parts.channel.released == []
    parts.channel.put(record("b"))
    assert not flusher.flush(1)
    assert len(parts.channel) == 1, "no more is taken meanwhile"
    sink.full = False
    assert flusher.flush(1)
    assert layers(sink) == ["a", "b"]


@pytest.mark.parametrize("fsync", [False, True])
def test_the_sinks_are_synced_at_each_drain_if_that_is_asked_for(parts: SimpleNamespace, fsync: bool) -> None:
    sink = FullDiskSink()
    sink.full = False
    flusher = new(parts, sink, fsync=fsync)
    parts.channel.put(record())
    assert flusher.flush(1)
    assert sink.syncs == fsync


class Unsafe(MemorySink):
    def sync(self) -> None:
        raise OSError(5, "Input/output error")


def test_a_flush_that_is_not_safe_is_not_done(parts: SimpleNamespace) -> None:
    flusher = new(parts, Unsafe(), fsync=True)
    parts.channel.put(record())
    assert not flusher.flush(1)


def test_hangs_are_looked_for_at_each_drain_and_an_error_of_that_keeps_no_row_from_the_file(
    parts: SimpleNamespace,
) -> None:
    sink = MemorySink()
    flusher = new(parts, sink)
    parts.channel.put(record())
    parts.watch.trouble = ZeroDivisionError("mine")
    assert flusher.flush(1)
    assert (parts.watch.looks, layers(sink)) == ([1], ["a"])
    assert parts.sidecar.refreshed[-1].last_error == "look_for_hangs failed: ZeroDivisionError('mine')"


class FastChannel(RingChannel):
    """One whose records can be written without the interpreter; ``catch_up`` tells how many were."""

    def __init__(self, capacity: int, written: int) -> None:
        super().__init__(capacity)
        self.catch_ups: list[int] = []
        self._written = written

    def catch_up(self, channel: Channel) -> tuple[int, float]:
        self.catch_ups.append(len(channel))
        channel.take(self._written)
        return self._written, 0.25

    def write_oldest(self) -> None:
        """Called by the file, for which ``catch_up`` stands."""

    def take_packed(self, limit: int) -> list[RawRecord]:
        return self.take(limit)


@pytest.mark.parametrize(
    ("waiting", "written", "catch_ups"),
    [(80, 78, []), (81, 81, [81]), (200, 100, [200, 100]), (81, 0, [81])],
)
def test_more_records_than_are_taken_at_once_are_written_without_the_interpreter(
    parts: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    waiting: int, written: int, catch_ups: list[int],
) -> None:  # fmt: skip
    monkeypatch.setattr(flusher_module, "MOST_AT_ONCE", 80)
    parts.channel = FastChannel(300, written)
    file = CsvSink(tmp_path, 0)
    flusher = new(parts, file)
    monkeypatch.setattr(flusher._delivery, "catch_up", parts.channel.catch_up)
    for _ in range(waiting):
        parts.channel.put(record())
    assert flusher._drain()
    assert (parts.channel.catch_ups, len(parts.channel)) == (catch_ups, 0)
    file.close()


def test_a_further_sink_gets_what_is_taken_and_nothing_is_written_past_it(
    parts: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flusher_module, "MOST_AT_ONCE", 80)
    parts.channel = FastChannel(3000, 1000)
    sink, file = Batches(), CsvSink(tmp_path, 0)
    flusher = new(parts, file, sink)
    for _ in range(1025):
        parts.channel.put(record())
    assert flusher.flush(1)
    assert sink.sizes == [1024, 1]
    file.close()


# -- who serves, and who waits ---------------------------------------------------------------------------


def test_where_no_thread_can_live_the_caller_drains_in_its_place_and_says_so(
    parts: SimpleNamespace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    flusher = new(parts)
    parts.channel.put(record())
    dead = flusher._thread

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    assert flusher.flush(1)
    assert flusher._thread is not dead
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert flusher.flush(1)
    assert caplog.messages == ["timing logger: the flush thread had died and was started again"]


def test_the_thread_drains_for_whoever_asks_it() -> None:
    threads: list[str] = []
    parts = SimpleNamespace(channel=RingChannel(8), sidecar=Sidecar(), watch=Watch())
    flusher = new(parts, Batches(lambda: threads.append(threading.current_thread().name)))
    parts.channel.put(record())
    assert flusher.flush(LIMIT_S)
    assert threads == ["timing-logger-flush"]
    assert flusher.close()


def test_a_caller_waits_no_longer_than_told_for_another_one_that_drains(parts: SimpleNamespace) -> None:
    flusher = new(parts)
    parts.channel.put(record())
    with flusher._io_lock:
        assert not flusher.flush(0)
    assert flusher.counters.pending == 1
    assert flusher.flush(0)


def test_a_sink_that_flushes_does_not_wait_for_itself(parts: SimpleNamespace) -> None:
    flusher = new(parts)
    flusher._thread = threading.current_thread()
    parts.channel.put(record())
    assert not flusher.flush(1)
    with pytest.raises(TimeoutError):
        flusher._requests.take(0)


def test_an_answer_is_waited_for_as_long_as_told_with_looks_whether_the_thread_lives(
    parts: SimpleNamespace, time: Time
) -> None:
    assert not new(parts).flush(0.5)
    assert time.waits == [0.01, 0.2, 0.2, 0.09, 0]


def test_where_waits_end_late_the_last_one_is_shorter_by_that(parts: SimpleNamespace, time: Time) -> None:
    time.late_s = 0.06
    assert not new(parts).flush(0.5)
    # 0.07 are over, 0.33, and then 0.17 are left, of which 0.06 are for the delay
    assert time.waits == [0.01, 0.2, 0.11, 0]
    time.waits, time.late_s = [], 0.04
    assert not new(parts).flush(0.5)
    assert time.waits == [0.01, 0.2, 0.2, 0]


def test_the_next_drain_is_half_an_interval_away_and_hangs_are_looked_for_meanwhile(
    parts: SimpleNamespace, time: Time
) -> None:
    flusher = new(parts)
    assert flusher._next_request() is None
    assert time.waits == [0.25, 0.25]
    assert (parts.watch.looks, len(parts.sidecar.refreshed)) == ([0], 1)


def test_a_wait_that_ended_late_is_told_as_the_reason_of_lateness(parts: SimpleNamespace, time: Time) -> None:
    flusher = new(parts)
    time.late_s = 0.3
    flusher._next_request()
    assert "waited more than 0.2 s at a time" in flusher._starved()


def test_more_than_a_quarter_of_the_room_is_drained_at_once(parts: SimpleNamespace, time: Time) -> None:
    flusher = new(parts, FullDiskSink())
    for _ in range(2):
        parts.channel.put(record())
    assert not flusher._fills_fast()
    parts.channel.put(record())
    assert flusher._next_request() is None
    assert time.waits == [0]
    flusher._drain()
    for _ in range(8):
        parts.channel.put(record())
    assert not flusher._fills_fast(), "what was taken cannot be written"


def test_whoever_hurries_asks_for_a_drain_and_no_answer(parts: SimpleNamespace) -> None:
    flusher = new(parts)
    flusher.hurry()
    assert flusher._next_request() is None
    assert parts.watch.looks == []


def test_few_events_left_hurry_it_as_long_as_it_is_open(parts: SimpleNamespace) -> None:
    flusher = new(parts)
    assert flusher.hurry in when_events_are_low
    flusher.close()
    assert flusher.hurry not in when_events_are_low


def test_its_processor_time_is_added_up(
    parts: SimpleNamespace, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    instants_ns = iter([10, 13, 20, 25])
    monkeypatch.setattr(time, "thread_time_ns", lambda: next(instants_ns))
    flusher = new(parts)
    served: list[float] = []

    def serve(request: object, *, timeout_s: float) -> bool:
        served.append(timeout_s)
        flusher.closed = len(served) == 2
        return True

    monkeypatch.setattr(flusher, "_serve", serve)
    flusher._run()
    assert (served, flusher._cpu_ns) == ([-1, -1], 8)
    assert flusher._account().logger_cpu_ns == 8


# -- the end ---------------------------------------------------------------------------------------------


def test_close_writes_what_waits_states_it_and_removes_the_ring(parts: SimpleNamespace) -> None:
    sink = MemorySink()
    flusher = new(parts, sink)
    parts.channel.put(record())
    assert flusher.close()
    parts.channel.put(record())
    assert (layers(sink), flusher.closed) == (["a"], True)
    assert parts.sidecar.closed == [(Counters(1, 1, 0, 0), 1.0)]
    assert not parts.channel.has_file
    assert flusher.close()
    assert flusher.flush(0)
    assert flusher.counters.dropped == 1


def test_what_cannot_be_written_at_the_end_is_dropped_and_left_in_the_ring(parts: SimpleNamespace) -> None:
    other = MemorySink()
    flusher = new(parts, FullDiskSink(), other, sidecar=None)
    parts.channel.put(record("a"))
    flusher.flush(0)
    parts.channel.put(record("b"))
    assert flusher.close()
    assert flusher.counters == Counters(accepted=2, written=0, dropped=2, pending=0)
    assert layers(other) == ["a", "b"]
    assert parts.channel.has_file


def test_a_record_that_comes_while_it_closes_stays_in_the_ring_and_is_told(
    parts: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    flusher = new(parts, Batches(lambda: parts.channel.queue.append(record("late"))))
    parts.channel.put(record())
    assert flusher.close()
    assert parts.channel.has_file
    assert "1 records were not written: threads still put records while the logger closed" in caplog.text


def test_two_that_close_at_once_close_once(parts: SimpleNamespace) -> None:
    flusher = new(parts)
    flusher.close()
    request = flusher_module._Request(flusher_module.Mailbox(), True, 0)
    assert flusher._serve(request, timeout_s=0)
    assert request.answer.take(0)
    assert len(parts.sidecar.closed) == 1


def test_close_gives_up_where_nothing_gets_on_and_does_so_once(
    parts: SimpleNamespace, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    flusher = new(parts)
    parts.channel.put(record())
    assert not flusher.close()
    assert time.now_s == pytest.approx(1000 + CLOSE_GRACE_S)
    said = "gave up closing: 1 records were not written"
    assert parts.sidecar.told == [(said, 0.3)]
    assert caplog.messages == ["timing logger: gave up closing; 1 records were not written"]
    assert not flusher.close()
    assert time.now_s == pytest.approx(1000 + CLOSE_GRACE_S)
    flusher._drain()  # it has got on
    assert not flusher.close()
    assert time.now_s == pytest.approx(1000 + 2 * CLOSE_GRACE_S)


def test_close_waits_for_devices_on_top_of_that(parts: SimpleNamespace, time: Time) -> None:
    flusher = new(parts, device_timeout_s=3.0)
    flusher._device_rows._waiting[0] = record()
    assert not flusher.close()
    assert time.now_s == pytest.approx(1000 + CLOSE_GRACE_S + 3.0)


def test_what_waited_for_a_device_is_handed_over_by_the_drain_that_finds_it_done(
    parts: SimpleNamespace, scripted_device: ScriptedAccelerator
) -> None:
    sink = MemorySink()
    flusher = new(parts, sink)
    scripted_device.busy = True
    interval: Any = open_interval()
    interval.end()
    parts.channel.put((*record()[:START], interval, interval, *record()[START + 2 :]))
    flusher._drain()
    assert (sink.records, flusher.counters.pending) == ([], 1)
    scripted_device.get_on()
    flusher._drain()
    (row,) = sink.records
    assert row.end_ns is not None
    assert row.end_ns - row.start_ns == scripted_device.work_ns


def test_a_forked_child_is_done_with_it(parts: SimpleNamespace) -> None:
    flusher = new(parts, FullDiskSink())
    parts.channel.put(record())
    flusher.flush(0)
    flusher.abandon()
    assert flusher.closed
    assert flusher._delivery.is_done


# -- what is told ----------------------------------------------------------------------------------------


def test_each_kind_of_trouble_is_logged_once_and_the_latest_stated(
    parts: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    flusher = new(parts)
    for message in ("the disk is full: 1", "the disk is full: 2"):
        flusher._report(message)
    assert caplog.messages == ["timing logger: the disk is full: 1"]
    assert flusher._account().last_error == "the disk is full: 2"


@pytest.mark.parametrize(
    ("waited_s", "step"), [(0.1, ""), (0.11, "0.1 s"), (0.2, "0.1 s"), (0.9, "0.5 s"), (31, "30 s")]
)
def test_how_long_it_was_kept_from_writing_is_told_in_steps(
    parts: SimpleNamespace, waited_s: float, step: str
) -> None:
    flusher = new(parts)
    flusher._note_wait(waited_s)
    flusher._note_wait(0)
    said = f"the thread that writes them waited more than {step} at a time"
    assert flusher._starved().startswith(said) if step else flusher._starved() == ""
    flusher._drain()
    assert flusher._starved() == ""


@pytest.mark.parametrize("waited_s", [0.0, 3.0])
def test_dropped_records_are_told_with_the_reason_why_nobody_took_them(
    parts: SimpleNamespace, caplog: pytest.LogCaptureFixture, waited_s: float
) -> None:
    flusher = new(parts)
    flusher._refresh_sidecar()
    assert caplog.messages == []
    for _ in range(9):
        parts.channel.put(record())
    flusher._note_wait(waited_s)
    flusher._refresh_sidecar()
    (said,) = caplog.messages
    assert "records were dropped; stats and the sidecar count them" in said
    assert ("waited more than 2 s" in said) == bool(waited_s)


S = 10**9


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 100 s after the boot, for whoever asks how old a record is."""
    monkeypatch.setattr(flusher_module, "perf_counter_ns", lambda: 100 * S)


@pytest.mark.parametrize(
    ("waiting", "caught_up_s", "behind_s"),
    [
        (None, 90, 0.0),
        (record(end_ns=95 * S), 90, 5.0),
        (record(end_ns=85 * S), 90, 10.0),
        (record(end_ns=105 * S), 90, 0.0),
        (record(end_ns=None), 93, 7.0),
        (record()[:3], 90, 0.0),
    ],
    ids=["none", "since its end", "the earlier ones are written", "in the future", "no end", "too short"],
)
def test_it_is_behind_by_the_age_of_the_oldest_record(
    parts: SimpleNamespace, now: None, waiting: RawRecord | None, caught_up_s: int, behind_s: float
) -> None:
    flusher = new(parts)
    flusher._caught_up_ns = caught_up_s * S
    if waiting is not None:
        parts.channel.put(waiting)
        parts.channel.put(record(end_ns=99 * S))
    assert flusher._account().behind_s == behind_s


def test_what_a_sink_keeps_is_older_than_what_waits(parts: SimpleNamespace, now: None) -> None:
    flusher = new(parts, FullDiskSink())
    flusher._caught_up_ns = 0
    parts.channel.put(record(end_ns=95 * S))
    flusher._drain()
    parts.channel.put(record(end_ns=99 * S))
    assert flusher._account().behind_s == 5.0


@pytest.mark.parametrize(
    ("late_s", "waited_s", "said"),
    [
        (1 + RECORD_LATE_S, 0, None),
        (1.001 + RECORD_LATE_S, 0, "they come faster than they can be written, or the disk is slow"),
        (1.001 + RECORD_LATE_S, 1.5, "the thread that writes them waited more than 1 s"),
    ],
)
def test_records_are_late_a_quarter_of_a_second_after_the_interval(
    parts: SimpleNamespace, now: None, caplog: pytest.LogCaptureFixture,
    late_s: float, waited_s: float, said: str | None,
) -> None:  # fmt: skip
    flusher = new(parts)
    flusher._caught_up_ns = 0
    parts.channel.put(record(end_ns=100 * S - int(late_s * S)))
    flusher._note_wait(waited_s)
    flusher._refresh_sidecar()
    assert [message.startswith(f"timing logger: records are written late: {said}")
            for message in caplog.messages] == ([] if said is None else [True])  # fmt: skip


def test_the_sidecar_is_told_nothing_once_it_is_closed(parts: SimpleNamespace) -> None:
    flusher = new(parts)
    flusher.close()
    told = len(parts.sidecar.refreshed)
    flusher._refresh_sidecar()
    assert len(parts.sidecar.refreshed) == told


def test_the_account_has_what_became_of_each_further_sink_and_of_the_process(parts: SimpleNamespace) -> None:
    flusher = new(parts, MemorySink(), MemorySink())
    parts.channel.put(record())
    flusher.flush(1)
    account = flusher._account()
    assert account.counters == Counters(1, 1, 0, 0)
    assert [tuple(sink) for sink in account.sinks] == [("MemorySink 2", 1, 0, 0)]
    assert account.standing == "standing"  # type: ignore[comparison-overlap]


def test_it_is_late_after_a_quarter_and_gives_up_after_one_and_a_half_seconds() -> None:
    assert (RECORD_LATE_S, CLOSE_GRACE_S) == (0.25, 1.5)
