"""The block that is not recorded."""

from __future__ import annotations

import math
from itertools import repeat
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer(Protocol):
    """The object that ``with logger.record_mpi_operation(...) as timer`` yields."""

    @property
    def elapsed_ms(self) -> float:
        """Duration of the block, in ms; NaN while it is open, and if it is not recorded."""

    def __enter__(self) -> Timer: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class _NoSpan:
    """A block that is not recorded: one shared object, which may be nested and used by several threads."""

    __slots__ = ()

    elapsed_ms = math.nan

    __enter__: ClassVar[Callable[[], Timer]]
    __exit__: ClassVar[Callable[..., None]]


NO_SPAN: Timer = _NoSpan()

# These callables are in C, because a logger that is off must cost less than two clock readings. The
# first always returns NO_SPAN; the second takes the three arguments of __exit__ and returns "", which
# is false, so that exceptions propagate.
_NoSpan.__enter__ = repeat(NO_SPAN).__next__
_NoSpan.__exit__ = "".format  # type: ignore[assignment]
