"""Find ranks that wait for each other before there is a group of them, and those that never came."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from timing_logger.analysis.hangs.open_calls import Ending
from timing_logger.analysis.hangs.stuck_groups import StuckGroup
from timing_logger.analysis.operations import SET_UP


def stuck_set_up(ending: Ending, world_size: int | None) -> Iterator[StuckGroup]:
    """Find the calls of the set-up that did not end: each is made by all ranks, the nth of a name together.

    Args:
        ending: the end of the run.
        world_size: the number of ranks in the run; None if unknown.
    """
    rows = ending.rows[ending.rows["operation"].isin(SET_UP)]
    is_open = rows[rows["is_open"]]
    for (operation, seq), inside in is_open.groupby(["operation", "seq"]):
        entered = set(rows["rank"][(rows["operation"] == operation) & (rows["seq"] >= seq)])
        yield _stuck(ending, str(operation), int(seq), inside, entered, world_size)


def _stuck(
    ending: Ending, operation: str, seq: int, inside: pd.DataFrame, entered: set[int], world_size: int | None
) -> StuckGroup:
    began_s = {int(row["rank"]): float(row["began_s"]) for _, row in inside.iterrows()}
    size = world_size or max((int(size) for size in inside["group_size"].dropna()), default=None)
    return StuckGroup(
        group="",
        group_size=size,
        seq=seq or None,
        operation=operation,
        inside=tuple(sorted(began_s)),
        inside_s={rank: ending.before_the_end_s(began_s[rank]) for rank in sorted(began_s)},
        missing=tuple(rank for rank in ending.words if rank not in entered),
        unread=tuple(rank for rank in range(size or 0) if rank not in ending.words),
        since_s=ending.before_the_end_s(min(began_s.values())),
        hangs=bool(inside["hangs"].any()),
    )
