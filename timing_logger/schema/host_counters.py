"""The table of the host counters: what is counted once a second, and in which unit.

Once a second, a rank that records writes what its process, its host and its devices counted since the line
before: ``host-rank0.csv`` beside ``timing-rank0.csv``. Both halves make all they know of these counters from
:data:`COUNTERS`: the recording half its lines, readers their columns, the documentation its table.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["difference", "level"]


class Counter(NamedTuple):
    """A counter, which is a column of the file.

    Attributes:
        name: the name of the column, with its unit where it has one. kB and MB are 10^3 and 10^6 bytes.
        kind: whether a line states by how much the counter grew in its interval ("difference"), or the value
            at its end ("level").
        meaning: what it tells, in words.
        source: what states it.
    """

    name: str
    kind: Kind
    meaning: str
    source: str


def _grown(name: str, meaning: str, source: str) -> Counter:
    return Counter(name, "difference", meaning, source)


def _level(name: str, meaning: str, source: str) -> Counter:
    return Counter(name, "level", meaning, source)


_THREADS = "`/proc/self/task/*/schedstat`"
_USAGE = "`getrusage`"
_CGROUP = "its control group (cgroup v2)"
_QUOTA = "`cpu.stat` of its control groups (cgroup v1 or v2)"
_VMSTAT = "`/proc/vmstat`"
_GPU = "NVML or AMD SMI"
_TORCH = "`torch.cuda.memory_stats`"
_IB = "`/sys/class/infiniband/*/ports/*/counters`"
_NET = "`/proc/net/dev`"

OF_PROCESS = (
    _grown(
        "main_run_queue_wait_us", "time in which the main thread was ready and had no processor", _THREADS
    ),
    _grown("run_queue_wait_us", "the same, of all threads of the process together", _THREADS),
    _grown("process_cpu_us", "processor time that the process used, of all its threads", _USAGE),
    _grown(
        "involuntary_switches", "times that a thread of the process lost its processor to another", _USAGE
    ),
    _grown("major_faults", "page faults of the process that had to wait for a disk", _USAGE),
    _level("resident_mb", "memory of the process that is in RAM", "`/proc/self/stat`"),
    _grown("process_read_kb", "what the process had disks read", "`/proc/self/io`"),
    _grown("process_written_kb", "what the process had disks write", "`/proc/self/io`"),
)
"""What one process counts; its children are not among it."""

OF_PRESSURE = tuple(
    _grown(f"{of}{resource}_pressure_{kind}_us", f"time in which {who} of {whose} waited for {what}", source)
    for of, whose, place in (("", "the host", ""), ("cgroup_", "the process's control group", _CGROUP))
    for resource, what in (("cpu", "a processor"), ("io", "a disk"), ("memory", "memory"))
    for kind, who in (("some", "at least one task"), ("full", "all tasks that were not idle"))
    for source in (f"`{resource}.pressure` of {place}" if place else f"`/proc/pressure/{resource}`",)
)
"""Pressure stall information, of the host and of the process's own control group."""

OF_HOST = (
    _grown("throttled_periods", "periods in which a quota stopped the process's control group", _QUOTA),
    _grown("throttled_us", "time for which it was stopped, over all its processors", _QUOTA),
    _level(
        "usable_cores", "cores that the process may use, by its affinity and its quota", "`sched_getaffinity`"
    ),
    _level("runnable_tasks", "tasks of the host that ran or waited for a processor", "`/proc/loadavg`"),
    _grown("steal_us", "time that a hypervisor gave to others, over all processors", "`/proc/stat`"),
    _level("cpu_mhz", "mean frequency of up to eight of the usable cores", "`scaling_cur_freq` in `/sys`"),
    _level("memory_available_mb", "memory that the host could give without swapping", "`/proc/meminfo`"),
    _grown("swapped_in_kb", "memory that the host read back from swap", _VMSTAT),
    _grown("swapped_out_kb", "memory that the host wrote to swap", _VMSTAT),
    _level("dirty_mb", "pages of files that wait to be written to a disk", _VMSTAT),
    _level("writeback_mb", "pages that are being written to a disk", _VMSTAT),
    _grown("disk_read_kb", "what the host read from disks", _VMSTAT),
    _grown("disk_written_kb", "what the host wrote to disks", _VMSTAT),
    _grown("network_received_kb", "what came over the network, without the loopback", _NET),
    _grown("network_sent_kb", "what went over the network, without the loopback", _NET),
    _grown("tcp_retransmits", "TCP segments that were sent again", "`/proc/net/snmp`"),
)
"""What the host counts: the same on all ranks of it, but for quotas and what a container hides."""

OF_DEVICES = (
    _level("gpu_sm_mhz", "clock of the device, the lowest of several", _GPU),
    _level("gpu_throttle_bits", "why its clock is held back, as NVML's or AMD's bits; 0 if it is not", _GPU),
    _level("gpu_temperature_c", "temperature of the device, the highest of several", _GPU),
    _level("gpu_power_w", "power that it draws, the sum of several", _GPU),
    _grown("gpu_ecc_corrected", "memory errors that were corrected", _GPU),
    _grown("gpu_ecc_uncorrected", "memory errors that could not be corrected", _GPU),
    _level("gpu_pcie_width", "lanes of its PCIe link, the fewest of several", _GPU),
    _level("gpu_pcie_generation", "generation of its PCIe link, the lowest of several", _GPU),
    _level("gpu_xid", "number of the last Xid error in the interval; 0 if there was none", "NVML"),
    _grown(
        "gpu_alloc_retries", "times that the allocator gave all cached memory back and asked again", _TORCH
    ),
    _grown("gpu_alloc_failures", "times that there was no memory all the same", _TORCH),
    _grown("ib_received_kb", "what came over InfiniBand or RoCE, on all ports of the host", _IB),
    _grown("ib_sent_kb", "what went over InfiniBand or RoCE, on all ports of the host", _IB),
    _grown("ib_wait_ticks", "ticks in which a port had data to send and could not", _IB),
    _grown("ib_errors", "symbol and receive errors, link recoveries and links that went down", _IB),
)
"""What the devices count that this process uses, and the host's InfiniBand adapters."""

COUNTERS = (*OF_PROCESS, *OF_PRESSURE, *OF_HOST, *OF_DEVICES)

NAMES = tuple(counter.name for counter in COUNTERS)

INSTANTS = ("start_counter", "end_counter")
"""The first two columns: the interval of a line, in seconds on the process's ``perf_counter`` axis."""

HEADER = ",".join((*INSTANTS, *NAMES)) + "\n"
