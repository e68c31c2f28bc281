"""The monitor of the host of rank 0 judges the run, those of other hosts pass on what they see."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from json_lines import json_rows
from monitored_runs import EVERY_S, Voice, is_of_host, monitor_on, write_run_of_this_host
from sidecars import states

from timing_logger.live import newest_files
from timing_logger.live.digest_folder import DigestFolder
from timing_logger.live.looking import MOST_BYTES_PER_S, Looking
from timing_logger.process.monitor import MonitorSettings
from timing_logger.process.sidecar_files import read_sidecar
from timing_logger.schema.timing_files import sidecar_path


@pytest.fixture
def run_of_two_hosts(tmp_path: Path) -> Path:
    folder = write_run_of_this_host(tmp_path / "run", steps=60)
    for rank in range(4):
        is_of_host(folder / f"timing-rank{rank}.csv", f"node{rank // 2}")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of this host, of which one rank is slow, whose files nobody looked at yet."""
    return write_run_of_this_host(tmp_path / "run", steps=60)


def looking_at(folder: Path, **settings: Any) -> tuple[Looking, Voice]:
    """Return what the monitor of this host does, and whom it tells."""
    voice = Voice()
    return Looking(MonitorSettings(log_dir=str(folder), every_s=EVERY_S, **settings), voice.say), voice


@pytest.mark.slow("that a healthy verdict is no change is quick in tests/engine/test_changes.py")
def test_a_healthy_run_is_looked_at_and_nothing_is_told(tmp_path: Path) -> None:
    folder = write_run_of_this_host(tmp_path / "run", slow_rank=None)
    monitor, voice = looking_at(folder)
    for _ in range(2):
        monitor.look()
    monitor.close()
    assert voice.said == []
    assert not (folder / "verdicts.jsonl").exists()
    assert (folder / "monitor" / "judge.lock").exists()


def test_files_of_an_earlier_run_are_not_judged(run: Path) -> None:
    monitor, voice = looking_at(run, since_unix_s=time.time())
    for _ in range(2):
        monitor.look()
    monitor.close()
    assert voice.said == []
    assert not (run / "verdicts.jsonl").exists()


@pytest.mark.slow("what goes wrong is said once of a folder that cannot be written to, too")
def test_what_cannot_be_judged_is_said_once_and_looked_at_again(run: Path) -> None:
    damaged = run / "timing-rank1.csv"
    content = damaged.read_bytes()
    damaged.write_bytes(b"no,timing,file\n1,2,3\n")
    monitor, voice = looking_at(run)
    for _ in range(2):
        monitor.look()
    (said,) = voice.said
    assert "cannot be judged" in said["said"]
    damaged.write_bytes(content)
    for _ in range(2):
        monitor.look()
    monitor.close()
    assert voice.events == [("begins", [2])]


@pytest.mark.slow("one look more of several monitors; that one judges and who is named is quick")
def test_a_rank_of_another_host_is_named_by_what_that_host_passes_on(
    run_of_two_hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, silent = monitor_on("node1", run_of_two_hosts, monkeypatch)
    other.look()
    (digest,) = DigestFolder(run_of_two_hosts).read()
    assert [process.rank for process in digest.processes] == [2, 3]
    for rank in (2, 3):  # only the digest tells of them now
        (run_of_two_hosts / f"timing-rank{rank}.csv").write_bytes(b"")
    judge, voice = monitor_on("node0", run_of_two_hosts, monkeypatch)
    for _ in range(2):
        judge.look()
    judge.close()
    other.close()
    assert voice.events == [("begins", [2])]
    assert silent.said == []


def test_what_a_host_passes_on_keeps_to_its_bytes(
    run_of_two_hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, _ = monitor_on("node1", run_of_two_hosts, monkeypatch)
    other.look()
    other.close()
    (file,) = (run_of_two_hosts / "monitor").glob("*.digest")
    assert 0 < file.stat().st_size <= 2 * EVERY_S * MOST_BYTES_PER_S


def test_only_one_monitor_judges_and_another_takes_over_when_it_ends(
    run_of_two_hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = monitor_on("node0", run_of_two_hosts, monkeypatch)
    first.look()
    second, voice = monitor_on("node0", run_of_two_hosts, monkeypatch)
    second.look()
    second.look()
    assert [list(one) for one in voice.said] == [["said"]]
    first.close()
    for _ in range(2):
        second.look()
    second.close()
    assert voice.events == [("begins", [2])]


@pytest.mark.slow("one look more of several monitors; that one judges and who is named is quick")
def test_what_the_one_that_judges_tells_is_told_once_by_each(
    run_of_two_hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, told = monitor_on("node0", run_of_two_hosts, monkeypatch)
    second, heard = monitor_on("node0", run_of_two_hosts, monkeypatch)
    for _ in range(2):
        first.look()
        second.look()
    first.close()
    for _ in range(2):
        second.look()
        second.hear_other()
    second.close()
    assert told.events == heard.events == [("begins", [2])]
    assert json_rows(run_of_two_hosts / "verdicts.jsonl") == [told.said[-1]["event"]]


def test_a_folder_that_cannot_be_written_to_is_said_and_costs_nothing(
    run_of_two_hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run_of_two_hosts / "monitor").write_text("a file where the folder should be")
    monitor, voice = monitor_on("node1", run_of_two_hosts, monkeypatch)
    monitor.look()
    monitor.look()
    monitor.close()
    assert len(voice.said) == 1
    assert "cannot be judged" in voice.said[0]["said"]


def test_a_process_that_stands_still_is_seen_among_many_of_other_hosts(
    run_of_two_hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(4, 100):
        path = run_of_two_hosts / f"timing-rank{rank}.csv"
        path.touch()
        states(path, host="elsewhere", closed=False, started_unix_ns=1, open_calls=[{}])
    monitor, _ = monitor_on("node1", run_of_two_hosts, monkeypatch)
    assert not monitor.stands_still()
    says = json.loads(sidecar_path(run_of_two_hosts / "timing-rank3.csv").read_text())
    states(run_of_two_hosts / "timing-rank3.csv", **{**says, "closed": False, "idle_stack": ["wait"]})
    assert monitor.stands_still()
    assert not monitor.stands_still()


def test_the_sidecars_of_other_hosts_are_read_once(
    run_of_two_hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def noted(path: Path) -> dict[str, Any] | None:
        parsed.append(path.name)
        return read_sidecar(path)

    monkeypatch.setattr(newest_files, "read_sidecar", noted)
    monitor, _ = monitor_on("node1", run_of_two_hosts, monkeypatch)
    for _ in range(3):
        monitor.look()
        monitor.stands_still()
    monitor.close()
    assert sorted(parsed) == [f"timing-rank{rank}.csv" for rank in range(4)]
