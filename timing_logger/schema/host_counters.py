"""The table of the host counters: what is counted once a second, and in which unit.

Once a second, a rank that records writes what its process, its host and its devices counted since the line
before: ``host-rank0.csv`` beside ``timing-rank0.csv``. Both halves make all they know of these counters from
:data:`COUNTERS`: the recording half its lines, readers their columns, verdicts and pages how to read them and
what to say of them, the documentation its table.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["difference", "level"]

Reading = Literal["waited us", "level", "bits", "events"]
"""How a counter is read.

``waited us``: microseconds of the interval in which something stood still. ``level``: a value that holds,
such as a frequency; what runs on that takes longer as it falls. ``bits``: a level whose bits say why a device
holds its clock down. ``events``: how many there were, of which nothing says how long they took.
"""

_UNITS = ("us", "kb", "mb", "mhz", "bits", "c", "w")


class Counter(NamedTuple):
    """A counter, which is a column of the file.

    Attributes:
        name: the name of the column, with its unit where it has one. kB and MB are 10^3 and 10^6 bytes.
        kind: whether a line states by how much the counter grew in its interval ("difference"), or the value
            at its end ("level").
        meaning: what it tells, in words.
        source: what states it.
        did: what it says that a rank did or suffered, in words that follow ``rank 2``; "" only where it shows
            no cause of slowness.
    """

    name: str
    kind: Kind
    meaning: str
    source: str
    did: str = ""

    @property
    def unit(self) -> str:
        """The unit in its name; "" if it is a number of something."""
        last = self.name.rpartition("_")[2]
        return last if last in _UNITS else ""

    @property
    def reading(self) -> Reading:
        """How it is read."""
        if self.kind == "level":
            return "bits" if self.unit == "bits" else "level"
        return "waited us" if self.unit == "us" else "events"

    @property
    def states_time(self) -> bool:
        """Whether it tells how much time something took."""
        return self.reading in ("waited us", "level")


def _grown(name: str, meaning: str, source: str, did: str = "") -> Counter:
    return Counter(name, "difference", meaning, source, did)


def _level(name: str, meaning: str, source: str, did: str = "") -> Counter:
    return Counter(name, "level", meaning, source, did)


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
        "main_run_queue_wait_us", "time in which the main thread was ready and had no processor", _THREADS,
        "waited for a processor",
    ),
    _grown(
        "run_queue_wait_us", "the same, of all threads of the process together", _THREADS,
        "had threads that waited for a processor",
    ),
    _grown("process_cpu_us", "processor time that the process used, of all its threads", _USAGE),
    _grown(
        "involuntary_switches", "times that a thread of the process lost its processor to another", _USAGE,
    ),
    _grown(
        "major_faults", "page faults of the process that had to wait for a disk", _USAGE,
        "had pages of its memory read from a disk (major faults)",
    ),
    _level("resident_mb", "memory of the process that is in RAM", "`/proc/self/stat`"),
    _grown("process_read_kb", "what the process had disks read", "`/proc/self/io`", "had disks read"),
    _grown("process_written_kb", "what the process had disks write", "`/proc/self/io`", "had disks write"),
)  # fmt: skip
"""What one process counts; its children are not among it."""

OF_PRESSURE = tuple(
    _grown(
        f"{of}{resource}_pressure_{kind}_us",
        f"time in which {who} of {whose} waited for {what}",
        source,
        f"was where {tasks} waited for {what}",
    )
    for of, whose, place in (("", "the host", ""), ("cgroup_", "the process's control group", _CGROUP))
    for resource, what in (("cpu", "a processor"), ("io", "a disk"), ("memory", "memory"))
    for kind, who, tasks in (
        ("some", "at least one task", "tasks"),
        ("full", "all tasks that were not idle", "all tasks"),
    )
    for source in (f"`{resource}.pressure` of {place}" if place else f"`/proc/pressure/{resource}`",)
)
"""Pressure stall information, of the host and of the process's own control group."""

OF_HOST = (
    _grown("throttled_periods", "periods in which a quota stopped the process's control group", _QUOTA),
    _grown(
        "throttled_us", "time for which it was stopped, over all its processors", _QUOTA,
        "was stopped by its CPU quota",
    ),
    _level(
        "usable_cores", "cores that the process may use, by its affinity and its quota",
        "`sched_getaffinity`",
    ),
    _level("runnable_tasks", "tasks of the host that ran or waited for a processor", "`/proc/loadavg`"),
    _grown(
        "steal_us", "time that a hypervisor gave to others, over all processors", "`/proc/stat`",
        "was where a hypervisor gave processors to others",
    ),
    _level(
        "cpu_mhz", "mean frequency of up to eight of the usable cores", "`scaling_cur_freq` in `/sys`",
        "lost time to a slower processor clock",
    ),
    _level("memory_available_mb", "memory that the host could give without swapping", "`/proc/meminfo`"),
    _grown(
        "swapped_in_kb", "memory that the host read back from swap", _VMSTAT,
        "was where memory was read back from swap",
    ),
    _grown("swapped_out_kb", "memory that the host wrote to swap", _VMSTAT),
    _level("dirty_mb", "pages of files that wait to be written to a disk", _VMSTAT),
    _level("writeback_mb", "pages that are being written to a disk", _VMSTAT),
    _grown("disk_read_kb", "what the host read from disks", _VMSTAT),
    _grown("disk_written_kb", "what the host wrote to disks", _VMSTAT),
    _grown("network_received_kb", "what came over the network, without the loopback", _NET),
    _grown("network_sent_kb", "what went over the network, without the loopback", _NET),
    _grown(
        "tcp_retransmits", "TCP segments that were sent again", "`/proc/net/snmp`",
        "had TCP segments sent again",
    ),
)  # fmt: skip
"""What the host counts: the same on all ranks of it, but for quotas and what a container hides."""

OF_DEVICES = (
    _level(
        "gpu_sm_mhz", "clock of the device, the lowest of several", _GPU,
        "lost time to a slower clock of its device",
    ),
    _level(
        "gpu_throttle_bits", "why its clock is held back, as NVML's or AMD's bits; 0 if it is not", _GPU,
        "had a device that held its clock down",
    ),
    _level("gpu_temperature_c", "temperature of the device, the highest of several", _GPU),
    _level("gpu_power_w", "power that it draws, the sum of several", _GPU),
    _grown(
        "gpu_ecc_corrected", "memory errors that were corrected", _GPU,
        "had errors in its device's memory corrected",
    ),
    _grown(
        "gpu_ecc_uncorrected", "memory errors that could not be corrected", _GPU,
        "had errors in its device's memory",
    ),
    _level("gpu_pcie_width", "lanes of its PCIe link, the fewest of several", _GPU),
    _level("gpu_pcie_generation", "generation of its PCIe link, the lowest of several", _GPU),
    _level("gpu_xid", "number of the last Xid error in the interval; 0 if there was none", "NVML"),
    _grown(
        "gpu_alloc_retries", "times that the allocator gave all cached memory back and asked again", _TORCH,
    ),
    _grown("gpu_alloc_failures", "times that there was no memory all the same", _TORCH),
    _grown("ib_received_kb", "what came over InfiniBand or RoCE, on all ports of the host", _IB),
    _grown("ib_sent_kb", "what went over InfiniBand or RoCE, on all ports of the host", _IB),
    _grown(
        "ib_wait_ticks", "ticks in which a port had data to send and could not", _IB,
        "had data that its InfiniBand ports could not send",
    ),
    _grown(
        "ib_errors", "symbol and receive errors, link recoveries and links that went down", _IB,
        "had errors at its InfiniBand ports",
    ),
)  # fmt: skip
"""What the devices count that this process uses, and the host's InfiniBand adapters."""

COUNTERS = (*OF_PROCESS, *OF_PRESSURE, *OF_HOST, *OF_DEVICES)

BY_NAME = {counter.name: counter for counter in COUNTERS}

NAMES = tuple(BY_NAME)

INSTANTS = ("start_counter", "end_counter")
"""The first two columns: the interval of a line, in seconds on the process's ``perf_counter`` axis."""

HEADER = ",".join((*INSTANTS, *NAMES)) + "\n"
