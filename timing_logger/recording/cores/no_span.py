"""The block that is not recorded, as where sampling leaves an iteration out."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import repeat
from typing import ClassVar, cast

from timing_logger.recording.cores.protocols import Timer
from timing_logger.schema.record import ON_SPANS


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
