"""TimedIntracomm: an MPI communicator whose operations time themselves.

``TimedIntracomm(comm)`` is an ``MPI.Intracomm`` on the same handle, to be passed wherever ``comm``
was. Each timed call makes one row; everything else is mpi4py's own.

To time one more method, add one line to the table in :class:`TimedIntracomm`, saying what kind of
operation it is and which argument is sent::

    Gather = collective(MPI.Intracomm.Gather, size=_first_argument, root="root")
    Ssend = point_to_point(MPI.Intracomm.Ssend, to="dest")
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from mpi4py import MPI

from allreduce_instrumentation._buffer_size import sent_block_bytes, sent_bytes, spec_bytes
from allreduce_instrumentation._timed_methods import Arguments, Timing, collective, duplicate, point_to_point

if TYPE_CHECKING:
    from typing_extensions import Self

    from timing_logger.logger import TimingLogger


def _first_argument(arguments: Arguments, ranks: int) -> int | None:
    return spec_bytes(arguments[0])


def _sent(arguments: Arguments, ranks: int) -> int | None:
    return sent_bytes(arguments[0], arguments[1])


def _sent_block(arguments: Arguments, ranks: int) -> int | None:
    return sent_block_bytes(arguments[0], arguments[1], ranks)


class TimedIntracomm(MPI.Intracomm):
    """An ``MPI.Intracomm`` whose operations time themselves.

    Calls, results and exceptions are those of the communicator given. Rows carry the bytes in
    this rank's send buffer, the group's name and size, and a number
    ``seq``: that of the collective in this communicator, the same on every rank, or that of the
    message in its direction between two ranks. Numbers count whether or not a row is recorded, and
    belong to the communicator: wrapping it twice goes on counting.

    ``Dup`` and its kin give timed communicators with the same logger. A pickled one (as mpi4py allows for
    the predefined communicators only) arrives timed, with the logger of the process that loads it.

    Args:
        comm: the communicator; it is shared, not duplicated.
        timing_logger: where rows go; default ``get_timing_logger()``.
        group: name of the group in the rows; default the communicator's name, or the world ranks
            of its members, such as ``ranks 0-3``.
    """

    def __new__(
        cls,
        comm: MPI.Comm | None = None,
        *,
        timing_logger: TimingLogger | None = None,
        group: str | None = None,
    ) -> Self:
        return super().__new__(cls, comm)

    def __init__(
        self,
        comm: MPI.Comm | None = None,
        *,
        timing_logger: TimingLogger | None = None,
        group: str | None = None,
    ) -> None:
        self._timing = Timing(self, timing_logger, group)

    @functools.cached_property
    def _timing(self) -> Timing:  # mpi4py makes objects without calling __init__
        return Timing(self, None, None)

    @property
    def group_label(self) -> str:
        """The group's name in the rows of this communicator."""
        return self._timing.group

    @property
    def collectives(self) -> int:
        """How many collectives this communicator has done: the ``seq`` of the next one."""
        return self._timing.identity.collectives

    Allgather = collective(MPI.Intracomm.Allgather, size=_sent_block)
    Allreduce = collective(MPI.Intracomm.Allreduce, size=_sent)
    allreduce = collective(MPI.Intracomm.allreduce)
    Barrier = collective(MPI.Intracomm.Barrier)
    Bcast = collective(MPI.Intracomm.Bcast, size=_first_argument, root="root")
    Recv = point_to_point(MPI.Intracomm.Recv, source="source")
    Send = point_to_point(MPI.Intracomm.Send, to="dest")
    Sendrecv = point_to_point(MPI.Intracomm.Sendrecv, to="dest", source="source")

    Clone = duplicate(MPI.Intracomm.Clone)
    Dup = duplicate(MPI.Intracomm.Dup)
    Dup_with_info = duplicate(MPI.Intracomm.Dup_with_info)
