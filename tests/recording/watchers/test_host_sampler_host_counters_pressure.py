"""Pressure on the host and on the process's own control group."""

from __future__ import annotations

from pathlib import Path

from kernel_files import KernelFiles, read

from timing_logger.recording.watchers.host_sampler import pressure_sources

STATED = "some avg10=1.58 avg60=1.62 avg300=1.43 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={}\n"


def test_the_totals_of_each_resource_are_told_apart(tmp_path: Path) -> None:
    kernel = KernelFiles(tmp_path)
    for at, resource in enumerate(("cpu", "io", "memory")):
        kernel.write(f"proc/pressure/{resource}", STATED.format(10 * at + 1, 10 * at + 2))
    assert read(pressure_sources(kernel.roots)) == {
        "cpu_pressure_some_us": 1, "cpu_pressure_full_us": 2, "io_pressure_some_us": 11,
        "io_pressure_full_us": 12, "memory_pressure_some_us": 21, "memory_pressure_full_us": 22,
    }  # fmt: skip


def test_a_kernel_that_states_only_some_is_read(tmp_path: Path) -> None:
    kernel = KernelFiles(tmp_path)
    kernel.write("proc/pressure/cpu", STATED.format(5, 6).splitlines()[0] + "\n")
    assert read(pressure_sources(kernel.roots)) == {"cpu_pressure_some_us": 5}


def in_group(tmp_path: Path, path: str) -> KernelFiles:
    kernel = KernelFiles(tmp_path)
    mount = tmp_path / "sys" / "fs" / "cgroup"
    kernel.write("proc/self/cgroup", f"0::{path}\n")
    kernel.write("proc/self/mountinfo", f"41 31 0:38 / {mount} rw,relatime - cgroup2 cgroup2 rw\n")
    kernel.write(f"sys/fs/cgroup{path}/io.pressure", STATED.format(3, 4))
    return kernel


def test_the_processs_own_control_group_has_counters_of_its_own(tmp_path: Path) -> None:
    kernel = in_group(tmp_path, "/job/rank0")
    kernel.write("sys/fs/cgroup/job/rank0/cgroup.type", "domain\n")
    assert read(pressure_sources(kernel.roots)) == {
        "cgroup_io_pressure_some_us": 3,
        "cgroup_io_pressure_full_us": 4,
    }


def test_the_group_of_all_processes_is_none_of_its_own(tmp_path: Path) -> None:
    sources = pressure_sources(in_group(tmp_path, "/").roots)
    assert read(sources) == {}
    assert [source.why for source in sources if source.why] == [
        "the process is in no control group (cgroup v2) of its own"
    ]
