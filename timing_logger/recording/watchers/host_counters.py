"""Starts the thread that writes the host's counters, beside the timing file of a logger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from timing_logger.recording.cores.chosen import SmallFiles
from timing_logger.recording.file_beside import FileBeside
from timing_logger.recording.watchers.apart import Apart
from timing_logger.recording.watchers.control_groups import Quotas, group_folders
from timing_logger.recording.watchers.device_counters import device_sources
from timing_logger.recording.watchers.host_sampler import HostSampler
from timing_logger.recording.watchers.kernel_files import CounterSource, ParsedSource, Roots
from timing_logger.recording.watchers.machine_counters import machine_sources
from timing_logger.recording.watchers.process_counters import process_sources
from timing_logger.schema.host_counters import HEADER
from timing_logger.schema.timing_files import HOST
from timing_logger.sinks.csv import CsvSink


def start_counting(timing_file: CsvSink, started_unix_ns: int, mode: int) -> HostSampler:
    """Write the counters of this process's host from now on, into a file beside the timing file.

    Args:
        timing_file: the timing file.
        started_unix_ns: the start time that its sidecar states.
        mode: permissions of the file, from which the process's umask is subtracted.
    """
    file = FileBeside(timing_file, HOST, HEADER, started_unix_ns=started_unix_ns, mode=mode)
    return HostSampler(sources, file)


# -- all that states counters of the host ----------------------------------------------------------------


def sources(roots: Roots | None = None) -> list[CounterSource]:
    """Return what states the counters, whether this host has it or not."""
    roots = roots or Roots()
    return [
        *process_sources(roots),
        *pressure_sources(roots),
        Quotas(roots),
        *machine_sources(roots),
        *device_sources(),
        infiniband_source(roots),
    ]


# -- what the kernel states of InfiniBand and RoCE ports. It may ask the adapter, which can take its time --


_BYTES_PER_KB, _BYTES_PER_WORD = 10**3, 4

_FILES = {
    "ib_received_kb": ("port_rcv_data",),
    "ib_sent_kb": ("port_xmit_data",),
    "ib_wait_ticks": ("port_xmit_wait",),
    "ib_errors": ("symbol_error", "port_rcv_errors", "link_error_recovery", "link_downed"),
}
"""For each counter: the files of a port whose numbers are added."""

_IN_WORDS = ("ib_received_kb", "ib_sent_kb")


def infiniband_source(roots: Roots) -> CounterSource:
    """Return what states the counters of all ports of the host."""
    ports = sorted((roots.sys / "class" / "infiniband").glob("*/ports/*/counters"))
    if not ports:
        return ParsedSource(tuple(_FILES), [], lambda texts: {}, "the host has no InfiniBand port")
    return Apart(tuple(_FILES), lambda: _reader([str(port) for port in ports]))


def _reader(ports: list[str]) -> Callable[[], Mapping[str, float]]:
    names = [(counter, file) for counter, files in _FILES.items() for file in files]
    paths = [f"{port}/{file}" for _, file in names for port in ports]
    files = SmallFiles()

    def read() -> Mapping[str, float]:
        sums: dict[str, int] = {}
        texts = iter(files.read(paths))
        for counter, _ in names:
            stated = [int(text) for text in (next(texts) for _ in ports) if text.strip().isdigit()]
            if stated:
                sums[counter] = sums.get(counter, 0) + sum(stated)
        return {
            counter: value * _BYTES_PER_WORD // _BYTES_PER_KB if counter in _IN_WORDS else value
            for counter, value in sums.items()
        }

    return read


# -- pressure stall information (PSI): for how long tasks waited for processors, disks and memory --------


_RESOURCES = ("cpu", "io", "memory")
_KINDS = ("some", "full")


def pressure_sources(roots: Roots) -> list[CounterSource]:
    """Return what states the pressure on the host, and on the process's own control group."""
    of_host = [_source("", resource, roots.proc / "pressure" / resource) for resource in _RESOURCES]
    own = next(iter(group_folders(roots, "")), None)
    if own is None or not (own / "cgroup.type").exists():  # the group of all processes has no such file
        names = [name for resource in _RESOURCES for name in _names("cgroup_", resource)]
        why = "the process is in no control group (cgroup v2) of its own"
        return [*of_host, ParsedSource(names, [], lambda texts: {}, why)]
    of_group = [_source("cgroup_", resource, own / f"{resource}.pressure") for resource in _RESOURCES]
    return [*of_host, *of_group]


def _names(of: str, resource: str) -> list[str]:
    return [f"{of}{resource}_pressure_{kind}_us" for kind in _KINDS]


def _source(of: str, resource: str, file: Path) -> ParsedSource:
    names = _names(of, resource)
    return ParsedSource(names, [str(file)], partial(_totals, dict(zip(_KINDS, names, strict=True))))


def _totals(names: Mapping[str, str], texts: Sequence[bytes]) -> Mapping[str, float]:
    found = {}
    for line in texts[0].splitlines():
        kind, total = line[:4].decode(), line.partition(b" total=")[2]
        if kind in names and total:
            found[names[kind]] = int(total)
    return found
