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
    reading,
    records,
    stalls,
)  # fmt: skip
from campaign.trial import Campaign, Trial, Untried


class _Cannot:
    """The campaign of a promise, or a place, that cannot be tried here."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __call__(self, trial: Trial) -> str:
        raise Untried(self.reason)


_P4 = "P4, P6: after SIGKILL nothing older than flush_interval + 0.5 s is missing, torn inside or twice"
_P11 = "P11: an interrupt loses no row, leaves the file closed, and the exit code is the interrupt's"
_P12 = "P2, P6, P12: no exit code changes, writing resumes, no line is torn or twice, all is accounted for"
_READ = "P6, P7: any file gives an answer or one sentence, in at most 20 s and 4 GiB"

CAMPAIGNS: tuple[Campaign, ...] = (
    Campaign("kills-idle", _P4, "SIGKILL at random instants, 1,000 records/s", kills.kills_idle, True),
    Campaign("kills-loaded", _P4, "the same beside two busy loops", kills.kills_loaded, True),
    Campaign(
        "kills-fast",
        "P4, P6: the same, or the sidecar says that records are written late or were dropped",
        "the same at 100,000 records/s, more than can be written",
        kills.kills_fast,
        True,
    ),
    Campaign(
        "stall-sink",
        "P1, P2, P3, P10, P11: no call waits, memory is bounded, flush and close are in time",
        "a sink behind a blocked pipe, its queue full",
        stalls.stalled_sink,
        True,
    ),
    Campaign(
        "stall-disk",
        "P1, P2, P10: calls never wait, flush answers in time, nothing is lost",
        "a `write` held back in the kernel's entry",
        stalls.stalled_disk,
        True,
    ),
    Campaign("interrupt-once", _P11, "Ctrl-C at a random instant of a run or of its end", interrupts.once),
    Campaign("interrupt-twice", _P11, "twice within 2 ms", interrupts.twice),
    Campaign("interrupt-four-times", _P11, "four times within 9 ms", interrupts.four_times),
    Campaign(
        "interrupt-mpiexec",
        "P4: nothing older than flush_interval + 0.5 s is missing of what mpiexec kills",
        "Ctrl-C to `mpiexec -n 2`",
        interrupts.mpiexec,
        True,
    ),
    Campaign(
        "exits",
        "P11: a healthy exit loses nothing, any other what was not flushed; exit codes stay",
        "every way out of the interpreter",
        exits.exits,
    ),
    Campaign(
        "forks",
        "P9: the parent's records exactly once; children neither hang nor write",
        "forks while two threads record",
        forks.forks,
    ),
    Campaign("full-tmpfs", _P12, "a tmpfs of 64 KiB is full, then larger", disks.full_disk),
    Campaign("full-limit", _P12, "a limit on the file's size, lifted or not", disks.size_limit),
    Campaign("errors", _P12, "errors injected into some writes, or all from one on", disks.errors),
    Campaign(
        "read-only", "P18: refused at construction, with a clear error", "a read-only tmpfs", disks.read_only
    ),
    Campaign(
        "unmounted",
        "P2, P12: what is said to be written can be found; the exit code stays",
        "the file system is unmounted lazily in mid-run",
        disks.unmounted,
    ),
    Campaign(
        "removed",
        "P2, P12: what is said to be written can be found; the exit code stays",
        "the folder is removed in mid-run",
        disks.removed,
    ),
    Campaign(
        "races",
        "P8: two processes of one rank write two files, each whole",
        "both start in one moment",
        files.races,
    ),
    Campaign(
        "restarts",
        "P8: an existing file stays as it is",
        "a restart after a file that was torn anywhere",
        files.restarts,
    ),
    Campaign(
        "elastic",
        "P8: the files of all generations are kept",
        "`torchrun --max-restarts`",
        elastic.elastic,
        limit_s=(240.0, 1200.0),
    ),
    Campaign(
        "planted",
        "P18: what is no file, folder or rank is refused, and nothing goes through it",
        "links, FIFOs, devices and more in the place of folder, file and sidecar",
        files.planted,
    ),
    Campaign(
        "names",
        "P6: names come back as they were recorded",
        "random operations, layers and groups",
        names.hostile_names,
    ),
    Campaign(
        "poison",
        "P1, P13: every call returns and leaves its row; no record hurts another",
        "values of every type in every argument",
        names.poison,
    ),
    Campaign(
        "threads",
        "P2: accepted = written + dropped + pending",
        "16 threads into a queue of 1,000",
        records.threads,
    ),
    Campaign(
        "signal-handlers",
        "P1: a signal handler may record, flush and read stats",
        "500 signals while the same is going on",
        records.handlers,
    ),
    Campaign(
        "finalizers", "P1: a finalizer may record", "5,000 of them, at any allocation", records.finalizers
    ),
    Campaign(
        "flushes",
        "P10: when flush says so, the rows are with the operating system",
        "the file read after each flush",
        records.flushes,
    ),
    Campaign(
        "wall-clock",
        "P16: a step of the wall clock changes no duration",
        "steps of up to a day, in timed blocks",
        records.wall_clock,
    ),
    Campaign(
        "exceptions",
        "P17: raised again unchanged, and the row says which",
        "every exception of Python in a block",
        records.exceptions,
    ),
    Campaign(
        "cuts",
        "P6: whole lines are read as they were, an unfinished one is cut and said to be",
        "a file cut after its bytes",
        reading.cuts,
        records=False,
    ),
    Campaign(
        "unchanged",
        "P7: reading changes nothing, and says the same again",
        "commands on torn files, their hashes",
        reading.unchanged,
        records=False,
    ),
    Campaign(
        "hangs",
        "P14: what hangs leaves evidence that names who is missing",
        "real hangs on four ranks, all killed",
        hangs.hangs,
        True,
        (240.0, 3600.0),
    ),
    Campaign(
        "fuzz-pandas", _READ, "CSV files, damaged, read by pandas", fuzzing.fuzz_csv_by_pandas, records=False
    ),
    Campaign("fuzz-pyarrow", _READ, "the same by pyarrow", fuzzing.fuzz_csv_by_pyarrow, records=False),
    Campaign("fuzz-sidecars", _READ, "sidecars, damaged", fuzzing.fuzz_sidecars, records=False),
    Campaign("fuzz-parquet", _READ, "Parquet, damaged", fuzzing.fuzz_parquet, records=False),
    Campaign("fuzz-watch", _READ, "files, damaged, under `watch`", fuzzing.fuzz_watch, records=False),
    Campaign(
        "fuzz-commands", _READ, "whole commands on damaged folders", fuzzing.fuzz_commands, records=False
    ),
    Campaign(
        "killed-queue",
        "P5: with the native core every record whose call returned is in the file, once, after a recovery",
        "SIGKILL at random instants from the start on, 1,000 or 100,000 records/s",
        kills.recoveries,
        True,
    ),
    Campaign(
        "gpu",
        "P15: timing a device never synchronises a stream nor breaks a graph",
        "",
        _Cannot("needs a GPU: see [validation-gpu.md](validation-gpu.md)"),
    ),
    Campaign(
        "network-file-systems",
        "all of the above on NFS and Lustre",
        "",
        _Cannot("no network file system here: P8 does without locks and O_APPEND for their sake"),
    ),
    Campaign(
        "power",
        "`fsync=True`: rows outlive a crash of the machine",
        "",
        _Cannot("no machine here that may lose its power"),
    ),
)
