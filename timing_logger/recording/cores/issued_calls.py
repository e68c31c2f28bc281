"""Methods that begin an operation and return a handle on it: what the core may know of their common calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class CommonCalls(NamedTuple):
    """What the calls of a method have in common whose arguments are given by position, and plain.

    The object that has the method has a ``_timing``, with the attributes ``logger``, ``name``, ``size``,
    ``next_collective``, and ``identity`` with the counts of its messages.

    Attributes:
        method: the method.
        operation: the operation of its row.
        rank_at: the position of the other rank, without the object itself; None for a collective.
        counts: the attribute of the identity with the counts by that rank; "" for a collective.
        sized: whether the row has the bytes of the first argument, which are its ``nbytes``.
        learn: see ``BackgroundSpan``.
        plain: the class of what the method returns.
        handle: the class of what the caller gets for it, which is made from that.
        refused: is called with the object, the instant when the call began, the arguments and what it raised.
    """

    method: Callable[..., Any]
    operation: str
    rank_at: int | None
    counts: str
    sized: bool
    learn: Callable[[Any, Any], str] | None
    plain: type
    handle: type
    refused: Callable[[Any, int, tuple[Any, ...], BaseException], None]
