"""Interfaces: the timer of a block, the group that numbers a call, the handle that is waited for.

And the one block of all calls that are not recorded, :data:`NO_SPAN`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import repeat
from types import TracebackType
from typing import Any, ClassVar, Protocol, cast

from timing_logger.schema.record import ON_SPANS, RawRecord


class Timer(Protocol):
    """The object that ``with logger.record_mpi_operation(...) as timer`` yields."""

    work: float | None  # may be set until the block is left

    @property
    def elapsed_ms(self) -> float:
        """Duration of the block, in ms; NaN while it is open, and if it is not recorded."""

    def __enter__(self) -> Timer: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class SeenCall(Protocol):
    """A call that has not ended, as another thread sees it."""

    @property
    def start_ns(self) -> int:
        """When it began, on the axis of ``perf_counter_ns``."""

    @property
    def is_in_ring(self) -> bool:
        """Whether the ring has listed the call since it began."""

    def open_records(self, status: str) -> Iterable[RawRecord]:
        """Return the records of the call as far as they are known before it has ended."""


class Counts(Protocol):
    """A group of ranks that counts the collectives it has begun.

    Attributes:
        size: the number of ranks.
        collectives: the number of collectives begun.
    """

    size: int
    collectives: int


class NumberedGroup(Protocol):
    """A group of ranks that numbers its operations."""

    name: str
    size: int

    def next_collective(self) -> int:
        """Return the number of the collective that begins now."""

    def take_back(self, error: BaseException) -> bool:
        """Take back the latest number if its call, which raised ``error``, did not begin.

        Returns:
            Whether the number was taken back.
        """


class Waitable(Protocol):
    """The handle that a call returns when its operation goes on after the return."""

    def wait(self) -> object:
        """Wait until the operation has ended; raise what went wrong with it."""

    def is_completed(self) -> bool:
        """Tell whether the operation has ended, well or not."""


class NeverWaitedFor:
    """The type of handles, for ``time_call``, of a call that returns none and ends with its operation."""

    def wait(self) -> object:
        """Never called."""
        raise NotImplementedError

    def is_completed(self) -> bool:
        """Never called."""
        raise NotImplementedError


class Handle(Protocol):
    """What stands for an operation under way, and is false when nobody can wait for it any more."""

    _operation: Any  # the operation, a `BackgroundSpan` of the core; None when its end was seen

    def __bool__(self) -> bool: ...


def has_ended(begun: Waitable) -> bool:
    """Tell whether an operation has ended, asked after a wait for it failed.

    Errors of the question itself count as False: the caller is to see the error of the wait, and no other
    one.
    """
    try:
        return begun.is_completed()
    except Exception:
        return False


class _NoSpan:
    """A block that is not recorded: one shared object, which may be nested and used by several threads.

    Its columns are blank, whatever is put there.
    """

    __slots__ = ()

    elapsed_ms = math.nan

    __enter__: ClassVar[Callable[[], Timer]]
    __exit__: ClassVar[Callable[..., None]]

    def __getattr__(self, name: str) -> None:
        if name not in ON_SPANS:
            raise AttributeError(name)

    def __setattr__(self, name: str, value: object) -> None:
        getattr(self, name)


NO_SPAN = cast("Timer", _NoSpan())

# These callables are in C, because a logger that is off must cost less than two clock readings. The
# first always returns NO_SPAN; the second takes the three arguments of __exit__ and returns "", which
# is false, so that exceptions propagate.
_NoSpan.__enter__ = repeat(NO_SPAN).__next__
_NoSpan.__exit__ = "".format  # type: ignore[assignment]


def no_span(
    operation: object = "", message_size: object = None, layer_name: object = None, phase: object = None,
    iteration: object = None, epoch: object = None, **_: object,
) -> Timer:  # fmt: skip
    """Stands for a recording call of a logger that is off."""
    return NO_SPAN  # named parameters, because collecting them into a tuple costs a third more


def ignore(*_: object, **__: object) -> None:
    """Stands for one that makes no block."""
