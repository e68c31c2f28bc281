"""The table of causes: each by its name, each counter once, with what it says and how it is read."""

from __future__ import annotations

from timing_logger.results.cause import CAUSES, COUNTERS, IDLE_BIT, kind_of_cause
from timing_logger.schema.host_counters import COUNTERS as RECORDED
from timing_logger.schema.host_counters import OF_PRESSURE


def test_each_cause_is_found_by_its_name() -> None:
    assert [kind_of_cause(cause.name) for cause in CAUSES] == list(CAUSES)


def test_each_counter_shows_one_cause_in_the_order_of_the_table() -> None:
    names = [counter.name for _, counter in COUNTERS]
    assert names == [counter.name for cause in CAUSES for counter in cause.counters]
    assert len(set(names)) == len(names)
    assert all(counter in cause.counters for cause, counter in COUNTERS)


def test_a_counter_shows_a_cause_where_there_are_words_of_it_and_only_there() -> None:
    of_causes = {counter for _, counter in COUNTERS}
    assert all(counter.did for counter in of_causes)
    assert {counter for counter in RECORDED if counter.did} - set(OF_PRESSURE) <= of_causes


def test_counters_of_microseconds_are_read_as_waits() -> None:
    assert all((counter.reading == "waited us") == counter.name.endswith("_us") for _, counter in COUNTERS)


def test_what_brings_about_another_wait_comes_before_it() -> None:
    assert [(cause.name, cause.brings) for cause in CAUSES if cause.brings] == [
        ("cpu-quota", "processor-wait"), ("memory-wait", "disk-wait")
    ]  # fmt: skip
    names = [cause.name for cause in CAUSES]
    assert all(names.index(cause.name) < names.index(cause.brings) for cause in CAUSES if cause.brings)


def test_the_bit_of_an_idle_device_is_the_lowest() -> None:
    assert IDLE_BIT == 0b1
