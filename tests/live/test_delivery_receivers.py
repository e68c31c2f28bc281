"""``verdicts.jsonl``: whole lines whatever happens to the disk, the folder and the file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from json_lines import json_rows
from limits import LIMIT_S
from open_files import is_open

from timing_logger.live.delivery import Callback, EventDelivery, NotDelivered, VerdictsFile

DISK_BYTES = 64 * 1024


def event(number: int, text: str = "") -> dict[str, object]:
    return {"id": str(number), "text": text}


def write_all(file: VerdictsFile, events: list[dict[str, object]]) -> None:
    for one in events:
        file.receive(one)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, timeout=LIMIT_S).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=LIMIT_S)


def test_each_event_is_a_line_and_what_is_there_stays(tmp_path: Path) -> None:
    for number in range(3):
        VerdictsFile(tmp_path).receive(event(number))
    assert json_rows(tmp_path / "verdicts.jsonl") == [event(number) for number in range(3)]


def test_between_events_the_file_is_not_open_and_an_event_that_is_not_taken_is_offered_five_times(
    tmp_path: Path,
) -> None:
    file = VerdictsFile(tmp_path)
    file.receive(event(0))
    assert not is_open(file.path)
    assert (file.retries, Callback.retries) == (5, 0)


def test_a_line_that_a_killed_writer_left_torn_spoils_no_further_line(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(b'{"id": "0"}\n{"id": "1", "t')
    VerdictsFile(tmp_path).receive(event(2))
    assert path.read_bytes() == b'{"id": "0"}\n{"id": "1", "t\n{"id": "2", "text": ""}\n'


def test_on_a_full_disk_no_line_is_torn_and_what_comes_when_there_is_room_again_is_written(
    small_disk: Path,
) -> None:
    file = VerdictsFile(small_disk)
    long = "x" * (DISK_BYTES // 4)
    with pytest.raises(NotDelivered, match="No space left on device"):
        write_all(file, [event(number, long) for number in range(100)])
    kept = json_rows(file.path)
    assert kept == [event(number, long) for number in range(len(kept))]
    os.truncate(file.path, 0)
    file.receive(event(100))
    assert json_rows(file.path) == [event(100)]


def test_a_full_disk_is_said_once_and_the_loss_at_the_end(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * DISK_BYTES)
    said: list[str] = []
    delivery = EventDelivery([VerdictsFile(small_disk)], said.append, first_pause_s=0.001)
    for number in range(5):
        delivery.deliver(event(number))
    assert delivery.close(LIMIT_S) == 5
    assert [said[0].endswith("does not take what it is told: No space left on device."), len(said)] == [
        True,
        2,
    ]
    assert said[1].startswith("5 events were not delivered to the file ")


def test_a_folder_that_vanished_is_not_made_again_and_one_that_came_back_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    file = VerdictsFile(folder)
    with pytest.raises(NotDelivered, match="No such file") as refused:
        file.receive(event(0))
    assert refused.value.may_later
    assert not folder.exists()
    folder.mkdir()
    file.receive(event(1))
    assert json_rows(file.path) == [event(1)]


def test_a_file_that_was_moved_away_is_begun_again(tmp_path: Path) -> None:
    file = VerdictsFile(tmp_path)
    file.receive(event(0))
    file.path.rename(tmp_path / "earlier.jsonl")
    file.receive(event(1))
    assert json_rows(file.path) == [event(1)]


@pytest.mark.parametrize("trap", ["link", "fifo"])
def test_what_is_no_file_is_not_written_to(trap: str, tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    target = tmp_path / "another"
    target.write_text("mine")
    if trap == "link":
        path.symlink_to(target)
    else:
        os.mkfifo(path)
    with pytest.raises(NotDelivered, match="it is no regular file"):
        VerdictsFile(tmp_path).receive(event(0))
    assert target.read_text() == "mine"


def test_a_new_file_has_the_permissions_that_are_asked_for(tmp_path: Path) -> None:
    VerdictsFile(tmp_path, file_mode=0o600).receive(event(0))
    assert (tmp_path / "verdicts.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow("kills at random moments; what receivers write is quick")
def test_a_writer_that_is_killed_at_any_moment_leaves_at_most_its_last_line_torn(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from timing_logger.live.delivery import VerdictsFile\n"
        "file = VerdictsFile(Path(sys.argv[1]))\n"
        "for n in range(10**9): file.receive({'id': str(n), 'text': 'x' * 5000}); print(n, flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline() for _ in range(20)]
        writer.kill()
        writer.wait(LIMIT_S)
    assert acknowledged == [f"{number}\n" for number in range(20)]
    VerdictsFile(tmp_path).receive(event(-1))
    lines = (tmp_path / "verdicts.jsonl").read_text().splitlines()
    assert [f'"id": "{number}"' in line for number, line in enumerate(lines[:20])] == [True] * 20
    assert lines[-1] == '{"id": "-1", "text": ""}'
