"""The thread that reads the host's counters once a second, and writes what they grew by.

It is none of the flush thread's work. A read of a small file takes microseconds, but each of them gives up
the interpreter's lock, and a program whose threads keep that busy lets a thread have it only every few
milliseconds: rows would be written late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.cores.chosen import SmallFiles
from timing_logger.recording.file_beside import FileBeside
from timing_logger.recording.repeating_thread import RepeatingThread
from timing_logger.recording.watchers.apart import Apart
from timing_logger.recording.watchers.device_counters import device_sources
from timing_logger.recording.watchers.kernel_files import CounterSource, ParsedSource, Roots, why_unreadable
from timing_logger.recording.watchers.machine_counters import machine_sources
from timing_logger.recording.watchers.process_counters import Quotas, group_folders, process_sources
from timing_logger.schema.defaults import HOST_INTERVAL_S, SHORTEST_HOST_INTERVAL_S
from timing_logger.schema.host_counters import COUNTERS, HEADER
from timing_logger.schema.record import NS_PER_S
from timing_logger.schema.sidecar import HostCountersInfo, Unseen
from timing_logger.schema.timing_files import HOST
from timing_logger.sinks.csv import CsvSink

_LARGE = 10**6

Values = Mapping[str, float]

T = TypeVar("T")


class HostSampler:
    """Writes a line for each second, and one for the rest of the last when it is closed.

    A line that cannot be written is part of the next one, whose interval then is longer. No error reaches
    the program.

    Args:
        find: finds what states the counters; called by the thread.
        file: where the lines go.
        interval_s: seconds between two lines.
    """

    def __init__(
        self,
        find: Callable[[], Sequence[CounterSource]],
        file: FileBeside,
        *,
        interval_s: float = HOST_INTERVAL_S,
    ) -> None:
        self._find = find
        self._files = SmallFiles()
        self._found: Sequence[CounterSource] = ()
        self._sources: Sequence[CounterSource] = ()
        self._file = file
        self._since_ns = perf_counter_ns()
        self._before: Values = {}
        self._unseen: list[Unseen] = []
        self._thread = RepeatingThread(
            "timing-logger-host", "host counters",
            begin=self._begin, repeat=self._sample, end=self._finish, interval_s=lambda: interval_s,
        )  # fmt: skip
        self._thread.start()

    def info(self) -> HostCountersInfo:
        """Return what the sidecar says of the counters; from any thread."""
        thread = self._thread
        cpu_ns = thread.cpu_ns + sum(source.cpu_ns for source in self._apart())
        return HostCountersInfo(
            self._file.name, self._file.lines, thread.failed, cpu_ns, self._unseen, thread.last_error
        )

    def close(self, timeout_s: float) -> None:
        """Write the rest, and end the thread; wait no longer than ``timeout_s`` seconds for it."""
        self._thread.close(timeout_s)

    # -- the thread ---------------------------------------------------------------------------------

    def _finish(self) -> None:
        if perf_counter_ns() - self._since_ns >= SHORTEST_HOST_INTERVAL_S * NS_PER_S:
            self._thread.harmless(self._sample)
        self._thread.harmless(self._file.close)
        self._files.close()
        for source in self._apart():
            source.close()

    def _apart(self) -> list[Apart]:
        return [source for source in self._sources if isinstance(source, Apart)]

    def _begin(self) -> None:
        self._found = self._sources = self._find()
        self._since_ns, self._before = perf_counter_ns(), self._values()
        self._unseen = unseen(self._found, self._before)
        self._sources = [one for one in self._found if not _is_in_vain(one, self._before)]

    def _sample(self) -> None:
        """Write a line. Where that fails, the next one tells of this interval, too."""
        now_ns, values = perf_counter_ns(), self._values()
        found = self._file.append(line(self._since_ns, now_ns, self._before, values))
        self._since_ns, self._before = now_ns, values
        if self._is_late():  # devices may begin to answer, or be used, at any time
            self._unseen = unseen(self._found, values)
        for message in found:
            self._thread.report(f"the file of host counters was changed: {message}")

    def _told_by(self, source: CounterSource, ask: Callable[[], T], nothing: T) -> T:
        """Return what a source tells. Its error, such as where a kernel writes otherwise, costs no other."""
        try:
            return ask()
        except Exception as error:
            self._thread.report(f"{source.counters[0]} cannot be told: {error!r}")
            return nothing

    def _is_late(self) -> bool:
        """Tell whether something that is listed as unseen can be seen by now."""
        return any(name in self._before for one in self._unseen for name in one.counters)

    def _values(self) -> Values:
        """Read all files, one right after the other, and return what they state."""
        paths: list[Sequence[str]] = [self._told_by(one, one.paths, ()) for one in self._sources]
        texts = iter(self._files.read([path for of_source in paths for path in of_source]))
        values: dict[str, float] = {}
        for source, of_source in zip(self._sources, paths, strict=True):
            content = [next(texts) for _ in of_source]
            none: Values = {}
            values.update(self._told_by(source, partial(source.values, content), none))
        return values


def line(since_ns: int, until_ns: int, before: Values, values: Values) -> bytes:
    """Return the line of an interval, with blanks for what is not known of it.

    Args:
        since_ns, until_ns: the interval, on the ``perf_counter`` axis.
        before, values: what the counters stood at then.
    """
    cells = [f"{since_ns / NS_PER_S:.3f}", f"{until_ns / NS_PER_S:.3f}"]
    for name, kind, *_ in COUNTERS:
        value = values.get(name)
        if value is not None and kind == "difference":
            value = value - before[name] if name in before else None
        cells.append("" if value is None or value < 0 else _cell(value))
    return (",".join(cells) + "\n").encode()


def _cell(value: float) -> str:
    """Return a number in few characters: from a million on in three digits, such as ``123e5``."""
    if value < _LARGE:
        return f"{value:.7g}"
    zeros = len(str(int(value))) - 3
    return f"{round(value / 10**zeros)}e{zeros}"


def _is_in_vain(source: CounterSource, values: Values) -> bool:
    """Tell whether a source has files and states nothing: reading what is not there takes time, too."""
    return bool(source.paths()) and not any(name in values for name in source.counters)


def unseen(sources: Sequence[CounterSource], values: Values) -> list[Unseen]:
    """Return the counters that no source states here, and why, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for source in sources:
        missing = [name for name in source.counters if name not in values]
        if missing:
            paths = source.paths()
            why = source.why or next(filter(None, map(why_unreadable, paths)), f"not stated in {paths[0]}")
            by_reason.setdefault(why, []).extend(missing)
    return [Unseen(names, why) for why, names in by_reason.items()]


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
