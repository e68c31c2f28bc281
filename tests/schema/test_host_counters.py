"""The table of counters, and what is made of it."""

from __future__ import annotations

import re

import pytest
from places import ROOT

from timing_logger.recording.watchers.host_sampler import sources
from timing_logger.schema.host_counters import BY_NAME, COUNTERS, HEADER, NAMES, OF_PRESSURE


def test_no_two_counters_have_one_name() -> None:
    assert len(set(NAMES)) == len(NAMES)


SECTION = (
    (ROOT / "docs" / "files.md").read_text().partition("## What the host counted\n")[2].partition("\n## ")[0]
)
ROWS = [line.strip("| ").split(" | ") for line in SECTION.splitlines() if line.startswith("| `")]


def test_the_documentation_has_each_counter_once_in_the_order_of_the_file() -> None:
    assert [name for row in ROWS for name in re.findall(r"`(\w+)`", row[0])] == list(NAMES), "docs/files.md"


def test_the_documentation_says_of_each_counter_what_it_means_and_what_states_it() -> None:
    shown, above = {}, ""
    for names, meaning, *source in ROWS:
        above = source[0] if source else above  # an empty cell: as above
        shown[names] = (meaning, above)
    for counter in set(COUNTERS) - set(OF_PRESSURE):
        level = "level: " if counter.kind == "level" else ""
        assert shown[f"`{counter.name}`"] == (f"{level}{counter.meaning}", counter.source)


def test_the_documentation_has_the_pressure_of_all_resources_in_one_row_for_each_owner() -> None:
    rows = {name: row for row in ROWS for name in re.findall(r"`(\w+)`", row[0])}
    for counter in OF_PRESSURE:
        resource, kind = counter.name.removeprefix("cgroup_").removesuffix("_us").split("_pressure_")
        who, whose, what = re.findall(r"^time in which (.*) of (the .*) waited for (.*)$", counter.meaning)[0]
        _, meaning, source = rows[counter.name]
        said = f"{who} (`{kind}`)", f" of {whose} waited for ", f"{what} (`{resource}`)"
        assert all(part in meaning for part in said), counter
        assert source == counter.source.replace(f"{resource}.pressure", "*.pressure").replace(
            f"pressure/{resource}", "pressure/*"
        )


def test_each_counter_has_a_source_that_can_state_it_and_no_source_states_another() -> None:
    stated = [name for source in sources() for name in source.counters]
    assert sorted(stated) == sorted(NAMES), "sources in recording/watchers/host_sampler.py"


@pytest.mark.parametrize(
    ("name", "unit", "reading", "states_time"),
    [
        ("throttled_us", "us", "waited us", True),
        ("cpu_mhz", "mhz", "level", True),
        ("gpu_throttle_bits", "bits", "bits", False),
        ("process_read_kb", "kb", "events", False),
        ("major_faults", "", "events", False),
    ],
)
def test_the_unit_in_its_name_says_how_a_counter_is_read(
    name: str, unit: str, reading: str, states_time: bool
) -> None:
    counter = BY_NAME[name]
    assert (counter.unit, counter.reading, counter.states_time) == (unit, reading, states_time)


def test_the_header_begins_with_the_interval() -> None:
    assert HEADER.startswith("start_counter,end_counter,main_run_queue_wait_us,")
