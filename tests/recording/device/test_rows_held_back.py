"""Which records wait for a device, how they come out, and what becomes of those that never would."""

from __future__ import annotations

import pytest
from scripted_device import ScriptedAccelerator

from timing_logger.recording.device.intervals import DeviceInterval, open_interval
from timing_logger.recording.device.rows import DeviceRows
from timing_logger.schema.record import RawRecord, Record


@pytest.fixture
def rows(scripted_device: ScriptedAccelerator) -> DeviceRows:
    return DeviceRows()


def on_device(layer: str, *, group: str = "", status: str = "ok", ends: bool = True) -> RawRecord:
    """A record of a block that the device does."""
    interval = open_interval()
    assert isinstance(interval, DeviceInterval)
    if ends:
        interval.end()
    start, end, clock = interval.columns
    fields: list[object] = [
        0,
        0,
        layer,
        "A",
        "",
        None,
        start,
        end,
        clock,
        group,
        None,
        None,
        None,
        "main",
        status,
    ]
    return tuple(Record(*fields))  # type: ignore[arg-type]


def on_host(layer: str) -> RawRecord:
    return tuple(Record(0, 0, layer, "A", "", None, 1, 2, "host", "", None, None, None, "main", "ok"))


def interval_of(record: RawRecord) -> DeviceInterval:
    interval = Record(*record).start_ns
    assert isinstance(interval, DeviceInterval)
    return interval


def layers(records: list[RawRecord]) -> list[str]:
    return [str(Record(*record).layer_name) for record in records]


def test_what_waits_for_no_device_goes_on_at_once(rows: DeviceRows) -> None:
    batch = [on_host("a"), on_device("b"), on_host("c"), on_device("d")]
    assert layers(rows.sift(batch)) == ["a", "c"]
    assert len(rows) == 2


def test_records_come_out_in_their_order_with_instants(rows: DeviceRows) -> None:
    batch = [on_device("a"), on_device("b"), on_device("c")]
    rows.sift(batch)
    found = [Record(*record) for record in rows.resolved(asked=False)]
    assert [one.layer_name for one in found] == ["a", "b", "c"]
    assert len(rows) == 0
    for one, record in zip(found, batch, strict=True):
        interval = interval_of(record)
        assert one.start_ns is not None
        assert one.end_ns == one.start_ns + (interval.elapsed_ns or 0)
        assert one.start_ns >= interval.issued_ns
        assert (one.clock, one.stream, one.status) == ("device", "scripted:0/0", "ok")


def test_only_what_the_device_has_passed_comes_out(
    rows: DeviceRows, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.busy = True
    rows.sift([on_device("a"), on_device("b")])
    assert rows.resolved(asked=True) == []
    scripted_device.pass_one()
    scripted_device.pass_one()
    assert layers(rows.resolved(asked=True)) == ["a"]
    assert len(rows) == 1


def test_a_bookmark_is_passed_when_all_before_it_came_out(
    rows: DeviceRows, scripted_device: ScriptedAccelerator
) -> None:
    first = rows.bookmark()
    assert rows.passed(first)
    scripted_device.busy = True
    rows.sift([on_device("a"), on_host("b")])
    behind_a = rows.bookmark()
    rows.sift([on_device("c")])
    assert (rows.passed(first), rows.passed(behind_a)) == (True, False)
    scripted_device.pass_one()
    scripted_device.pass_one()
    assert layers(rows.resolved(asked=True)) == ["a"]
    assert rows.passed(behind_a)
    assert not rows.passed(rows.bookmark())


@pytest.mark.parametrize(
    ("harmless", "asked", "found"), [(True, False, ["a"]), (False, True, ["a"]), (False, False, [])]
)
def test_a_query_that_might_break_a_capture_is_made_only_for_a_user_who_waits(
    rows: DeviceRows, scripted_device: ScriptedAccelerator, harmless: bool, asked: bool, found: list[str]
) -> None:
    rows.sift([on_device("a")])
    scripted_device.harmless = harmless
    scripted_device.asks.clear()
    assert layers(rows.resolved(asked=asked)) == found
    assert bool(scripted_device.asks) == bool(found)


def test_a_lost_interval_is_unresolved_without_an_end(rows: DeviceRows) -> None:
    record = on_device("a")
    interval_of(record).lost = True
    rows.sift([record])
    (found,) = map(Record._make, rows.resolved(asked=False))
    assert (found.start_ns, found.end_ns) == (interval_of(record).issued_ns, None)
    assert (found.status, found.stream) == ("unresolved", "scripted:0/0")


def test_an_error_of_the_block_says_more_than_that_it_is_unresolved(rows: DeviceRows) -> None:
    record = on_device("a", status="error:ValueError")
    interval_of(record).lost = True
    rows.sift([record])
    assert [Record(*one).status for one in rows.resolved(asked=False)] == ["error:ValueError"]


def test_one_that_is_lost_when_it_is_asked_is_unresolved(
    rows: DeviceRows, scripted_device: ScriptedAccelerator
) -> None:
    record = on_device("a")
    start, end = interval_of(record)._events
    interval_of(record)._events = type(interval_of(record)._events)(end, start)  # it ends before it begins
    rows.sift([record])
    (found,) = map(Record._make, rows.resolved(asked=True))
    assert (found.end_ns, found.status) == (None, "unresolved")


def test_after_a_failure_of_the_device_what_is_not_known_is_unresolved_and_nothing_is_asked(
    rows: DeviceRows, scripted_device: ScriptedAccelerator
) -> None:
    rows.sift([on_device("a"), on_device("b")])
    scripted_device.failed = "CUDA error"
    scripted_device.asks.clear()
    found = [Record(*record) for record in rows.resolved(asked=True)]
    assert [(one.layer_name, one.status) for one in found] == [("a", "unresolved"), ("b", "unresolved")]
    assert scripted_device.asks == []


def test_a_duration_that_was_known_before_a_failure_is_kept(
    rows: DeviceRows, scripted_device: ScriptedAccelerator
) -> None:
    record = on_device("a")
    rows.resolved(asked=False)
    interval = interval_of(record)
    interval.wait()
    rows.sift([record])
    scripted_device.failed = "CUDA error"
    found = [Record(*one) for one in (*rows.resolved(asked=True), *rows.given_up())]
    assert [(one.end_ns - one.start_ns, one.status) for one in found if one.end_ns and one.start_ns] == [
        (interval.elapsed_ns, "ok")
    ]


def test_what_is_given_up_is_unresolved_unless_its_duration_is_known(
    rows: DeviceRows, scripted_device: ScriptedAccelerator
) -> None:
    known = on_device("known")
    interval = interval_of(known)
    interval.wait()
    scripted_device.busy = True
    rows.sift([known, on_device("open")])
    found = [Record(*record) for record in rows.given_up()]
    assert interval.elapsed_ns is not None
    assert (found[0].start_ns, found[0].end_ns) == (
        interval.issued_ns,
        interval.issued_ns + interval.elapsed_ns,
    )
    assert [(one.layer_name, one.status) for one in found] == [("known", "ok"), ("open", "unresolved")]
    assert len(rows) == 0
    assert rows.given_up() == []


def test_of_what_waits_operations_of_groups_that_were_issued_before_an_instant_are_told(
    rows: DeviceRows, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.busy = True
    own, one, other = on_device("own"), on_device("one", group="world"), on_device("other", group="world")
    for at_ns, record in ((5, own), (10, one), (20, other)):
        interval_of(record).issued_ns = at_ns
    rows.sift([own, one, other])
    assert list(rows.issued_before(10)) == []
    ((interval, record),) = rows.issued_before(11)
    assert interval is interval_of(one)
    found = Record(*record)
    assert (found.start_ns, found.end_ns, found.status) == (10, None, "inflight")
    assert len(list(rows.issued_before(21))) == 2
    assert len(rows) == 3


def test_the_sidecar_has_a_clock_for_each_device_that_was_used(rows: DeviceRows) -> None:
    assert rows.info() == []
    rows.sift([on_device("a")])
    rows.resolved(asked=True)
    (clock,) = rows.info()
    assert (clock.device, len(clock.anchors)) == ("scripted:0", 1)
