"""Which control groups a process is in, how their quotas stopped it, and what they leave it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from kernel_files import KernelFiles, read
from processes import run_python

from timing_logger.recording.watchers.kernel_files import Roots
from timing_logger.recording.watchers.process_counters import Quotas, group_folders

CORES = len(os.sched_getaffinity(0))


@pytest.fixture
def kernel(tmp_path: Path) -> KernelFiles:
    return KernelFiles(tmp_path)


def in_v2(kernel: KernelFiles, path: str, *, shown: str = "/") -> Path:
    folder = kernel.roots.sys / "fs" / "cgroup"
    kernel.write("proc/self/cgroup", f"1:cpuset:/other\n0::{path}\n")
    kernel.write("proc/self/mountinfo", f"41 31 0:38 {shown} {folder} rw - cgroup2 cgroup2 rw,nsdelegate\n")
    return folder


def in_v1(kernel: KernelFiles, path: str) -> Path:
    folder = kernel.roots.sys / "fs" / "cgroup" / "cpu"
    kernel.write("proc/self/cgroup", f"4:cpu,cpuacct:{path}\n0::/elsewhere\n")
    kernel.write("proc/self/mountinfo", f"32 31 0:29 / {folder} rw,relatime - cgroup cgroup rw,cpu,cpuacct\n")
    return folder


def test_the_groups_around_a_process_are_found_from_the_inside_out(kernel: KernelFiles) -> None:
    folder = in_v2(kernel, "/job/rank0")
    assert group_folders(kernel.roots, "") == [folder / "job" / "rank0", folder / "job", folder]


def test_in_a_container_only_what_is_mounted_is_looked_for(kernel: KernelFiles) -> None:
    folder = in_v2(kernel, "/pods/one/own", shown="/pods/one")
    assert group_folders(kernel.roots, "") == [folder / "own", folder]
    assert group_folders(kernel.roots, "cpu") == []


@pytest.mark.parametrize("path", ["/../..", "/pods/other"])
def test_a_group_outside_of_what_is_mounted_is_not_seen(kernel: KernelFiles, path: str) -> None:
    in_v2(kernel, path, shown="/pods/one")
    assert group_folders(kernel.roots, "") == []


def test_the_quota_of_a_group_around_its_own_counts(kernel: KernelFiles) -> None:
    in_v2(kernel, "/job/rank0/inner")
    for group, quota, throttled in (
        ("job", "50000 100000", "nr_throttled 2\nthrottled_usec 300"),
        ("job/rank0", "max 100000", "nr_throttled 9\nthrottled_usec 900"),
        ("job/rank0/inner", "max 100000", "nr_throttled 1\nthrottled_usec 5"),
    ):
        kernel.write(f"sys/fs/cgroup/{group}/cpu.max", quota + "\n")
        kernel.write(f"sys/fs/cgroup/{group}/cpu.stat", f"usage_usec 3\n{throttled}\n")
    found = read(Quotas(kernel.roots))
    assert found == {"usable_cores": 0.5, "throttled_periods": 3, "throttled_us": 305}


def test_version_1_states_its_time_in_nanoseconds(kernel: KernelFiles) -> None:
    in_v1(kernel, "/rank0")
    kernel.write("sys/fs/cgroup/cpu/rank0/cpu.stat", "nr_periods 5\nnr_throttled 4\nthrottled_time 7000\n")
    kernel.write("sys/fs/cgroup/cpu/rank0/cpu.cfs_quota_us", "-1\n")
    kernel.write("sys/fs/cgroup/cpu/rank0/cpu.cfs_period_us", "100000\n")
    quotas = Quotas(kernel.roots)
    assert read(quotas) == {"usable_cores": CORES, "throttled_periods": 4, "throttled_us": 7}
    kernel.write("sys/fs/cgroup/cpu/rank0/cpu.cfs_quota_us", "25000\n")
    assert read(Quotas(kernel.roots))["usable_cores"] == 0.25


def test_of_several_quotas_the_least_counts_and_all_of_their_groups(kernel: KernelFiles) -> None:
    in_v2(kernel, "/job/rank0")
    for group, quota, throttled in (
        ("job", "25000 100000", "nr_throttled 2\nthrottled_usec 300"),
        ("job/rank0", "33333 100000", "nr_throttled 1"),
    ):
        kernel.write(f"sys/fs/cgroup/{group}/cpu.max", quota + "\n")
        kernel.write(f"sys/fs/cgroup/{group}/cpu.stat", f"usage_usec 3\n{throttled}\nof another kernel 7\n")
    assert read(Quotas(kernel.roots)) == {"usable_cores": 0.25, "throttled_periods": 3, "throttled_us": 300}
    kernel.write("sys/fs/cgroup/job/cpu.max", "max 100000\n")
    assert read(Quotas(kernel.roots)) == {"usable_cores": 0.33, "throttled_periods": 1, "throttled_us": 0}


@pytest.mark.parametrize("quota", ["0 100000", "-1 100000", "50000 0", "50000", ""])
def test_what_is_no_quota_leaves_the_cores_of_the_affinity(kernel: KernelFiles, quota: str) -> None:
    in_v2(kernel, "/rank0")
    kernel.write("sys/fs/cgroup/rank0/cpu.max", quota + "\n")
    kernel.write("sys/fs/cgroup/rank0/cpu.stat", "nr_throttled 0\nthrottled_usec 0\n")
    quotas = Quotas(kernel.roots)
    assert read(quotas) == {"usable_cores": CORES, "throttled_periods": 0, "throttled_us": 0}
    assert quotas.why == ""


def test_a_group_that_is_the_mounted_one_has_no_groups_around_it(kernel: KernelFiles) -> None:
    folder = in_v2(kernel, "/pods/one", shown="/pods/one")
    assert group_folders(kernel.roots, "") == [folder]
    in_v2(kernel, "/pods/one-more", shown="/pods/one")
    assert group_folders(kernel.roots, "") == []


def test_without_control_groups_the_cores_are_those_of_the_affinity(kernel: KernelFiles) -> None:
    quotas = Quotas(kernel.roots)
    assert read(quotas) == {"usable_cores": CORES}
    assert quotas.why == "no control group of the process states how it is throttled"


BUSY_UNDER_A_QUOTA = """
import os, sys, time
from pathlib import Path
group = Path(sys.argv[1])
(group / "cgroup.procs").write_text(str(os.getpid()))
sys.path.insert(0, sys.argv[2])
from kernel_files import read
from timing_logger.recording.watchers.process_counters import Quotas
from timing_logger.recording.watchers.kernel_files import Roots
quotas = Quotas(Roots())
before = read(quotas)
while read(quotas)["throttled_periods"] - before["throttled_periods"] < 5:
    sum(range(10_000))
after = read(quotas)
print(after["usable_cores"], after["throttled_us"] - before["throttled_us"])
"""


@pytest.mark.slow("a real control group; what its files say is quick")
def test_a_real_quota_is_seen_to_stop_the_process() -> None:
    folders = group_folders(Roots(), "cpu")
    is_writable = folders and os.access(folders[-1] / "cgroup.procs", os.W_OK)
    if not is_writable:
        pytest.skip("no control group (version 1) with a quota can be made here")
    group = folders[-1] / f"timing-logger-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        (group / "cpu.cfs_quota_us").write_text("20000")
        helpers = str(Path(sys.modules["kernel_files"].__file__ or "").parent)
        done = run_python(BUSY_UNDER_A_QUOTA, group, helpers)
        assert done.returncode == 0, done.stderr
        cores, stopped_us = map(float, done.stdout.split())
        assert cores == 0.2
        assert stopped_us > 5000
    finally:
        group.rmdir()
