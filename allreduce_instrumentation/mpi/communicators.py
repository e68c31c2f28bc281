"""TimedIntracomm and its kin: what they add to mpi4py's classes beside the timed methods."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from allreduce_instrumentation.mpi._comm_identity import CommIdentity
from allreduce_instrumentation.mpi._constants import copy_of, standing_for
from allreduce_instrumentation.mpi._pending import Timing
from allreduce_instrumentation.mpi._requests import stand_in_for_mpi4py
from allreduce_instrumentation.mpi._timed_methods import with_timed_methods_of

if TYPE_CHECKING:
    from typing_extensions import Self

    from timing_logger.recording.logger import TimingLogger

_ARGUMENTS = """
    Args:
        comm: the communicator; it is shared, not duplicated.
        timing_logger: where rows go; default ``get_timing_logger()``.
        group: name of the group in the rows; default the communicator's name, or the world ranks
            of its members, such as ``ranks 0-3``.
"""


@with_timed_methods_of(MPI.Comm)
class _TimedComm:
    """What timed communicators add to mpi4py's classes, of every kind."""

    def __new__(
        cls,
        comm: MPI.Comm | None = None,
        *,
        timing_logger: TimingLogger | None = None,
        group: str | None = None,
    ) -> Self:
        stand_in_for_mpi4py()
        maker: Any = cls
        while maker.__module__ != MPI.__name__:  # only the mpi4py class that it extends can make one
            maker = maker.__base__
        return maker.__new__(cls, comm)  # type: ignore[no-any-return]

    def __init__(
        self,
        comm: MPI.Comm | None = None,
        *,
        timing_logger: TimingLogger | None = None,
        group: str | None = None,
    ) -> None:
        self._timing = Timing(CommIdentity.of(self), timing_logger, group)  # type: ignore[arg-type]

    @functools.cached_property
    def _timing(self) -> Timing:  # mpi4py makes objects without calling __init__
        return Timing(CommIdentity.of(self))  # type: ignore[arg-type]

    @classmethod
    def fromhandle(cls, handle: int) -> MPI.Comm:
        """Create object from MPI handle; rows go to ``get_timing_logger()``."""
        return _timed(MPI.Comm.fromhandle(handle))

    @classmethod
    def fromint(cls, arg: int, /) -> MPI.Comm:
        """Translate integer handle to object; rows go to ``get_timing_logger()``."""
        return _timed(MPI.Comm.fromint(arg))

    @classmethod
    def f2py(cls, arg: int) -> MPI.Comm:
        """Translate Fortran handle to object; rows go to ``get_timing_logger()``."""
        return _timed(MPI.Comm.f2py(arg))

    def __reduce__(self) -> tuple[Any, ...]:
        """mpi4py pickles a predefined communicator by its name, and raises for any other."""
        reduced: Any = super().__reduce__()
        _, (_, constant) = reduced
        name: str = constant.__reduce__()
        return standing_for if getattr(MPI, name) is self else copy_of, (type(self), name)

    @property
    def timing_logger(self) -> TimingLogger:
        """Where the rows go."""
        return self._timing.logger

    @property
    def group_label(self) -> str:
        """The group's name in the rows of this communicator."""
        return self._timing.name

    @property
    def collectives(self) -> int:
        """How many collectives were begun on this communicator: the ``seq`` of the next one."""
        return self._timing.identity.collectives

    def _adopt(self, comm: MPI.Comm) -> MPI.Comm:
        """``comm``, which was made from this one, timed with the same logger."""
        if not isinstance(comm, _TimedComm):
            return _timed(comm, self.timing_logger)
        comm._timing = Timing(CommIdentity.of(comm), self.timing_logger)  # it is of this one's own class
        return comm

    def _adopt_coming(self, comm: MPI.Comm) -> MPI.Comm:
        """As :meth:`_adopt`, of a duplicate that is still being made."""
        kind = type(comm) if isinstance(comm, _TimedComm) else _timed_class(comm)
        timed = kind.__new__(kind, comm)
        timed._timing = Timing(CommIdentity.of_coming_duplicate(self), self.timing_logger)  # type: ignore[arg-type]
        return timed  # type: ignore[no-any-return]


@with_timed_methods_of(MPI.Intracomm)
class TimedIntracomm(_TimedComm, MPI.Intracomm):
    """An ``MPI.Intracomm`` whose operations time themselves.

    Calls, results and exceptions are those of the communicator given. Rows carry the bytes in
    this rank's send buffer, the group's name and size, and a number
    ``seq``: that of the collective in this communicator, the same on every rank, or that of the
    message in its direction between two ranks. Numbers count whether or not a row is recorded, and
    belong to the communicator: wrapping it twice goes on counting.

    Nonblocking and persistent operations make two rows when they are seen to be complete, by
    ``Wait``, ``Test`` or any of the calls that take lists of requests: the operation, from issue to
    completion, and ``WAIT``, the call that saw it. Both have the same group and seq. Requests that one
    ``Waitall`` waits for have the same interval in their ``WAIT`` rows.

    Communicators that are made from this one are timed with the same logger. A pickled one (as
    mpi4py allows for the predefined communicators only) arrives timed, with the logger of the process
    that loads it.
    """

    __doc__ += _ARGUMENTS


@with_timed_methods_of(MPI.Intercomm)
class TimedIntercomm(_TimedComm, MPI.Intercomm):
    """As :class:`TimedIntracomm`, between two groups: ``peer`` is a rank of the remote one."""

    __doc__ += _ARGUMENTS


# The mpi4py class comes first where another timed class is a base too: it is that one's objects, and
# its checks when they are made, that these classes extend.


@with_timed_methods_of(MPI.Topocomm)
class TimedTopocomm(MPI.Topocomm, TimedIntracomm):
    """As :class:`TimedIntracomm`, with neighbours."""

    __new__ = _TimedComm.__new__  # type: ignore[assignment]


@with_timed_methods_of(MPI.Cartcomm)
class TimedCartcomm(MPI.Cartcomm, TimedTopocomm):
    """As :class:`TimedIntracomm`, whose ranks form a grid."""

    __new__ = _TimedComm.__new__  # type: ignore[assignment]


class TimedGraphcomm(MPI.Graphcomm, TimedTopocomm):
    """As :class:`TimedIntracomm`, whose ranks form a graph."""

    __new__ = _TimedComm.__new__  # type: ignore[assignment]


class TimedDistgraphcomm(MPI.Distgraphcomm, TimedTopocomm):
    """As :class:`TimedIntracomm`, whose ranks form a graph that none of them knows whole."""

    __new__ = _TimedComm.__new__  # type: ignore[assignment]


_TIMED = {
    MPI.Cartcomm: TimedCartcomm,
    MPI.Graphcomm: TimedGraphcomm,
    MPI.Distgraphcomm: TimedDistgraphcomm,
    MPI.Topocomm: TimedTopocomm,
    MPI.Intracomm: TimedIntracomm,
    MPI.Intercomm: TimedIntercomm,
}


def _timed(comm: MPI.Comm, logger: TimingLogger | None = None) -> MPI.Comm:
    timed: MPI.Comm = _timed_class(comm)(comm, timing_logger=logger)
    return timed


def _timed_class(comm: MPI.Comm) -> Any:
    return next(timed for plain, timed in _TIMED.items() if isinstance(comm, plain))
