"""Where instants of a device stand on the host's axis: between anchors, and never before their issue."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scripted_device import ScriptedAccelerator

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.device.clock import AnchorLine, DeviceClock, Mark
from timing_logger.recording.device.devices import device
from timing_logger.recording.device.intervals import DeviceInterval, open_interval

S = 1_000_000_000
US = 1_000


@dataclass
class PassedEvent:
    """One that a device passed at a moment of the host's time.

    The device's clock is five seconds ahead, and runs faster by ``faster``; as CUDA does it tells the time
    between events as a float32 of milliseconds.
    """

    at_ns: int
    faster: float

    def elapsed_time(self, other: PassedEvent) -> float:
        elapsed_ns = (other.at_ns - self.at_ns) * (1 + self.faster)
        return float(np.float32(elapsed_ns / 1e6))


class Line:
    """A device and its anchors, each of which is off by what its uncertainty allows, now early, now late."""

    def __init__(self, faster: float, *anchors_s: float, uncertainty_ns: int = 2 * US) -> None:
        self.faster = faster
        self.anchors = AnchorLine()
        self.missed_by_ns = []
        for number, at_s in enumerate(anchors_s):
            event = PassedEvent(round(at_s * S), faster)
            at_ns = event.at_ns + (-1) ** number * uncertainty_ns
            self.missed_by_ns.append(self.anchors.add(Mark(event, at_ns, uncertainty_ns)))

    def error_ns(self, at_s: float, issued_s: float | None = None) -> int:
        event = PassedEvent(round(at_s * S), self.faster)
        return self.anchors.place(event, round((issued_s or at_s) * S))[0] - event.at_ns


@pytest.mark.parametrize("faster", [80e-6, -80e-6])
@pytest.mark.parametrize("at_s", [0.3, 1.0, 3.0, 5.1])
def test_an_instant_between_two_anchors_is_no_farther_off_than_these(faster: float, at_s: float) -> None:
    line = Line(faster, 0.0, 0.5, 2.0, 4.0, 6.0)
    assert abs(line.error_ns(at_s)) < 3 * US


@pytest.mark.parametrize("faster", [80e-6, -80e-6])
def test_after_the_last_anchor_the_rate_goes_on_that_was_measured(faster: float) -> None:
    line = Line(faster, 0.0, 0.5, 2.0, 4.0, 6.0)
    assert abs(line.error_ns(7.9)) < 5 * US  # 152 us at the same rate


def test_a_rate_that_is_known_no_better_than_clocks_are_is_not_believed() -> None:
    line = Line(0.0, 0.0, 0.25, uncertainty_ns=50 * US)
    assert abs(line.error_ns(2.25)) <= 51 * US  # 0.85 ms at the rate between the two


def test_a_poor_anchor_does_not_spoil_the_rate() -> None:
    line = Line(50e-6, 0.0)
    for at_s, uncertainty_ns in [(0.5, 2 * US), (2.0, 40 * US), (4.0, 2 * US)]:
        event = PassedEvent(round(at_s * S), line.faster)
        line.anchors.add(Mark(event, event.at_ns + uncertainty_ns, uncertainty_ns))
    assert abs(line.error_ns(6.0)) < 6 * US


def test_a_clock_that_runs_steadily_is_not_missed_by_later_anchors() -> None:
    line = Line(80e-6, 0.0, 0.5, 2.0, 4.0, 6.0)
    assert max(map(abs, line.missed_by_ns[3:])) < 20 * US


def test_a_host_that_was_suspended_while_the_device_ran_on_says_nothing_of_the_rate() -> None:
    line = Line(0.0, 0.0, 0.5, 2.0, 4.0)
    asleep_ns = 3600 * S
    for at_s in (6.0, 8.0):
        event = PassedEvent(round(at_s * S) + asleep_ns, 0.0)
        line.anchors.add(Mark(event, event.at_ns - asleep_ns, 2 * US))
    late = PassedEvent(round(9.5 * S) + asleep_ns, 0.0)
    start_ns, _ = line.anchors.place(late, round(9.5 * S))
    assert abs(start_ns - 9.5 * S) < 5 * US


def test_what_waited_for_long_is_placed_by_the_anchor_beside_it() -> None:
    """10 minutes away from an anchor a float32 of milliseconds is 62 us coarse."""
    line = Line(0.0, 0.0, 600.0, 602.0, uncertainty_ns=0)
    assert abs(line.error_ns(601.000012, issued_s=0.1)) < US


# -- as the device's clock uses them -------------------------------------------------------------------------


@pytest.fixture
def clock(scripted_device: ScriptedAccelerator) -> DeviceClock:
    return DeviceClock(device(scripted_device, 0))


def measured() -> DeviceInterval:
    interval = open_interval()
    assert isinstance(interval, DeviceInterval)
    interval.end()
    interval.wait()
    return interval


def test_a_first_anchor_that_was_seen_late_is_left_for_a_better_one(
    clock: DeviceClock, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.own_stream_busy = True
    clock.renew()
    scripted_device.pass_own()
    busy_until_ns = perf_counter_ns() + 20_000_000  # the host does not come to look at it
    while perf_counter_ns() < busy_until_ns:
        pass
    clock.renew()
    assert clock.info().anchors == []
    assert clock.place(measured()) is None
    scripted_device.own_stream_busy = False
    scripted_device.pass_own()
    clock.renew()
    (anchor,) = clock.info().anchors
    assert anchor.uncertainty_ns < 10_000_000


def test_a_poor_anchor_is_better_than_none_for_ever(
    clock: DeviceClock, scripted_device: ScriptedAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(0, 10 * S, 1_000_000))  # each look at the clock comes a millisecond later
    monkeypatch.setattr("timing_logger.recording.device.clock.perf_counter_ns", lambda: next(times))
    for _ in range(10):
        clock.renew()
    assert clock.info().anchors[0].uncertainty_ns == 1_000_000


def test_what_a_device_did_never_begins_before_it_was_issued(
    clock: DeviceClock, scripted_device: ScriptedAccelerator
) -> None:
    clock.renew()
    scripted_device.ahead_ns -= 50_000_000  # the clock stands still for a while, unseen
    interval = measured()
    assert clock.place(interval) == interval.issued_ns


# -- when anchors are set, by a clock that each look takes on by a step -----------------------------------


class Steps:
    """Moments of the host: each look comes ``step_ns`` after the one before."""

    def __init__(self) -> None:
        self.now_ns, self.step_ns = 0, 0

    def __call__(self) -> int:
        self.now_ns += self.step_ns
        return self.now_ns


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    steps = Steps()
    monkeypatch.setattr("timing_logger.recording.device.clock.perf_counter_ns", steps)
    return steps


def test_anchors_follow_each_other_soon_at_first_and_then_every_two_seconds(
    clock: DeviceClock, steps: Steps
) -> None:
    clock.renew()
    for count, due_s in enumerate([0.25, 0.5, 1, 2, 4, 6, 8], start=1):
        steps.now_ns = int(due_s * S) - 1
        clock.renew()
        assert len(clock.info().anchors) == count
        steps.now_ns += 1
        clock.renew()
        assert len(clock.info().anchors) == count + 1


def test_a_device_that_does_not_get_on_is_asked_for_200_us(
    clock: DeviceClock, steps: Steps, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.own_stream_busy, steps.step_ns = True, 50 * US
    clock.renew()
    assert scripted_device.asks == ["record"] + ["query"] * 4
    assert clock.info().anchors == []


def test_a_first_anchor_of_100_us_is_accepted_at_once(clock: DeviceClock, steps: Steps) -> None:
    steps.step_ns = 100 * US
    clock.renew()
    assert [anchor.uncertainty_ns for anchor in clock.info().anchors] == [100 * US]


def test_a_worse_first_anchor_is_left_three_times(clock: DeviceClock, steps: Steps) -> None:
    steps.step_ns = 100 * US + 1
    for _ in range(3):
        clock.renew()
        assert clock.info().anchors == []
    clock.renew()
    assert [anchor.uncertainty_ns for anchor in clock.info().anchors] == [100 * US + 1]


def test_a_later_anchor_is_left_if_the_last_one_is_still_better(clock: DeviceClock) -> None:
    """By the drift of 20 us per second."""
    clock._accept(Mark(PassedEvent(S, 0.0), S, 1 * US))
    clock._accept_unless_poor(Mark(PassedEvent(2 * S, 0.0), 2 * S, 21 * US + 1))
    assert len(clock.info().anchors) == 1
    clock._accept_unless_poor(Mark(PassedEvent(2 * S, 0.0), 2 * S, 21 * US))
    assert len(clock.info().anchors) == 2


def test_the_sidecar_states_the_latest_100_anchors_and_the_worst_of_all(clock: DeviceClock) -> None:
    info = clock.info()
    assert (info.worst_uncertainty_ns, info.worst_miss_ns, info.farthest_from_anchor_ns) == (0, 0, 0)
    clock._accept(Mark(PassedEvent(0, 0.0), 0, 7 * US))
    clock._accept(Mark(PassedEvent(S, 0.0), S - 3 * US, 1 * US))
    for second in range(2, 101):
        clock._accept(Mark(PassedEvent(second * S, 0.0), second * S, 1 * US))
    info = clock.info()
    assert (len(info.anchors), info.anchors[0].perf_counter_ns) == (100, S - 3 * US)
    assert (info.worst_uncertainty_ns, info.anchors[0].missed_by_ns) == (7 * US, -3 * US)
    assert info.worst_miss_ns == max(abs(anchor.missed_by_ns) for anchor in info.anchors)


def test_a_line_keeps_its_latest_16_anchors() -> None:
    line = Line(0.0, *range(17), uncertainty_ns=0)
    assert [mark.at_ns for mark in line.anchors.marks] == [second * S for second in range(1, 17)]


def test_it_states_how_far_from_an_anchor_anything_was_placed(clock: DeviceClock) -> None:
    clock._accept(Mark(PassedEvent(S, 0.0), S, 0))
    for off_ns in (7 * US, -9 * US, 1 * US):
        interval: Any = SimpleNamespace(start_event=PassedEvent(S + off_ns, 0.0), issued_ns=S - S // 2)
        assert clock.place(interval) == S + off_ns
    assert clock.info().farthest_from_anchor_ns == 9 * US


def test_what_cannot_be_placed_for_an_error_starts_when_it_was_issued(
    clock: DeviceClock, scripted_device: ScriptedAccelerator
) -> None:
    clock.renew()
    interval = measured()
    scripted_device.fail_with = RuntimeError("CUDA error: an illegal memory access was encountered")
    assert clock.place(interval) == interval.issued_ns
    assert "illegal memory access" in clock.info().failure


def test_a_clock_that_could_set_no_anchor_gives_up_and_starts_what_it_places_at_its_issue(
    clock: DeviceClock, scripted_device: ScriptedAccelerator
) -> None:
    interval = measured()
    scripted_device.fail_with = RuntimeError("events of this device have no times")
    clock.renew()
    scripted_device.fail_with = None
    clock.renew()
    assert (clock.info().anchors, clock.place(interval)) == ([], interval.issued_ns)
    assert clock.info().failure == "RuntimeError('events of this device have no times')"


def test_a_clock_that_has_anchors_goes_on_with_them(
    clock: DeviceClock, scripted_device: ScriptedAccelerator, steps: Steps
) -> None:
    clock.renew()
    steps.now_ns = S
    scripted_device.fail_with = RuntimeError("not now")
    clock.renew()
    scripted_device.fail_with = None
    assert (len(clock.info().anchors), clock.info().failure) == (1, "")
    clock.renew()
    assert len(clock.info().anchors) == 2


def test_an_anchor_whose_event_could_not_be_asked_is_not_asked_again(
    clock: DeviceClock, scripted_device: ScriptedAccelerator, steps: Steps
) -> None:
    clock.renew()
    scripted_device.own_stream_busy, steps.now_ns, steps.step_ns = True, S, 50 * US
    made = scripted_device.made
    clock.renew()
    clock.renew()
    assert scripted_device.made == made + 1
    scripted_device.fail_with = RuntimeError("not now")
    clock.renew()
    scripted_device.fail_with = None
    clock.renew()
    assert scripted_device.made == made + 2


# -- instants before the first anchor, and anchors that say little ------------------------------------------


@pytest.mark.parametrize("faster", [80e-6, -80e-6])
def test_before_the_first_anchor_the_rate_is_that_which_was_measured(faster: float) -> None:
    line = Line(faster, 1.0, 2.0, 4.0, 6.0, uncertainty_ns=0)
    assert abs(line.error_ns(0.5)) < US  # 40 us at the same rate


def test_an_instant_before_the_first_anchor_is_placed_by_that_one() -> None:
    line = AnchorLine()
    line.add(Mark(PassedEvent(S, 0.0), S, 0))
    line.add(Mark(PassedEvent(3602 * S, 0.0), 2 * S, 0))  # the host was suspended
    assert line.place(PassedEvent(S // 2, 0.0), S // 2)[0] == S // 2


def test_the_first_anchor_is_missed_by_nothing() -> None:
    assert AnchorLine().add(Mark(PassedEvent(S, 0.0), S, 5)) == 0


def test_an_anchor_is_measured_from_the_one_before() -> None:
    """A float32 of milliseconds is 62 us coarse 10 minutes after the first."""
    line = Line(0.0, 0.0, 600.0, 602.000012, uncertainty_ns=0)
    assert abs(line.anchors.marks[-1].device_ns - 602_000_012_000) < US


def test_two_anchors_at_one_moment_of_the_device_say_nothing_of_the_rate() -> None:
    line = AnchorLine()
    for at_ns in (S, S + 5):
        line.add(Mark(PassedEvent(S, 0.0), at_ns, 0))
    assert line.place(PassedEvent(2 * S, 0.0), 2 * S)[0] == 2 * S + 5


@pytest.mark.parametrize(("gained_ns", "error_ns"), [(1_000_000, 0), (1_001_000, -1_001_000)])
def test_a_rate_that_is_off_by_more_than_a_thousandth_is_none(gained_ns: int, error_ns: int) -> None:
    line = AnchorLine()
    line.add(Mark(PassedEvent(0, 0.0), 0, 0))
    line.add(Mark(PassedEvent(S, 0.0), S + gained_ns, 0))
    placed_ns, _ = line.place(PassedEvent(2 * S, 0.0), 2 * S)
    assert placed_ns - 2 * (S + gained_ns) == error_ns
