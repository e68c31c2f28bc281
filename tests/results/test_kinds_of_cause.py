"""The table of causes: each by its name, each counter once, with what it says and how it is read."""

from __future__ import annotations

import pytest

from timing_logger.results.kinds_of_cause import CAUSES, COUNTERS, IDLE_BIT, Counter, kind_of_cause
from timing_logger.schema.host_counters import COUNTERS as RECORDED


@pytest.mark.parametrize(
    ("kind", "states_time"), [("waited us", True), ("clock", True), ("events", False), ("bits", False)]
)
def test_waits_and_clocks_state_time(kind: str, states_time: bool) -> None:
    assert Counter("name", kind, "").states_time is states_time  # type: ignore[arg-type]


def test_each_cause_is_found_by_its_name() -> None:
    assert [kind_of_cause(cause.name) for cause in CAUSES] == list(CAUSES)


def test_each_counter_shows_one_cause_in_the_order_of_the_table() -> None:
    names = [counter.name for _, counter in COUNTERS]
    assert names == [counter.name for cause in CAUSES for counter in cause.counters]
    assert len(set(names)) == len(names)
    assert all(counter in cause.counters for cause, counter in COUNTERS)


def test_all_counters_are_recorded_and_those_of_microseconds_are_read_as_waits() -> None:
    recorded = {counter.name for counter in RECORDED}
    assert {counter.name for _, counter in COUNTERS} <= recorded
    assert all((counter.kind == "waited us") == counter.name.endswith("_us") for _, counter in COUNTERS)


def test_what_brings_about_another_wait_comes_before_it() -> None:
    assert [(cause.name, cause.brings) for cause in CAUSES if cause.brings] == [
        ("cpu-quota", "processor-wait"), ("memory-wait", "disk-wait")
    ]  # fmt: skip
    names = [cause.name for cause in CAUSES]
    assert all(names.index(cause.name) < names.index(cause.brings) for cause in CAUSES if cause.brings)


def test_the_bit_of_an_idle_device_is_the_lowest() -> None:
    assert IDLE_BIT == 0b1
