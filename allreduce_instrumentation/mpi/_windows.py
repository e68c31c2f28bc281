"""Windows of timed communicators, for one-sided communication, whose synchronisation is timed."""

from __future__ import annotations

from typing import Any, TypeAlias

from mpi4py import MPI

from allreduce_instrumentation.mpi._handles import counting, ending, making, on_all, on_some
from allreduce_instrumentation.mpi._operations import MAKE_WINDOWS, ON_SOME_OF_A_WINDOW, UNTIMED_OF_WINDOWS
from allreduce_instrumentation.mpi._stand_ins import StandIn

_Win: TypeAlias = MPI.Win


def _fence(given: tuple[Any, ...]) -> str:
    """Return the operation of a fence: one that ends no epoch need not wait for anybody."""
    try:
        return "WIN_FENCE_NOPRECEDE" if given[0] & MPI.MODE_NOPRECEDE else "WIN_FENCE"
    except TypeError:
        return "WIN_FENCE"


class TimedWin(_Win):
    """An ``MPI.Win`` whose synchronisation times itself, as a :class:`TimedIntracomm` does.

    The group in its rows is named after the ranks of the window: ``ranks 0-3 window``.
    """

    Fence = on_all(_Win.Fence, _fence)
    Free = ending(_Win.Free, "WIN_FREE")

    def free(self) -> None:
        """Call Free if not null."""
        if self:
            self.Free()


for _name in ON_SOME_OF_A_WINDOW:
    setattr(TimedWin, _name, on_some(getattr(_Win, _name), f"WIN_{_name.upper()}"))
for _name in UNTIMED_OF_WINDOWS:
    setattr(TimedWin, _name, counting(getattr(_Win, _name), _name))
TimedWin.Test = counting(_Win.Test, "Win_test", bool)  # type: ignore[method-assign]

_MAKERS = {
    name: making(_Win, lambda: TimedWin, name, operation, "window")
    for name, operation in MAKE_WINDOWS.items()
}
STAND_IN = StandIn.of(_Win, type("Makers", (), {"__slots__": (), **_MAKERS}), timed=TimedWin)
"""What takes the place of ``MPI.Win``."""
