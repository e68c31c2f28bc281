"""A table of a run in progress, which is drawn repeatedly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from timing_logger.report._limits import on_left_out
from timing_logger.report._text_tables import drawn, new_table, page, wrapped
from timing_logger.report._wording import fixed, or_unknown, percent
from timing_logger.report.change_text import change_text
from timing_logger.report.now import MOST_CHANGES, looked_at, now_of, worst_first

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.engine.live import RankNow, Snapshot

WORST = "that are slow, hang or lost records, if any, and then those that are behind or silent for longest"
"""Which of many ranks are shown."""

_HEADS = (
    "rank", "epoch", "iteration", "it/s", "rows", "rows/s", "communication", "WAIT", "open", "dropped",
    "silent s", "state",
)  # fmt: skip


def snapshot_text(
    snapshot: Snapshot, width: int, *, everything: bool = False, changes: Sequence[Change] = ()
) -> str:
    """Return the text of a snapshot.

    Args:
        snapshot: as ``Watcher.snapshot`` returns it.
        width: columns of the terminal.
        everything: whether all ranks are shown, however many.
        changes: what changed so far, the latest last.
    """
    now = now_of(snapshot)
    shown = sorted(snapshot.ranks if everything else worst_first(snapshot))
    heads, rows = table_of_ranks(snapshot, shown)
    table = new_table(*heads)
    for row in rows:
        table.add_row(*row)
    left_out = on_left_out(len(snapshot.ranks), len(shown), "ranks", WORST)
    return page(
        wrapped(f"{now.headline}; {looked_at(snapshot.window_s)}", width),
        drawn(table, width),
        _lines([*left_out, *now.hangs, now.verdict, now.waits, *now.not_told], width),
        _lines(["Changes:", *map(change_text, changes[-MOST_CHANGES:])] if changes else [], width),
    )


def table_of_ranks(snapshot: Snapshot, shown: Sequence[RankNow]) -> tuple[list[str], list[list[str]]]:
    """Return the heads of a table of ranks, and a row for each of ``shown``."""
    has_epochs = any(rank.epoch is not None for rank in snapshot.ranks)
    heads = [head for head in _HEADS if has_epochs or head != "epoch"]
    rows = [dict(zip(_HEADS, _cells(rank), strict=True)) for rank in shown]
    return heads, [[row[head] for head in heads] for row in rows]


def _lines(sentences: Sequence[str], width: int) -> str:
    return "\n".join(wrapped(sentence, width) for sentence in sentences if sentence)


def _cells(rank: RankNow) -> list[str]:
    return [
        str(rank.rank), or_unknown(rank.epoch), or_unknown(rank.iteration), fixed(rank.iterations_per_s, 1),
        or_unknown(rank.written), fixed(rank.rows_per_s, 0), percent(rank.communication_share),
        percent(rank.waited_share), str(rank.unfinished), or_unknown(rank.dropped), fixed(rank.silent_s, 0),
        "closed" if rank.closed else "",
    ]  # fmt: skip
