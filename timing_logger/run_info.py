"""The sidecar of a timing file: who wrote it, on what clock, and how many records.

``timing-rank0.csv`` is described by ``timing-rank0.meta.json``. What is constant for a run stands
there once instead of in every row. The file is replaced atomically, so a reader always finds a
whole one; its counters are as old as ``updated_unix_ns``.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from timing_logger._descriptors import moved_up
from timing_logger._typed_json import Rules, checked
from timing_logger.errors import NotATimingFileError

SCHEMA_VERSION = 1

DRIFT_BOUND = 30e-6
"""How fast two unwatched clocks may part, in s per s: for each 15 ppm, NTP's tolerance PHI (RFC 5905)."""

MAX_RANK = 2**31 - 1
"""MPI's own limit, and room for any job."""

UNUSABLE = "unusable"
"""Under this name a sidecar that was read lists what was left out of it: ``clock_offsets[0].offset_ns``."""

_SIGNED = (
    "perf_counter_ns",
    "offset_ns",
    "missed_by_ns",
    "worst_miss_ns",
    "iteration",
    "epoch",
    "seq",
    "peer",
)
_MOST_BYTES = 64 * 2**20  # of a sidecar, which has some ten thousand at most
_FILE_NAME = re.compile(
    r"timing-rank(?P<rank>\d+)(?:\.run(?P<incarnation>\d+))?(?:\.part(?P<part>\d+))?\.csv"
)


class TimingFile(NamedTuple):
    """The name of a timing file: which rank wrote it, in which of its incarnations, and which part it is.

    A rank's first process writes ``timing-rank0.csv``. A later one (a restart into the same
    folder, or a second process with the same rank) finds that name taken, leaves the file alone
    and writes ``timing-rank0.run2.csv``. Where a process goes on in another file, that is a part:
    ``timing-rank0.part2.csv``, ``timing-rank0.run2.part2.csv``. All parts have one sidecar.
    """

    rank: int
    incarnation: int = 1
    part: int = 1

    @property
    def name(self) -> str:
        run = "" if self.incarnation == 1 else f".run{self.incarnation}"
        part = "" if self.part == 1 else f".part{self.part}"
        return f"timing-rank{self.rank}{run}{part}.csv"

    @property
    def first(self) -> TimingFile:
        """The first part, whose name stands for all of them."""
        return self._replace(part=1)

    @classmethod
    def parse(cls, name: str) -> TimingFile | None:
        """What a file name states; None for any other name."""
        match = _FILE_NAME.fullmatch(name)
        found = cls(*(int(number or 1) for number in match.groups())) if match else None
        return found if found is not None and max(found) <= MAX_RANK else None


def sidecar_path(timing_file: Path) -> Path:
    """``.../timing-rank0.csv`` -> ``.../timing-rank0.meta.json``, and so for all its parts."""
    name = TimingFile.parse(timing_file.name)
    first = timing_file if name is None or name.part == 1 else timing_file.with_name(name.first.name)
    return first.with_suffix(".meta.json")


def check_is_file(argument: str, path: Path) -> None:
    """Refuse what is called like a timing file and is none: reading a FIFO would wait for a writer.

    Raises:
        NotATimingFileError: it is no regular file.
    """
    if not path.is_file():
        raise NotATimingFileError(f"{argument}: {str(path)!r} is not a regular file. Move it away.")


def read_sidecar(timing_file: Path) -> dict[str, Any] | None:
    """What the sidecar of a timing file says, as :func:`usable_sidecar`; None where none can be one.

    A FIFO is not waited for, and nothing endless is read.
    """
    try:
        descriptor = os.open(sidecar_path(timing_file), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST_BYTES:
                return None
            content = json.loads(file.read())
        return usable_sidecar(content)
    except (OSError, ValueError, RecursionError):
        return None


def usable_sidecar(content: Any) -> dict[str, Any] | None:
    """What of a sidecar is of the types of :class:`RunInfo`; None of what is no sidecar at all.

    Where the rest stood is said under :data:`UNUSABLE`, if there is some. Readers need not look again.
    """
    if not isinstance(content, dict):
        return None
    said_before = content.get(UNUSABLE)
    before = [one for one in said_before if isinstance(one, str)] if isinstance(said_before, list) else []
    stated = {name: value for name, value in content.items() if name != UNUSABLE}
    found = checked(stated, RunInfo, Rules(_SIGNED, (ClockAnchor, ClockOffset)))
    flaws = before + found.flaws
    return {**found.value, UNUSABLE: flaws} if flaws else found.value


class ClockAnchor(NamedTuple):
    """One moment read on both clocks: ``unix_ns - perf_counter_ns`` maps one axis to the other.

    ``uncertainty_ns`` is half the time that reading the pair took.
    """

    perf_counter_ns: int
    unix_ns: int
    uncertainty_ns: int

    @property
    def wall_offset_ns(self) -> int:
        return self.unix_ns - self.perf_counter_ns


class ClockOffset(NamedTuple):
    """How this process's ``perf_counter`` stood against that of a reference rank, once measured.

    ``instant + offset_ns`` is the same instant on the reference's axis.

    Attributes:
        perf_counter_ns: when it was measured, on this process's axis.
        offset_ns, uncertainty_ns: what to add, and the half width of that; 0 for the reference itself.
        reference_rank: the reference's rank in its timing files.
        reference_host, reference_boot_id: whose axis it is, as in the reference's own sidecar.
        exchanges: ping-pongs that it was measured by.
    """

    perf_counter_ns: int
    offset_ns: int
    uncertainty_ns: int
    reference_rank: int
    reference_host: str
    reference_boot_id: str
    exchanges: int


class DeviceAnchor(NamedTuple):
    """One moment known on a device's clock and on ``perf_counter``.

    ``uncertainty_ns`` is half the time between issuing the event and seeing it done;
    ``missed_by_ns`` how far the anchors before, carried on at their rate to this moment, were off.
    """

    perf_counter_ns: int
    uncertainty_ns: int
    missed_by_ns: int


class DeviceClockInfo(NamedTuple):
    """How the instants in rows with the clock ``device`` were found.

    Attributes:
        device: such as ``cuda:0``.
        anchors: the latest 100.
        worst_uncertainty_ns, worst_miss_ns: over all anchors.
        farthest_from_anchor_ns: the longest way between an instant and the anchor that placed it. The
            device states it as a float32 of ms, 0.25 us coarse after 4 s, 62 us after 10 minutes.
        event_pairs: in the pool, which never shrinks.
        captured: blocks let pass, because their stream was being captured into a graph.
        exhausted: blocks that found no events free; their rows are ``unresolved``.
        full: blocks whose stream held so many marks already that one more might have blocked; so are theirs.
        failure: what the device said when it failed, after which it was asked nothing more; or why it
            has no anchors, where durations are right and starts are the moments of issue.
    """

    device: str
    anchors: list[DeviceAnchor]
    worst_uncertainty_ns: int
    worst_miss_ns: int
    farthest_from_anchor_ns: int
    event_pairs: int
    captured: int
    exhausted: int
    full: int
    failure: str


class Counters(NamedTuple):
    """Records by fate; at rest ``accepted == written + dropped + pending``, exactly.

    Attributes:
        accepted: recording calls that a policy did not leave out.
        written: records handed to the operating system, one line each, whose file is still there.
        dropped: records lost because the queue was full, the logger closed, or writing failed; or whose
            file somebody deleted, moved away, replaced or cut.
        pending: records still on their way.
    """

    accepted: int
    written: int
    dropped: int
    pending: int


class OpenCallInfo(NamedTuple):
    """A call that has been open for longer than ``options["hang_after"]``; its columns are those of its row.

    ``start_counter_ns`` is its start on this process's ``perf_counter`` axis.
    """

    thread: str
    operation: str
    layer_name: str
    iteration: int | None
    epoch: int | None
    group: str
    group_size: int | None
    seq: int | None
    peer: int | None
    message_size_bytes: int | None
    start_counter_ns: int


class GroupProgress(NamedTuple):
    """How far this process has come in the collectives of one group, recorded or not.

    Attributes:
        issued: how many it has begun.
        completed: how many of these are known to be over, up to the first that is not.
    """

    group: str
    size: int
    issued: int
    completed: int


class FilePart(NamedTuple):
    """One of the files that hold what one process wrote.

    Attributes:
        file: its name.
        rows, bytes: that are in it.
        lost: rows that were in it and no longer are.
        why: what was done to it behind the logger's back, such as "was deleted"; "" if nothing.
    """

    file: str
    rows: int
    bytes: int
    lost: int = 0
    why: str = ""


@dataclass(slots=True, kw_only=True)
class RunInfo:
    """The content of a sidecar; see the field names for units.

    Attributes:
        last_progress_counter_ns: when something was last recorded, or a collective begun, as far as the flush
            thread saw; on the ``perf_counter`` axis.
        idle_stack: where the main thread was, the innermost call first, if that is longer ago than
            ``options["hang_after"]``.
        signal: the signal that ended the process, if the logger was asked to see it.
        updated_unix_ns: as old are the counters. A process that lives renews it every 10 s, also while it
            records nothing.
        behind_s: age of the oldest record that waited for the file then; more than ``flush_interval`` + 0.25
            where records come faster than they can be written, or the disk is slow.
    """

    file: str
    rank: int
    incarnation: int
    world_size: int | None
    labels: dict[str, Any]
    options: dict[str, Any]
    started_unix_ns: int
    updated_unix_ns: int = 0
    closed: bool = False
    clock_anchors: list[ClockAnchor] = field(default_factory=list)
    clock_offsets: list[ClockOffset] = field(default_factory=list)
    device_clocks: list[DeviceClockInfo] = field(default_factory=list)
    counters: Counters = field(default_factory=lambda: Counters(0, 0, 0, 0))
    logger_cpu_ns: int = 0
    written_bytes: int = 0
    parts: list[FilePart] = field(default_factory=list)
    last_error: str = ""
    open_calls: list[OpenCallInfo] = field(default_factory=list)
    groups: list[GroupProgress] = field(default_factory=list)
    last_progress_counter_ns: int = 0
    idle_stack: list[str] = field(default_factory=list)
    signal: str = ""
    behind_s: float = 0.0
    host: str = field(default_factory=lambda: host_name())
    boot_id: str = field(default_factory=lambda: boot_id())
    pid: int = field(default_factory=os.getpid)
    versions: dict[str, str] = field(default_factory=lambda: _versions())

    def to_json(self) -> str:
        """JSON with an object for each anchor, offset and for the counters, ``schema_version`` first."""
        content: dict[str, Any] = {"schema_version": SCHEMA_VERSION, **asdict(self)}
        content["clock_anchors"] = [anchor._asdict() for anchor in self.clock_anchors]
        content["clock_offsets"] = [offset._asdict() for offset in self.clock_offsets]
        content["device_clocks"] = [
            {**clock._asdict(), "anchors": [anchor._asdict() for anchor in clock.anchors]}
            for clock in self.device_clocks
        ]
        for name in ("open_calls", "groups"):
            content[name] = [each._asdict() for each in getattr(self, name)]
        content["counters"] = self.counters._asdict()
        content["parts"] = [part._asdict() for part in self.parts]
        return json.dumps(content, indent=1) + "\n"


def replace_sidecar(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace ``path`` atomically. One thread of a process at a time.

    Args:
        mode: its permissions, of which the process's umask takes some.

    Raises:
        OSError: as the file system says; the old sidecar then stands unchanged.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    draft.unlink(missing_ok=True)  # of a process with this number that was killed; or somebody's trap
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        with open(moved_up(os.open(draft, flags, mode)), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def host_name() -> str:
    return os.uname().nodename


def boot_id() -> str:
    """What ``perf_counter`` counts from: processes of one host and one boot id share its origin.

    A time namespace moves the origin; its offset is then part of the id. "" where the system tells
    neither, which only Linux does.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    return boot + _time_namespace()


def _time_namespace() -> str:
    try:
        offsets = Path("/proc/self/timens_offsets").read_text().splitlines()
    except OSError:  # a kernel without time namespaces
        return ""
    seconds, nanoseconds = next(line.split()[1:] for line in offsets if line.startswith("monotonic"))
    return "" if seconds == nanoseconds == "0" else f"+{seconds}s{nanoseconds}ns"


def _versions() -> dict[str, str]:
    """Of Python, of this package, and of what the process had imported by then."""
    found = {"python": sys.version.split()[0], "timing_logger": _own_version()}
    for name in ("torch", "mpi4py", "numpy"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    return found


def _own_version() -> str:
    from importlib import metadata

    try:
        return metadata.version("timing_logger")
    except metadata.PackageNotFoundError:  # run from a source tree without installing
        return "unknown"
