"""Whether the process of a sidecar still runs, and what is known of where it stands."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sidecars import states

from timing_logger.process import this_process
from timing_logger.process.shared_files import UntrustedFileError
from timing_logger.reading import living
from timing_logger.reading.living import ALIVE, as_it_stands, gave_a_sign_lately, is_here, lives
from timing_logger.schema.record import Record
from timing_logger.schema.ring_file import Ring
from timing_logger.schema.sidecar import GroupProgress

S = 10**9
NOBODY = 2**30  # beyond the largest number that a process can have


def of_this_process(**fields: Any) -> dict[str, Any]:
    """Return what a sidecar of this process says, or with other ``fields``."""
    return {
        "host": this_process.host_name(), "boot_id": this_process.boot_id(), "pid": os.getpid(),
        "pid_namespace": this_process.pid_namespace(), "closed": False, **fields,
    }  # fmt: skip


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, float], None]:
    """Return what makes this process one in another state, which began so many seconds ago."""

    def stand_in(state: str, age_s: float) -> None:
        ticks = int((time.clock_gettime(time.CLOCK_BOOTTIME) - age_s) * os.sysconf("SC_CLK_TCK"))
        made = tmp_path / "proc" / str(os.getpid()) / "stat"
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(f"{os.getpid()} (a) odd (name)) {state} {' '.join(['1'] * 18)} {ticks} 7 7")

    monkeypatch.setattr(living, "Path", lambda path: tmp_path / path.lstrip("/"))
    return stand_in


# -- does it run? ------------------------------------------------------------------------------------


def test_a_process_is_here_if_it_ran_on_this_host_since_it_was_started() -> None:
    assert is_here(of_this_process())
    assert not is_here(of_this_process(host="elsewhere"))
    assert not is_here(of_this_process(boot_id="another"))
    assert not is_here({})


def test_this_process_lives_and_one_with_a_number_that_none_has_does_not() -> None:
    assert lives(of_this_process()) is True
    assert lives(of_this_process(pid=NOBODY)) is False


@pytest.mark.parametrize(
    "unknown",
    [{"host": "elsewhere"}, {"pid_namespace": 1}, {"pid_namespace": None}, {"pid": 0}, {"pid": None}],
)
def test_of_a_process_elsewhere_or_without_a_number_it_is_not_known(unknown: dict[str, Any]) -> None:
    assert lives(of_this_process(pid=NOBODY) | unknown) is None


def test_where_there_are_no_namespaces_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_process, "pid_namespace", lambda: 0)
    assert lives(of_this_process()) is None


def test_of_a_process_that_cannot_be_looked_at_it_is_not_known(proc: Any, tmp_path: Path) -> None:
    (tmp_path / "proc" / str(os.getpid()) / "stat").mkdir(parents=True)
    assert lives(of_this_process()) is None


@pytest.mark.parametrize(("state", "runs"), [("S", True), ("R", True), ("Z", False), ("X", False)])
def test_a_process_that_has_ended_and_was_not_waited_for_does_not_live(
    proc: Callable[[str, float], None], state: str, runs: bool
) -> None:
    proc(state, 100.0)
    assert lives(of_this_process()) is runs


@pytest.mark.parametrize(
    ("began_s_ago", "runs"), [(50.0, True), (100.8, True), (101.5, False), (200.0, False)]
)
def test_a_process_that_began_over_a_second_after_the_logger_had_is_another_with_its_number(
    proc: Callable[[str, float], None], began_s_ago: float, runs: bool
) -> None:
    proc("S", 100.0)
    anchors = [{"perf_counter_ns": int((time.perf_counter() - began_s_ago) * S), "unix_ns": 0}]
    anchors.append({"perf_counter_ns": time.perf_counter_ns(), "unix_ns": 0})
    assert lives(of_this_process(clock_anchors=anchors)) is runs
    assert lives(of_this_process(clock_anchors=[])) is True


@pytest.mark.parametrize(("age_s", "lately"), [(0, True), (29, True), (31, False), (3600, False)])
def test_a_sidecar_of_the_last_half_minute_is_a_sign(age_s: int, lately: bool) -> None:
    assert gave_a_sign_lately({"updated_unix_ns": time.time_ns() - age_s * S}) is lately
    assert not gave_a_sign_lately({})


# -- where does it stand? --------------------------------------------------------------------------------


def open_call(start_ns: int = 3, status: str = "inflight", **fields: Any) -> Record:
    plain = Record(
        0, 0, "", "BARRIER", "", None, start_ns, None, "host", "g", 4, 7, None, "MainThread", status
    )
    return plain._replace(**fields)


def ring_with(now_ns: int, **fields: Any) -> Ring:
    """Return the ring of a process on whose clock 0 was 1000 s ago."""
    plain = Ring(Path("timing-rank0.csv"), 0, now_ns - 1000 * S, 900 * S, 890 * S, [], [], [], 0, 0)
    return plain._replace(**fields)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "timing-rank0.csv"


def standing(file: Path, monkeypatch: pytest.MonkeyPatch, ring: Ring, **fields: Any) -> dict[str, Any]:
    """Return the sidecar of this process as it stands, by this ring."""
    monkeypatch.setattr(living, "_ring", lambda sidecar, timing_file: ring)
    found = as_it_stands(of_this_process(**fields), file)
    assert found is not None
    return dict(found)


def test_nothing_more_is_known_of_a_process_that_closed_or_was_killed_or_is_elsewhere(file: Path) -> None:
    assert as_it_stands(None, file) is None
    for other in ({"closed": True}, {"killed": True}, {"host": "elsewhere"}, {"closed": None}):
        sidecar: Any = of_this_process(pid=NOBODY) | other
        assert as_it_stands(sidecar, file) is sidecar


def test_when_a_process_was_seen_to_run_is_said(file: Path) -> None:
    before_ns = time.time_ns()
    found: Any = as_it_stands(of_this_process(), file)
    assert before_ns <= found[ALIVE] <= time.time_ns()
    assert "killed" not in found
    unknown: Any = as_it_stands(of_this_process(pid_namespace=1), file)
    assert unknown == of_this_process(pid_namespace=1)


def test_a_process_that_is_gone_without_closing_was_killed(file: Path) -> None:
    found: Any = as_it_stands(of_this_process(pid=NOBODY), file)
    assert found == of_this_process(pid=NOBODY, killed=True)


def test_unless_it_has_closed_its_logger_since_it_was_read(file: Path) -> None:
    states(file, closed=True, host=this_process.host_name(), boot_id=this_process.boot_id())
    found: Any = as_it_stands(of_this_process(pid=NOBODY), file)
    assert found["closed"] is True
    assert "killed" not in found


def test_its_ring_says_what_is_open_and_how_far_its_groups_are_and_when_that_was(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = time.time_ns()
    ring = ring_with(now_ns, open_calls=[open_call(850 * S)], groups=[GroupProgress("g", 4, 7, 6)])
    found = standing(file, monkeypatch, ring, updated_unix_ns=now_ns - 500 * S)
    assert [call["operation"] for call in found["open_calls"]] == ["BARRIER"]
    assert found["open_calls"][0]["start_counter_ns"] == 850 * S
    assert found["groups"] == [{"group": "g", "size": 4, "issued": 7, "completed": 6}]
    assert found["last_progress_counter_ns"] == 890 * S
    assert found["updated_unix_ns"] == now_ns - 100 * S


def test_it_is_known_to_have_lived_when_its_last_call_began_or_its_sidecar_was_written(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = time.time_ns()
    later_call = ring_with(now_ns, open_calls=[open_call(950 * S)])
    assert standing(file, monkeypatch, later_call)["updated_unix_ns"] == now_ns - 50 * S
    assert (
        standing(file, monkeypatch, later_call, updated_unix_ns=now_ns - 2 * S)["updated_unix_ns"]
        == now_ns - 2 * S
    )


def test_of_a_process_that_never_looked_where_it_stands_the_sidecar_says_that(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = ring_with(time.time_ns(), looked_ns=0, open_calls=[open_call(850 * S)])
    found = standing(file, monkeypatch, ring, groups=["as stated"], last_progress_counter_ns=5)
    assert (found["groups"], found["last_progress_counter_ns"]) == (["as stated"], 5)
    assert len(found["open_calls"]) == 1


@pytest.mark.parametrize(("ahead_s", "is_used"), [(0, True), (3, False)])
def test_a_ring_that_is_ahead_of_this_moment_is_damaged(
    file: Path, monkeypatch: pytest.MonkeyPatch, ahead_s: int, is_used: bool
) -> None:
    ring = ring_with(time.time_ns(), looked_ns=(1000 + ahead_s) * S)
    assert ("open_calls" in standing(file, monkeypatch, ring)) is is_used


@pytest.mark.parametrize(
    ("ended", "is_open"),
    [
        ({}, False), ({"status": "inflight"}, True), ({"start_ns": 850 * S + 1}, True), ({"seq": 8}, True),
        ({"group": "h"}, True), ({"operation": "BCAST"}, True), ({"thread": "other"}, False),
    ],
)  # fmt: skip
def test_a_call_of_which_a_record_tells_the_end_is_not_open(
    file: Path, monkeypatch: pytest.MonkeyPatch, ended: dict[str, Any], is_open: bool
) -> None:
    call = open_call(850 * S)
    record = call._replace(**{"status": "ok", "end_ns": 860 * S, **ended})
    ring = ring_with(time.time_ns(), open_calls=[call], records=[record])
    assert len(standing(file, monkeypatch, ring)["open_calls"]) == is_open


def test_the_ring_that_a_sidecar_names_is_read_if_it_is_of_the_run(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ring"
    path.touch(0o600)
    states(file)
    ring = ring_with(time.time_ns(), open_calls=[open_call(850 * S)])
    monkeypatch.setattr(living, "read_ring", lambda descriptor: ring)
    monkeypatch.setattr(living, "header_of", lambda *given: None)
    found: Any = as_it_stands(of_this_process(ring_path=str(path)), file)
    assert len(found["open_calls"]) == 1

    def of_another_run(*given: object) -> None:
        raise UntrustedFileError(path, "it is of another run")

    monkeypatch.setattr(living, "header_of", of_another_run)
    found = as_it_stands(of_this_process(ring_path=str(path)), file)
    assert "open_calls" not in found


def test_a_ring_that_cannot_be_read_says_nothing(file: Path, tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    states(file)
    for make in (lambda: None, lambda: ring.write_bytes(b"no ring"), lambda: ring.chmod(0o600)):
        make()
        found: Any = as_it_stands(of_this_process(ring_path=str(ring)), file)
        assert found == of_this_process(ring_path=str(ring)) | {ALIVE: found[ALIVE]}
