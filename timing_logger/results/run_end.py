"""The result of the search for a hang: whether a run ended, and which ranks hang or are gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from timing_logger.results.plain import plain_fields

RunState = Literal["ended", "failed", "running", "unfinished", "hang", "unknown"]

How: TypeAlias = Literal["closed", "interrupted", "signal", "killed", "failed"]


class Fate(NamedTuple):
    """How some ranks ended, in the same way.

    Attributes:
        how: ``closed``: the log was closed, and no error is known. ``interrupted``: by SIGINT, as Ctrl-C
            sends it. ``signal``: by another signal that the logger handled. ``killed``: without closing the
            log. ``failed``: by an exception.
        what: the signal, or the type of the exception; "" otherwise.
        ranks: the ranks, ascending.
    """

    how: How
    what: str
    ranks: tuple[int, ...]


def by_signals(fates: Iterable[Fate]) -> bool:
    """Tell whether some rank was ended by a signal that it could handle."""
    return any(fate.how in ("interrupted", "signal") for fate in fates)


@dataclass(frozen=True, kw_only=True)
class StuckGroup:
    """A collective that did not end.

    Attributes:
        group, group_size, seq: group and number of the collective; size and number are None where unknown.
        operation: its base operation; several with commas where ranks disagree; "" if unknown.
        iteration, layer_name: those of the rank that entered first.
        inside: the ranks in the collective, ascending.
        inside_s: for each of these the time in s from its entry to the run's last sign of life; None if
            unknown.
        missing: ranks of the group that never entered it, as far as is known.
        silent: the missing ranks that left no sign of life since the others entered it.
        unread: ranks of the group of which there is no file.
        unknown_ranks: the number of further ranks of the group, of which not even the rank is known.
        failed: the status of each rank in which the collective raised.
        unblocked: ranks that have it under way without being blocked in any call, while others are blocked.
        pending: ranks that have it under way in the background while none of their calls waits for it.
        since_s: time in s from the earliest entry to the run's last sign of life; None if unknown.
        mismatch: what the ranks disagree in, in words; "" if they do not.
        odd: the ranks that disagree with most of the others; empty if there is no majority.
        hangs: whether it was open for longer than ``hang_after``, or failed while a rank was missing or
            ranks disagreed, or ranks are in different collectives under one number, of whatever age.
    """

    group: str
    group_size: int | None
    seq: int | None
    operation: str
    iteration: int | None = None
    layer_name: str = ""
    inside: tuple[int, ...] = ()
    inside_s: dict[int, float | None] = field(default_factory=dict)
    missing: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()
    unknown_ranks: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    unblocked: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()
    since_s: float | None = None
    mismatch: str = ""
    odd: tuple[int, ...] = ()
    hangs: bool = True


@dataclass(frozen=True, kw_only=True)
class StuckMessage:
    """A message, a probe, or a wait for something that has no row, which did not end.

    Attributes:
        rank: the rank that is in the call.
        operation, group, seq, thread, iteration: of the row of the call.
        peer: the rank at the other side; None for any source, or where it is unknown.
        has_partner: whether the other side made its call too: then the two do not match, perhaps in their
            tags.
        since_s: time in s from the start of the call to the run's last sign of life; None if unknown.
        hangs: whether the call was open for longer than ``hang_after``.
        in_background: whether the operation is non-blocking and no call waits for it, so that the rank need
            not be blocked in it.
    """

    rank: int
    operation: str
    group: str
    seq: int | None
    thread: str
    iteration: int | None
    peer: int | None
    has_partner: bool
    since_s: float | None
    hangs: bool
    in_background: bool = False


@dataclass(frozen=True, kw_only=True)
class RankEnd:
    """The last that is known of a rank.

    Attributes:
        rank, incarnation: of its newest process.
        closed: whether its logger was closed; None if unknown.
        gone: whether it is ``killed``, or fell silent long before the others: its process is gone, stopped,
            or stuck in C code.
        killed: whether its process is known to have ended without closing its logger, as a killed one does,
            and those of other ranks are not: of a job that was killed as a whole it is False.
        silent_s: time in s from its last sign of life to the run's last one; None if unknown.
        operation, layer_name, iteration, status: of the row that ended last; "" and None without such a row.
        ended_s: time in s from the end of that row to the run's last sign of life; None if unknown.
        busy_with: a call of its own work that was open; "" if none.
        busy_s: time in s for which that call was open at the run's last sign of life; None if unknown.
        idle_stack: stack of its main thread, innermost frame first, if it had recorded nothing for long.
        signal: the signal that came before the end, such as ``SIGTERM``; "" if none did.
    """

    rank: int
    incarnation: int
    closed: bool | None
    gone: bool
    killed: bool
    silent_s: float | None
    operation: str
    layer_name: str
    iteration: int | None
    status: str
    ended_s: float | None
    busy_with: str
    busy_s: float | None
    idle_stack: tuple[str, ...]
    signal: str


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """The end of a run: whether it ended, and which ranks hang if not.

    Attributes:
        state: ``ended``: all files were closed, and no collective failed at the end. ``hang``: the run hung,
            see ``groups`` and ``messages``. ``running``: the run was in progress when it was looked at.
            ``unfinished``: files were not closed, or are missing, but nothing hangs: the run was killed, or
            still runs.
            ``failed``: all files were closed, after a collective had raised. ``unknown``: no sidecar tells.
        culprits: ranks that others wait for in the end, and that wait for no rank; empty where unknown.
        circle: ranks of which each waits for the next, the last for the first; empty if there is none.
        groups: collectives that hang, the longest first.
        messages: messages, probes and waits that hang.
        younger: collectives that were open for less than ``hang_after_s``.
        failed: collectives that raised, after which their groups never met again, though no rank was missing.
        gone: ranks that are known to have ended without having closed, or fell silent long before the others.
        unclosed: ranks whose file was not closed.
        ranks: the last that is known of each rank, by rank.
        fates: how the ranks ended, of which that is known, the first to end first. Of a run that ended while
            it hung, all else tells how it stood then.
        hang_after_s: time in s after which an open call hangs.
        last_sign_unix_s: the run's last sign of life, in Unix time, in s; None if unknown.
        sentences: the attributes above in words, the most important first; empty if nothing is known.
    """

    state: RunState
    culprits: tuple[int, ...] = ()
    circle: tuple[int, ...] = ()
    groups: tuple[StuckGroup, ...] = ()
    messages: tuple[StuckMessage, ...] = ()
    younger: tuple[StuckGroup, ...] = ()
    failed: tuple[StuckGroup, ...] = ()
    gone: tuple[int, ...] = ()
    unclosed: tuple[int, ...] = ()
    ranks: tuple[RankEnd, ...] = ()
    fates: tuple[Fate, ...] = ()
    hang_after_s: float = 0.0
    last_sign_unix_s: float | None = None
    sentences: tuple[str, ...] = ()

    @property
    def hangs(self) -> bool:
        """Whether the run hung."""
        return self.state == "hang"

    @property
    def ended(self) -> bool:
        """Whether the run is known to have ended, well or with a failure: every file was closed."""
        return self.state in ("ended", "failed")

    @property
    def warning(self) -> str:
        """A sentence on a bad end of the run; "" if it ended well, is in progress, or nothing is known."""
        return self.sentences[0] if self.state in ("hang", "unfinished", "failed") else ""

    def as_dict(self) -> dict[str, Any]:
        """Return the end as plain values that JSON can hold, by the names of attributes, and ``ended``."""
        return {"ended": self.ended, **plain_fields(self)}

    def of_rank(self) -> Mapping[int, RankEnd]:
        """Return the end of each rank, by rank."""
        return {rank.rank: rank for rank in self.ranks}
