"""Snapshots of runs in progress, as a watcher returns them, of any number of ranks."""

from __future__ import annotations

from typing import Any

from places import SAMPLE

from timing_logger.analysis import RunEnd, Verdict
from timing_logger.engine.changes import Change
from timing_logger.live.watcher import RankNow, Snapshot, Watcher

SLOW = Verdict(
    verdict="rank", ranks=(3,), operation="DATA", owner="machine", window="ongoing", cost_share=0.25,
    first_iteration=70,
)  # fmt: skip
HANGS = Verdict(verdict="hang", ranks=(5,), end=RunEnd(state="hang", culprits=(5,)))
HEALTHY = Verdict(verdict="healthy", end=RunEnd(state="running"))
BEGINS = Change("begins", SLOW, 70, None, 1_700_000_000.0)
ENDS = BEGINS._replace(kind="ends", unix_s=1_700_000_060.0)


def rank_now(rank: int, **other: Any) -> RankNow:
    """Return what a rank without trouble did in the window."""
    usual = RankNow(
        rank=rank, incarnation=1, written=1000, rows_per_s=50.0, iterations_per_s=2.0, iteration=100,
        epoch=None, communication_share=0.75, waited_share=0.5, dropped=0, unfinished=1, silent_s=0.5,
        closed=False,
    )  # fmt: skip
    return usual._replace(**other)


def snapshot_of(n_ranks: int, verdict: Verdict = HEALTHY, **of_rank: dict[str, Any]) -> Snapshot:
    """Return the state of a run of many ranks.

    Args:
        verdict: on the window.
        of_rank: what is different for some ranks, as ``rank3={"closed": True}``.
    """
    ranks = [rank_now(rank, **of_rank.get(f"rank{rank}", {})) for rank in range(n_ranks)]
    return Snapshot(ranks, verdict, 30.0, verdict.end)


def snapshot_of_sample() -> Snapshot:
    """Return what a watcher sees of the sample files, of which rank 2 is slow."""
    return Watcher(SAMPLE, 1e9).snapshot()
