"""Import traces of torch.profiler (Kineto), one for each rank: collectives, own work, copies and steps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from timing_logger.errors import NotImportableError
from timing_logger.importing.imported import Imported, LeftOut, integer
from timing_logger.importing.kineto_communication import communication_rows
from timing_logger.importing.kineto_events import Axis, Kept, first_instant_us
from timing_logger.importing.kineto_names import only_group, rank_of
from timing_logger.importing.kineto_work import Lanes, work_rows
from timing_logger.importing.log_folder import LogFolder, Process, new_log_folder
from timing_logger.importing.source_files import AnyPath, files_at
from timing_logger.importing.trace_events import read_trace
from timing_logger.process.progress import each
from timing_logger.schema.record import MESSAGES, RawRecord, Record

_ENDINGS = (".json",)
_NS_PER_S = 10**9
_BEFORE_S = 10**6
_RANK_IN_NAME = re.compile(r"rank[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE)
_HANDLER_NAME = re.compile(r"(.+)_\d+\.\d+\.pt\.trace\.json(?:\.gz)?")


def import_kineto(paths: AnyPath | Sequence[AnyPath], output: AnyPath) -> Imported:
    """Make timing files from traces that torch.profiler exported, one for each rank.

    A trace is read block by block; what is kept of it is a few numbers of each event that is nested in no
    other. Ranks on hosts of one name are taken to share a clock.

    Args:
        paths: files, folders or patterns; gzip and Zstandard are read, too.
        output: the folder to make; it may exist if it is empty.

    Raises:
        NotImportableError: there are no such files, one is no trace, two are of one rank, or none has
            anything that can be used.
        LogPathError: the output exists already and is not empty, or cannot be made.
        ConfigurationError: a file is compressed with Zstandard, and nothing installed reads that.
    """
    files = files_at(paths, _ENDINGS)
    importer = _Importer(files)
    with new_log_folder(output, "kineto") as folder:
        importer.write(folder)
        if importer.first_steps_differ:  # then collectives are numbered from a step that all have
            folder.clear()
            importer = _Importer(files, importer.last_first_step)
            importer.write(folder)
    return Imported(
        Path(output), sorted(folder.ranks), folder.n_rows, dict(importer.left_out), folder.not_told, []
    )


class _Importer:
    """Imports the traces of a run, one after the other.

    Args:
        files: the traces.
        from_step: the step whose first collective has the number 0; None for the first of each trace.
    """

    def __init__(self, files: Sequence[Path], from_step: int | None = None) -> None:
        self._files, self._from_step = files, from_step
        self._origin_ns: int | None = None
        self._of_rank: dict[int, Path] = {}
        self._first_steps: set[int | None] = set()
        self.left_out = LeftOut()

    @property
    def first_steps_differ(self) -> bool:
        """Whether the traces begin at different steps of the program, as far as they tell."""
        return len(self._first_steps) > 1 and self.last_first_step is not None

    @property
    def last_first_step(self) -> int | None:
        """The first step that all traces have that have any."""
        return max((step for step in self._first_steps if step is not None), default=None)

    def write(self, folder: LogFolder) -> None:
        """Write a timing file for each trace."""
        for path in each("reading", self._files):
            self._write_one(folder, path)

    def _write_one(self, folder: LogFolder, path: Path) -> None:
        kept = Kept(LeftOut())
        members = read_trace(path, kept.take, kept.left_out)
        stated = members.get("distributedInfo")
        distributed = stated if isinstance(stated, dict) else {}
        base_ns = integer(members.get("baseTimeNanoseconds")) or 0
        rank = self._new_rank(distributed, path)
        if self._origin_ns is None:
            first_ns = base_ns + round(first_instant_us(kept) * 1e3)
            self._origin_ns = max(0, first_ns // _NS_PER_S - _BEFORE_S) * _NS_PER_S
        axis, lanes = Axis(base_ns - self._origin_ns, kept.steps), Lanes.of(kept)
        only = only_group(distributed)
        rows = list(work_rows(kept, axis, lanes))
        rows += communication_rows(kept, axis, lanes, only, _unnamed(rank), self._from_step)
        self.left_out.update(kept.left_out)
        self._first_steps.add(min(kept.steps, default=None))
        if not rows:
            raise NotImportableError(
                f"paths: {str(path)!r} has no step, collective, annotation or operation in it. Was it "
                "recorded with ProfilerActivity.CPU?"
            )
        host, size = _host(members, path), integer(distributed.get("world_size"))
        clock = f"kineto {host}" if host else ""
        process = Process(rank, size, host, clock, self._origin_ns, kept.pid)
        folder.add(process, rows, [path], kept.left_out, _not_told(rows, rank))

    def _new_rank(self, distributed: Mapping[str, Any], path: Path) -> int:
        """Return the rank of a trace, which no other may have."""
        rank = _rank(distributed, path, alone=len(self._files) == 1)
        if rank in self._of_rank:
            raise NotImportableError(
                f"paths: {str(self._of_rank[rank])!r} and {str(path)!r} are both of rank {rank}. Import one "
                "trace of each rank at a time."
            )
        self._of_rank[rank] = path
        return rank


def _rank(distributed: Mapping[str, Any], path: Path, *, alone: bool) -> int:
    stated = rank_of(distributed.get("rank"))
    if stated is not None:
        return stated
    if found := _RANK_IN_NAME.findall(path.name):
        return int(found[-1])
    if alone:
        return 0
    raise NotImportableError(
        f"paths: nothing tells the rank of {str(path)!r}: it has no distributedInfo, and its name has no "
        "'rank' with a number. Rename it, as to rank3.json."
    )


def _host(members: Mapping[str, Any], path: Path) -> str:
    """Return the name of the host, as the trace states it or the name of its file; "" if neither does."""
    host = members.get("host_name")
    found = _HANDLER_NAME.fullmatch(path.name)
    return host if isinstance(host, str) else found[1] if found else ""


def _unnamed(rank: int) -> str:
    """Return the name of a group that is not told: another one on each rank, so that nothing is matched."""
    return f"not told, rank {rank}"


def _not_told(rows: Sequence[RawRecord], rank: int) -> set[str]:
    """Return what the rows lack, by the names of ``sidecar.NOT_TOLD``."""
    found = {"end"}
    records = [Record(*row) for row in rows]
    communication = [record for record in records if record.group]
    if not communication:
        found |= {"communication", "waits"}
    for record in communication:
        name = record.operation.removeprefix("I")
        if record.message_size_bytes is None and name not in ("BARRIER", "WAIT"):
            found.add("sizes")
        if record.peer is None and name in MESSAGES:
            found.add("peers")
        if record.group == _unnamed(rank):
            found.add("groups")
    return found
