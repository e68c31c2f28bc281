"""Import archives of OTF2, as Score-P records them: regions, MPI's collectives and messages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from timing_logger.errors import ConfigurationError, NotImportableError, TooLargeError
from timing_logger.importing.imported import Imported, LeftOut, integer
from timing_logger.importing.log_folder import LogFolder, Process, new_log_folder
from timing_logger.importing.otf2_events import Group, Location, enum_name
from timing_logger.importing.source_files import AnyPath, files_at
from timing_logger.schema.record import RawRecord

MOST_ROWS = 3 * 10**6
"""Rows of all ranks together, which are held until the archive is read: 1.5 GB."""

_ENDINGS = (".otf2",)
_BEFORE_NS = 10**6 * 10**9
_NS_PER_S = 10**9
_RANK = re.compile(r"rank\s*(\d{1,9})(?!\d)", re.IGNORECASE)
_MAIN_THREAD = "MainThread"


def import_otf2(path: AnyPath, output: AnyPath) -> Imported:
    """Make timing files from an archive of OTF2.

    The archive is read by OTF2's own library, in C: import only what you trust. Ranks on one node are taken
    to share a clock.

    Args:
        path: the anchor file, such as ``scorep/traces.otf2``, or the folder that it is in.
        output: the folder to make; it may exist if it is empty.

    Raises:
        ConfigurationError: the package ``otf2`` is not installed, or cannot be used here.
        NotImportableError: there is no such archive, it cannot be read, or has nothing that can be used.
        TooLargeError: it would have more than :data:`MOST_ROWS` rows.
        LogPathError: the output exists already and is not empty, or cannot be made.
    """
    files = files_at(path, _ENDINGS)
    if len(files) > 1:
        raise NotImportableError(
            f"paths: there are {len(files)} archives, such as {str(files[0])!r}. Import one at a time."
        )
    with new_log_folder(output, "otf2") as folder, _opened(files[0]) as archive:
        left_out = _Archive(archive, files[0]).write(folder)
    return Imported(Path(output), sorted(folder.ranks), folder.n_rows, dict(left_out), folder.not_told, [])


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import _otf2
        import otf2
    except (ImportError, OSError) as error:  # its library is loaded at import
        raise ConfigurationError(
            f"import otf2 needs the package otf2, which cannot be imported here ({error}): pip install "
            "'timing_logger[otf2]'."
        ) from error
    try:
        with otf2.reader.open(str(path)) as archive:
            yield archive
    except (otf2.error.Error, _otf2.ErrorCodes.Error) as error:
        raise NotImportableError(
            f"paths: {str(path)!r} cannot be read as an archive of OTF2: {error}. Name the anchor file, such "
            "as traces.otf2, with all that lies beside it."
        ) from error


class _Archive:
    """An archive that is read: its ranks, and the axis of its instants."""

    def __init__(self, archive: Any, path: Path) -> None:
        self._archive, self._path = archive, path
        clock = archive.definitions.clock_properties
        self._per_s: int = clock.timer_resolution
        self._first: int = clock.global_offset
        began_ns = integer(getattr(clock, "realtime_timestamp", None))
        self._wall_offset_ns = max(0, began_ns - _BEFORE_NS) if began_ns else 0
        self._rank_of = _ranks(archive.definitions)
        self._groups: dict[int, Group] = {}
        self._n_names: dict[str, int] = defaultdict(int)
        self._left_out = LeftOut()

    def write(self, folder: LogFolder) -> LeftOut:
        """Write the timing file of each rank, and return what could not be used."""
        rows = self._rows()
        if not any(rows.values()):
            raise NotImportableError(
                f"paths: {str(self._path)!r} has no region and no communication of any rank in it. Was "
                "tracing on (SCOREP_ENABLE_TRACING=true)?"
            )
        processes = self._processes()
        hosts = {process.host for process in processes.values()}
        not_told = {"end", *(("clocks",) if len(hosts) > 1 or "" in hosts else ())}
        left_out = self._left_out
        for rank in sorted(rows):
            folder.add(processes[rank], rows[rank], [self._path], left_out, not_told)
            left_out = LeftOut()  # told of once
        return self._left_out

    def _rows(self) -> dict[int, list[RawRecord]]:
        found: dict[int, list[RawRecord]] = {rank: [] for rank in self._rank_of.values()}
        locations: dict[int, Location] = {}
        n_rows = 0
        for at, event in self._archive.events:
            rank = self._rank_of.get(id(at.group))
            if rank is None:
                self._left_out.add("an event of a location that is of no rank")
                continue
            location = locations.get(id(at))
            if location is None:
                location = locations[id(at)] = self._location(at)
            before = len(found[rank])
            found[rank].extend(location.take(type(event).__name__, event, self._instant_ns(event.time)))
            n_rows += len(found[rank]) - before
            if n_rows > MOST_ROWS:
                raise TooLargeError(
                    f"paths: {str(self._path)!r} has more than {MOST_ROWS} regions and messages. Filter "
                    "short regions when it is recorded (SCOREP_FILTERING_FILE)."
                )
        for location in locations.values():
            location.end()
        return found

    def _instant_ns(self, time: int) -> int:
        ticks = max(0, time - self._first)
        return _BEFORE_NS + ticks * _NS_PER_S // self._per_s

    def _location(self, at: Any) -> Location:
        name, kind = str(at.name), enum_name(at.type)
        if kind != "CPU_THREAD":
            return Location(name, name, self._group_of, self._left_out)
        is_main = at is next(one for one in self._archive.definitions.locations if one.group is at.group)
        return Location(_MAIN_THREAD if is_main else name, "", self._group_of, self._left_out)

    def _group_of(self, communicator: Any) -> Group:
        """Return a communicator; several of one name are told apart by their order."""
        found = self._groups.get(id(communicator))
        if found is None:
            name = str(communicator.name) or "communicator"
            self._n_names[name] += 1
            number = self._n_names[name]
            members = getattr(communicator.group, "members", None)
            size = len(members) if members is not None else None
            found = self._groups[id(communicator)] = Group(name if number == 1 else f"{name} #{number}", size)
        return found

    def _processes(self) -> dict[int, Process]:
        size = max(self._rank_of.values()) + 1
        found = {}
        for group in self._archive.definitions.location_groups:
            if (rank := self._rank_of.get(id(group))) is not None:
                host = _host_of(group)
                clock = f"otf2 {host}" if host else ""
                found[rank] = Process(rank, size, host, clock, self._wall_offset_ns)
        return found


def _ranks(definitions: Any) -> dict[int, int]:
    """Return the rank of each process, by the identity of its location group.

    The group of MPI's locations tells; without MPI the names of processes do, or else their order.
    """
    for group in definitions.groups:
        if enum_name(group.group_type) == "COMM_LOCATIONS" and enum_name(group.paradigm) == "MPI":
            return {id(location.group): rank for rank, location in enumerate(group.members)}
    processes = [
        one for one in definitions.location_groups if enum_name(one.location_group_type) == "PROCESS"
    ]
    named = [_RANK.search(str(one.name)) for one in processes]
    ranks = [int(found[1]) if found else -1 for found in named]
    are_ranks = len(set(ranks)) == len(ranks) and min(ranks, default=0) >= 0
    chosen = ranks if are_ranks else range(len(processes))
    return {id(one): rank for one, rank in zip(processes, chosen, strict=True)}


def _host_of(group: Any) -> str:
    """Return the name of the node of a process; "" if the archive names none."""
    node = group.system_tree_parent
    while node is not None:
        if str(node.class_name) in ("node", "machine node", "host"):
            return str(node.name)
        node = node.parent
    return ""
