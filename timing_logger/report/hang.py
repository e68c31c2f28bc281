"""The text report on hangs: the findings in sentences, then what each rank was in and did last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from timing_logger.report._limits import MOST_LINES, on_left_out
from timing_logger.report._text_tables import Column, table_text
from timing_logger.schema.record import escape_text
from timing_logger.words.units import as_tenths, as_word, page, paragraph

if TYPE_CHECKING:
    from timing_logger.results.run_end import RankEnd, RunEnd

_RANKS = (
    Column("rank", "rank"), Column("state", "state", as_word), Column("inside", "inside", as_word),
    Column("inside_s", "for s", as_tenths), Column("last", "did last", as_word),
    Column("ended_s", "ended s before", as_tenths), Column("at", "at", as_word),
)  # fmt: skip

_WITHOUT_RANKS = ("ended", "failed", "unknown")
"""The states of a run of which single ranks say nothing more."""


def hang_text(end: RunEnd, width: int, *, everything: bool = False) -> str:
    """Return the report on the end of a run, whose first sentence names the ranks and the operation.

    Times count back from the run's last sign of life. Of many ranks some are shown, if not ``everything`` is.
    """
    if end.state == "unknown" and not end.sentences:
        return page(
            *paragraph(width, "No sidecar tells whether the run came to its end, and no row is open.")
        )
    most = len(end.ranks) if everything else MOST_LINES
    shown = [] if end.state in _WITHOUT_RANKS else [_row(end, rank) for rank in _of_interest(end, most)]
    n_ranks = len(end.ranks) if shown else 0
    return page(
        *paragraph(width, *end.sentences),
        table_text(pd.DataFrame(shown), _RANKS, width) if shown else "",
        *paragraph(
            width, *on_left_out(n_ranks, len(shown), "ranks", "that explain the hang, and some others")
        ),
    )


def _of_interest(end: RunEnd, most: int) -> list[RankEnd]:
    """Return at most so many ranks in order; ranks that explain the hang take precedence."""
    awaited = {*end.culprits, *end.circle, *end.gone}
    first = sorted(end.ranks, key=lambda rank: rank.rank not in awaited)
    return sorted(first[:most], key=lambda rank: rank.rank)


def _row(end: RunEnd, rank: RankEnd) -> dict[str, object]:
    inside, inside_s = _inside(end, rank)
    of = "" if rank.iteration is None else f" of iteration {rank.iteration}"
    return {
        "rank": rank.rank,
        "state": _state(rank),
        "inside": inside,
        "inside_s": inside_s,
        "last": f"{rank.operation}{of}" if rank.operation else "",
        "ended_s": rank.ended_s,
        "at": rank.idle_stack[0] if rank.idle_stack else "",
    }


def _state(rank: RankEnd) -> str:
    if rank.closed:
        return "closed"
    return "gone" if rank.gone or rank.killed else "" if rank.closed is None else "not closed"


def _inside(end: RunEnd, rank: RankEnd) -> tuple[str, float | None]:
    """Return the name of the operation that the rank was in for longest, and for how many seconds."""
    found: list[tuple[float, str]] = []
    for group in (*end.groups, *end.younger):
        if rank.rank in group.inside:
            number = "" if group.seq is None else f" {group.seq}"
            where = f" of {escape_text(group.group)}" if group.group else ""
            name = f"{group.operation or 'a collective'}{number}{where}"
            found.append((group.inside_s.get(rank.rank) or 0.0, name))
    for message in end.messages:
        if message.rank == rank.rank:
            peer = "" if message.peer is None else f" with rank {message.peer}"
            found.append((message.since_s or 0.0, f"{message.operation}{peer}"))
    if rank.busy_with:
        found.append((rank.busy_s or 0.0, rank.busy_with))
    if not found:
        return "", None
    since_s, name = max(found)
    return name, since_s
