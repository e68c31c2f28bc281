"""The ring in C, without an interpreter: any number of threads put records, one writes them."""

from __future__ import annotations

import csv
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from conditions import wait_for
from limits import LIMIT_S, PROCESS_S
from places import ROOT, TESTS
from slow import slow

from timing_logger.schema.columns_in_c import HEADER_FILE, columns_header
from timing_logger.schema.record import HEADER, Record
from timing_logger.schema.ring_file import read_ring

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

SHARED = ROOT / "timing_logger" / "csrc"
THREADS = 64
COLUMNS = HEADER.strip().split(",")


def compiled(folder: Path, *options: str, name: str = "producers") -> Path:
    """Compile ``native_programs/{name}.c`` with the ring of the native core."""
    folder.mkdir()
    (folder / HEADER_FILE).write_text(columns_header())
    sources = [TESTS / "native_programs" / f"{name}.c", *sorted(SHARED.glob("*.c"))]
    command = ["cc", "-std=gnu11", "-pthread", *options, f"-I{folder}", f"-I{SHARED}"]
    subprocess.run([*command, *map(str, sources), "-o", folder / name], check=True, timeout=PROCESS_S)
    return folder / name


@pytest.fixture(scope="module")
def producers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("plain") / "built", "-O1")


def files(folder: Path) -> tuple[Path, Path, Path]:
    folder.mkdir(exist_ok=True)
    return folder / "ring", folder / "rows.csv", folder / "done"


def in_file(path: Path) -> list[tuple[int, int, str]]:
    """Return thread, number and operation of each row of a file, of which the last may be torn."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    rows = list(csv.reader(line for line in lines if line.endswith("\n")))
    assert {len(row) for row in rows} <= {len(COLUMNS)}
    peer, iteration, operation = (COLUMNS.index(name) for name in ("peer", "iteration", "operation"))
    return [(int(row[peer]), int(row[iteration]), row[operation]) for row in rows]


def assert_each_once_and_in_order(rows: Iterable[tuple[int, int, str]]) -> None:
    last: dict[int, int] = defaultdict(lambda: -1)
    for thread, number, operation in rows:
        assert number > last[thread], "a row twice, or too early"
        last[thread] = number
        of_thread, of_number = map(int, re.fullmatch(r"T(\d+)-(\d+)", operation).groups())  # type: ignore[union-attr]
        assert of_thread == thread
        assert of_number <= number, "a name of another record"


def said_by(command: list[Any], **environment: str) -> list[int]:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
        env={**os.environ, **environment},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [int(number) for number in re.findall(r"\d+", done.stdout)]


@pytest.mark.parametrize("each", [1000, slow(5000, "the same race five times as long")])
@pytest.mark.parametrize(
    "capacity",
    [1, 1000, slow(10**6, "none is dropped there; where some are, all others are checked")],
)
def test_what_64_threads_put_at_once_is_written_once_each_or_counted_as_dropped(
    producers: Path, tmp_path: Path, capacity: int, each: int
) -> None:
    paths = files(tmp_path)
    n_put, n_dropped, n_waiting, n_open = said_by([producers, *paths, capacity, THREADS, each])
    rows = in_file(paths[1])
    assert (n_put + n_dropped, n_waiting, n_open) == (THREADS * each, 0, 0)
    assert len(rows) == n_put
    assert_each_once_and_in_order(rows)


@pytest.mark.slow("the pattern of accesses; what threads put at once is quick")
def test_no_two_of_64_threads_touch_one_word_unordered(tmp_path: Path) -> None:
    try:
        program = compiled(tmp_path / "built", "-O1", "-g", "-fsanitize=thread")
    except subprocess.CalledProcessError:
        pytest.skip("the compiler has no ThreadSanitizer")
    paths = files(tmp_path / "logs")
    # Without a fixed layout of memory the ThreadSanitizer of older compilers does not start on newer kernels.
    numbers = said_by(["setarch", "-R", program, *paths, 500, THREADS, 1000], TSAN_OPTIONS="halt_on_error=1")
    assert sum(numbers[:2]) == THREADS * 1000
    assert_each_once_and_in_order(in_file(paths[1]))


def killed(producers: Path, paths: tuple[Path, Path, Path], after_s: float) -> list[int]:
    """Kill the program while its threads put records; return for how many of each thread that was done."""
    command = list(map(str, [producers, *paths, 300, 8, 200, "for ever"]))
    with subprocess.Popen(command) as process:
        wait_for(lambda: paths[2].exists() and any(paths[2].read_bytes()), by=process)
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
    return list(struct.unpack("=8Q", paths[2].read_bytes()[: 8 * 8]))


def in_ring(path: Path) -> tuple[list[tuple[int, int, str]], int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        ring = read_ring(descriptor)
    finally:
        os.close(descriptor)
    records = [Record._make(record) for record in ring.records]
    return [(record.peer, record.iteration, record.operation) for record in records], ring.damaged  # type: ignore[misc]


@pytest.mark.parametrize("trials", [2, slow(20, "the same at more moments")])
def test_a_kill_at_any_moment_costs_no_record_whose_put_had_returned(
    producers: Path, tmp_path: Path, trials: int
) -> None:
    chance = random.Random(0)
    for trial in range(trials):
        paths = files(tmp_path / str(trial))
        done = killed(producers, paths, chance.random() / 200)
        held, n_damaged = in_ring(paths[0])
        written = in_file(paths[1])
        assert_each_once_and_in_order(written)
        assert n_damaged <= len(done), "more than each thread had under way"
        in_both = set(written)
        found = [*written, *(one for one in held if one not in in_both)]  # the last batch may be in both
        assert_each_once_and_in_order(found)
        n_found = Counter(thread for thread, _, _ in found)
        assert [n for thread, n in enumerate(done) if n_found[thread] < n] == []


@pytest.mark.slow("the longest of names; usual lines are quick")
def test_lines_have_room_for_the_longest_name_even_if_the_ring_has_no_number_for_it(tmp_path: Path) -> None:
    """The process may write that line from elsewhere, into the same buffer."""
    assert said_by([compiled(tmp_path / "built", "-O1", name="longest_name")]) == [5000]


@pytest.mark.slow("races of a close; what 64 threads put at once is quick")
@pytest.mark.parametrize("rings", [20, 1000])
def test_a_ring_that_is_shut_or_moved_while_threads_put_takes_nothing_later_and_loses_nothing(
    tmp_path: Path, rings: int
) -> None:
    program = compiled(tmp_path / "built", "-O3", name="shut")
    assert said_by([program, tmp_path, rings]) == [0, 0, 0]
