"""Methods that begin an operation and return a handle, and calls that see its end: what a core knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple


class CommonCalls(NamedTuple):
    """What the calls of a method have in common whose arguments are given by position, and plain.

    The object that has the method has a ``_timing``, a ``TimedGroup`` of the core.

    Attributes:
        method: the method.
        operation: the operation of its row.
        rank_at: the position of the other rank, without the object itself; None for a collective.
        sends: whether that rank is sent to, else received from.
        sized: whether the row has the bytes of the first argument, which are its ``nbytes``.
        learn: see ``BackgroundSpan``.
        plain: the class of what the method returns.
        handle: the class of what the caller gets for it, which is made from that.
        refused: is called with the object, the instant when the call began, the arguments and what it raised.
    """

    method: Callable[..., Any]
    operation: str
    rank_at: int | None
    sends: bool
    sized: bool
    learn: Callable[[Any, Any], str] | None
    plain: type
    handle: type
    refused: Callable[[Any, int, tuple[Any, ...], BaseException], None]


class CompletingCall(NamedTuple):
    """A call that is given one handle or several, and may see the operations end that these hold.

    Attributes:
        call: the call. Its second argument is None, or what it fills in to tell of ends.
        names: the names of its two arguments, of which the second may be missing.
        blocks: whether the thread counts as blocked on the operations while it is in the call.
        of_one: whether it is given one handle, not a sequence of them.
        tells_each: whether it tells of each end in a list, which it fills; else of one in a status.
        status: makes such a status.
        places: returns, from the call's result, of the handles at which places it saw the end, in the order
            in which it tells of them; None for all. None if it has seen all whenever it returns.
    """

    call: Callable[..., Any]
    names: tuple[str, ...]
    blocks: bool
    of_one: bool
    tells_each: bool
    status: Callable[[], object]
    places: Callable[[Any], Iterable[int] | None] | None


def two_given(
    names: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, Any] | None:
    """Return the two arguments of a call, of which the second may be missing; None if they do not fit."""
    if not kwargs and 1 <= len(args) <= 2:  # as most calls are made, by the Python core too
        return args[0], args[1] if len(args) == 2 else None
    given = dict(zip(names, args, strict=False))
    if len(args) > len(names) or given.keys() & kwargs.keys():
        return None
    given.update(kwargs)
    if names[0] not in given or not given.keys() <= set(names):
        return None
    return given[names[0]], given.get(names[1])
