"""What the kernel counts for the whole host: load, steal, frequency, memory, swap, disks, network."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Mapping, Sequence

from timing_logger.recording.cores.python.small_files import read_file
from timing_logger.recording.watchers.kernel_files import CounterSource, ParsedSource, Roots

_BYTES_PER_KB, _BYTES_PER_MB, _BYTES_PER_KIB = 10**3, 10**6, 1024
_US_PER_S = 10**6
_MOST_CORES = 8  # of which the frequency is read: on some processors each reading interrupts the core
_MOST_STAT_NS = 100_000  # which only hosts with hundreds of processors need for /proc/stat
_LOOPBACK = "lo"

_AVAILABLE = re.compile(rb"^MemAvailable: +(\d+) kB$", re.MULTILINE)
_TCP = re.compile(rb"^Tcp: (.*)\nTcp: (.*)$", re.MULTILINE)


def machine_sources(roots: Roots) -> list[CounterSource]:
    """Return what states the counters of the host."""
    proc = roots.proc
    return [
        ParsedSource(("runnable_tasks",), [f"{proc}/loadavg"], _runnable),
        _steal(roots),
        _frequency(roots),
        ParsedSource(("memory_available_mb",), [f"{proc}/meminfo"], _available),
        ParsedSource(tuple(_PAGES), [f"{proc}/vmstat"], _pages),
        _network(roots),
        ParsedSource(("tcp_retransmits",), [f"{proc}/net/snmp"], _retransmits),
    ]


def _runnable(texts: Sequence[bytes]) -> Mapping[str, float]:
    stated = texts[0].split()
    if len(stated) < 4:
        return {}
    runnable = int(stated[3].partition(b"/")[0])
    return {"runnable_tasks": max(0, runnable - 1)}  # without the thread that reads this


# -- processors ------------------------------------------------------------------------------------------


def _steal(roots: Roots) -> CounterSource:
    path = str(roots.proc / "stat")
    why = ""
    if b" hypervisor" not in read_file(str(roots.proc / "cpuinfo")):
        why = "the processor does not say that it is a virtual one"
    elif _takes_long(path):
        why = f"reading {path} takes too long on this host"
    return ParsedSource(("steal_us",), [] if why else [path], _stolen, why)


def _takes_long(path: str) -> bool:
    before_ns = time.thread_time_ns()
    read_file(path)
    return time.thread_time_ns() - before_ns > _MOST_STAT_NS


def _stolen(texts: Sequence[bytes]) -> Mapping[str, float]:
    of_all = texts[0].partition(b"\n")[0].split() if texts else []
    if len(of_all) < 9:
        return {}
    return {"steal_us": int(of_all[8]) * _US_PER_S // os.sysconf("SC_CLK_TCK")}


def _frequency(roots: Roots) -> CounterSource:
    cores = sorted(os.sched_getaffinity(os.getpid())) if hasattr(os, "sched_getaffinity") else [0]
    some = cores[:: -(-len(cores) // _MOST_CORES)]
    of_cores = roots.sys / "devices" / "system" / "cpu"
    return ParsedSource(
        ("cpu_mhz",), [f"{of_cores}/cpu{core}/cpufreq/scaling_cur_freq" for core in some], _mean_mhz
    )


def _mean_mhz(texts: Sequence[bytes]) -> Mapping[str, float]:
    stated_khz = [int(text) for text in texts if text.strip().isdigit()]
    return {"cpu_mhz": sum(stated_khz) // len(stated_khz) // 1000} if stated_khz else {}


# -- memory and disks ------------------------------------------------------------------------------------


def _available(texts: Sequence[bytes]) -> Mapping[str, float]:
    stated = _AVAILABLE.search(texts[0])
    return {"memory_available_mb": int(stated[1]) * _BYTES_PER_KIB // _BYTES_PER_MB} if stated else {}


_PAGE_BYTES = resource.getpagesize()

_PAGES = {
    "disk_read_kb": (b"pgpgin", _BYTES_PER_KIB, _BYTES_PER_KB),
    "disk_written_kb": (b"pgpgout", _BYTES_PER_KIB, _BYTES_PER_KB),
    "swapped_in_kb": (b"pswpin", _PAGE_BYTES, _BYTES_PER_KB),
    "swapped_out_kb": (b"pswpout", _PAGE_BYTES, _BYTES_PER_KB),
    "dirty_mb": (b"nr_dirty", _PAGE_BYTES, _BYTES_PER_MB),
    "writeback_mb": (b"nr_writeback", _PAGE_BYTES, _BYTES_PER_MB),
}
"""For each counter: its name in ``/proc/vmstat``, the bytes of one there, and those of the counter's unit.

``pgpgin`` and ``pgpgout`` count what was asked of disks, once, however many layers are on top of them.
"""


def _pages(texts: Sequence[bytes]) -> Mapping[str, float]:
    found = {}
    for name, (key, of_one_bytes, unit_bytes) in _PAGES.items():
        at = texts[0].find(b"\n" + key + b" ")  # among some 200 lines, of which splitting all takes long
        if at >= 0:
            stated = int(texts[0][at + len(key) + 2 : texts[0].find(b"\n", at + 1)])
            found[name] = stated * of_one_bytes // unit_bytes
    return found


# -- the network -----------------------------------------------------------------------------------------


def _network(roots: Roots) -> CounterSource:
    """Count the adapters; where the process sees none, as in a container, all interfaces but the loopback.

    A packet that goes through a bridge or a bond counts once in the adapter, and again in each of those.
    """
    interfaces = {path.name for path in (roots.sys / "class" / "net").glob("*") if (path / "device").exists()}

    def parse(texts: Sequence[bytes]) -> Mapping[str, float]:
        stated = (line.decode().partition(":") for line in texts[0].splitlines() if b":" in line)
        fields = {name.strip(): numbers.split() for name, _, numbers in stated}
        chosen = [name for name in fields if name in interfaces or (not interfaces and name != _LOOPBACK)]
        if not chosen:
            return {}
        received, sent = (sum(int(fields[name][at]) for name in chosen) for at in (0, 8))
        return {
            "network_received_kb": received // _BYTES_PER_KB,
            "network_sent_kb": sent // _BYTES_PER_KB,
        }

    return ParsedSource(("network_received_kb", "network_sent_kb"), [f"{roots.proc}/net/dev"], parse)


def _retransmits(texts: Sequence[bytes]) -> Mapping[str, float]:
    found = _TCP.search(texts[0])
    if found is None:
        return {}
    stated = dict(zip(found[1].split(), found[2].split(), strict=False))
    return {"tcp_retransmits": int(stated[b"RetransSegs"])} if b"RetransSegs" in stated else {}
