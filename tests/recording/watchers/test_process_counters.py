"""What the kernel counts for this process."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from kernel_files import KernelFiles, read

from timing_logger.recording.cores.chosen import SmallFiles
from timing_logger.recording.watchers.kernel_files import Roots
from timing_logger.recording.watchers.process_counters import ThreadWaits, process_sources

ME = str(os.getpid())


@pytest.fixture
def kernel(tmp_path: Path) -> KernelFiles:
    return KernelFiles(tmp_path)


def set_waits(kernel: KernelFiles, **waits_us: int) -> None:
    """Let these threads be all that there are; ``main`` is the main thread."""
    tasks = kernel.roots.proc / "self" / "task"
    for thread in tasks.glob("*"):
        (thread / "schedstat").unlink()
        thread.rmdir()
    for name, wait_us in waits_us.items():
        thread = ME if name == "main" else name.strip("_")
        kernel.write(f"proc/self/task/{thread}/schedstat", f"7 {wait_us * 1000} 3\n")
    fields = " ".join(["0"] * 13)
    kernel.write("proc/self/stat", f"{ME} (a ) name) S 1 1 1 {fields} {len(waits_us)} 0 9 9 1000 0\n")


def waits(source: ThreadWaits) -> tuple[float, float]:
    found = read(source)
    return found["main_run_queue_wait_us"], found["run_queue_wait_us"]


def test_what_threads_wait_adds_up_while_they_come_and_go(kernel: KernelFiles) -> None:
    set_waits(kernel, main=10, _900001=100)
    source = ThreadWaits(kernel.roots)
    first_main, first = waits(source)
    set_waits(kernel, main=15, _900001=300, _900002=7)
    waits(source)  # sees that there is another thread
    assert waits(source) == (first_main + 5, first + 5 + 200 + 7)
    set_waits(kernel, main=16, _900002=9)
    assert waits(source) == (first_main + 6, first + 5 + 200 + 7 + 1 + 2)


def test_a_thread_with_the_number_of_one_that_ended_begins_anew(kernel: KernelFiles) -> None:
    set_waits(kernel, main=0, _900001=100)
    source = ThreadWaits(kernel.roots)
    _, first = waits(source)
    set_waits(kernel, main=0, _900001=3)
    assert waits(source)[1] == first + 3


def test_of_many_threads_those_that_wait_are_looked_at_each_time_and_the_others_in_turn(
    kernel: KernelFiles,
) -> None:
    names = [f"_9{number:05}" for number in range(60)]
    set_waits(kernel, main=0, **dict.fromkeys(names, 50))
    source = ThreadWaits(kernel.roots)
    _, first = waits(source)
    for step in range(1, 10):
        set_waits(kernel, main=0, **{**dict.fromkeys(names, 50), names[40]: 50 + step})
        paths = source.paths()
        assert len(paths) <= 11
        source.values(SmallFiles().read(paths))
    set_waits(kernel, main=0, **{**dict.fromkeys(names, 51), names[40]: 70})
    found = waits(source)[1]
    assert found >= first + 20  # the busy one at once
    for _ in range(60):
        found = waits(source)[1]
    assert found == first + 20 + 59


def test_the_memory_is_that_of_the_process_whatever_its_name(kernel: KernelFiles) -> None:
    set_waits(kernel, main=0)
    pages = 1000
    assert read(ThreadWaits(kernel.roots))["resident_mb"] == pages * os.sysconf("SC_PAGE_SIZE") // 10**6


def test_where_the_kernel_states_nothing_nothing_is_known(tmp_path: Path) -> None:
    of_files = [source for source in process_sources(Roots(tmp_path, tmp_path)) if source.paths()]
    assert len(of_files) == 2
    assert read(of_files) == {}


@pytest.fixture
def sleeping_thread() -> Iterator[threading.Thread]:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield thread
    over.set()
    thread.join()


def test_this_process_has_a_file_for_each_of_its_threads(sleeping_thread: threading.Thread) -> None:
    paths = ThreadWaits(Roots()).paths()
    for thread in (os.getpid(), sleeping_thread.native_id):
        assert f"/proc/self/task/{thread}/schedstat" in paths


def test_what_this_process_wrote_to_a_disk_is_counted(tmp_path: Path) -> None:
    sources = process_sources(Roots())
    before = read(sources)
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(10_000_000))
        file.flush()
        os.fsync(file.fileno())
    if "process_written_kb" not in before:
        pytest.skip("this kernel does not count what processes write")
    if os.statvfs(tmp_path).f_fsid == os.statvfs("/dev/shm").f_fsid:
        pytest.skip("the folder for temporary files is in memory")
    assert 10_000 <= read(sources)["process_written_kb"] - before["process_written_kb"] < 20_000


def test_bytes_of_disks_are_in_kilobytes_and_not_those_of_calls(kernel: KernelFiles) -> None:
    kernel.write("proc/self/io", "rchar: 9000000\nwchar: 8000000\nread_bytes: 5999\nwrite_bytes: 7000\n")
    found = read(process_sources(kernel.roots))
    assert (found["process_read_kb"], found["process_written_kb"]) == (5, 7)


def test_a_kernel_that_counts_no_writes_states_what_was_read(kernel: KernelFiles) -> None:
    kernel.write("proc/self/io", "read_bytes: 5000\n")
    found = read(process_sources(kernel.roots))
    assert found["process_read_kb"] == 5
    assert "process_written_kb" not in found


def test_the_use_of_the_process_is_in_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    used = SimpleNamespace(ru_nivcsw=4, ru_nvcsw=90, ru_majflt=2, ru_minflt=70)
    asked: list[int] = []
    monkeypatch.setattr(resource, "getrusage", lambda who: (asked.append(who), used)[1])
    monkeypatch.setattr(time, "process_time_ns", lambda: 12_345_678)
    assert read(process_sources(Roots())[1]) == {
        "process_cpu_us": 12_345,
        "involuntary_switches": 4,
        "major_faults": 2,
    }
    assert asked == [resource.RUSAGE_SELF]


def test_the_first_reading_looks_at_all_threads_and_a_later_one_at_ten(kernel: KernelFiles) -> None:
    set_waits(kernel, main=0, **{f"_9{number:05}": 5 for number in range(29)})
    source = ThreadWaits(kernel.roots)
    assert len(source.paths()) == 1 + 30
    source.values(SmallFiles().read([str(kernel.roots.proc / "self" / "stat"), *[""] * 30]))
    assert len(source.paths()) in (1 + 9, 1 + 10)  # the main thread may be among the others, too


def test_the_seven_threads_that_waited_most_are_looked_at_again(kernel: KernelFiles) -> None:
    waits_us = {f"_9{number:05}": 10 + number for number in range(40)}
    set_waits(kernel, main=0, **waits_us)
    source = ThreadWaits(kernel.roots)
    waits(source)
    again = {path.rpartition("/task/")[2].partition("/")[0] for path in source.paths()[1:9]}
    assert again == {ME, *(f"9{number:05}" for number in range(33, 40))}


def test_a_thread_that_has_not_waited_more_is_none_of_the_busy_ones(kernel: KernelFiles) -> None:
    set_waits(kernel, main=3, _900001=5)
    source = ThreadWaits(kernel.roots)
    waits(source)
    assert source._busy == [ME, "900001"]
    set_waits(kernel, main=3, _900001=6)
    waits(source)
    assert source._busy == ["900001"]
