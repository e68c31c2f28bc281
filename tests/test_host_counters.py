"""The table of counters, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from places import ROOT

from timing_logger.host_counters import COUNTERS, HEADER, NAMES, host_file_path, parse_host_file_name
from timing_logger.recording.host.sources import sources
from timing_logger.run_info import TimingFile


def test_no_two_counters_have_one_name() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_the_documentation_has_a_row_for_each_counter_and_no_other() -> None:
    section = (ROOT / "docs" / "files.md").read_text().partition("## What the host counted")[2]
    table = [line for line in section.splitlines() if line.startswith("| `")]
    assert table == [
        f"| `{name}` | {kind} | {meaning} | {source} |" for name, kind, meaning, source in COUNTERS
    ]


def test_each_counter_has_a_source_that_can_state_it_and_no_source_states_another() -> None:
    stated = [name for source in sources() for name in source.counters]
    assert sorted(stated) == sorted(NAMES)


def test_the_header_begins_with_the_interval() -> None:
    assert HEADER.startswith("start_counter,end_counter,main_run_queue_wait_us,")


@pytest.mark.parametrize("name", [TimingFile(0), TimingFile(3, 2), TimingFile(3, 2, 4)])
def test_the_file_of_counters_has_rank_incarnation_and_part_of_the_timing_file(name: TimingFile) -> None:
    path = host_file_path(Path("logs", name.name))
    assert path == Path("logs", name.name.replace("timing", "host"))
    assert parse_host_file_name(path.name) == name


@pytest.mark.parametrize(
    "name", ["timing-rank0.csv", "host-rank.csv", "hosts-rank0.csv", "host-rank0.csv.gz"]
)
def test_other_names_are_no_files_of_counters(name: str) -> None:
    assert parse_host_file_name(name) is None
