"""The result of the search for a hang: whether a run ended, and which ranks hang or are gone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from timing_logger.analysis.hangs.last_rows import INTERRUPTED, has_failed
from timing_logger.analysis.hangs.open_calls import Ending
from timing_logger.analysis.hangs.sidecar_state import LastWords
from timing_logger.analysis.hangs.stuck_groups import StuckGroup
from timing_logger.analysis.hangs.stuck_messages import StuckMessage

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


def fates_of(ending: Ending) -> tuple[Fate, ...]:
    """Return how the ranks ended, of which it is known, the first to end first."""
    last = ending.rows[ending.rows["ended_s"].notna()].sort_values("ended_s").groupby("rank")["status"].last()
    found: dict[tuple[How, str], list[int]] = {}
    for rank in sorted(ending.words, key=lambda rank: ending.seen_s.get(rank, math.inf)):
        fate = _fate(ending.words[rank], str(last.get(rank, "")))
        if fate is not None:
            found.setdefault(fate, []).append(rank)
    return tuple(Fate(how, what, tuple(sorted(ranks))) for (how, what), ranks in found.items())


def by_signals(fates: Iterable[Fate]) -> bool:
    """Tell whether some rank was ended by a signal that it could handle."""
    return any(fate.how in ("interrupted", "signal") for fate in fates)


def _fate(one: LastWords, last_status: str) -> tuple[How, str] | None:
    if "KeyboardInterrupt" in one.ended_by or (one.closed and last_status in INTERRUPTED):
        return "interrupted", ""
    if one.signal:
        return "signal", one.signal
    if one.killed:
        return "killed", ""
    if not one.closed:
        return None
    if one.ended_by:
        return "failed", one.ended_by
    return ("failed", last_status.removeprefix("error:")) if has_failed(last_status) else ("closed", "")


# ------------------------------------------------------------


RunState = Literal["ended", "failed", "running", "unfinished", "hang", "unknown"]


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


RunEndDict: TypeAlias = dict[str, Any]
"""A :class:`RunEnd` as plain values that JSON can hold, under the names of its attributes, and ``ended``."""


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

    def as_dict(self) -> RunEndDict:
        """Return the end of the run as plain values that JSON can hold."""
        return {"ended": self.ended, **plain_fields(self)}

    def of_rank(self) -> Mapping[int, RankEnd]:
        """Return the end of each rank, by rank."""
        return {rank.rank: rank for rank in self.ranks}


def plain_fields(result: Any) -> dict[str, object]:
    """Return the fields of a dataclass, by name, as plain values that JSON can hold.

    Dataclasses and named tuples within become dicts, other tuples lists, keys text; a float that is not
    finite is None.
    """
    return {one.name: _plain(getattr(result, one.name)) for one in fields(result)}


def _plain(value: Any) -> object:
    if is_dataclass(value):
        return plain_fields(value)
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
