"""Hosts that share no folder hear each other through the store of the job, and go on where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from monitored_runs import is_of_host, monitor_on, write_run_of_this_host
from torch.distributed import TCPStore

from timing_logger.engine.live import watcher
from timing_logger.monitoring import elsewhere
from timing_logger.monitoring.elsewhere import Elsewhere

ENOUGH_LOOKS = 4
"""Until the one that judges asks elsewhere, where nobody is late, and has said the same twice."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> TCPStore:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(store.port))
    return store


@pytest.fixture
def nobody_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that judges asks elsewhere after one look without a rank."""
    monkeypatch.setattr(watcher, "_LATE_LOOKS", 1)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The log folders of two hosts, with two of four ranks each; rank 2 is slow."""
    found = []
    for host in range(2):
        folder = write_run_of_this_host(tmp_path / f"node{host}", steps=60)
        for rank in range(4):
            file = folder / f"timing-rank{rank}.csv"
            is_of_host(file, f"node{rank // 2}")
            if rank // 2 != host:
                file.unlink()
                file.with_name(f"timing-rank{rank}.meta.json").unlink()
        found.append(folder)
    return found[0], found[1]


@pytest.mark.slow("six looks on two hosts; what a host passes on, and that it reaches the store, is quick")
@pytest.mark.usefixtures("nobody_is_late")
def test_a_rank_that_only_another_host_sees_is_named(
    folders: tuple[Path, Path], store: TCPStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, silent = monitor_on("node1", folders[1], monkeypatch)
    judge, voice = monitor_on("node0", folders[0], monkeypatch)
    other.look()
    for _ in range(ENOUGH_LOOKS):
        judge.look()
    for monitor in (judge, other):
        monitor.close()
    assert voice.events == [("begins", [2])]
    assert silent.said == []


def test_without_a_store_it_is_said_once_that_other_hosts_are_not_seen(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.setattr(elsewhere, "_LATE_S", 0.0)
    other, voice = monitor_on("node1", folders[1], monkeypatch)
    for _ in range(2):
        other.look()
    other.close()
    (said,) = voice.said
    assert "Put log_dir on a file system that the hosts share" in said["said"]


def test_rank_0_is_not_missed_while_it_may_only_be_late_to_begin(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    early, voice = monitor_on("node1", folders[1], monkeypatch)
    for _ in range(2):
        early.look()
    early.close()
    assert voice.said == []


@pytest.mark.slow("waits for the time limit of a store; what stores pass on is quick")
@pytest.mark.usefixtures("nobody_is_late")
def test_a_store_that_is_gone_is_said_once_and_the_own_host_is_judged(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "1")
    judge, voice = monitor_on("node0", folders[0], monkeypatch)
    for _ in range(ENOUGH_LOOKS):
        judge.look()
    judge.close()
    assert [list(one) for one in voice.said] == [["said"]]
    assert "ranks of other hosts cannot be seen" in voice.said[0]["said"]


def test_the_store_of_ranks_is_found_where_only_they_know_of_it(
    store: TCPStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = [sys.executable, "-c", "print(flush=True); input()"]
    rank = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ))
    try:
        assert rank.stdout is not None
        rank.stdout.readline()  # before it runs, the kernel may show no environment of it
        monkeypatch.delenv("MASTER_ADDR")
        to_others = Elsewhere()
        to_others.pid = rank.pid
        to_others.write(0, b"a digest")
        assert store.get("timing_logger/digests/0/0") == b"a digest"
    finally:
        rank.kill()
        rank.wait()
