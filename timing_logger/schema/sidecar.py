"""The sidecar of a timing file: which process wrote the file, on what clock, and how many records.

``timing-rank0.csv`` is described by ``timing-rank0.meta.json``. Values that are constant for a run are stored
there once instead of in every row. The file is replaced atomically, so a reader always finds a complete one;
its counters are as old as ``updated_unix_ns``.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeAlias

from timing_logger.schema.record import RawRecord, repaired
from timing_logger.schema.typed_json import Rules, checked

SCHEMA_VERSION = 1

UNUSABLE = "unusable"
"""The key under which a sidecar that was read lists the paths of what was left out.

An example of a path is ``clock_offsets[0].offset_ns``.
"""

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

SidecarDict: TypeAlias = "dict[str, Any]"
"""The content of a sidecar as it was read, and checked: the fields of :class:`RunInfo`, any may lack."""


def usable_sidecar(content: Any) -> SidecarDict | None:
    """Return the values of a sidecar that have the types of :class:`RunInfo`; None if it is no JSON object.

    The paths of what was left out are listed under :data:`UNUSABLE`, if there are any. Readers need not check
    again.
    """
    if not isinstance(content, dict):
        return None
    said_before = content.get(UNUSABLE)
    before = [one for one in said_before if isinstance(one, str)] if isinstance(said_before, list) else []
    stated = {name: value for name, value in content.items() if name != UNUSABLE}
    found = checked(stated, RunInfo, Rules(_SIGNED, (ClockAnchor, ClockOffset)))
    flaws = before + found.problems
    return {**found.value, UNUSABLE: flaws} if flaws else found.value


class ClockAnchor(NamedTuple):
    """One moment read on both clocks: ``unix_ns - perf_counter_ns`` maps one axis to the other.

    ``uncertainty_ns`` is half the time that reading the pair took, in ns.
    """

    perf_counter_ns: int
    unix_ns: int
    uncertainty_ns: int

    @property
    def wall_offset_ns(self) -> int:
        """Unix time minus ``perf_counter_ns``, in ns."""
        return self.unix_ns - self.perf_counter_ns


class ClockOffset(NamedTuple):
    """A measured offset between this process's ``perf_counter`` and that of a reference rank.

    ``instant + offset_ns`` is the same instant on the reference's axis.

    Attributes:
        perf_counter_ns: when it was measured, on this process's axis.
        offset_ns, uncertainty_ns: the offset and the half width of its interval, in ns; 0 for the reference
            itself.
        reference_rank: the reference's rank in its timing files.
        reference_host, reference_boot_id: identify the reference's axis, as in the reference's own sidecar.
        exchanges: the number of ping-pongs used for the measurement.
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

    Attributes:
        perf_counter_ns: the moment on this process's axis.
        uncertainty_ns: half the time between issuing the event and seeing it done.
        missed_by_ns: how far the earlier anchors, extrapolated to this moment at their rate, were off.
    """

    perf_counter_ns: int
    uncertainty_ns: int
    missed_by_ns: int


class DeviceClockInfo(NamedTuple):
    """How the instants in rows with the clock ``device`` were determined.

    Attributes:
        device: the device, such as ``cuda:0``.
        anchors: the latest 100 anchors.
        worst_uncertainty_ns, worst_miss_ns: the largest values over all anchors.
        farthest_from_anchor_ns: the longest distance between an instant and the anchor that placed it. The
            device states it as a float32 of ms, whose resolution is 0.25 us after 4 s, 62 us after 10
            minutes.
        event_pairs: the number of event pairs in the pool, which never shrinks.
        captured: blocks that were not timed, because their stream was being captured into a graph.
        exhausted: blocks that found no free events; their rows are ``unresolved``.
        full: blocks whose stream held so many marks already that one more might have blocked; their rows are
            ``unresolved``, too.
        failure: the device's error message when it failed, after which it was not queried again; or the
            reason why there are no anchors, in which case durations are right and starts are the moments of
            issue.
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
    """The number of records by fate; at rest ``accepted == written + dropped + pending``, exactly.

    They tell of the timing file, or of the first sink if there is no file; :class:`SinkCounters` of another.

    Attributes:
        accepted: recording calls that a policy did not leave out.
        written: records handed to the operating system, one line each, whose file is still there.
        dropped: records lost because the queue was full, the logger closed, or writing failed; or whose file
            was deleted, moved away, replaced or cut.
        pending: records that are not written yet.
    """

    accepted: int
    written: int
    dropped: int
    pending: int


class SinkCounters(NamedTuple):
    """The number of records by fate, for one of the sinks beside the timing file.

    Attributes:
        sink: its type, and a number if others have that type.
        written: records that it took, and has.
        dropped: records that it could not take, or that somebody removed.
        pending: records that it has not taken yet.
    """

    sink: str
    written: int
    dropped: int
    pending: int


class OpenCallInfo(NamedTuple):
    """A call that has been open for longer than ``options["hang_after"]`` seconds.

    The fields are those of its row. ``start_counter_ns`` is its start on this process's ``perf_counter``
    axis; a reader knows it only if the sidecar states it.
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
    start_counter_ns: int | None

    @classmethod
    def of(cls, record: RawRecord) -> OpenCallInfo:
        """Return what the record of an open call says."""
        raw = repaired(record)
        *columns, _ = cls._fields
        return cls._make(getattr(raw, name) for name in [*columns, "start_ns"])


class GroupProgress(NamedTuple):
    """How far this process has come in the collectives of one group, including those that are not recorded.

    Attributes:
        issued: how many it has begun.
        completed: how many of these are known to be over, counted up to the first that is not.
    """

    group: str
    size: int
    issued: int
    completed: int


class CrashProtection(NamedTuple):
    """Whether the records of a process survive it, however it ends.

    Attributes:
        on: whether they wait in a file of the machine's memory until they are written.
        reason: why not; or, if they do, what there is to know about it. "" if nothing.
    """

    on: bool
    reason: str


class Stall(NamedTuple):
    """A time in which a process began and recorded nothing for ``options["hang_after"]`` seconds or longer.

    Attributes:
        since_counter_ns, until_counter_ns: from when to when it was seen to last, on this process's
            ``perf_counter`` axis.
        open_calls: the calls that were open.
        groups: how far the process had come in each group.
        stack: the call stack of the main thread when the stall was noticed, innermost call first.
    """

    since_counter_ns: int
    until_counter_ns: int
    open_calls: list[OpenCallInfo]
    groups: list[GroupProgress]
    stack: list[str]


class FilePart(NamedTuple):
    """One of the files that hold the rows of one process.

    Attributes:
        file: the file's name.
        rows, bytes: how many rows and bytes are in it.
        lost: rows that were in it and no longer are.
        why: what was done to the file from outside, such as "was deleted"; "" if nothing.
    """

    file: str
    rows: int
    bytes: int
    lost: int = 0
    why: str = ""


class Unseen(NamedTuple):
    """Counters of the host that cannot be seen here.

    Attributes:
        counters: their names.
        why: in words.
    """

    counters: list[str]
    why: str


class HostCountersInfo(NamedTuple):
    """What became of the file of host counters, see :mod:`timing_logger.schema.host_counters`.

    Attributes:
        file: its name; "" before its first line.
        lines: how many lines are in it, and in its further parts.
        failed: how often a line could not be written; the next one then tells of its time, too.
        cpu_ns: processor time that reading and writing the counters took.
        unseen: counters that cannot be seen here.
        last_error: the latest trouble in words; "" if there was none.
    """

    file: str
    lines: int
    failed: int
    cpu_ns: int
    unseen: list[Unseen]
    last_error: str


class StackSamplesInfo(NamedTuple):
    """What became of the file of stack samples, see :class:`timing_logger.schema.timing_files.StackSample`.

    Attributes:
        file: its name; "" before its first line.
        lines: how many lines are in it, and in its further parts.
        lost: samples that could not be written.
        cpu_ns: processor time that taking and writing the samples took.
        last_error: the latest trouble in words; "" if there was none.
    """

    file: str
    lines: int
    lost: int
    cpu_ns: int
    last_error: str


class ImportedFrom(NamedTuple):
    """What a timing file was made from, if another tool had recorded it.

    Attributes:
        kind: the kind of ``timing-logger import``, such as "kineto".
        files: the names of the files, without their folders.
        left_out: how many of their records could not be used, by the reason in words; records without a rank
            are told of in the sidecar of the lowest.
        not_told: what files of this kind do not tell, by the names of :data:`NOT_TOLD`.
        goes_on: whether the import followed files that grow, and had not ended when this was written.
    """

    kind: str
    files: list[str]
    left_out: dict[str, int]
    not_told: list[str]
    goes_on: bool = False


NOT_TOLD: dict[str, str] = {
    "communication": "the operations in which ranks wait for each other",
    "waits": "how long a thread was blocked until an operation ended",
    "instants": "when anything happened: rows follow each other without gaps",
    "clocks": "how far the clocks of ranks are apart",
    "groups": "in which group of ranks a collective was",
    "peers": "the other rank of a message, or the root of a collective",
    "sizes": "the bytes of messages",
    "own work": "what ranks did outside of communication",
    "end": "how the run ended",
}
"""What a source may not tell, by name: the column, or the rows, that are then not there."""


def in_order_of_not_told(names: Collection[str]) -> list[str]:
    """Return those of the names that :data:`NOT_TOLD` has, in its order."""
    return [name for name in NOT_TOLD if name in names]


@dataclass(slots=True, kw_only=True)
class RunInfo:
    """The content of a sidecar. Units are part of the field names.

    Attributes:
        counters: what became of the records in the timing file.
        sinks: the same for each of the logger's ``sinks``, in their order.
        last_progress_counter_ns: when a record was last made, or a collective begun, as far as the flush
            thread saw; on the ``perf_counter`` axis.
        idle_stack: the call stack of the main thread, innermost call first, if the last progress is longer
            ago than ``options["hang_after"]`` seconds.
        longest_stall, last_stall: the longest and the latest time in which the process stood still, kept when
            it goes on, fails or is interrupted; None if there was none.
        signal: the signal that ended the process, if the logger was asked to handle it.
        ended_by: the type of the exception that was under way when the logger was closed, or that ended the
            program, such as ``KeyboardInterrupt``; "" if there was none, or none is known.
        untimed: how often functions of MPI were called in which a rank may wait for others, and that make no
            row: ``{"Rput": 12}``.
        updated_unix_ns: when the counters were read. A live process updates the file every 10 s, even while
            it records nothing.
        behind_s: age of the oldest record that was waiting to be written at that time; more than
            ``flush_interval`` + 0.25 if records come faster than they can be written, or if the disk is slow.
        crash_protection: whether records that are not written yet survive the process.
        ring_path: on ``host``, the file that holds the records until they are written; "" if there is none.
            A process that closes its logger removes it.
        pid_namespace: among which processes ``pid`` is one, such as those of a container; 0 if unknown.
        killed: whether a reader found that file left behind: the process is gone, and had not closed its
            logger.
        run_id, world, launch_id: see :class:`timing_logger.process.this_process.Identity`.
        host_counters: the file of host counters; None if the logger writes none.
        stack_samples: the file of stack samples; None if the logger writes none.
        imported: what the file was made from, if ``timing-logger import`` made it; None if a logger did.
        commit: the commit that is checked out where the program is; "" if it is in no git repository, or
            under ``run --native-mpi``. Its files may have been changed since.
        core: what recorded: "native", "python", or "native-mpi" for the library of ``run --native-mpi``.
        core_note: what the Python core costs, why it was the one in use, and the way out; "" for the others.
        process_group: what timed torch's process groups: "native" for C++, or "python"; "" if none was timed.
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
    sinks: list[SinkCounters] = field(default_factory=list)
    logger_cpu_ns: int = 0
    written_bytes: int = 0
    parts: list[FilePart] = field(default_factory=list)
    last_error: str = ""
    open_calls: list[OpenCallInfo] = field(default_factory=list)
    groups: list[GroupProgress] = field(default_factory=list)
    last_progress_counter_ns: int = 0
    idle_stack: list[str] = field(default_factory=list)
    longest_stall: Stall | None = None
    last_stall: Stall | None = None
    signal: str = ""
    ended_by: str = ""
    untimed: dict[str, int] = field(default_factory=dict)
    behind_s: float = 0.0
    crash_protection: CrashProtection = field(default_factory=lambda: CrashProtection(False, "no ring"))
    ring_path: str = ""
    killed: bool = False
    host_counters: HostCountersInfo | None = None
    stack_samples: StackSamplesInfo | None = None
    imported: ImportedFrom | None = None
    core: str = ""
    core_note: str = ""
    process_group: str = ""
    run_id: str = ""
    world: str = ""
    launch_id: str = ""
    host: str = ""
    boot_id: str = ""
    pid: int = 0
    pid_namespace: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    commit: str = ""

    def to_json(self) -> str:
        """Return the sidecar as JSON: ``schema_version`` first, and an object for each named tuple."""
        content = {"schema_version": SCHEMA_VERSION, **asdict(self)}
        return json.dumps(_with_names(content), indent=1) + "\n"


def _with_names(value: Any) -> Any:
    """Return ``value`` with a dict in the place of each named tuple, however deeply nested."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: _with_names(one) for key, one in value.items()}
    return [_with_names(one) for one in value] if isinstance(value, list) else value
