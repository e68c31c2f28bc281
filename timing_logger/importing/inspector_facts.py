"""What all records of NCCL Inspector tell together: which rank a process is, and how groups are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from timing_logger.errors import NotImportableError
from timing_logger.importing.inspector_records import ROOTED, Communicator, Operation, Process

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
