"""The table of all campaigns: which promises are tried, and how."""

from __future__ import annotations

from campaign import (
    disks,
    elastic,
    exits,
    files,
    forks,
    fuzzing,
    hangs,
    interrupts,
    kills,
    names,
    native_mpi,
    pairs,
    reading,
    records,
    rings,
    stalls,
)  # fmt: skip
from campaign.trial import Campaign, Trial, Untried


class _Cannot:
    """The campaign of a promise, or a place, that cannot be tried here."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __call__(self, trial: Trial) -> str:
        raise Untried(self.reason)


_P4 = "P4, P6: after SIGKILL, nothing older than flush_interval + 0.5 s is missing, corrupted or duplicated"
_P11 = "P11: an interrupt loses no row, the file is closed, and the exit code is that of the interrupt"
_IN_EXITS = "it handles no interrupt, which ends a program in C: see the ways to end"
_P12 = "P2, P6, P12: no exit code changes, writing resumes, no line is torn or repeated, all is accounted for"
_READ = "P6, P7: any file gives an answer or a one-sentence error, within 20 s and 4 GiB"

CAMPAIGNS: tuple[Campaign, ...] = (
    Campaign(
        "kills-idle",
        _P4,
        "SIGKILL at random instants, 1,000 records/s",
        kills.kills_idle,
        True,
        native_mpi=native_mpi.kills,
    ),
    Campaign(
        "kills-loaded",
        _P4,
        "the same, with two busy loops running",
        kills.kills_loaded,
        True,
        native_mpi="as without the loops: the writer is a thread in C",
    ),
    Campaign(
        "kills-fast",
        "P4, P6: the same, or the sidecar says that records are late or were dropped",
        "the same, at 100,000 records/s",
        kills.kills_fast,
        True,
        native_mpi=native_mpi.kills_fast,
    ),
    Campaign(
        "stall-sink",
        "P1, P2, P3, P10, P11: no call waits, memory is bounded, flush and close return in time",
        "a sink that writes to a blocked pipe, with its queue full",
        stalls.stalled_sink,
        True,
        native_mpi="it has no sinks",
    ),
    Campaign(
        "stall-disk",
        "P1, P2, P10: calls never wait, flush returns in time, nothing is lost",
        "a `write` that is delayed at the entry to the kernel",
        stalls.stalled_disk,
        True,
        native_mpi=native_mpi.stalled_disk,
    ),
    Campaign(
        "interrupt-once",
        _P11,
        "Ctrl-C at a random instant, during a run or while it ends",
        interrupts.once,
        native_mpi=_IN_EXITS,
    ),
    Campaign("interrupt-twice", _P11, "twice within 2 ms", interrupts.twice, native_mpi=_IN_EXITS),
    Campaign(
        "interrupt-four-times", _P11, "four times within 9 ms", interrupts.four_times, native_mpi=_IN_EXITS
    ),
    Campaign(
        "interrupt-mpiexec",
        "P4: nothing older than flush_interval + 0.5 s is missing when mpiexec kills the ranks",
        "Ctrl-C to `mpiexec -n 2`",
        interrupts.mpiexec,
        True,
        native_mpi="what the launcher does is not its matter; SIGTERM and SIGKILL are tried",
    ),
    Campaign(
        "exits",
        "P11: a healthy exit loses nothing, any other exit only what was not flushed; exit codes stay",
        "every way of leaving the interpreter",
        exits.exits,
        native_mpi=native_mpi.exits,
    ),
    Campaign(
        "forks",
        "P9: the parent's records appear exactly once; children neither hang nor write",
        "forks while two threads record",
        forks.forks,
        native_mpi=native_mpi.forks,
    ),
    Campaign(
        "full-tmpfs",
        _P12,
        "a tmpfs of 64 KiB fills up, and is then enlarged",
        disks.full_disk,
        native_mpi="as under a limit on the file size",
    ),
    Campaign(
        "full-limit",
        _P12,
        "a limit on the file size, which is lifted or not",
        disks.size_limit,
        native_mpi=native_mpi.size_limit,
    ),
    Campaign(
        "errors",
        _P12,
        "errors injected into some writes, or into all from some point on",
        disks.errors,
        native_mpi=native_mpi.errors,
    ),
    Campaign(
        "read-only",
        "P18: the constructor refuses it, with a clear error",
        "a read-only tmpfs",
        disks.read_only,
        native_mpi="`run` looks at the folder, before the job starts",
    ),
    Campaign(
        "unmounted",
        "P2, P12: rows that count as written can be found; the exit code stays",
        "the file system is lazily unmounted during the run",
        disks.unmounted,
        native_mpi="as where the folder is removed",
    ),
    Campaign(
        "removed",
        "P2, P12: rows that count as written can be found; the exit code stays",
        "the folder is removed during the run",
        disks.removed,
        native_mpi=native_mpi.removed,
    ),
    Campaign(
        "races",
        "P8: two processes of one rank write two complete files",
        "both start at the same moment",
        files.races,
        native_mpi=native_mpi.races,
    ),
    Campaign(
        "restarts",
        "P8: an existing file stays as it is",
        "a restart after a file was cut anywhere",
        files.restarts,
        native_mpi=native_mpi.restarts,
    ),
    Campaign(
        "elastic",
        "P8: the files of all generations are kept",
        "`torchrun --max-restarts`",
        elastic.elastic,
        limit_s=(240.0, 1200.0),
        native_mpi="of torch",
    ),
    Campaign(
        "planted",
        "P18: whatever is not a file, folder or rank is refused, and nothing is written through it",
        "links, FIFOs, devices and others in place of the folder, the file or the sidecar",
        files.planted,
        native_mpi=native_mpi.planted,
    ),
    Campaign(
        "names",
        "P6: names are read as they were recorded",
        "random operations, layers and groups",
        names.hostile_names,
        native_mpi="its names are those of MPI and of communicators",
    ),
    Campaign(
        "poison",
        "P1, P13: every call returns and leaves its row; no record affects another",
        "values of every type in every argument",
        names.poison,
        native_mpi="its values come from MPI, not from the caller",
    ),
    Campaign(
        "threads",
        "P2: accepted = written + dropped + pending",
        "16 threads into a queue of 1,000",
        records.threads,
        native_mpi=native_mpi.full_queue,
    ),
    Campaign(
        "signal-handlers",
        "P1: a signal handler may record, flush and read stats",
        "500 signals during the same",
        records.handlers,
        native_mpi="a signal handler may not call MPI",
    ),
    Campaign(
        "finalizers",
        "P1: a finalizer may record",
        "5,000 finalizers, at any allocation",
        records.finalizers,
        native_mpi="C has none",
    ),
    Campaign(
        "flushes",
        "P10: if flush returns True, the rows are with the operating system",
        "the file is read after each flush",
        records.flushes,
        native_mpi="it has no call for that",
    ),
    Campaign(
        "wall-clock",
        "P16: a step of the wall clock changes no duration",
        "steps of up to a day, in timed blocks",
        records.wall_clock,
        native_mpi="nothing in it adds the wall clock to a duration; it was not tried",
    ),
    Campaign(
        "exceptions",
        "P17: it is raised again unchanged, and the row names it",
        "every built-in exception, raised in a timed block",
        records.exceptions,
        native_mpi="C has none; the class of an MPI error is in its row",
    ),
    Campaign(
        "cuts",
        "P6: complete lines are read as they were; an incomplete line is cut and reported",
        "a file cut after each of its bytes",
        reading.cuts,
        records=False,
    ),
    Campaign(
        "unchanged",
        "P7: reading changes nothing, and gives the same answer again",
        "commands on cut files; hashes before and after",
        reading.unchanged,
        records=False,
    ),
    Campaign(
        "hangs",
        "P14: a hang leaves evidence that names the missing ranks",
        "real hangs of four ranks, which are then killed",
        hangs.hangs,
        True,
        (240.0, 3600.0),
        native_mpi="its tests hang two ranks, once each",
    ),
    Campaign(
        "fuzz-pandas", _READ, "damaged CSV files, read with pandas", fuzzing.fuzz_csv_by_pandas, records=False
    ),
    Campaign("fuzz-pyarrow", _READ, "the same, with pyarrow", fuzzing.fuzz_csv_by_pyarrow, records=False),
    Campaign("fuzz-sidecars", _READ, "damaged sidecars", fuzzing.fuzz_sidecars, records=False),
    Campaign("fuzz-parquet", _READ, "damaged Parquet files", fuzzing.fuzz_parquet, records=False),
    Campaign("fuzz-watch", _READ, "damaged files, read by `watch`", fuzzing.fuzz_watch, records=False),
    Campaign(
        "fuzz-commands", _READ, "complete commands on damaged folders", fuzzing.fuzz_commands, records=False
    ),
    Campaign(
        "fuzz-rings",
        f"{_READ}; no row that was not recorded, none twice",
        "damaged and half-written rings, of processes that are gone or run",
        rings.fuzz_rings,
        records=False,
    ),
    Campaign(
        "killed-queue",
        "P5: with a writer in C, every record whose call returned is in the file once after a recovery",
        "SIGKILL at random instants from the start on, at 1,000 or 100,000 records/s",
        kills.recoveries,
        True,
        native_mpi=native_mpi.kills_fast,
    ),
    Campaign(
        "pairs",
        "P19: nothing whose call returned is lost, torn or twice; exit codes stay, children touch nothing",
        "two faults at once, in every order, at random instants, while two threads record",
        pairs.pairs,
        limit_s=(300.0, 7200.0),
        native_mpi=native_mpi.pairs,
    ),
    Campaign(
        "gpu",
        "P15: timing a device never synchronises a stream or breaks a graph capture",
        "",
        _Cannot("needs a GPU; see [validation-gpu.md](validation-gpu.md)"),
        native_mpi="it times no device",
    ),
    Campaign(
        "network-file-systems",
        "all of the above on NFS and Lustre",
        "",
        _Cannot("no network file system here; for their sake, P8 does not rely on locks or O_APPEND"),
        native_mpi="the same reason",
    ),
    Campaign(
        "power",
        "`fsync=True`: rows survive a crash of the machine",
        "",
        _Cannot("no machine here whose power may be cut"),
        native_mpi="the same reason",
    ),
)
