"""What is said of the end of a run: did it end, who hangs in what since when, and who is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from timing_logger.analysis.hangs.stuck_groups import StuckGroup
from timing_logger.analysis.hangs.stuck_messages import StuckMessage

RunState = Literal["ended", "failed", "running", "unfinished", "hang", "unknown"]


@dataclass(frozen=True, kw_only=True)
class RankEnd:
    """The last that is known of a rank.

    Attributes:
        rank, incarnation.
        closed: whether its logger came to its end; None if nothing tells.
        gone: whether it fell silent long before the others: its process is gone, stopped, or stuck in C code.
        silent_s: how long before the run's last sign of life its own was; None if unknown.
        operation, layer_name, iteration, status: of the row that ended last; "" and None without.
        ended_s: how long before the run's last sign of life that ended; None if unknown.
        busy_with: a call of its own work that was open, "" if none; ``busy_s`` for how long.
        idle_stack: where its main thread was, innermost first, if it had recorded nothing for long.
        signal: that came before the end, such as ``SIGTERM``.
    """

    rank: int
    incarnation: int
    closed: bool | None
    gone: bool
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
    """The answer to "did it end, and if not, who hangs?".

    Attributes:
        state: ``ended``: all files were closed, and nobody failed for want of another. ``hang``: see
            ``groups`` and ``messages``. ``running``: asked while it goes on. ``unfinished``: files were not
            closed, but nothing hangs: killed, or still running. ``failed``: all were closed, after a
            collective had raised. ``unknown``: no sidecar tells.
        culprits: whom the others wait for in the end, and who waits for nobody; empty where nobody can tell.
        circle: ranks of which each waits for the next, the last for the first; empty if there is none.
        groups: collectives that hang, the longest first.
        messages: messages, probes and waits that hang.
        younger: collectives that were open for less than ``hang_after_s``.
        failed: collectives that raised, after which their groups never met again, though no rank was missing.
        gone: ranks that fell silent long before the others, without having closed.
        unclosed: ranks whose file was not closed.
        ranks: of each rank the last that is known, by rank.
        hang_after_s: from when on an open call hangs.
        last_sign_unix_s: the run's last sign of life; None if unknown.
        sentences: all this in words, the most important first; empty if nothing tells.
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
    hang_after_s: float = 0.0
    last_sign_unix_s: float | None = None
    sentences: tuple[str, ...] = ()

    @property
    def hangs(self) -> bool:
        return self.state == "hang"

    @property
    def ended(self) -> bool:
        """Whether it is known to have come to its end, good or bad: every file was closed."""
        return self.state in ("ended", "failed")

    @property
    def warning(self) -> str:
        """One sentence for whoever asked something else; "" if it ended well, goes on, or nothing tells."""
        return self.sentences[0] if self.state in ("hang", "unfinished", "failed") else ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {
            "ended": self.ended,
            "state": self.state,
            "culprits": list(self.culprits),
            "circle": list(self.circle),
            "groups": [_of_group(group) for group in self.groups],
            "messages": [asdict(message) for message in self.messages],
            "younger": [_of_group(group) for group in self.younger],
            "failed": [_of_group(group) for group in self.failed],
            "gone": list(self.gone),
            "unclosed": list(self.unclosed),
            "ranks": [asdict(rank) | {"idle_stack": list(rank.idle_stack)} for rank in self.ranks],
            "hang_after_s": self.hang_after_s,
            "last_sign_unix_s": self.last_sign_unix_s,
            "sentences": list(self.sentences),
        }

    def saying(self, *sentences: str) -> RunEnd:
        return replace(self, sentences=sentences)

    def of_rank(self) -> Mapping[int, RankEnd]:
        return {rank.rank: rank for rank in self.ranks}


def _of_group(group: StuckGroup) -> dict[str, Any]:
    lists = {
        name: list(getattr(group, name))
        for name in ("inside", "missing", "silent", "unread", "unblocked", "odd")
    }
    by_rank = {name: _with_text_keys(getattr(group, name)) for name in ("inside_s", "failed")}
    return {**asdict(group), **lists, **by_rank}


def _with_text_keys(by_rank: Mapping[int, Any]) -> dict[str, Any]:
    return {str(rank): value for rank, value in by_rank.items()}
