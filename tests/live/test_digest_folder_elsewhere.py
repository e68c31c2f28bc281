"""Hosts that share no folder hear each other through the store of the job, and go on where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from monitored_runs import is_of_host, monitor_on, write_run_of_this_host
from set_clock import SetClock
from torch.distributed import TCPStore

from timing_logger.errors import LogPathError
from timing_logger.live import digest_folder
from timing_logger.live.digest_folder import KEPT, DigestStore, Elsewhere, address_of
from timing_logger.results import criteria

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
    monkeypatch.setattr(criteria, "LOOKS_UNTIL_MISSING", 1)


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
    monkeypatch.setattr(criteria, "GONE_AFTER_S", 0.0)
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


# -- which digests of a store are read -------------------------------------------------------------------


@pytest.fixture
def ends(store: TCPStore, monkeypatch: pytest.MonkeyPatch) -> tuple[DigestStore, DigestStore]:
    """Two hosts at a store, whose digests are texts."""
    monkeypatch.setattr(digest_folder, "unpacked", bytes.decode)
    address = "127.0.0.1", store.port
    return DigestStore(*address), DigestStore(*address)


def test_digests_of_a_store_are_read_once_and_in_their_order(ends: tuple[DigestStore, DigestStore]) -> None:
    writes, reads = ends
    found = []
    for numbers in ([0, 1], [], [2]):
        for number in numbers:
            writes.write(number, str(number).encode())
        found.append([*reads.read()])
    assert found == [["0", "1"], [], ["2"]]


def test_who_reads_late_reads_those_of_which_none_is_replaced_next(
    ends: tuple[DigestStore, DigestStore],
) -> None:
    writes, reads = ends
    for number in range(20):
        writes.write(number, str(number).encode())
    assert [*reads.read()] == [str(number) for number in range(20 - KEPT + 1, 20)]


def test_each_host_has_digests_of_its_own_and_one_that_has_yet_to_write_is_passed_over(
    ends: tuple[DigestStore, DigestStore], store: TCPStore
) -> None:
    store.add("timing_logger/digests/hosts", 1)
    for host, name in zip(ends, (b"a", b"b"), strict=True):
        host.write(0, name)
    assert [*ends[0].read()] == ["a", "b"]


def test_a_damaged_digest_is_passed_over(store: TCPStore) -> None:
    own = DigestStore("127.0.0.1", store.port)
    own.write(0, b"no digest")
    assert [*own.read()] == []


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}, ("node0", 29500)),
        ({"MASTER_ADDR": "node0"}, None),
        ({"MASTER_PORT": "29500"}, None),
        ({"MASTER_ADDR": "node0", "MASTER_PORT": "auto"}, None),
    ],
)
def test_a_job_has_a_store_where_its_environment_states_host_and_port(
    environment: dict[str, str], address: tuple[str, int] | None
) -> None:
    assert address_of(environment) == address


def test_a_store_that_did_not_answer_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "1")
    clock, tries = SetClock(100.0), []

    def refuses(host: str, port: int) -> None:
        tries.append(clock.now_s)
        raise OSError("no answer")

    monkeypatch.setattr(digest_folder, "DigestStore", refuses)
    monkeypatch.setattr(time, "monotonic", clock)
    to_others = Elsewhere()
    for now_s in (100.0, 129.0, 130.0, 159.0, 160.0):
        clock.now_s = now_s
        with suppress(OSError):
            to_others.write(0, b"")
        with suppress(OSError):
            assert [*to_others.read()] == []
    assert tries == [100.0, 130.0, 160.0]


def test_without_a_store_rank_0_is_missed_half_a_minute_after_the_first_try_and_nobody_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    clock = SetClock(100.0)
    monkeypatch.setattr(time, "monotonic", clock)
    to_others = Elsewhere()
    for clock.now_s in (100.0, 129.5):
        to_others.write(0, b"")
    clock.now_s = 130.0
    with pytest.raises(LogPathError, match="the job has no store"):
        to_others.write(0, b"")
    assert [*to_others.read()] == []
