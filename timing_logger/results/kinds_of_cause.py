"""The table of causes: which host counters show each, and what to look at next."""

from __future__ import annotations

from typing import NamedTuple

from timing_logger.schema.host_counters import BY_NAME, Counter

IDLE_BIT = 0x1
"""The one of NVML's reasons for a low clock that delays nothing: there is nothing to do."""


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


def _shown_by(*names: str) -> tuple[Counter, ...]:
    return tuple(BY_NAME[name] for name in names)


CAUSES = (
    KindOfCause(
        "cpu-quota",
        "Raise the CPU limit of its container or cgroup{}, or start fewer threads.",
        _shown_by("throttled_us"),
        brings="processor-wait",
    ),
    KindOfCause(
        "processor-wait",
        "Look{} at what else runs on its cores: other jobs, more ranks or threads than cores.",
        _shown_by(
            "main_run_queue_wait_us",
            "run_queue_wait_us",
            "steal_us",
            "cgroup_cpu_pressure_some_us",
            "cpu_pressure_some_us",
        ),
    ),
    KindOfCause(
        "processor-clock",
        "Look{} at the temperature, the power limit and the frequency governor of its processors.",
        _shown_by("cpu_mhz"),
    ),
    KindOfCause(
        "device-clock",
        "Look{} at the temperature and the power limit of its device.",
        _shown_by("gpu_sm_mhz", "gpu_throttle_bits"),
    ),
    KindOfCause(
        "memory-wait",
        "Look{} at what takes the memory there: its own batches and caches, or other processes.",
        _shown_by(
            "cgroup_memory_pressure_some_us", "memory_pressure_some_us", "swapped_in_kb", "major_faults"
        ),
        brings="disk-wait",
    ),
    KindOfCause(
        "disk-wait",
        "Look{} at what reads and writes there then: checkpoints, batches, other processes.",
        _shown_by(
            "cgroup_io_pressure_full_us",
            "cgroup_io_pressure_some_us",
            "io_pressure_full_us",
            "io_pressure_some_us",
            "process_written_kb",
            "process_read_kb",
        ),
    ),
    KindOfCause(
        "network-loss",
        "Look{} at network cards, cables and switch ports: what is lost is sent again.",
        _shown_by("tcp_retransmits", "ib_errors"),
    ),
    KindOfCause(
        "network-congestion",
        "Look{} at what else uses the network then.",
        _shown_by("ib_wait_ticks"),
    ),
    KindOfCause(
        "memory-errors",
        "Look{} at the health of its device: it should be replaced if these errors recur.",
        _shown_by("gpu_ecc_uncorrected", "gpu_ecc_corrected"),
    ),
)
"""The causes that are looked for, the more specific first."""

COUNTERS = tuple((cause, counter) for cause in CAUSES for counter in cause.counters)
"""Each counter with the cause that it shows, in the order in which causes are preferred."""


def kind_of_cause(name: str) -> KindOfCause:
    """Return a cause by its name in JSON."""
    return next(cause for cause in CAUSES if cause.name == name)
