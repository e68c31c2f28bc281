"""From the operations of NCCL Inspector to rows."""

from __future__ import annotations

from collections import Counter

from timing_logger.importing.inspector_facts import BEFORE_S, Naming
from timing_logger.importing.inspector_records import OPERATIONS, Communicator, Operation, Process
from timing_logger.importing.log_folder import Process as Described
from timing_logger.record import DEVICE_CLOCK, OK, RawRecord

_NS_PER_US = 1000
_UNNAMED = ("", "unknown")


class RowsOfRun:
    """Makes the rows of all ranks, each in the order in which it dumped its operations.

    Args:
        naming: how ranks and groups are called.
    """

    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        self._at_us: dict[int, int] = {}
        self._numbers: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._n_numbered: Counter[tuple[int, int, int]] = Counter()

    def go_on_with(self, naming: Naming) -> None:
        """Call ranks and groups by what is known later, by which those of before are called the same."""
        self._naming = naming._replace(origin_ns=self._naming.origin_ns)

    def process(self, process: Process, rank: int) -> Described:
        """Return how the process of a rank is described."""
        naming = self._naming
        return Described(
            rank, naming.world_size, process.host, f"inspector {process.host}" if naming.has_instants else "",
            naming.origin_ns, process.pid,
        )  # fmt: skip

    def of(self, rank: int, one: Operation) -> RawRecord:
        """Return the row of the next operation of a rank: without instants it begins where the last ended."""
        at_us = self._at_us.get(rank, BEFORE_S * 10**6)
        if self._naming.has_instants:
            at_us = max(0, one.start_us - self._naming.origin_ns // _NS_PER_US)
        self._at_us[rank] = at_us + one.lasts_us
        self._count(rank, one)
        return self._row(one, at_us * _NS_PER_US)

    def _row(self, one: Operation, start_ns: int) -> RawRecord:
        communicator = self._naming.communicators[one.communicator]
        group = _name_of(communicator)
        if one.communicator in self._naming.has_several_kinds and one.peer < 0:
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
