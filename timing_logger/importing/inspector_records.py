"""The records of NCCL Inspector: a line of JSON for each collective or message of a rank.

The format is that of ``inspector_output_format_version`` v4.0, which NCCL 2.28 to 2.30 write
(``inspector_json.cc``); verbose dumps (``NCCL_INSPECTOR_DUMP_VERBOSE=1``) have instants, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from timing_logger.errors import NotImportableError
from timing_logger.importing.imported import LeftOut
from timing_logger.schema.timing_files import MAX_RANK

OPERATIONS: Mapping[str, str] = {
    "AllReduce": "ALLREDUCE", "AllGather": "ALLGATHER", "AllGatherV": "ALLGATHERV",
    "ReduceScatter": "REDUCE_SCATTER", "Broadcast": "BCAST", "Reduce": "REDUCE", "All2All": "ALLTOALL",
    "Send": "SEND", "Recv": "RECV",
}  # fmt: skip
"""The operations by NCCL's names of them (``ncclFuncToString``)."""

_SENDS_A_PIECE_TO_EACH = frozenset({"ReduceScatter", "All2All"})  # of which NCCL counts one piece
_FUNCTIONS = list(OPERATIONS)
ROOTED = frozenset({_FUNCTIONS.index("Broadcast"), _FUNCTIONS.index("Reduce")})
"""The indices of functions that have a root, which no record names."""

_LATEST_US = 2**62 // 1000


class _Header(msgspec.Struct, gc=False):
    id: str
    rank: int
    n_ranks: int
    comm_name: str = ""


class _Metadata(msgspec.Struct, gc=False):
    hostname: str
    pid: int


class _Kernel(msgspec.Struct, gc=False):
    kernel_start_ts: int = 0


class _Instants(msgspec.Struct, gc=False):
    coll_start_ts: int = 0
    p2p_start_ts: int = 0
    kernel_events: list[_Kernel] = []


class _Collective(msgspec.Struct, gc=False):
    coll: str
    coll_sn: int
    coll_msg_size_bytes: int
    coll_exec_time_us: int
    event_trace_ts: _Instants | None = None


class _Message(msgspec.Struct, gc=False):
    p2p: str
    p2p_peer: int
    p2p_msg_size_bytes: int
    p2p_exec_time_us: int
    event_trace_ts: _Instants | None = None


class _Line(msgspec.Struct, gc=False):
    header: _Header
    metadata: _Metadata
    coll_perf: _Collective | None = None
    p2p_perf: _Message | None = None


class Communicator(NamedTuple):
    """A communicator of NCCL: its hash, its name ("" if it has none), and the number of its ranks."""

    id: str
    name: str
    size: int


class Process(NamedTuple):
    """A process: its host and its number there."""

    host: str
    pid: int


class Operation(NamedTuple):
    """A collective or message of a rank; -1 stands for what is not known.

    Attributes:
        communicator: index of the communicator.
        rank: the rank in the communicator.
        function: index of NCCL's function.
        number: of the collective, among those of its function in the communicator.
        n_bytes: bytes in the send buffer.
        start_us: Unix time of the start, in us.
        lasts_us: the duration, in us.
        peer: the other rank of a message.
    """

    communicator: int
    rank: int
    function: int
    number: int
    n_bytes: int
    start_us: int
    lasts_us: int
    peer: int

    @property
    def nccl_function(self) -> str:
        """NCCL's name of the operation."""
        return _FUNCTIONS[self.function]


class Records:
    """The records of lines, which are taken one after the other.

    Args:
        left_out: where lines are counted that are no records.

    Attributes:
        communicators: those that were named, each with its number.
    """

    def __init__(self, left_out: LeftOut) -> None:
        self.communicators: dict[Communicator, int] = {}
        self._left_out = left_out
        self._decoder = msgspec.json.Decoder(_Line)

    def of(self, line: str) -> tuple[Process, Operation] | None:
        """Return whose operation a line is, and what it says of it; None, and counted, if it says nothing."""
        try:
            found = self._decoder.decode(line)
        except msgspec.ValidationError:
            self._left_out.add("a record of which a field lacks, or has another type")
            return None
        except (msgspec.DecodeError, RecursionError):
            self._left_out.add("a line that is no JSON")
            return None
        operation = self._operation(found)
        return operation and (Process(found.metadata.hostname, found.metadata.pid), operation)

    def _operation(self, line: _Line) -> Operation | None:
        """Return the operation of a record; None, and counted, if its numbers are impossible."""
        header, collective, message = line.header, line.coll_perf, line.p2p_perf
        if collective is not None:
            function, sn, peer = collective.coll, collective.coll_sn, -1
            n_bytes, lasts_us = collective.coll_msg_size_bytes, collective.coll_exec_time_us
            at = collective.event_trace_ts
        elif message is not None:
            function, sn, peer = message.p2p, -1, message.p2p_peer
            n_bytes, lasts_us = message.p2p_msg_size_bytes, message.p2p_exec_time_us
            at = message.event_trace_ts
        else:
            self._left_out.add("a record with neither a collective nor a message")
            return None
        if function not in OPERATIONS:
            self._left_out.add("an operation of an unknown kind")
            return None
        if function in _SENDS_A_PIECE_TO_EACH:
            n_bytes *= header.n_ranks
        numbers = (sn + (message is not None), n_bytes, lasts_us, line.metadata.pid)
        is_rank = 0 <= header.rank < header.n_ranks <= MAX_RANK and -1 <= peer < header.n_ranks
        if not (is_rank and all(0 <= number < _LATEST_US for number in numbers)):
            self._left_out.add("a record with impossible numbers")
            return None
        known = self.communicators.setdefault(
            Communicator(header.id, header.comm_name, header.n_ranks), len(self.communicators)
        )
        return Operation(
            known, header.rank, _FUNCTIONS.index(function), sn, n_bytes, _start_us(at), lasts_us, peer
        )


def _start_us(at: _Instants | None) -> int:
    """Return when the first kernel of an operation started, or else when it was issued; -1 if unknown."""
    if at is None:
        return -1
    kernels = [kernel.kernel_start_ts for kernel in at.kernel_events if kernel.kernel_start_ts > 0]
    found = min(kernels, default=at.coll_start_ts or at.p2p_start_ts)
    return found if 0 < found < _LATEST_US else -1


_NS_PER_US, _NS_PER_S = 1000, 10**9
BEFORE_S = 10**6
"""How long before the first operation the axis of all instants begins, in s."""


class Naming(NamedTuple):
    """By what the records say, how ranks and groups are called.

    Attributes:
        communicators: all that are known, by their numbers.
        world: the number of the largest, which tells the ranks.
        ranks: of each process its ranks there; a further number for one that is not in it.
        has_several_kinds: the communicators with several kinds of collectives, each numbered apart.
        has_instants: whether all operations state when they began.
        has_roots: whether some collective has a root, which no record names.
        origin_ns: Unix time of the begin of the axis, in ns.
    """

    communicators: list[Communicator]
    world: int
    ranks: Mapping[Process, tuple[int, ...]]
    has_several_kinds: frozenset[int]
    has_instants: bool
    has_roots: bool
    origin_ns: int

    @property
    def world_size(self) -> int:
        """The number of ranks of the largest communicator."""
        return self.communicators[self.world].size

    @property
    def not_told(self) -> set[str]:
        """What the records do not tell, by the names of ``sidecar.NOT_TOLD``."""
        found = {"own work", "end", *(() if self.has_instants else ("instants", "clocks"))}
        return {*found, "peers"} if self.has_roots else found

    def rank_of(self, process: Process, one: Operation) -> int | None:
        """Return the rank of an operation; None if it is of one of several ranks of a process."""
        ranks = self.ranks[process]
        if len(ranks) == 1:
            return ranks[0]
        return one.rank if one.communicator == self.world else None

    def holds_for(self, later: Naming) -> bool:
        """Tell whether what was called so is still called so, by what is known later."""
        n_known = len(self.communicators)
        several = frozenset(at for at in later.has_several_kinds if at < n_known)
        return (
            (self.world, self.has_instants, self.has_several_kinds)
            == (later.world, later.has_instants, several)
            and all(later.ranks[process] == ranks for process, ranks in self.ranks.items())
        )  # fmt: skip


class Facts:
    """Collects what records tell together.

    Args:
        communicators: those that were named, each with its number; it may grow.

    Attributes:
        changes: how often something was learnt that may change a naming.
    """

    def __init__(self, communicators: Mapping[Communicator, int]) -> None:
        self._communicators = communicators
        self._ranks: dict[Process, dict[int, set[int]]] = {}
        self._kinds: dict[int, set[int]] = defaultdict(set)
        self._first_us, self._has_instants = 0, True
        self.changes = 0

    def note(self, process: Process, one: Operation) -> None:
        """Note what an operation tells."""
        ranks = self._ranks.setdefault(process, {}).setdefault(one.communicator, set())
        kinds = self._kinds[one.communicator]
        if one.rank not in ranks or (one.peer < 0 and one.function not in kinds):
            self.changes += 1
            ranks.add(one.rank)
            if one.peer < 0:
                kinds.add(one.function)
        if one.start_us < 0:
            self.changes += self._has_instants
            self._has_instants = False
        elif not self._first_us or one.start_us < self._first_us:
            self._first_us = one.start_us

    def naming(self) -> Naming:
        """Return how ranks and groups are called, by what is known.

        Raises:
            NotImportableError: two processes are one rank.
        """
        communicators = list(self._communicators)
        # Of several that are as large any would do: the choice must not depend on the order of records.
        world = min(self._kinds, key=lambda at: (-communicators[at].size, communicators[at]))
        kinds = self._kinds.items()
        return Naming(
            communicators=communicators,
            world=world,
            ranks=self._ranks_in(world, communicators[world].size),
            has_several_kinds=frozenset(at for at, functions in kinds if len(functions) > 1),
            has_instants=self._has_instants,
            has_roots=any(at in ROOTED for _, functions in kinds for at in functions),
            origin_ns=self._origin_ns(),
        )

    def _origin_ns(self) -> int:
        first_us = self._first_us if self._has_instants else 0
        return max(0, first_us * _NS_PER_US // _NS_PER_S - BEFORE_S) * _NS_PER_S

    def _ranks_in(self, world: int, further: int) -> dict[Process, tuple[int, ...]]:
        found: dict[Process, tuple[int, ...]] = {}
        known: set[int] = set()
        for process in sorted(self._ranks):
            ranks = tuple(sorted(self._ranks[process].get(world, ()))) or (further,)
            further += ranks == (further,)
            if twice := known.intersection(ranks):
                raise NotImportableError(
                    f"paths: two processes are rank {min(twice)} of the largest communicator. Import one run "
                    "at a time."
                )
            known.update(ranks)
            found[process] = ranks
        return found
