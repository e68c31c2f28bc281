"""A run is watched while its files grow, are replaced or go away."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import warm
from limits import LIMIT_S
from processes import INTERRUPTIBLE_CLI
from simulated_runs import data_parallel, factors
from timing_files import content, record, write_sidecar, write_table, write_timing_file

from timing_logger import TimingLogger
from timing_logger.live.digest import Digest
from timing_logger.live.watcher import Watcher
from timing_logger.schema.sidecar import Counters

ENDLESS_S = 1e9


def steps(first: int, last: int) -> bytes:
    """Rows of these iterations, without the header."""
    records = [record("FORWARD", 1 + 0.1 * i, 50.0, iteration=i) for i in range(first, last)]
    return content(records).split(b"\n", 1)[1]


def test_rows_that_the_sidecar_has_not_counted_yet_are_counted(tmp_path: Path) -> None:
    path = write_timing_file(tmp_path, 0, [record(iteration=0)])
    write_sidecar(path, closed=False, counters=Counters(1, 1, 0, 0))
    watcher = Watcher(tmp_path, ENDLESS_S)
    watcher.snapshot()
    with path.open("ab") as file:
        file.write(steps(1, 30))
    (rank,) = watcher.snapshot().ranks
    assert (rank.written, rank.iteration) == (30, 29)


@pytest.mark.slow("test_tails_growing_file.py has lines that are completed later")
def test_a_line_that_is_not_finished_is_read_when_it_is(tmp_path: Path) -> None:
    path = write_timing_file(tmp_path, 0, [record(iteration=0)])
    watcher = Watcher(tmp_path, ENDLESS_S)
    line = steps(1, 2)
    for part, seen in ((line[:20], 0), (line[20:], 1)):
        with path.open("ab") as file:
            file.write(part)
        assert watcher.snapshot().ranks[0].iteration == seen


def cut(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.slow("test_tails.py reads a file anew that takes the place of another")
@pytest.mark.parametrize("n_rows", [3, 80])
@pytest.mark.parametrize("replace", [Path.unlink, cut], ids=["new", "cut"])
def test_a_run_that_takes_the_place_of_another_is_read_from_its_beginning(
    tmp_path: Path, replace: Callable[[Path], None], n_rows: int
) -> None:
    path = write_timing_file(tmp_path, 0, [record("FORWARD", 1 + i, iteration=i) for i in range(50)])
    watcher = Watcher(tmp_path, ENDLESS_S)
    assert watcher.snapshot().ranks[0].iteration == 49
    replace(path)
    path.write_bytes(content([record("FORWARD", 100 + i, iteration=i) for i in range(n_rows)]))
    (rank,) = watcher.snapshot().ranks
    assert (rank.written, rank.iteration) == (n_rows, n_rows - 1)


@pytest.mark.slow("test_newest_files.py finds the files of a rank that restarts")
def test_a_restart_is_followed_into_its_own_files(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [record(iteration=90)])
    watcher = Watcher(tmp_path, ENDLESS_S)
    watcher.snapshot()
    write_timing_file(tmp_path, 0, [record(iteration=4)], incarnation=2)
    (rank,) = watcher.snapshot().ranks
    assert (rank.incarnation, rank.iteration) == (2, 4)


def test_a_run_has_not_ended_while_a_rank_has_yet_to_begin(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path, ENDLESS_S)
    for rank, ended in ((0, False), (1, True)):
        with TimingLogger(rank, tmp_path, world_size=2) as logger:
            logger.record_timing("FORWARD", 1.0, iteration=1)
        assert watcher.snapshot().end.ended == ended


@pytest.mark.parametrize(("world_size", "asked"), [(2, [0, 0, 0, 1, 2]), (1, [0] * 5), (None, [0] * 5)])
def test_elsewhere_is_asked_once_a_rank_was_missing_in_three_looks(
    tmp_path: Path, world_size: int | None, asked: list[int]
) -> None:
    write_sidecar(write_timing_file(tmp_path, 0, [record(iteration=0)]), world_size=world_size)
    asks: list[str] = []

    def elsewhere() -> list[Digest]:
        asks.append("asked")
        return []

    watcher = Watcher(tmp_path, ENDLESS_S, elsewhere=elsewhere)
    watcher._window.add(watcher._collector.digest())
    found = []
    for _ in range(5):
        watcher._hear_elsewhere()
        found.append(len(asks))
    assert found == asked


def test_a_host_is_read_itself_once_it_has_written_no_digest_for_half_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher(tmp_path, is_wanted=lambda sidecar: "unwanted" not in sidecar)
    watcher._written_unix_s["node1"] = 1000.0
    read = []
    for now_s in (1030.0, 1030.5):
        monkeypatch.setattr(time, "time", lambda now_s=now_s: now_s)
        read.append([watcher._is_read({"host": host}) for host in ("node1", "node2")])
    assert read == [[False, True], [True, True]]
    assert not watcher._is_read({"host": "node2", "unwanted": True})


# -- the command -----------------------------------------------------------------------------------------


class Watched:
    """``timing-logger watch`` in a terminal of its own."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process, self.terminal = process, terminal
        self.printed = b""

    def until(self, text: bytes) -> None:
        """Read what it draws until ``text`` is there; forgets what came before."""
        deadline = time.monotonic() + LIMIT_S
        while text not in self.printed:
            assert time.monotonic() < deadline, self.printed[-2000:]
            self.printed += os.read(self.terminal, 65536)
        self.printed = b""


@contextmanager
def watched(folder: Path) -> Iterator[Watched]:
    controller, terminal = pty.openpty()
    command = [warm.python(), "-c", INTERRUPTIBLE_CLI, "watch", str(folder), "--interval", "0.05"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "110", "LINES": "40"}
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True
    )
    os.close(terminal)
    try:
        yield Watched(process, controller)
    finally:
        process.kill()
        process.wait()
        os.close(controller)


def test_in_a_terminal_it_draws_anew_and_ends_with_an_interrupt(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "run", data_parallel(factors(12, 2)), closed=False)
    with watched(folder) as watch:
        watch.until(b"Verdict")
        watch.until(b"Verdict")
        watch.process.send_signal(signal.SIGINT)
        watch.until(b"\x1b[?25h")  # the cursor is given back
        assert watch.process.wait(LIMIT_S) == 0


@pytest.mark.slow(
    "a run is waited for in test_commands.py; test_tails.py reads one that takes the place of another"
)
def test_it_waits_for_the_next_run_where_the_folder_is_emptied(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "run", data_parallel(factors(12, 2)), closed=False)
    with watched(folder) as watch:
        watch.until(b"2 ranks")
        shutil.rmtree(folder)
        watch.until(b"2 ranks")
        write_table(folder, data_parallel(factors(12, 3)), closed=False)
        watch.until(b"3 ranks")


@pytest.mark.slow("test_commands.py begins with a folder that is not there yet")
def test_a_folder_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    with watched(tmp_path / "later") as watch:
        watch.until(b"No timing files yet")
        write_table(tmp_path / "later", data_parallel(factors(12, 3)), closed=False)
        watch.until(b"3 ranks")
