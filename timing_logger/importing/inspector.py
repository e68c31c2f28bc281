"""Import what NCCL Inspector dumped: the collectives and messages of each rank."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from timing_logger.errors import NotImportableError
from timing_logger.importing.imported import Imported
from timing_logger.importing.inspector_records import (
    OPERATIONS,
    ROOTED,
    Communicator,
    Dumps,
    Operation,
    Process,
)
from timing_logger.importing.log_folder import LogFolder, new_log_folder
from timing_logger.importing.log_folder import Process as Described
from timing_logger.importing.source_files import AnyPath, files_at
from timing_logger.progress import each
from timing_logger.record import DEVICE_CLOCK, OK, RawRecord

_ENDINGS = (".log", ".jsonl", ".json")
_NS_PER_US, _NS_PER_S = 1000, 10**9
_BEFORE_S = 10**6
_UNNAMED = ("", "unknown")


def import_inspector(paths: AnyPath | Sequence[AnyPath], output: AnyPath) -> Imported:
    """Make timing files from dumps of NCCL Inspector, of NCCL 2.28 to 2.30.

    A rank is that in the largest communicator. Collectives are numbered for each kind apart, as NCCL does, so
    the group of each kind has a name of its own where a communicator has several. Plain dumps have no
    instants: the operations of a rank then follow each other without gaps.

    Args:
        paths: files, folders or patterns; gzip and Zstandard are read, too.
        output: the folder to make; it may exist if it is empty.

    Raises:
        NotImportableError: there are no such files, or no record can be used.
        TooLargeError: there are more than 5 million records.
        LogPathError: the output exists already and is not empty, or cannot be made.
        ConfigurationError: a file is compressed with Zstandard, and nothing installed reads that.
    """
    files = files_at(paths, _ENDINGS)
    dumps = Dumps()
    for path in each("reading", files):
        dumps.read(path)
    if not dumps.n_records:
        raise NotImportableError(
            f"paths: no record of NCCL Inspector could be read from {len(files)} files, such as "
            f"{str(files[0])!r}. Its dumps are lines of JSON; set NCCL_INSPECTOR_PROM_DUMP=0 for them."
        )
    with new_log_folder(output, "inspector") as folder:
        notes = _Run(dumps).write(folder)
    return Imported(
        Path(output), sorted(folder.ranks), folder.n_rows, dict(dumps.left_out), folder.not_told, notes
    )


class _Run:
    """The run that dumps are of: its ranks, and the names of its groups."""

    def __init__(self, dumps: Dumps) -> None:
        self._dumps = dumps
        self._communicators = list(dumps.communicators)
        self._world = _world_of(dumps)
        kinds: dict[int, set[int]] = defaultdict(set)
        starts = []
        for process in dumps.processes:
            for operation in dumps.operations_of(process):
                starts.append(operation.start_us)
                if operation.peer < 0:
                    kinds[operation.communicator].add(operation.function)
        self._has_several_kinds = {at for at, functions in kinds.items() if len(functions) > 1}
        self._has_roots = any(at in ROOTED for functions in kinds.values() for at in functions)
        known = [start for start in starts if start >= 0]
        self._has_instants = len(known) == len(starts)
        first_us = min(known, default=0) if self._has_instants else 0
        self._origin_ns = max(0, first_us * _NS_PER_US // _NS_PER_S - _BEFORE_S) * _NS_PER_S

    def write(self, folder: LogFolder) -> list[str]:
        """Write a timing file for each rank, and return what there is to know."""
        of_ranks = self._operations_by_rank()
        not_told = self._not_told()
        left_out = self._dumps.left_out
        for rank in sorted(of_ranks):
            process, operations = of_ranks[rank]
            described = Described(
                rank, self._communicators[self._world].size, process.host,
                f"inspector {process.host}" if self._has_instants else "", self._origin_ns, process.pid,
            )  # fmt: skip
            files = list(self._dumps.files[process])
            folder.add(described, list(self._rows_of(operations)), files, left_out, not_told)
            left_out = type(left_out)()  # told of once
        return _notes(of_ranks)

    def _not_told(self) -> set[str]:
        found = {"own work", "end", *(() if self._has_instants else ("instants", "clocks"))}
        return {*found, "peers"} if self._has_roots else found

    def _operations_by_rank(self) -> dict[int, tuple[Process, list[Operation]]]:
        """Return the process and the operations of each rank; a process of several is told apart by them."""
        found: dict[int, tuple[Process, list[Operation]]] = {}
        further = self._communicators[self._world].size
        for process in self._dumps.processes:
            operations = list(self._dumps.operations_of(process))
            ranks = {one.rank for one in operations if one.communicator == self._world}
            if len(ranks) > 1:
                for one in operations:
                    if one.communicator == self._world:
                        found.setdefault(one.rank, (process, []))[1].append(one)
                    else:
                        self._dumps.left_out.add("an operation of one of several ranks of a process")
                continue
            rank = ranks.pop() if ranks else further
            further += rank == further
            if rank in found:
                raise NotImportableError(
                    f"paths: two processes are rank {rank} of the largest communicator. Import one run at a "
                    "time."
                )
            found[rank] = process, operations
        return found

    def _rows_of(self, operations: Sequence[Operation]) -> Iterator[RawRecord]:
        at_us = _BEFORE_S * 10**6
        for one in operations:
            if self._has_instants:
                at_us = one.start_us - self._origin_ns // _NS_PER_US
            yield self._row(one, at_us * _NS_PER_US)
            at_us += one.lasts_us

    def _row(self, one: Operation, start_ns: int) -> RawRecord:
        communicator = self._communicators[one.communicator]
        group = _name_of(communicator)
        if one.communicator in self._has_several_kinds and one.peer < 0:
            group += f" {one.nccl_function}"
        is_message = one.number < 0
        return (
            None, None, "", OPERATIONS[one.nccl_function], "", one.n_bytes, start_ns,
            start_ns + one.lasts_us * _NS_PER_US, DEVICE_CLOCK, group, communicator.size,
            None if is_message else one.number, one.peer if is_message else None, f"stream of {group}", OK,
        )  # fmt: skip


def _name_of(communicator: Communicator) -> str:
    kind = "communicator" if communicator.name in _UNNAMED else communicator.name
    return f"{kind} {communicator.id}"


def _world_of(dumps: Dumps) -> int:
    """Return the communicator that tells the ranks: the largest, and of several the one with most records."""
    used: Counter[int] = Counter()
    for process in dumps.processes:
        used.update(one.communicator for one in dumps.operations_of(process))
    sizes = [communicator.size for communicator in dumps.communicators]
    return max(used, key=lambda at: (sizes[at], used[at]))


def _notes(of_ranks: dict[int, tuple[Process, list[Operation]]]) -> list[str]:
    missing = 0
    for _, operations in of_ranks.values():
        numbers: dict[tuple[int, int], set[int]] = defaultdict(set)
        for one in operations:
            if one.number >= 0:
                numbers[one.communicator, one.function].add(one.number)
        missing += sum(max(found) - min(found) + 1 - len(found) for found in numbers.values())
    if not missing:
        return []
    return [
        f"By their numbers, {missing:,} parts of collectives are not in the dumps: those of few bytes "
        "(NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES), and those that the Inspector dropped."
    ]
