"""Which processes stand still, by what each says of itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from sidecars import states

from timing_logger.live.standstill import end_by_sidecars, stands_still, stated
from timing_logger.process import this_process

S = 10**9
NOBODY = 2**30  # beyond the largest number that a process can have


def test_what_is_known_of_a_file_is_its_rank_and_its_sidecar(tmp_path: Path) -> None:
    path = states(tmp_path / "timing-rank3.run2.csv", closed=True)
    found = stated(path)
    assert found is not None
    assert (found["path"], found["rank"], found["incarnation"], found["sidecar"]["closed"]) == (
        path,
        3,
        2,
        True,
    )


@pytest.mark.parametrize(
    "name", ["timing-rank3.part2.csv", "timing-rankx.csv", "other.csv", "timing-rank4.csv"]
)
def test_a_later_part_and_what_has_no_sidecar_or_another_name_says_nothing(tmp_path: Path, name: str) -> None:
    states(tmp_path / "timing-rank3.csv", closed=True)
    states(tmp_path / "timing-rankx.csv", closed=True)
    states(tmp_path / "other.csv", closed=True)
    assert stated(tmp_path / name) is None


@pytest.mark.parametrize(
    ("sidecar", "silent_s", "stands"),
    [
        ({}, 11, False), ({}, 13, True), ({"open_calls": [{}]}, 0, True), ({"idle_stack": "at x"}, 0, True),
        ({"open_calls": [], "idle_stack": ""}, 0, False), ({"closed": True, "open_calls": [{}]}, 13, False),
        ({"closed": None}, 13, False),
    ],
)  # fmt: skip
def test_a_process_stands_still_if_it_says_so_or_nothing_for_over_twelve_seconds(
    sidecar: dict[str, Any], silent_s: int, stands: bool
) -> None:
    said = {"closed": False, "updated_unix_ns": time.time_ns() - silent_s * S, **sidecar}
    assert stands_still(said) is stands


def test_a_process_that_never_said_when_stands_still() -> None:
    assert stands_still({"closed": False})


def test_of_processes_that_closed_their_files_the_run_ended_and_of_one_that_is_gone_it_did_not(
    tmp_path: Path,
) -> None:
    gone = {"host": this_process.host_name(), "boot_id": this_process.boot_id(), "pid": NOBODY}
    gone |= {"pid_namespace": this_process.pid_namespace(), "closed": False}
    closed = [stated(states(tmp_path / f"timing-rank{rank}.csv", closed=True)) for rank in (0, 1)]
    files = [*closed, stated(states(tmp_path / "timing-rank2.csv", **gone))]
    assert end_by_sidecars([file for file in closed if file]).state == "ended"
    end = end_by_sidecars([file for file in files if file])
    assert (end.state, end.gone, end.unclosed) == ("unfinished", (2,), (2,))
