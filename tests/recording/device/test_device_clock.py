"""Device rows: who waits (nobody), what they say, and what becomes of those that never resolve.

The device is a scripted stand-in; ``test_rows_on_async_device.py`` has what a real one shows.
"""

from __future__ import annotations

import gc
import json
import math
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conditions import wait_for
from limits import LIMIT_S
from misbehaving_sinks import FullDiskSink
from processes import run_python
from scripted_device import ScriptedAccelerator

from timing_logger import TimingLogger, read_timings
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.device import clock as clock_module
from timing_logger.recording.device import devices
from timing_logger.recording.device.clock import DeviceClock
from timing_logger.recording.device.devices import MOST_INTERVALS, device
from timing_logger.recording.device.intervals import DeviceInterval, open_interval
from timing_logger.schema.defaults import DEVICE_ANCHOR_EVERY_NS
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink


class Recording:
    """A logger in memory."""

    def __init__(self, **options: object) -> None:
        self._sink = MemorySink()
        self.logger = TimingLogger(0, None, sinks=[self._sink], **{"flush_interval": 3600.0, **options})

    @property
    def rows(self) -> list[Record]:
        assert self.logger.flush()
        return self._sink.records

    def flushed(self) -> Recording:
        assert self.logger.flush()
        return self

    @property
    def rows_so_far(self) -> list[Record]:
        self.logger.flush(timeout=0.05)
        return self._sink.records


@pytest.fixture
def recording(scripted_device: ScriptedAccelerator) -> Iterator[Recording]:
    found = Recording()
    yield found
    found.logger.close()


@pytest.fixture
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of pairs of events that a device has at most: fewer than usual."""
    monkeypatch.setattr(devices, "PAIRS_PER_DEVICE", 500)
    return 500


# -- what a row says -------------------------------------------------------------------------------


def test_the_duration_is_the_time_between_the_marks(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.busy = True
    scripted_device.work_ns = 2_345_678
    with recording.logger.record_device_operation("FORWARD", 64, "fc", "train", 3, 1):
        pass
    scripted_device.get_on()
    (row,) = recording.rows
    assert row.end_ns - row.start_ns == 2_345_678
    assert row[:6] == (3, 1, "fc", "FORWARD", "train", 64)
    assert (row.clock, row.status) == ("device", "ok")


def test_starts_stand_on_the_hosts_axis_as_exactly_as_the_anchor_says(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    """The device's own clock is five seconds ahead, and what it does begins long after the anchor."""
    scripted_device.busy = True
    scripted_device.work_ns = 300_000_000
    spans = []
    for _ in range(3):
        with recording.logger.record_device_operation("H2D") as span:
            spans.append(span)
    scripted_device.get_on()
    truth = [span.interval.start_event.at_ns - scripted_device.ahead_ns for span in spans]
    (anchor,) = clocks(recording.flushed())[0]["anchors"]
    off_by_ns = [abs(row.start_ns - start_ns) for row, start_ns in zip(recording.rows, truth, strict=True)]
    assert max(off_by_ns) <= anchor.uncertainty_ns + 1


def test_what_the_file_says_agrees_with_itself(scripted_device: ScriptedAccelerator, tmp_path: Path) -> None:
    scripted_device.work_ns = 1_234_567
    with TimingLogger(0, tmp_path) as logger:
        for _ in range(10):
            with logger.record_device_operation("H2D", 8):
                pass
    df = read_timings(tmp_path)
    assert set(df.clock) == {"device"}
    assert abs((df.end_counter - df.start_counter) * 1e3 - df.elapsed_ms).max() < 1e-6


def test_without_a_device_the_hosts_clock_serves() -> None:
    recording = Recording()
    with recording.logger.record_device_operation("H2D") as span:
        assert math.isnan(span.elapsed_ms)
    (row,) = recording.rows
    assert row.clock == "host"
    assert span.elapsed_ms == (row.end_ns - row.start_ns) / 1e6
    recording.logger.close()


def test_a_stream_that_says_no_number_is_left_blank(recording: Recording) -> None:
    with recording.logger.record_device_operation("H2D", stream="own"):
        pass
    assert [row.stream for row in recording.rows] == [""]


def test_an_exception_passes_and_its_row_says_so(recording: Recording) -> None:
    error = KeyError("x")
    with pytest.raises(KeyError) as raised, recording.logger.record_device_operation("FORWARD"):
        raise error
    assert raised.value is error
    assert [row.status for row in recording.rows] == ["error:KeyError"]


def test_a_stream_that_goes_on_while_it_is_asked_does_not_mix_up_its_rows(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.busy = True
    for operation in ("FORWARD", "BACKWARD", "OPTIMIZER"):
        with recording.logger.record_device_operation(operation):
            pass
    recording.logger._flusher._drain()  # sets an anchor
    scripted_device.gets_on_while_asked = True
    recording.logger._flusher._drain()
    assert [row.operation for row in recording.rows] == ["FORWARD", "BACKWARD", "OPTIMIZER"]


# -- who waits ---------------------------------------------------------------------------------------


def test_recording_makes_two_marks_and_asks_the_device_nothing(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.busy = True
    with recording.logger.record_device_operation("FORWARD"):
        pass
    assert scripted_device.asks == ["record", "record"]
    scripted_device.get_on()


def test_nothing_is_ever_synchronised_unless_somebody_reads(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    for _ in range(10):
        with recording.logger.record_device_operation("FORWARD") as span:
            pass
    assert len(recording.rows) == 10
    assert not [ask for ask in scripted_device.asks if ask.startswith("synchronize")]
    assert span.elapsed_ms == 1.0
    assert not [ask for ask in scripted_device.asks if ask.startswith("synchronize")]  # it was known


def test_a_stream_that_gets_on_is_never_full(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    for _ in range(3 * MOST_INTERVALS):
        with recording.logger.record_device_operation("FORWARD"):
            pass
    assert {row.status for row in recording.rows} == {"ok"}


def test_where_the_device_cannot_be_asked_no_stream_is_known_to_be_full(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.harmless = False
    for _ in range(2 * MOST_INTERVALS):
        with recording.logger.record_device_operation("FORWARD"):
            pass
    assert {row.status for row in recording.rows} == {"ok"}


# -- graph capture -----------------------------------------------------------------------------------


def test_the_device_is_asked_only_beside_captures(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    with recording.logger.record_device_operation("FORWARD"):
        pass
    assert len(recording.rows) == 1
    assert {ask for ask in scripted_device.asks[2:] if "beside captures" not in ask} == set()


def test_where_asking_could_break_a_capture_only_users_ask(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.harmless = False
    with recording.logger.record_device_operation("FORWARD") as span:
        pass
    recording.logger._flusher._drain()  # what it does every flush_interval
    assert scripted_device.asks == ["record", "record"]
    assert span.interval.elapsed_ns is None
    assert scripted_device.asks == ["record", "record"]
    assert len(recording.rows) == 1  # flush


# -- the pool ----------------------------------------------------------------------------------------


def test_the_pool_stays_constant_over_many_spans(
    few_pairs: int, scripted_device: ScriptedAccelerator
) -> None:
    recording = Recording()
    for _ in range(16):
        for _ in range(few_pairs // 4):
            with recording.logger.record_device_operation("FORWARD"):
                pass
        assert recording.logger.flush()
    assert events_of_training(scripted_device) <= 2 * few_pairs
    assert {row.status for row in recording.rows} == {"ok"}
    recording.logger.close()


def test_the_flush_thread_comes_sooner_when_events_run_low(
    few_pairs: int, recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    """Its interval is an hour."""
    for _ in range(few_pairs * 3 // 4):
        with recording.logger.record_device_operation("FORWARD"):
            pass
    wait_for(lambda: recording.logger.stats.written)


def test_events_go_back_when_nobody_holds_the_interval(
    few_pairs: int, scripted_device: ScriptedAccelerator
) -> None:
    for _ in range(10 * few_pairs):
        interval = open_interval()
        interval.end()
    assert scripted_device.made <= 4


def test_threads_that_record_at_once_share_no_event(
    recording: Recording, scripted_device: ScriptedAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[DeviceInterval] = []
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=lambda: [held.append(open_interval()) for _ in range(500)])
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval_s)
    events = [id(interval.start_event) for interval in held if not interval.lost]
    assert len(events) == len(set(events)) == 4000


# -- the end, and failures -----------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before the start", "before the end", "before it is asked"])
def test_after_a_failure_the_device_is_asked_nothing_more(
    recording: Recording, scripted_device: ScriptedAccelerator, moment: str
) -> None:
    def fail_at(now: str) -> None:
        if now == moment:
            scripted_device.fail_with = RuntimeError("CUDA error: device-side assert triggered")

    fail_at("before the start")
    with recording.logger.record_device_operation("FORWARD"):
        fail_at("before the end")
    fail_at("before it is asked")
    assert [row.status for row in recording.rows] == ["unresolved"]
    asked = len(scripted_device.asks)
    scripted_device.looks_fail_with = AssertionError("looked at after it had failed")
    with recording.logger.record_device_operation("BACKWARD") as span:
        pass
    assert [row.status for row in recording.rows] == ["unresolved", "unresolved"]
    assert math.isnan(span.elapsed_ms)
    assert len(scripted_device.asks) == asked
    assert "device-side assert" in clocks(recording)[0]["failure"]


def test_a_device_that_fails_when_it_is_looked_at_leaves_no_duration(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.looks_fail_with = RuntimeError("CUDA error: an illegal memory access was encountered")
    with recording.logger.record_device_operation("FORWARD"):
        pass
    assert [(row.status, row.clock) for row in recording.rows] == [("unresolved", "device")]


def test_a_call_that_torch_refuses_loses_its_own_row_alone(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.fail_with = RuntimeError("Both events must be recorded before calculating elapsed time.")
    with recording.logger.record_device_operation("FORWARD"):
        pass
    scripted_device.fail_with = None
    with recording.logger.record_device_operation("BACKWARD"):
        pass
    assert sorted((row.operation, row.status) for row in recording.rows) == [
        ("BACKWARD", "ok"),
        ("FORWARD", "unresolved"),
    ]


def test_a_capture_elsewhere_that_stops_the_legacy_stream_lets_the_block_pass(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.looks_fail_with = RuntimeError(
        "CUDA error: operation would make the legacy stream depend on a capturing blocking stream"
    )
    with recording.logger.record_device_operation("FORWARD"):
        pass
    assert recording.rows == []
    assert clocks(recording)[0]["captured"] == 1
    assert scripted_device.failed == ""


class StepTimeout(Exception):
    """A user's own, raised by a signal handler in the middle of anything."""


@pytest.mark.parametrize("moment", ["before the start", "before the end"])
def test_an_exception_of_the_users_own_is_not_swallowed(
    recording: Recording, scripted_device: ScriptedAccelerator, moment: str
) -> None:
    span = recording.logger.record_device_operation("FORWARD")
    if moment == "before the end":
        span.__enter__()
    scripted_device.fail_with = StepTimeout()
    with pytest.raises(StepTimeout):
        span.__enter__() if moment == "before the start" else span.__exit__(None, None, None)
    scripted_device.fail_with = None
    with recording.logger.record_device_operation("BACKWARD"):
        pass
    assert [(row.operation, row.status) for row in recording.rows] == [("BACKWARD", "ok")]


def test_a_block_that_ends_in_another_stream_before_it_began_has_no_duration(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.busy = True
    with recording.logger.record_device_operation("FORWARD") as span:
        span.stream = "own"  # which passes marks at once
    assert recording.rows_so_far == []  # the end has passed, the start has not
    scripted_device.get_on()
    assert [row.status for row in recording.rows] == ["unresolved"]


def test_close_by_two_threads_closes_once(scripted_device: ScriptedAccelerator) -> None:
    scripted_device.busy = True
    recording = Recording(device_timeout=3.0)
    closed = []
    recording._sink.close = lambda: closed.append(True)  # type: ignore[method-assign]
    with recording.logger.record_device_operation("FORWARD"):
        pass
    threads = [threading.Thread(target=recording.logger.close) for _ in range(2)]
    for thread in threads:
        thread.start()
    threading.Timer(0.05, scripted_device.get_on).start()
    for thread in threads:
        thread.join(timeout=LIMIT_S)
    assert closed == [True]
    assert recording.logger.stats.written == 1


def test_a_full_disk_loses_no_device_row_and_holds_no_events_for_ever(
    scripted_device: ScriptedAccelerator,
) -> None:
    sink = FullDiskSink()
    logger = TimingLogger(0, None, sinks=[sink], flush_interval=3600.0)
    for _ in range(100):
        with logger.record_device_operation("FORWARD"):
            pass
    assert not logger.flush(timeout=0.05)
    stats = logger.stats
    assert (stats.accepted, stats.written, stats.dropped, stats.pending) == (100, 0, 0, 100)
    sink.full = False
    assert logger.flush()
    assert [record.status for record in sink.records] == ["ok"] * 100
    logger.close()
    assert len(device(scripted_device, 0).pool.free) == device(scripted_device, 0).pool.made


def test_rows_that_are_lost_wait_for_nobody(
    few_pairs: int,
    recording: Recording,
    scripted_device: ScriptedAccelerator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where asking could break a capture, events come back only when a user asks."""
    monkeypatch.setattr(devices, "when_events_are_low", [])  # only this thread drains
    scripted_device.harmless = False
    for _ in range(few_pairs + 100):
        with recording.logger.record_device_operation("FORWARD"):
            pass
    recording.logger._flusher._drain()
    stats = recording.logger.stats
    assert (stats.written, stats.pending) == (100, few_pairs)
    assert len(recording.rows) == few_pairs + 100


def test_the_flush_thread_is_called_once_while_events_stay_low(
    few_pairs: int, scripted_device: ScriptedAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []
    monkeypatch.setattr(devices, "when_events_are_low", [lambda: calls.append(None)])
    held = [open_interval() for _ in range(few_pairs * 3 // 4)]
    for _ in range(few_pairs):
        open_interval()
    assert len(calls) == 1
    del held
    held = [open_interval() for _ in range(few_pairs)]
    assert len(held) == few_pairs
    assert len(calls) == 2


# -- anchors -------------------------------------------------------------------------------------------


def test_anchors_are_renewed_and_say_how_far_the_last_one_was_off(
    scripted_device: ScriptedAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = DeviceClock(device(scripted_device, 0))
    clock.renew()
    clock.renew()
    assert len(clock.info().anchors) == 1  # fresh enough
    scripted_device.ahead_ns += 40_000  # the device's clock ran away
    later_ns = 2 * DEVICE_ANCHOR_EVERY_NS
    monkeypatch.setattr(
        "timing_logger.recording.device.clock.perf_counter_ns", lambda: perf_counter_ns() + later_ns
    )
    scripted_device.ahead_ns += later_ns
    clock.renew()
    first, second = clock.info().anchors
    assert first.missed_by_ns == 0
    assert second.missed_by_ns == pytest.approx(-40_000, abs=first.uncertainty_ns + second.uncertainty_ns)
    assert clock.info().worst_miss_ns == -second.missed_by_ns


def test_an_anchor_is_as_uncertain_as_it_took_to_see_it(
    scripted_device: ScriptedAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(0, 10_000, 100))
    monkeypatch.setattr(clock_module, "perf_counter_ns", lambda: next(times))
    clock = DeviceClock(device(scripted_device, 0))
    clock.renew()
    # issued at 0, looked at from 100, seen at 200; and so on, each of the four tries
    assert [anchor.uncertainty_ns for anchor in clock.info().anchors] == [100]


def test_an_anchor_that_does_not_pass_at_once_is_looked_at_again(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.own_stream_busy = True
    with recording.logger.record_device_operation("FORWARD"):
        pass
    assert recording.rows_so_far == []
    assert len(scripted_device.own_queue) == 1
    scripted_device.pass_own()
    recording.logger._flusher._drain()
    assert [row.status for row in recording.rows] == ["ok"]


def test_a_bad_anchor_does_not_replace_a_good_one(
    scripted_device: ScriptedAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = DeviceClock(device(scripted_device, 0))
    clock.renew()
    scripted_device.own_stream_busy = True
    later_ns = DEVICE_ANCHOR_EVERY_NS
    monkeypatch.setattr(
        "timing_logger.recording.device.clock.perf_counter_ns", lambda: perf_counter_ns() + later_ns
    )
    clock.renew()
    later_ns *= 2
    scripted_device.pass_own()
    clock.renew()  # seen two seconds after it was issued
    assert len(clock.info().anchors) == 1


def test_a_known_duration_is_not_lost_for_want_of_an_anchor(scripted_device: ScriptedAccelerator) -> None:
    scripted_device.own_stream_busy = True
    recording = Recording(device_timeout=0.05)
    with recording.logger.record_device_operation("FORWARD") as span:
        pass
    recording.logger.close()
    (row,) = recording.rows
    assert (row.status, row.start_ns, row.end_ns - row.start_ns) == ("ok", span.interval.issued_ns, 1_000_000)


def test_where_torch_sets_no_anchor_durations_are_right_and_starts_are_those_of_the_issue(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.streams_fail_with = RuntimeError("no stream has this priority here")
    with recording.logger.record_device_operation("FORWARD") as span:
        pass
    (row,) = recording.rows
    assert (row.status, row.start_ns, row.end_ns - row.start_ns) == ("ok", span.interval.issued_ns, 1_000_000)
    assert "no stream has this priority" in clocks(recording)[0]["failure"]
    assert scripted_device.failed == ""


def test_an_instant_is_placed_by_the_nearest_anchor(
    scripted_device: ScriptedAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = DeviceClock(device(scripted_device, 0))
    clock.renew()
    interval = open_interval()
    interval.end()
    interval.wait()
    later_ns = 10 * DEVICE_ANCHOR_EVERY_NS
    monkeypatch.setattr(
        "timing_logger.recording.device.clock.perf_counter_ns", lambda: perf_counter_ns() + later_ns
    )
    clock.renew()
    assert len(clock.info().anchors) == 2
    clock.place(interval)
    assert clock.info().farthest_from_anchor_ns < DEVICE_ANCHOR_EVERY_NS


def test_a_stream_of_the_clock_that_somebody_captures_is_left_alone(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    """Torch has 32 streams, and gives them to everybody in turn."""
    with recording.logger.record_device_operation("FORWARD"):
        pass
    scripted_device.own_stream_captured = True
    asked = len(scripted_device.asks)
    assert recording.rows_so_far == []
    assert "record beside captures" not in scripted_device.asks[asked:]
    scripted_device.own_stream_captured = False
    assert len(recording.rows) == 1


def test_the_sidecar_tells_the_clocks_uncertainty(
    scripted_device: ScriptedAccelerator, tmp_path: Path
) -> None:
    with TimingLogger(0, tmp_path) as logger, logger.record_device_operation("FORWARD"):
        pass
    (clock,) = json.loads((tmp_path / "timing-rank0.meta.json").read_text())["device_clocks"]
    assert clock["device"] == "scripted:0"
    assert clock["event_pairs"] == 1
    (anchor,) = clock["anchors"]
    assert set(anchor) == {"perf_counter_ns", "uncertainty_ns", "missed_by_ns"}
    assert 0 < anchor["uncertainty_ns"] == clock["worst_uncertainty_ns"]


# -- off ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: TimingLogger(0, enabled=False),
        lambda: TimingLogger(1, None, sinks=[MemorySink()], ranks=[0]),
    ],
    ids=["disabled", "another rank"],
)
def test_off_makes_no_mark(make: Callable[[], TimingLogger], scripted_device: ScriptedAccelerator) -> None:
    with make().record_device_operation("FORWARD", 8, "fc", "train", 1, 0, stream=None, group="g"):
        pass
    assert scripted_device.asks == []
    assert scripted_device.made == 0


def test_an_iteration_left_out_makes_no_mark(scripted_device: ScriptedAccelerator) -> None:
    recording = Recording(record_every_n_steps=10)
    with recording.logger.record_device_operation("FORWARD", iteration=5):
        pass
    recording.logger.set_current_iteration(7)
    with recording.logger.record_device_operation("FORWARD"):
        pass
    assert scripted_device.asks == []
    recording.logger.close()


@pytest.mark.slow("that recording itself imports no torch is quick, in test_accelerator.py")
def test_finding_no_accelerator_imports_no_torch_at_exit(tmp_path: Path) -> None:
    run = run_python(
        """
        import sys
        from timing_logger import TimingLogger
        logger = TimingLogger(0, sys.argv[1])
        logger.record_timing("SEND", 1.0)
        logger.close()
        print("torch" in sys.modules)
        """,
        tmp_path,
    )
    assert run.stdout == "False\n", run.stderr


# -- helps ----------------------------------------------------------------------------------------------


def clocks(recording: Recording) -> list[dict[str, object]]:
    return [clock._asdict() for clock in recording.logger._flusher._device_rows.info()]


def events_of_training(scripted: ScriptedAccelerator) -> int:
    """Events that were made, the clock's own ones left out."""
    gc.collect()
    return 2 * device(scripted, 0).pool.made
