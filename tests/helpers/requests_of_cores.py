"""Handles on operations, what begins these, and calls that see their ends, without MPI: for either core."""

from __future__ import annotations

import functools
import itertools
import time
from collections import defaultdict
from collections.abc import Callable
from types import ModuleType
from typing import Any

from timing_logger.recording.cores.issued_calls import CommonCalls, CompletingCall


class Request:
    """A handle on an operation under way, which is false once that is over."""

    def __init__(self, _: object) -> None:
        self.is_over = False
        self._operation: Any = None

    def __bool__(self) -> bool:
        return not self.is_over


@functools.cache
def slotted(core: ModuleType) -> type:
    """Return a class of such handles that is known to the core, and has slots as those of MPI have.

    One for all tests: the native core knows of a few classes only.
    """

    class Slotted:
        __slots__ = ("_operation", "is_over")

        def __new__(cls, _: object) -> Slotted:
            return object.__new__(cls)

        def __bool__(self) -> bool:
            return not getattr(self, "is_over", False)

    kind: type = core.handle_class(Slotted)
    return kind


class Endpoint:
    """What sends messages, and has them timed: its ``send`` is a method as the core makes it."""

    _timing: Any

    def __init__(
        self,
        core: ModuleType,
        recorder: Any,
        learn: Callable[[Any, Any], str] | None,
        handle: type = Request,
    ) -> None:
        self._timing = group = core.TimedGroup()
        group.name, group.size, group.logger = "world", 4, recorder
        group.sent = defaultdict(itertools.count)
        common = CommonCalls(_send, "ISEND", 1, True, True, learn, str, handle, _refused)
        kind = type(
            "Kind", (Endpoint,), {"send": core.issued_method(_as_method(_send_of_any, learn, handle), common)}
        )
        self.__class__ = kind


def _send(_: Endpoint, buffer: Any, rank: Any, outcome: str) -> object:
    if outcome == "raises":
        raise ValueError("at once")
    return outcome if outcome == "goes on" else None


def _refused(endpoint: Any, start_ns: int, args: tuple[Any, ...], error: BaseException) -> None:
    group = endpoint._timing
    if group.logger.recording:
        row = group.logger.begin_background("ISEND", None, None, group, None, None, start_ns)
        row.end_with(f"error:{type(error).__name__}")


def _as_method(function: Callable[..., object], *first: object) -> Callable[..., object]:
    def send(self: Endpoint, *args: object, **kwargs: object) -> object:
        return function(self, *first, *args, **kwargs)

    return send


def _send_of_any(endpoint: Any, learn: Any, handle: Any, buffer: Any, rank: Any, outcome: str) -> object:
    start_ns = time.perf_counter_ns()
    try:
        made = _send(endpoint, buffer, rank, outcome)
    except ValueError as error:
        _refused(endpoint, start_ns, (), error)
        raise
    group = endpoint._timing
    peer = rank if type(rank) is int and 0 <= rank < 2**63 else None
    seq = None if peer is None else next(group.sent[peer])
    if not group.logger.recording:
        return made
    size = buffer.nbytes if type(buffer.nbytes) is int else None
    operation = group.logger.begin_background("ISEND", size, peer, group, seq, learn, start_ns)
    if not isinstance(made, str):
        operation.end_with("unresolved")
        return made
    request = handle(made)
    request._operation = operation
    return request


# -- the ends of messages -----------------------------------------------------------------------------------


class Told:
    """What tells of the end of a message: its size."""

    size: Any = None


def learn_size(operation: Any, told: Any) -> str:
    """Fill in the size of a message, unless it is told to be cancelled."""
    operation.message_size_bytes = told.size
    return "error:Cancelled" if told.size == 0 else "ok"


def size_of(told: Told, unit: int) -> Any:
    """Return the size of a message in units: what ``LearnSize`` of a core asks for it. -1 is unknown."""
    return -1 if told.size is None else told.size // unit


def completing_calls(core: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return calls as the core makes them, given handles, that see all ends, those at some places, or one."""
    all_of = CompletingCall(_complete, ("handles", "told"), True, False, True, Told, None)
    calls = {
        "all": all_of,
        "some": all_of._replace(call=_complete_every_second, places=list),
        "one": CompletingCall(_complete_one, ("self", "told"), True, True, False, Told, None),
        "test one": CompletingCall(_complete_one, ("self", "told"), False, True, False, Told, _if_true),
    }
    return {name: core.completing_method(call) for name, call in calls.items()}


def _if_true(result: bool) -> tuple[()] | None:
    return None if result else ()


def _fill_in(told: list[Told] | None, sizes: list[Any]) -> None:
    """Fill in what tells of ends, as mpi4py does: of objects that are missing it makes more."""
    if told is None:
        return
    told += [Told() for _ in range(len(sizes) - len(told))]
    for one, size in zip(told, sizes, strict=False):
        one.size = size


def _sizes(handles: Any) -> list[Any]:
    return [0 if number == 3 else 10 * number + 4 for number, _ in enumerate(handles)]


def _complete(handles: Any, told: list[Told] | None = None) -> str:
    if len(handles) > 2 and handles[2] is handles[0]:
        raise ValueError("twice")
    _fill_in(told, _sizes(handles))
    return "all"


def _complete_every_second(handles: Any, told: list[Told] | None = None) -> list[int]:
    _fill_in(told, _sizes(handles[::2]))
    return list(range(0, len(handles), 2))


def _complete_one(self: Any, told: Told | None = None) -> bool:
    if self == "nobody":
        raise KeyError("nobody")
    if told is not None:
        told.size = 7
    return bool(self)
