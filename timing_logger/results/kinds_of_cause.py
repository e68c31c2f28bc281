"""The table of causes: which host counters show each, how they become time, and what is said of it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["waited us", "clock", "events", "bits"]
"""How a counter is read.

``waited us``: microseconds of the interval in which something stood still. ``clock``: a frequency, and what
runs on it takes longer as it falls. ``events``: how many there were, of which nothing says how long they
took. ``bits``: a level whose bits say why a device holds its clock down.
"""

IDLE_BIT = 0x1
"""The one of NVML's reasons for a low clock that delays nothing: there is nothing to do."""


class Counter(NamedTuple):
    """A host counter that may show a cause.

    Attributes:
        name: its column in the table of host counters.
        kind: how it is read.
        did: what it says that a rank did or suffered, in words that follow ``rank 2``.
    """

    name: str
    kind: Kind
    did: str

    @property
    def states_time(self) -> bool:
        """Whether it tells how much time something took."""
        return self.kind in ("waited us", "clock")


class KindOfCause(NamedTuple):
    """A cause of slowness that host counters show.

    Attributes:
        name: its name in JSON.
        look_at: what to look at next, in a sentence; ``{}`` is the place for the host.
        counters: what shows it: that which says most of the rank itself first.
        brings: the name of a cause that this one brings about, whose time then holds that of this one.
    """

    name: str
    look_at: str
    counters: tuple[Counter, ...]
    brings: str = ""


CAUSES = (
    KindOfCause(
        "cpu-quota", "Raise the CPU limit of its container or cgroup{}, or start fewer threads.",
        (Counter("throttled_us", "waited us", "was stopped by its CPU quota"),),
        brings="processor-wait",
    ),
    KindOfCause(
        "processor-wait",
        "Look{} at what else runs on its cores: other jobs, more ranks or threads than cores.",
        (
            Counter("main_run_queue_wait_us", "waited us", "waited for a processor"),
            Counter("run_queue_wait_us", "waited us", "had threads that waited for a processor"),
            Counter("steal_us", "waited us", "was where a hypervisor gave processors to others"),
            Counter("cgroup_cpu_pressure_some_us", "waited us", "was where tasks waited for a processor"),
            Counter("cpu_pressure_some_us", "waited us", "was where tasks waited for a processor"),
        ),
    ),
    KindOfCause(
        "processor-clock",
        "Look{} at the temperature, the power limit and the frequency governor of its processors.",
        (Counter("cpu_mhz", "clock", "lost time to a slower processor clock"),),
    ),
    KindOfCause(
        "device-clock", "Look{} at the temperature and the power limit of its device.",
        (
            Counter("gpu_sm_mhz", "clock", "lost time to a slower clock of its device"),
            Counter("gpu_throttle_bits", "bits", "had a device that held its clock down"),
        ),
    ),
    KindOfCause(
        "memory-wait",
        "Look{} at what takes the memory there: its own batches and caches, or other processes.",
        (
            Counter("cgroup_memory_pressure_some_us", "waited us", "was where tasks waited for memory"),
            Counter("memory_pressure_some_us", "waited us", "was where tasks waited for memory"),
            Counter("swapped_in_kb", "events", "was where memory was read back from swap"),
            Counter("major_faults", "events", "had pages of its memory read from a disk (major faults)"),
        ),
        brings="disk-wait",
    ),
    KindOfCause(
        "disk-wait", "Look{} at what reads and writes there then: checkpoints, batches, other processes.",
        (
            Counter("cgroup_io_pressure_full_us", "waited us", "was where all tasks waited for a disk"),
            Counter("cgroup_io_pressure_some_us", "waited us", "was where tasks waited for a disk"),
            Counter("io_pressure_full_us", "waited us", "was where all tasks waited for a disk"),
            Counter("io_pressure_some_us", "waited us", "was where tasks waited for a disk"),
            Counter("process_written_kb", "events", "had disks write"),
            Counter("process_read_kb", "events", "had disks read"),
        ),
    ),
    KindOfCause(
        "network-loss", "Look{} at network cards, cables and switch ports: what is lost is sent again.",
        (
            Counter("tcp_retransmits", "events", "had TCP segments sent again"),
            Counter("ib_errors", "events", "had errors at its InfiniBand ports"),
        ),
    ),
    KindOfCause(
        "network-congestion", "Look{} at what else uses the network then.",
        (Counter("ib_wait_ticks", "events", "had data that its InfiniBand ports could not send"),),
    ),
    KindOfCause(
        "memory-errors", "Look{} at the health of its device: it should be replaced if these errors recur.",
        (
            Counter("gpu_ecc_uncorrected", "events", "had errors in its device's memory"),
            Counter("gpu_ecc_corrected", "events", "had errors in its device's memory corrected"),
        ),
    ),
)  # fmt: skip
"""The causes that are looked for, the more specific first."""

COUNTERS = tuple((cause, counter) for cause in CAUSES for counter in cause.counters)
"""Each counter with the cause that it shows, in the order in which causes are preferred."""


def kind_of_cause(name: str) -> KindOfCause:
    """Return a cause by its name in JSON."""
    return next(cause for cause in CAUSES if cause.name == name)
