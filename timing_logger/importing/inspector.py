"""Import what NCCL Inspector dumped: the collectives and messages of each rank."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from timing_logger.errors import NotImportableError, TooLargeError
from timing_logger.importing.following import CannotGoOn, Sources, Until, follow
from timing_logger.importing.growing_files import GrowingFolder
from timing_logger.importing.imported import Imported, LeftOut
from timing_logger.importing.inspector_records import (
    BEFORE_S,
    OPERATIONS,
    Communicator,
    Facts,
    Naming,
    Operation,
    Process,
    Records,
)
from timing_logger.importing.log_folder import LogFolder, new_log_folder
from timing_logger.importing.log_folder import Process as Described
from timing_logger.importing.source_files import AnyPath, files_at, lines_of
from timing_logger.process.progress import each
from timing_logger.schema.record import DEVICE_CLOCK, OK, RawRecord
from timing_logger.schema.sidecar import in_order_of_not_told

MOST_RECORDS = 5 * 10**6
"""Records of all ranks together, of which each takes 80 bytes while it is held."""

ENDINGS = (".log", ".jsonl", ".json")
"""How the names of files end that count in a folder."""

OF_SEVERAL = "an operation of one of several ranks of a process"


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
    files = files_at(paths, ENDINGS)
    dumps = _Dumps()
    for path in each("reading", files):
        dumps.read(path)
    if not dumps.n_records:
        raise NotImportableError(
            f"paths: no record of NCCL Inspector could be read from {len(files)} files, such as "
            f"{str(files[0])!r}. Its dumps are lines of JSON; set NCCL_INSPECTOR_PROM_DUMP=0 for them."
        )
    naming = dumps.facts.naming()
    with new_log_folder(output, "inspector") as folder:
        notes = _write(folder, dumps, naming)
    return Imported(
        Path(output), sorted(folder.ranks), folder.n_rows, dict(dumps.left_out), folder.not_told, notes
    )


class _Dumps:
    """All records of all processes, as numbers of equal width."""

    def __init__(self) -> None:
        self.left_out = LeftOut()
        self.processes: dict[Process, array[int]] = {}
        self.files: dict[Process, dict[Path, None]] = {}
        self.n_records = 0
        self._records = Records(self.left_out)
        self.facts = Facts(self._records.communicators)

    def read(self, path: Path) -> None:
        """Add the records of a file."""
        for line in lines_of(path, self.left_out):
            found = self._records.of(line)
            if found is None:
                continue
            self.n_records += 1
            if self.n_records > MOST_RECORDS:
                raise TooLargeError(
                    f"paths: there are more than {MOST_RECORDS} records. Import the dumps of a shorter time."
                )
            process, operation = found
            self.facts.note(process, operation)
            self.processes.setdefault(process, array("q")).extend(operation)
            self.files.setdefault(process, {})[path] = None

    def operations_of(self, process: Process) -> Iterator[Operation]:
        """Yield the operations of a process, in the order in which it dumped them."""
        numbers, width = self.processes[process], len(Operation._fields)
        for first in range(0, len(numbers), width):
            yield Operation(*numbers[first : first + width])


def _write(folder: LogFolder, dumps: _Dumps, naming: Naming) -> list[str]:
    """Write a timing file for each rank, and return what there is to know."""
    rows = RowsOfRun(naming)
    process_of = {rank: process for process, ranks in naming.ranks.items() for rank in ranks}
    of_process = {process: _by_rank(dumps, process, naming) for process in dumps.processes}
    left_out = dumps.left_out
    for rank, process in sorted(process_of.items()):
        made = [rows.of(rank, one) for one in of_process[process].pop(rank)]
        files = list(dumps.files[process])
        folder.add(rows.process(process, rank), made, files, left_out, naming.not_told)
        left_out = LeftOut()  # told of once
    return rows.notes


def _by_rank(dumps: _Dumps, process: Process, naming: Naming) -> dict[int, list[Operation]]:
    found: dict[int, list[Operation]] = defaultdict(list)
    for one in dumps.operations_of(process):
        rank = naming.rank_of(process, one)
        if rank is None:
            dumps.left_out.add(OF_SEVERAL)
        else:
            found[rank].append(one)
    return found


# -- from the operations of NCCL Inspector to rows -------------------------------------------------------


_NS_PER_US = 1000
_UNNAMED = ("", "unknown")


class RowsOfRun:
    """Makes the rows of all ranks, each in the order in which it dumped its operations.

    Args:
        naming: how ranks and groups are called.
    """

    def __init__(self, naming: Naming) -> None:
        self.naming = naming
        self._at_us: dict[int, int] = {}
        self._numbers: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._n_numbered: Counter[tuple[int, int, int]] = Counter()

    def go_on_with(self, naming: Naming) -> None:
        """Call ranks and groups by what is known later, by which those of before are called the same."""
        self.naming = naming._replace(origin_ns=self.naming.origin_ns)

    def process(self, process: Process, rank: int) -> Described:
        """Return how the process of a rank is described."""
        naming = self.naming
        return Described(
            rank, naming.world_size, process.host, f"inspector {process.host}" if naming.has_instants else "",
            naming.origin_ns, process.pid,
        )  # fmt: skip

    def of(self, rank: int, one: Operation) -> RawRecord:
        """Return the row of the next operation of a rank: without instants it begins where the last ended."""
        at_us = self._at_us.get(rank, BEFORE_S * 10**6)
        if self.naming.has_instants:
            at_us = max(0, one.start_us - self.naming.origin_ns // _NS_PER_US)
        self._at_us[rank] = at_us + one.lasts_us
        self._count(rank, one)
        return self._row(one, at_us * _NS_PER_US)

    def _row(self, one: Operation, start_ns: int) -> RawRecord:
        communicator = self.naming.communicators[one.communicator]
        group = _name_of(communicator)
        if one.communicator in self.naming.has_several_kinds and one.peer < 0:
            group += f" {one.nccl_function}"
        is_message = one.number < 0
        return (
            None, None, "", OPERATIONS[one.nccl_function], "", one.n_bytes, start_ns,
            start_ns + one.lasts_us * _NS_PER_US, DEVICE_CLOCK, group, communicator.size,
            None if is_message else one.number, one.peer if is_message else None, f"stream of {group}", OK,
        )  # fmt: skip

    def _count(self, rank: int, one: Operation) -> None:
        if one.number >= 0:
            key = rank, one.communicator, one.function
            first, last = self._numbers.get(key, (one.number, one.number))
            self._numbers[key] = min(first, one.number), max(last, one.number)
            self._n_numbered[key] += 1

    @property
    def notes(self) -> list[str]:
        """What else there is to know, a sentence each."""
        of_each = self._numbers.items()
        missing = sum(max(0, last - first + 1 - self._n_numbered[key]) for key, (first, last) in of_each)
        if not missing:
            return []
        return [
            f"By their numbers, {missing:,} parts of collectives are not in the dumps: those of few bytes "
            "(NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES), and those that the Inspector dropped."
        ]


def _name_of(communicator: Communicator) -> str:
    kind = "communicator" if communicator.name in _UNNAMED else communicator.name
    return f"{kind} {communicator.id}"


def follow_inspector(
    paths: AnyPath | Sequence[AnyPath],
    output: AnyPath,
    until: Until,
    tell: Callable[[str], None] = lambda said: None,
) -> Imported:
    """Make timing files from dumps of NCCL Inspector as :func:`import_inspector` does, while these grow.

    The same rows come of it as of one import of the complete files. What is learnt late may change how ranks
    and groups are called: a larger communicator, or a second kind of collectives in one. All files are then
    read again from their beginnings, and the timing files are written anew. A file that is renamed, replaced
    or cut is followed no longer, and ``tell`` is told.

    Args:
        paths: files, folders or patterns, of which nothing has to be there yet.
        output: the folder to make; it may exist if it is empty.
        until: when it ends.
        tell: is told what becomes of files, a sentence each.

    Raises:
        NotImportableError: no record could be used, two processes are one rank, or a file cannot be read
            again.
        LogPathError: the output exists already and is not empty, or cannot be made.
        TooLargeError: there are more ranks than files may be open at a time.
        ConfigurationError: nothing ends it.
    """
    return follow(Sources(paths, ENDINGS, "inspector"), output, _GrowingDumps, until, tell)


class _GrowingDumps:
    """Makes rows of the lines of all dumps, once it is known how ranks and groups are called.

    Args:
        folder: where the rows go.
    """

    def __init__(self, folder: GrowingFolder) -> None:
        self.must_begin_anew = False
        self._folder = folder
        self._records = Records(folder.left_out)
        self._facts = Facts(self._records.communicators)
        self._rows: RowsOfRun | None = None
        self._n_known = 0

    @property
    def notes(self) -> list[str]:
        """What else there is to know, a sentence each."""
        return self._rows.notes if self._rows else []

    def begin_anew(self) -> None:
        """Forget the rows that were made, and call ranks and groups by all that is known."""
        self._folder.left_out.clear()
        self._rows = RowsOfRun(self._known())
        self.must_begin_anew = False

    def take(self, path: Path, lines: Iterable[str]) -> None:
        """Append the rows of operations, unless ranks or groups have other names by what they tell."""
        found = [record for line in lines if (record := self._records.of(line)) is not None]
        for process, one in found:
            self._facts.note(process, one)
        if self._facts.changes != self._n_known and not self.must_begin_anew:
            naming = self._known()
            if self._rows is None or not self._rows.naming.holds_for(naming):
                self.must_begin_anew = True
            else:
                self._rows.go_on_with(naming)
        if self._rows is not None and not self.must_begin_anew:
            self._append(self._rows, found, path)

    def _known(self) -> Naming:
        try:
            naming = self._facts.naming()
        except NotImportableError as error:
            raise CannotGoOn(error) from error
        self._n_known = self._facts.changes
        return naming

    def _append(self, rows: RowsOfRun, found: Sequence[tuple[Process, Operation]], source: Path) -> None:
        self._folder.not_told = in_order_of_not_told(rows.naming.not_told)
        made: dict[tuple[Process, int], list[RawRecord]] = defaultdict(list)
        for process, one in found:
            rank = rows.naming.rank_of(process, one)
            if rank is None:
                self._folder.left_out.add(OF_SEVERAL)
            else:
                made[process, rank].append(rows.of(rank, one))
        for (process, rank), its in made.items():
            self._folder.append(rows.process(process, rank), its, source)
