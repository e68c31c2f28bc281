"""``TimedIntracomm`` and the other timed communicators: what they add to mpi4py's classes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from allreduce_instrumentation.mpi._comm_identity import CommIdentity, Timing
from allreduce_instrumentation.mpi._handles import STAND_IN_OF_FILES, STAND_IN_OF_WINDOWS
from allreduce_instrumentation.mpi._requests import STAND_INS
from allreduce_instrumentation.mpi._stand_ins import put_in_place
from allreduce_instrumentation.mpi._timed_methods import timed_methods_of_subclass, with_timed_methods_of
from timing_logger.recording.logger import TimingLogger

if TYPE_CHECKING:
    from typing_extensions import Self

_ARGUMENTS = """
    Args:
        comm: the communicator; it is shared, not duplicated.
        timing_logger: where rows go; default ``get_timing_logger()``.
        group: name of the group in the rows; default the communicator's name, or the world ranks
            of its members, such as ``ranks 0-3``.
"""


@with_timed_methods_of(MPI.Comm)
class _TimedComm:
    """What all timed communicators add to mpi4py's classes."""

    def __new__(
        cls,
        comm: MPI.Comm | None = None,
        *,
        timing_logger: TimingLogger | None = None,
        group: str | None = None,
    ) -> Self:
        for stand_in in (*STAND_INS, STAND_IN_OF_WINDOWS, STAND_IN_OF_FILES):
            put_in_place(stand_in)
        kind: Any = _timed_subclass(cls, type(comm)) if cls in _TIMED.values() and comm is not None else cls
        maker = kind  # only the mpi4py class that it extends can make an object
        while maker.__module__ != MPI.__name__:
            maker = maker.__base__
        made = maker.__new__(kind, comm)
        vars(made).update(getattr(comm, "__dict__", {}))  # what a subclass keeps in its objects
        vars(made).pop("_timing", None)
        return made  # type: ignore[no-any-return]

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
        """Create a timed communicator from an MPI handle; its rows go to ``get_timing_logger()``."""
        return _timed(MPI.Comm.fromhandle(handle))

    @classmethod
    def fromint(cls, arg: int, /) -> MPI.Comm:
        """Create a timed communicator from an integer handle; its rows go to ``get_timing_logger()``."""
        return _timed(MPI.Comm.fromint(arg))

    @classmethod
    def f2py(cls, arg: int) -> MPI.Comm:
        """Create a timed communicator from a Fortran handle; its rows go to ``get_timing_logger()``."""
        return _timed(MPI.Comm.f2py(arg))

    def __reduce__(self) -> tuple[Callable[..., MPI.Comm], tuple[type | str, ...]]:
        """Pickle a predefined communicator by its name, as mpi4py does; it raises for any other."""
        reduced: Any = super().__reduce__()
        _, (_, constant) = reduced
        name: str = constant.__reduce__()
        kind = type(self)
        if kind in _TIMED_SUBCLASSES:  # a class made here, which no module holds
            return _timed_copy, (*_TIMED_SUBCLASSES[kind], name)
        return standing_for if getattr(MPI, name) is self else copy_of, (kind, name)

    @property
    def timing_logger(self) -> TimingLogger:
        """The logger to which the rows go."""
        return self._timing.logger

    @property
    def group_label(self) -> str:
        """The group's name in the rows of this communicator."""
        return self._timing.name

    @property
    def collectives(self) -> int:
        """The number of collectives begun on this communicator: the ``seq`` of the next one."""
        return self._timing.identity.collectives

    def _adopt(self, comm: MPI.Comm) -> MPI.Comm:
        """Return ``comm``, which was made from this communicator, timed with the same logger."""
        if not isinstance(comm, _TimedComm):
            return _timed(comm, self.timing_logger)
        comm._timing = Timing(CommIdentity.of(comm), self.timing_logger)  # mpi4py made it of a timed class
        return comm

    def _adopt_coming(self, comm: MPI.Comm) -> MPI.Comm:
        """Return ``comm``, a duplicate of this communicator still being made, timed with the same logger."""
        kind = type(comm) if isinstance(comm, _TimedComm) else _timed_class(comm)
        timed = kind.__new__(kind, comm)
        timed._timing = Timing(CommIdentity.of_members(self), self.timing_logger)  # type: ignore[arg-type]
        return timed


@with_timed_methods_of(MPI.Intracomm)
class TimedIntracomm(_TimedComm, MPI.Intracomm):
    """An ``MPI.Intracomm`` whose operations time themselves.

    Calls, results and exceptions are those of the wrapped communicator. Rows have the bytes in this rank's
    send buffer, the group's name and size, and a sequence number ``seq``: that of the collective in this
    communicator, which is the same on every rank, or that of the message in its direction between two
    ranks. Operations count whether or not a row is recorded. The numbers belong to the communicator: if it
    is wrapped twice, both wrappers share them.

    Nonblocking and persistent operations make two rows when they are seen to be complete, by
    ``Wait``, ``Test`` or any of the calls that take lists of requests: the operation, from issue to
    completion, and ``WAIT``, the call that saw it complete. Both have the same group and seq. Requests that
    one ``Waitall`` waits for have the same interval in their ``WAIT`` rows.

    Communicators that are made from this one are timed with the same logger. A pickled communicator
    (mpi4py allows that for the predefined ones only) is timed after loading, with the logger of the process
    that loads it.
    """

    __doc__ += _ARGUMENTS


@with_timed_methods_of(MPI.Intercomm)
class TimedIntercomm(_TimedComm, MPI.Intercomm):
    """An ``MPI.Intercomm`` whose operations time themselves, as those of :class:`TimedIntracomm` do.

    In its rows ``peer`` is a rank of the remote group.
    """

    __doc__ += _ARGUMENTS


# If another timed class is a base too, mpi4py's class comes first: objects are made by it, with its checks.


@with_timed_methods_of(MPI.Topocomm)
class TimedTopocomm(MPI.Topocomm, TimedIntracomm):
    """An ``MPI.Topocomm``, a communicator with neighbours, that times itself as :class:`TimedIntracomm`."""

    __new__ = _TimedComm.__new__  # type: ignore[assignment]


@with_timed_methods_of(MPI.Cartcomm)
class TimedCartcomm(MPI.Cartcomm, TimedTopocomm):
    """An ``MPI.Cartcomm``, whose ranks form a grid, that times itself as :class:`TimedIntracomm`."""

    __new__ = _TimedComm.__new__  # type: ignore[assignment]


class TimedGraphcomm(MPI.Graphcomm, TimedTopocomm):
    """An ``MPI.Graphcomm``, whose ranks form a graph, that times itself as :class:`TimedIntracomm`."""

    __new__ = _TimedComm.__new__  # type: ignore[assignment]


class TimedDistgraphcomm(MPI.Distgraphcomm, TimedTopocomm):
    """An ``MPI.Distgraphcomm``, whose ranks form a distributed graph, timed as :class:`TimedIntracomm`."""

    __new__ = _TimedComm.__new__  # type: ignore[assignment]


_TIMED: dict[type[MPI.Comm], type[TimedIntracomm] | type[TimedIntercomm]] = {
    MPI.Cartcomm: TimedCartcomm,
    MPI.Graphcomm: TimedGraphcomm,
    MPI.Distgraphcomm: TimedDistgraphcomm,
    MPI.Topocomm: TimedTopocomm,
    MPI.Intracomm: TimedIntracomm,
    MPI.Intercomm: TimedIntercomm,
}


def _timed(comm: MPI.Comm, logger: TimingLogger | None = None) -> MPI.Comm:
    return _timed_class(comm)(comm, timing_logger=logger)


def _timed_class(comm: MPI.Comm) -> type[TimedIntracomm] | type[TimedIntercomm]:
    return next(timed for plain, timed in _TIMED.items() if isinstance(comm, plain))


# -- subclasses of mpi4py's classes ----------------------------------------------------------------------

_TIMED_SUBCLASSES: dict[type, tuple[type, type[MPI.Comm]]] = {}
"""The classes that were made for subclasses: each with the timed class and the subclass that it extends."""


def _timed_subclass(timed: type, kind: type[MPI.Comm]) -> type:
    """Return a class that is both ``timed`` and ``kind``, if that is a subclass of mpi4py's in Python."""
    if kind in _TIMED_SUBCLASSES:
        return kind
    if kind.__module__ == MPI.__name__ or issubclass(kind, _TimedComm):
        return timed
    for made, of in _TIMED_SUBCLASSES.items():
        if of == (timed, kind):
            return made
    own = {"__doc__": kind.__doc__, "__new__": _TimedComm.__new__, **timed_methods_of_subclass(kind)}
    made = type(f"Timed{kind.__name__}", (timed, kind), own)
    _TIMED_SUBCLASSES[made] = timed, kind
    return made


def _timed_copy(timed: type, kind: type[MPI.Comm], name: str) -> MPI.Comm:
    return standing_for(_timed_subclass(timed, kind), name)


# -- pickling of timed and plain predefined communicators ------------------------------------------------
# mpi4py pickles predefined communicators by name, and pickle searches all modules for one in which this name
# is the very object. So the plain ones are kept here, too: in a program that assigns a timed communicator to
# ``MPI.COMM_WORLD``, they can still be pickled.


COMM_NULL, COMM_SELF, COMM_WORLD = MPI.COMM_NULL, MPI.COMM_SELF, MPI.COMM_WORLD


def copy_of(kind: type[MPI.Comm], name: str) -> MPI.Comm:
    """Return an object of class ``kind`` for the predefined communicator ``name``."""
    return kind.__new__(kind, getattr(MPI, name))


def standing_for(kind: type[MPI.Comm], name: str) -> MPI.Comm:
    """Return ``MPI``'s attribute ``name`` if it is of class ``kind``, else a copy of that class."""
    found: MPI.Comm = getattr(MPI, name)
    return found if type(found) is kind else copy_of(kind, name)
