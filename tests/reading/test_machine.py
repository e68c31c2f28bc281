"""What the machine has, and what becomes of freed memory where the C library is glibc."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from limits import PROCESS_S

from timing_logger.reading import machine
from timing_logger.reading.machine import (
    free_memory_bytes,
    give_back_freed_memory,
    keep_freed_memory,
    usable_cores,
)

PAGES_OF_FIVE_ARRAYS_AT_A_TIME = """
import resource
import numpy as np
from timing_logger.reading.machine import give_back_freed_memory, keep_freed_memory

def new_pages(rounds, after_each_round):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        arrays = [np.ones(2**18) for _ in range(5)]  # 2 MiB each: too small for huge pages
        del arrays
        after_each_round()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
for after_each_round in (lambda: None, give_back_freed_memory):
    new_pages(1, after_each_round)
    print(new_pages(10, after_each_round) / 10)
"""


AS_TOLD = pytest.mark.slow(
    "how often memory is asked for, of which no result depends; numpy in a process of its own"
)


@pytest.fixture(scope="module")
def new_pages_per_round() -> tuple[float, float]:
    """Where the memory is kept, and where it is given back after each round."""
    program = [sys.executable, "-c", PAGES_OF_FIVE_ARRAYS_AT_A_TIME]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PROCESS_S, check=True)
    kept, given_back = map(float, done.stdout.split())
    return kept, given_back


@AS_TOLD
@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to")
def test_memory_that_is_kept_is_used_again_without_asking_the_system(
    new_pages_per_round: tuple[float, float],
) -> None:
    assert new_pages_per_round[0] < 10


@AS_TOLD
@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to")
def test_memory_that_is_given_back_has_to_be_asked_for_again(
    new_pages_per_round: tuple[float, float],
) -> None:
    pages_of_five_arrays = 5 * 2**21 // 4096
    assert new_pages_per_round[1] > pages_of_five_arrays / 2


def test_glibc_is_told_in_its_own_numbers_and_another_library_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[object, ...]] = []

    def of_glibc(name: str) -> object:
        return lambda *given: told.append((name, *given))

    monkeypatch.setattr(machine, "_of_glibc", of_glibc)
    keep_freed_memory()
    give_back_freed_memory()
    assert {("mallopt", -8, 1), ("malloc_trim", 0)} <= set(told)  # M_ARENA_MAX of <malloc.h>
    # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD
    assert {option for name, option, *_ in told if name == "mallopt"} == {-8, -1, -2, -3}
    monkeypatch.setattr(machine, "_of_glibc", lambda name: None)
    keep_freed_memory()
    give_back_freed_memory()


def test_only_on_linux_the_library_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine._of_glibc("no_such_function") is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert machine._of_glibc("malloc") is None


def test_the_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = {0: {2, 4, 5}}  # 0 is this process
    monkeypatch.setattr(os, "sched_getaffinity", allowed.__getitem__, raising=False)
    assert usable_cores() == 3


@pytest.mark.parametrize(("cores", "usable"), [(6, 6), (None, 1)])
def test_where_the_system_does_not_tell_all_cores_are_usable(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, usable: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert usable_cores() == usable


@pytest.mark.parametrize(
    ("content", "n_bytes"),
    [("MemTotal: 9 kB\nMemAvailable:  3 kB\n", 3072.0), ("MemTotal: 9 kB\n", math.inf), (None, math.inf)],
)
def test_free_memory_is_what_linux_states_and_else_it_is_infinite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, n_bytes: float
) -> None:
    path = tmp_path / "meminfo"
    if content is not None:
        path.write_text(content)
    monkeypatch.setattr(machine, "MEMORY_INFO", path)
    assert free_memory_bytes() == n_bytes
