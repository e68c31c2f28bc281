"""Each rank by itself: what the parts of timed communicators answer, beside what they should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _ranks import recording, report
from mpi4py import MPI

from allreduce_instrumentation.mpi import _calls, _comm_identity, _handles, _operations, _requests
from allreduce_instrumentation.mpi._comm_identity import CommIdentity, HandleIdentity, _ranges, _unique
from allreduce_instrumentation.mpi._timed_methods import _takes_as_much, timed_methods_of_subclass

ints = np.zeros(6, "i")
Pairs = dict[str, tuple[Any, Any]]


# -- names and counts ---------------------------------------------------------------------------------------


def names() -> Pairs:
    counts = CommIdentity("counts", 4)
    first, second = (HandleIdentity.taken(MPI.COMM_SELF, "thing") for _ in range(2))
    own = f"ranks {MPI.COMM_WORLD.rank}"
    handles = [first.name, second.name]
    second.give_back()
    first.give_back()
    again = [HandleIdentity.taken(MPI.COMM_SELF, "thing") for _ in range(3)]
    null = CommIdentity.of(MPI.COMM_NULL)
    return {
        "ranks in a row": (_ranges([0, 1, 2, 5]), "0-2,5"),
        "two ranks": (_ranges([3, 4]), "3-4"),
        "backwards": (_ranges([2, 1, 0]), "2,1,0"),
        "of a spawned job": (_ranges([0, MPI.UNDEFINED, MPI.UNDEFINED, 1]), "0,?,?,1"),
        "a name taken twice": ([_unique("mine") for _ in range(3)], ["mine", "mine #2", "mine #3"]),
        "the null communicator": ((null.name, null.size), ("MPI_COMM_NULL", 0)),
        "defaults": ((counts.rank, counts.blocks, counts.own_size), (0, 4, 4)),
        "an intercommunicator": (CommIdentity("inter", 5, 0, 3).own_size, 2),
        "handles": (handles, [f"{own} thing", f"{own} thing #2"]),
        "names given back, the lowest first": (
            [again[0] is first, again[1] is second, again[2].name],
            [True, True, f"{own} thing #3"],
        ),
        "messages": (
            [counts.next_message(*both) for both in ((None, None), (1, None), (None, 2), (1, 2), (None, 2))],
            [None, 0, 0, 1, 2],
        ),
    }


# -- arguments ----------------------------------------------------------------------------------------------


def method(self: Any, buf: Any, dest: Any, status: Any = None) -> None:
    """A method with a status."""


def Allreduce_init(self: Any, sendbuf: Any) -> None:
    """A method without one."""


def arguments() -> Pairs:
    parameters, plain = _calls.Parameters(method), _calls.Parameters(Allreduce_init)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((1, 2), {}), ((1, 2, 3), {}), ((1,), {"dest": 2}), ((), {"buf": 1, "dest": 2, "status": 3}),
        ((1,), {}), ((1, 2, 3, 4), {}), ((1, 2), {"buf": 3}), ((1, 2), {"unknown": 3}), ((1,), {"status": 3}),
    ]  # fmt: skip
    own = MPI.Status()
    made = _calls.with_status((1, 2), {}, (1, 2, None), 2)
    replaced = _calls.with_status((1, 2, None, 4), {"a": 5}, (1, 2, None, 4), 2)
    return {
        "fitting": ([parameters.fit(*call) for call in calls], [True] * 4 + [False] * 5),
        "places": ([parameters.position(name) for name in ("buf", "status", "root")], [0, 2, None]),
        "given": (parameters.given((1,), {"dest": 2}), (1, 2, None)),
        "of no method": (plain.given((1, 2), {}), (1, 2)),
        "persistent": (_calls.operation_name(Allreduce_init), "IALLREDUCE"),
        "blocking": (_calls.operation_name(method), "METHOD"),
        "no status": (_calls.with_status((1,), {"a": 2}, (1,), None), ((1,), {"a": 2}, None)),
        "the caller's status": (_calls.with_status((1,), {}, (1, 2, own), 2)[2] is own, True),
        "a status by name": ((made[0], made[1]["status"] is made[2]), ((1, 2), True)),
        "a status by position": (
            (replaced[0][:2], replaced[0][2] is replaced[2], replaced[0][3:], replaced[1]),
            ((1, 2), True, (4,), {"a": 5}),
        ),
        "places of requests": ([*map(_requests._place, (None, MPI.UNDEFINED, 0, 3))], [(), (), (0,), (3,)]),
        "ranks": (
            [*map(_comm_identity.as_rank, (2, MPI.PROC_NULL, MPI.ANY_SOURCE, "2"))],  # type: ignore[arg-type]
            [2, None, MPI.ANY_SOURCE, None],
        ),
        "what MPI saw": (
            [_comm_identity.failure(ValueError()), _comm_identity.failure(MPI.Exception(1))],
            [("error:ValueError", False), ("error:Exception", True)],
        ),
    }


def takes_all(self: Any, *args: Any, **kwargs: Any) -> None: ...
def takes_some(self: Any, buf: Any) -> None: ...
def takes_more(self: Any, buf: Any, dest: Any, status: Any = None, more: Any = None) -> None: ...
def takes_another(self: Any, buf: Any, status: Any, dest: Any = None) -> None: ...
def takes_positions(self: Any, *args: Any) -> None: ...


class Comm(MPI.Intracomm):
    """A class of a program's own, with methods that take as much as mpi4py's, and less."""

    def Barrier(self) -> None:
        """Do nothing."""

    def Bcast(self) -> None:  # type: ignore[override]
        """Do nothing."""


def subclasses() -> Pairs:
    methods = timed_methods_of_subclass(Comm)
    own = (takes_all, takes_more, method, takes_some, takes_another, takes_positions)
    return {
        "as much": ([_takes_as_much(one, method) for one in own], [True] * 3 + [False] * 3),
        "without a status": (_takes_as_much(takes_some, Allreduce_init), True),
        "methods": (sorted(methods), ["Barrier", "Bcast"]),
        "timed": ([methods[n] is vars(Comm)[n] for n in sorted(methods)], [False, True]),
        "called like mpi4py's": (methods["Barrier"].__doc__, MPI.Comm.Barrier.__doc__),
    }


# -- bytes --------------------------------------------------------------------------------------------------


def sizes() -> Pairs:
    block, scattered = _operations.block_bytes, _operations._scattered
    of_three, between = CommIdentity("three", 3, 1), CommIdentity("between", 5, 1, 3)
    return {
        "a block": (block(ints, 3, 1), 8),
        "a block of a count": (block([ints, 2], 3, 1), 8),
        "the block of a rank": (block([ints, [1, 3, 2]], 3, 1), 12),
        "a block of what is left": (block([ints, MPI.INT], 3, 1), 8),
        "no block": (block(3, 3, 1), None),  # type: ignore[arg-type]
        "in place": ([*map(_operations.is_in_place, (None, MPI.IN_PLACE, ints))], [True, True, False]),
        "an attribute that raises": (_operations.plain_bytes(Raising()), None),
        "scattered by this rank": (scattered((ints, None, 1), of_three), 24),
        "scattered by another": (scattered((ints, ints[:2], 0), of_three), 24),
        "scattered to unknown": (scattered((None, 3, 0), of_three), None),
        "scattered to this of two groups": (scattered((None, ints[:2], 0), between), 16),
        "scattered by no rank": (scattered((ints, ints[:2], "1"), of_three), 24),
        "scattered in place": (scattered((None, ints, 1), of_three), 72),
        "unevenly, by another": (_operations._scattered_unevenly((ints, None, 0), of_three), None),
        "unevenly, by this": (_operations._scattered_unevenly((ints, None, 1), of_three), 24),
        "written at an offset": (_operations._second_buffer((0, ints), of_three), 24),
        "gathered in place": (_operations._sent_block((None, ints), of_three), 8),
        "reduced in place": (_operations._sent((MPI.IN_PLACE, ints), of_three), 24),
        "nonblocking": ([*map(_operations.nonblocking, ("Bcast", "bcast"))], ["Ibcast", "ibcast"]),
    }


class Raising:
    """A buffer that does not tell its bytes."""

    @property
    def nbytes(self) -> int:
        """Raise."""
        raise ValueError


# -- windows and files --------------------------------------------------------------------------------------


class Handle:
    """A window or file whose calls return what they are given, or raise it."""

    def call(self, rank: Any = None, status: Any = None) -> Any:
        """Return or raise."""
        if isinstance(rank, BaseException):
            raise rank
        return rank

    def Free(self) -> None:
        """Do nothing."""


def rows_of(call: Callable[[Any], object], timed: Any, **options: Any) -> tuple[object, list[Any]]:
    """Return what came of a call on a timed handle, and its rows: operation, number, peer and status."""
    with recording(**options) as (logger, records):
        logger.set_current_iteration(0)
        handle: Any = Handle()
        handle._timing = _comm_identity.Timing(CommIdentity("handle", 1), logger)
        result = outcome(lambda: call(lambda *args: timed(handle, *args)))
        after = handle._timing.identity.collectives
    return (result, after), [(row.operation, row.seq, row.peer, row.status) for row in records]


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except Exception as error:
        return type(error).__name__


def handles() -> Pairs:
    some = _handles.on_some(Handle.call, "SOME")
    every = _handles.on_all(Handle.call, "ALL")
    told = _handles.on_all(Handle.call, lambda given: f"ALL_{given[0]}")
    read = _handles.reading(Handle.call, "READ")
    calls = {"some": some, "all": every, "read": read}
    refused, failed = ValueError(), MPI.Exception(1)
    found: Pairs = {f"{name}, untimed": (timed(Handle(), 4), 4) for name, timed in calls.items()}
    found |= {
        f"{name}, logger off": (rows_of(lambda f: f(4), timed, enabled=False), ((4, number), []))
        for (name, timed), number in zip(calls.items(), (0, 1, 1), strict=True)
    }
    found |= {
        f"{name}, not recorded": (rows_of(lambda f: f(4), timed, start_step=9), ((4, number), []))
        for (name, timed), number in zip(calls.items(), (0, 1, 1), strict=True)
    }
    return found | {
        "some": (rows_of(lambda f: f(4), some), ((4, 0), [("SOME", None, 4, "ok")])),
        "some, raising": (
            rows_of(lambda f: f(refused), some),
            (("ValueError", 0), [("SOME", None, None, "error:ValueError")]),
        ),
        "all": (rows_of(lambda f: f(4), every), ((4, 1), [("ALL", 0, None, "ok")])),
        "all, named by arguments": (rows_of(lambda f: f(4), told), ((4, 1), [("ALL_4", 0, None, "ok")])),
        "read": (rows_of(lambda f: f(4), read), ((4, 1), [("READ", 0, None, "ok")])),
        "read, refused by mpi4py": (
            rows_of(lambda f: f(refused), read),
            (("ValueError", 0), [("READ", None, None, "error:ValueError")]),
        ),
        "read, failed in MPI": (
            rows_of(lambda f: f(failed), read), (("Exception", 1), [("READ", 0, None, "error:Exception")])
        ),
        "counted": (counted(), {"Thing": 2}),
        "ended": (ended(), [False, True]),
    }  # fmt: skip


def counted() -> dict[str, int]:
    """Return how often an untimed call is counted that is over in two of three calls."""
    with recording() as (logger, _):
        handle: Any = Handle()
        handle._timing = _comm_identity.Timing(CommIdentity("counted", 1), logger)
        call = _handles.counting(Handle.call, "Thing", bool)
        for result in (0, 1, 2):
            call(handle, result)
        _handles.counting(Handle.call, "Thing")(Handle(), 1)
        return dict(logger._open_calls.untimed)


def ended() -> list[bool]:
    """Return whether a handle that is ended has a timing still, and whether its name is free."""
    free = _handles.ending(Handle.Free, "FREE")
    free(Handle())
    with recording() as (logger, _):
        handle: Any = Handle()
        identity = HandleIdentity.taken(MPI.COMM_SELF, "ended")
        handle._timing = _comm_identity.Timing(identity, logger)
        free(handle)
    return [hasattr(handle, "_timing"), HandleIdentity.taken(MPI.COMM_SELF, "ended") is identity]


report(
    {
        part.__name__: {name: [repr(got), repr(expected)] for name, (got, expected) in part().items()}
        for part in (names, arguments, subclasses, sizes, handles)
    }
)
