"""What a process stood in when it began and recorded nothing for long, kept when it goes on or ends."""

from __future__ import annotations

from collections.abc import Callable

from timing_logger.run_info import GroupProgress, OpenCallInfo, Stall


class Stalls:
    """The stalls of one process, of which two are kept: what comes later overwrites neither.

    Attributes:
        last: the stall that the process is in, or else the last that it was in; None if there was none.
        longest: the longest one; None if there was none.
    """

    def __init__(self) -> None:
        self.last: Stall | None = None
        self.longest: Stall | None = None

    def note(
        self,
        since_ns: int,
        until_ns: int,
        open_calls: list[OpenCallInfo],
        groups: list[GroupProgress],
        stack: Callable[[], list[str]],
    ) -> None:
        """Note that the process has stood still.

        Args:
            since_ns: when it last began or recorded anything, by ``perf_counter_ns``.
            until_ns: now.
            open_calls: the calls that it is in.
            groups: how far it has come in each group.
            stack: returns the stack of the main thread; called once for each stall, since at the end of one
                the main thread is in an exception handler, or on its way out.
        """
        known = self.last if self.last is not None and self.last.since_counter_ns == since_ns else None
        self.last = Stall(since_ns, until_ns, open_calls, groups, stack() if known is None else known.stack)
        if self.longest is None or _length_ns(self.last) >= _length_ns(self.longest):
            self.longest = self.last


def _length_ns(stall: Stall) -> int:
    return stall.until_counter_ns - stall.since_counter_ns
