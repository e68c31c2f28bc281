"""A cause as it stands in a verdict: what coincided with the slowness, in figures; and what was looked at."""

from __future__ import annotations

from typing import Literal, NamedTuple

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


How = Literal["coincides", "throughout", "shared"]
"""What was compared.

``coincides``: a rank's slow stretches with its others. ``throughout``: the rank with its peers, as it is
slow in all of them. ``shared``: what all ranks did with the time that they lose in turn, or together.
"""


class Cause(NamedTuple):
    """What host counters did while time was lost. It coincides, which is no proof.

    A stretch is a step, or several in succession where steps are shorter than the intervals of the counters.
    Of a counter that tells no time, figures are in its own unit, per second.

    Attributes:
        name: what it is, such as ``processor-wait``; ``CAUSES`` has all.
        counter: the host counter that shows it.
        ranks: the ranks that it is said of.
        how: what was compared.
        states_time: whether the counter tells how much time something took.
        slow: the number of slow stretches.
        slow_with: in how many of these the counter shows enough for half of the delay.
        other: the number of the other stretches that are known.
        other_with: in how many of those it shows as much as half of what is usual in slow ones.
        delay_ms: the delay of the rank in a typical slow stretch, in ms.
        in_slow: the counter in a typical slow stretch: ms, or events per second.
        in_others: likewise in a typical other stretch; NaN if there is none.
        covered_share: how much of the delay the counter states, as a fraction of it; NaN if it tells no time.
        time_share: the fraction of its time that the counter states for the typical rank; NaN likewise.
        chance: how likely any of the counters would coincide as well by chance; NaN where there was nothing
            to compare with.
        stretch_steps: the number of steps of a typical stretch.
        stretch_s: how long a typical stretch lasts, in seconds.
        runnable: how many tasks wanted to run there in a typical stretch; NaN if unknown.
        usable_cores: how many cores they could use; NaN if unknown.
    """

    name: str
    counter: str
    ranks: tuple[int, ...]
    how: How
    states_time: bool
    slow: int
    slow_with: int
    other: int
    other_with: int
    delay_ms: float
    in_slow: float
    in_others: float
    covered_share: float
    time_share: float
    chance: float
    stretch_steps: int
    stretch_s: float
    runnable: float
    usable_cores: float


class Sought(NamedTuple):
    """What was looked at in search of a cause.

    Attributes:
        counters: the host counters that were recorded and may show a cause.
        ranks: the number of ranks whose counters were compared.
        stretches: the number of stretches of steps.
        stretch_s: how long a typical one lasts, in seconds.
        chance: how likely the best of them would coincide as well by chance; NaN if nothing was tested.
    """

    counters: tuple[str, ...]
    ranks: int
    stretches: int
    stretch_s: float
    chance: float
