"""Hosts that share a folder find each other's digests there, and only one process of each writes them."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
import warm
from digests import digest_of
from limits import LIMIT_S
from simulated_runs import data_parallel, factors

from timing_logger.live.digest_folder import KEPT, NAME, DigestFolder
from timing_logger.live.packed import packed

DIGEST = digest_of(data_parallel(factors(5, 2)))
CLAIM = """
import sys
from pathlib import Path
from timing_logger.live.digest_folder import DigestFolder
folder = DigestFolder(Path(sys.argv[1]))
print(folder.claim("node1"), flush=True)
sys.stdin.read()
"""


def write(folder: DigestFolder, source: str, number: int, ago_s: float = 0.0) -> None:
    digest = DIGEST._replace(source=source, number=number, unix_s=time.time() - ago_s)
    folder.write(source, number, packed(digest))


def test_each_digest_is_read_once_and_those_of_a_host_in_their_order(tmp_path: Path) -> None:
    folder = DigestFolder(tmp_path)
    folder.claim("node1")
    for number in (0, 1):
        write(folder, "node2", number)
        write(folder, "node1", number)
    reader = DigestFolder(tmp_path)
    assert [(one.source, one.number) for one in reader.read()] == [
        ("node1", 0), ("node1", 1), ("node2", 0), ("node2", 1),
    ]  # fmt: skip
    write(folder, "node1", 2)
    assert [(one.source, one.number) for one in reader.read()] == [("node1", 2)]


def test_the_folder_stays_small(tmp_path: Path) -> None:
    folder = DigestFolder(tmp_path)
    folder.claim("node1")
    for number in range(5 * KEPT):
        write(folder, "node1", number)
    assert len(list((tmp_path / NAME).glob("*.digest"))) == KEPT
    assert [one.number for one in DigestFolder(tmp_path).read()] == list(range(4 * KEPT, 5 * KEPT))


def test_what_is_damaged_or_old_is_left_out(tmp_path: Path) -> None:
    folder = DigestFolder(tmp_path)
    folder.claim("node1")
    write(folder, "node1", 0)
    write(folder, "node2", 0, ago_s=3600)
    (tmp_path / NAME / "node3.0.digest").write_bytes(b"torn")
    assert [one.source for one in DigestFolder(tmp_path).read()] == ["node1"]


def test_a_digest_of_the_last_minute_is_new_enough(tmp_path: Path) -> None:
    folder = DigestFolder(tmp_path)
    folder.claim("node1")
    write(folder, "node1", 0, ago_s=40)
    write(folder, "node2", 0, ago_s=100)
    assert [one.source for one in DigestFolder(tmp_path).read()] == ["node1"]


def test_a_run_without_digests_has_none(tmp_path: Path) -> None:
    assert list(DigestFolder(tmp_path).read()) == []


def test_a_claim_is_that_of_one_until_it_lets_go(tmp_path: Path) -> None:
    folder, other = DigestFolder(tmp_path), DigestFolder(tmp_path)
    assert other.claim("node1")
    assert not folder.claim("node1")
    assert folder.claim("node2")
    other.let_go()
    assert folder.claim("node1")


@pytest.mark.slow("a process more; a claim is of one alone until that lets go, above")
def test_a_claim_is_that_of_one_process_until_it_ends(tmp_path: Path) -> None:
    command = [warm.python(), "-c", CLAIM, str(tmp_path)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        folder = DigestFolder(tmp_path)
        assert not folder.claim("node1")
        assert folder.claim("node2")
    finally:
        other.communicate(timeout=LIMIT_S)  # the end of its input ends it
    assert folder.claim("node1")
