"""Handles on operations under way, and what sends messages, without MPI: for tests of either core."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable
from types import ModuleType
from typing import Any

from timing_logger.recording.cores.issued_calls import CommonCalls


class Request:
    """A handle on an operation under way, which is false once that is over."""

    def __init__(self, _: object) -> None:
        self.is_over = False
        self._operation: Any = None

    def __bool__(self) -> bool:
        return not self.is_over


class Endpoint:
    """What sends messages, and has them timed: its ``send`` is a method as the core makes it."""

    _timing: Any

    def __init__(self, core: ModuleType, recorder: Any, learn: Callable[[Any, Any], str] | None) -> None:
        self._timing = group = core.TimedGroup()
        group.name, group.size, group.logger = "world", 4, recorder
        group.sent = defaultdict(itertools.count)
        common = CommonCalls(_send, "ISEND", 1, True, True, learn, str, Request, _refused)
        kind = type(
            "Kind", (Endpoint,), {"send": core.issued_method(_as_method(_send_of_any, learn), common)}
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


def _as_method(function: Callable[..., object], learn: object) -> Callable[..., object]:
    def send(self: Endpoint, *args: object, **kwargs: object) -> object:
        return function(self, learn, *args, **kwargs)

    return send


def _send_of_any(endpoint: Any, learn: Any, buffer: Any, rank: Any, outcome: str) -> object:
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
    request = Request(made)
    request._operation = operation
    return request


def learn_size(operation: Any, told: Any) -> str:
    """Fill in the size of a message, unless it is told to be cancelled."""
    operation.message_size_bytes = told
    return "error:Cancelled" if told == 0 else "ok"
