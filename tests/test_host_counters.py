"""The table of counters, and what is made of it."""

from __future__ import annotations

from places import ROOT

from timing_logger.host_counters import COUNTERS, HEADER, NAMES
from timing_logger.recording.host.sources import sources


def test_no_two_counters_have_one_name() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_the_documentation_has_a_row_for_each_counter_and_no_other() -> None:
    page = (ROOT / "docs" / "files.md").read_text()
    section = page.partition("## What the host counted\n")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("| `")]
    assert table == [
        f"| `{name}` | {kind} | {meaning} | {source} |" for name, kind, meaning, source in COUNTERS
    ]


def test_each_counter_has_a_source_that_can_state_it_and_no_source_states_another() -> None:
    stated = [name for source in sources() for name in source.counters]
    assert sorted(stated) == sorted(NAMES)


def test_the_header_begins_with_the_interval() -> None:
    assert HEADER.startswith("start_counter,end_counter,main_run_queue_wait_us,")
