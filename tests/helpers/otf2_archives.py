"""Archives of OTF2 with the events that Score-P records of MPI, written by OTF2's own library, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

RANKS, STEPS = 4, 40
STEP_NS, TRANSFER_NS = 20_000_000, 1_000_000
WORK_NS, LATE_NS = 5_000_000, 6_000_000

_Event = tuple[str, dict[str, Any]]


class Archive:
    """An archive of ranks on one node, each with one thread.

    Args:
        otf2: the package.
        trace: the archive that is open for writing.
        ranks: the number of ranks.
        hosts: how many ranks are on a node.
    """

    def __init__(self, otf2: Any, trace: Any, ranks: int, per_node: int = 100) -> None:
        self.otf2, self.trace, self._defs, enums = otf2, trace, trace.definitions, otf2.enums
        self._regions: dict[str, Any] = {}
        nodes = [
            self._defs.system_tree_node(f"node{i}", class_name="node")
            for i in range((ranks + per_node - 1) // per_node)
        ]
        self.writers, self.places = [], []
        for rank in range(ranks):
            process = self._defs.location_group(
                f"MPI Rank {rank}", location_group_type=enums.LocationGroupType.PROCESS,
                system_tree_parent=nodes[rank // per_node],
            )  # fmt: skip
            self.places.append(self._defs.location("Master thread", group=process))
            self.writers.append(trace.event_writer_from_location(self.places[-1]))
        mpi = enums.Paradigm.MPI
        self._defs.group(
            "", group_type=enums.GroupType.COMM_LOCATIONS, paradigm=mpi,
            members=self.places,
        )  # fmt: skip
        members = self._defs.group(
            "", group_type=enums.GroupType.COMM_GROUP, paradigm=mpi, members=list(range(ranks))
        )
        self.world = self._defs.comm("MPI_COMM_WORLD", group=members)

    def region(self, name: str) -> Any:
        """Return the region of this name."""
        paradigm = self.otf2.enums.Paradigm.MPI if name.startswith("MPI_") else self.otf2.enums.Paradigm.USER
        if name not in self._regions:
            self._regions[name] = self._defs.region(name, paradigm=paradigm)
        return self._regions[name]

    def call(
        self, rank: int, name: str, start_ns: int, end_ns: int, *events: tuple[str, dict[str, Any]]
    ) -> None:
        """Write that a rank was in a region, with events at its end."""
        writer = self.writers[rank]
        writer.enter(start_ns, self.region(name))
        for kind, fields in events:
            getattr(writer, kind)(end_ns, **fields)
        writer.leave(end_ns, self.region(name))

    def allreduce(self, rank: int, start_ns: int, end_ns: int) -> None:
        """Write an all-reduce."""
        enums = self.otf2.enums
        fields = {
            "collective_op": enums.CollectiveOp.ALLREDUCE, "communicator": self.world,
            "root": enums.CollectiveRoot.NONE, "size_sent": 4096, "size_received": 4096,
        }  # fmt: skip
        self.call(rank, "MPI_Allreduce", start_ns, end_ns, ("mpi_collective_end", fields))


def write_run(otf2: Any, folder: Path, slow_rank: int | None) -> Path:
    """Write a run in which a rank works longer than the others before each all-reduce."""
    with otf2.writer.open(str(folder), timer_resolution=10**9) as trace:
        archive = Archive(otf2, trace, RANKS)
        for step in range(STEPS):
            came = [
                1000 + step * STEP_NS + WORK_NS + (LATE_NS if rank == slow_rank else rank * 10_000)
                for rank in range(RANKS)
            ]
            for rank in range(RANKS):
                archive.call(rank, "compute", 1000 + step * STEP_NS, came[rank])
                archive.allreduce(rank, came[rank], max(came) + TRANSFER_NS)
    return folder / "traces.otf2"
