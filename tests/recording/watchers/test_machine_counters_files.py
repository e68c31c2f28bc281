"""What the kernel counts for the whole host."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from kernel_files import KernelFiles, read

from timing_logger.recording.watchers import machine_counters as machine
from timing_logger.recording.watchers.kernel_files import Roots
from timing_logger.recording.watchers.machine_counters import machine_sources

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def kernel(tmp_path: Path) -> KernelFiles:
    return KernelFiles(tmp_path)


def test_a_host_without_any_of_these_files_has_none_of_the_counters(tmp_path: Path) -> None:
    assert read(machine_sources(Roots(tmp_path, tmp_path))) == {}


def test_runnable_tasks_are_those_beside_the_one_that_asks(kernel: KernelFiles) -> None:
    kernel.write("proc/loadavg", "0.06 0.07 0.56 3/87 571\n")
    assert read(machine_sources(kernel.roots)) == {"runnable_tasks": 2}


def test_pages_of_the_host_are_in_bytes(kernel: KernelFiles) -> None:
    kernel.write(
        "proc/vmstat",
        "nr_free_pages 1\nnr_dirty 2000\nnr_writeback 3000\nnr_writeback_temp 9\npgpgin 100\npgpgout 200\n"
        "pswpin 4\npswpout 5\n",
    )
    assert read(machine_sources(kernel.roots)) == {
        "dirty_mb": 2000 * PAGE // 10**6, "writeback_mb": 3000 * PAGE // 10**6,
        "disk_read_kb": 102, "disk_written_kb": 204,
        "swapped_in_kb": 4 * PAGE // 1000, "swapped_out_kb": 5 * PAGE // 1000,
    }  # fmt: skip


def test_available_memory_is_in_megabytes(kernel: KernelFiles) -> None:
    kernel.write("proc/meminfo", "MemTotal:  24000000 kB\nMemFree: 1 kB\nMemAvailable:   22000000 kB\n")
    assert read(machine_sources(kernel.roots)) == {"memory_available_mb": 22528}


DEVICES = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo: 5000000 1 0 0 0 0 0 0 5000000 1 0 0 0 0 0 0
  eth0: 1000000 1 0 0 0 0 0 0 2000000 1 0 0 0 0 0 0
 bond0: 1000000 1 0 0 0 0 0 0 2000000 1 0 0 0 0 0 0
"""


def test_the_network_is_what_goes_through_adapters_once(kernel: KernelFiles) -> None:
    kernel.write("proc/net/dev", DEVICES)
    kernel.write("sys/class/net/eth0/device/vendor", "")
    kernel.write("sys/class/net/bond0/operstate", "up")
    assert read(machine_sources(kernel.roots)) == {"network_received_kb": 1000, "network_sent_kb": 2000}


def test_where_no_adapter_is_seen_all_but_the_loopback_counts(kernel: KernelFiles) -> None:
    kernel.write("proc/net/dev", DEVICES.replace("bond0", "eth1"))
    assert read(machine_sources(kernel.roots)) == {"network_received_kb": 2000, "network_sent_kb": 4000}


def test_segments_that_were_sent_again_are_found_by_their_name(kernel: KernelFiles) -> None:
    kernel.write("proc/net/snmp", "Ip: A B\nIp: 1 2\nTcp: InSegs RetransSegs InErrs\nTcp: 5 1838 0\n")
    assert read(machine_sources(kernel.roots)) == {"tcp_retransmits": 1838}


@pytest.mark.parametrize(("flags", "told"), [("fpu hypervisor sse", True), ("fpu sse", False)])
def test_only_a_virtual_processor_can_be_stolen(
    kernel: KernelFiles, monkeypatch: pytest.MonkeyPatch, flags: str, told: bool
) -> None:
    monkeypatch.setattr(time, "thread_time_ns", lambda: 0)  # however busy this machine is
    kernel.write("proc/cpuinfo", f"flags\t\t: {flags}\n")
    kernel.write("proc/stat", "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 5\n")
    ticks = os.sysconf("SC_CLK_TCK")
    expected = {"steal_us": 80 * 10**6 // ticks} if told else {}
    assert read(machine_sources(kernel.roots)) == expected


def test_the_frequency_is_the_mean_of_some_usable_cores(kernel: KernelFiles) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    for core, khz in zip(cores, (1_000_000, 3_000_000), strict=False):
        kernel.write(f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq", f"{khz}\n")
    assert read(machine_sources(kernel.roots)) == {"cpu_mhz": 2000 if len(cores) == 2 else 1000}


def test_of_many_cores_the_frequency_of_eight_at_most_is_read(
    kernel: KernelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n_cores, looked_at in ((8, range(8)), (9, range(0, 9, 2)), (17, range(0, 17, 3))):
        cores = {10 + number for number in range(n_cores)}
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cores=cores: cores)
        (source,) = (one for one in machine_sources(kernel.roots) if one.counters == ("cpu_mhz",))
        folder = kernel.roots.sys / "devices" / "system" / "cpu"
        assert source.paths() == [
            f"{folder}/cpu{10 + number}/cpufreq/scaling_cur_freq" for number in looked_at
        ]


def test_where_affinities_are_unknown_the_first_core_stands_for_all(
    kernel: KernelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    kernel.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2500000\n")
    assert read(machine_sources(kernel.roots)) == {"cpu_mhz": 2500}


@pytest.mark.parametrize(("load", "tasks"), [("0 0 0 0/87 571", 0), ("0 0 0 1/87", 0), ("0 0 0", None)])
def test_a_host_has_no_less_than_no_runnable_task(kernel: KernelFiles, load: str, tasks: int | None) -> None:
    kernel.write("proc/loadavg", load + "\n")
    assert read(machine_sources(kernel.roots)) == ({} if tasks is None else {"runnable_tasks": tasks})


def test_a_host_whose_only_interface_is_the_loopback_states_no_network(kernel: KernelFiles) -> None:
    kernel.write("proc/net/dev", "".join(line + "\n" for line in DEVICES.splitlines()[:3]))
    assert read(machine_sources(kernel.roots)) == {}


def test_a_kernel_that_does_not_count_segments_sent_again_states_none(kernel: KernelFiles) -> None:
    kernel.write("proc/net/snmp", "Tcp: InSegs InErrs\nTcp: 5 0\n")
    assert read(machine_sources(kernel.roots)) == {}


@pytest.mark.parametrize(("took_ns", "is_read"), [(100_000, True), (100_001, False)])
def test_where_the_statistics_take_a_tenth_of_a_millisecond_to_read_they_are_left_alone(
    kernel: KernelFiles, monkeypatch: pytest.MonkeyPatch, took_ns: int, is_read: bool
) -> None:
    kernel.write("proc/cpuinfo", "flags\t\t: fpu hypervisor\n")
    kernel.write("proc/stat", "cpu  1 2 3 4 5 6 7 80 9 10\n")
    instants_ns = iter([1_000_000, 1_000_000 + took_ns])
    monkeypatch.setattr(time, "thread_time_ns", lambda: next(instants_ns))
    sources = machine_sources(kernel.roots)
    (steal,) = (one for one in sources if one.counters == ("steal_us",))
    path = kernel.roots.proc / "stat"
    assert steal.paths() == ([str(path)] if is_read else [])
    assert steal.why == ("" if is_read else f"reading {path} takes too long on this host")


def test_a_kernel_that_counts_no_stolen_time_states_none(
    kernel: KernelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "thread_time_ns", lambda: 0)  # however busy this machine is
    kernel.write("proc/cpuinfo", "flags\t\t: hypervisor\n")
    kernel.write("proc/stat", "cpu 1 2 3 4 5 6 7\n")
    assert read(machine_sources(kernel.roots)) == {}
    kernel.write("proc/stat", "cpu 1 2 3 4 5 6 7 100\n")
    assert read(machine_sources(kernel.roots)) == {"steal_us": 100 * 10**6 // os.sysconf("SC_CLK_TCK")}


def test_a_processor_that_is_no_virtual_one_is_said_to_be_none(kernel: KernelFiles) -> None:
    (steal,) = (one for one in machine_sources(kernel.roots) if one.counters == ("steal_us",))
    assert (steal.paths(), steal.why) == ([], "the processor does not say that it is a virtual one")


@pytest.mark.parametrize(("took_ns", "why"), [(100_000, ""), (100_001, "takes too long on this host")])
def test_it_is_the_reading_of_the_statistics_that_is_timed(
    kernel: KernelFiles, monkeypatch: pytest.MonkeyPatch, took_ns: int, why: str
) -> None:
    spent_ns = [0]

    def read_slowly(path: str) -> bytes:
        spent_ns[0] += took_ns * path.endswith("/stat")
        return b"flags\t\t: fpu hypervisor\n"

    monkeypatch.setattr(machine, "read_file", read_slowly)
    monkeypatch.setattr(time, "thread_time_ns", lambda: spent_ns[0])
    (steal,) = [source for source in machine_sources(kernel.roots) if "steal_us" in source.counters]
    assert steal.why.endswith(why)
    assert bool(steal.why) == bool(why)
