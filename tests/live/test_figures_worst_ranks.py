"""Which ranks have figures of their own: those to look at, and as seldom as can be others than before."""

from __future__ import annotations

from typing import Any

import pytest
from snapshots import HANGS, HEALTHY, SLOW, snapshot_of

from timing_logger.analysis import RunEnd, Verdict
from timing_logger.live.figures import MOST, WorstRanks
from timing_logger.live.watcher import Snapshot
from timing_logger.results.verdict import Suspect


def shown(snapshot: Snapshot, worst: WorstRanks | None = None) -> list[int]:
    return [now.rank for now in (worst or WorstRanks()).of(snapshot)]


def less_waiting(*ranks: int) -> dict[str, dict[str, Any]]:
    """Ranks that wait least, so that the others wait for them."""
    return {f"rank{rank}": {"waited_share": 0.01 * i} for i, rank in enumerate(ranks)}


def test_of_few_ranks_all_are_shown_in_ascending_order() -> None:
    assert shown(snapshot_of(8, SLOW)) == list(range(8))


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(verdict="rank", ranks=(900,)),
        Verdict(verdict="suspect", suspects=(Suspect((900,), "DATA", 0.5, 0.5),)),
        Verdict(verdict="diffuse", waited_for=(900,)),
        Verdict(verdict="hang", end=RunEnd(state="hang", culprits=(900,))),
        Verdict(verdict="healthy", end=RunEnd(state="running", gone=(900,))),
    ],
    ids=lambda verdict: verdict.verdict,
)
def test_a_rank_that_is_named_is_shown(verdict: Verdict) -> None:
    ranks = shown(snapshot_of(1000, verdict, **less_waiting(*range(100, 132))))
    assert 900 in ranks
    assert len(ranks) == MOST


def test_the_ranks_that_wait_least_are_shown_as_the_others_wait_for_them() -> None:
    last = range(984, 1000)
    assert shown(snapshot_of(1000, HEALTHY, **less_waiting(*last))) == list(last)


def test_a_rank_of_which_nothing_is_known_or_that_has_ended_does_not_count_as_waited_for() -> None:
    ended: dict[str, Any] = {"closed": True, "waited_share": 0.0}
    ranks = shown(snapshot_of(40, HEALTHY, rank0=ended, rank1={"waited_share": float("nan")}))
    assert ranks == list(range(2, 18))


def test_a_rank_stays_while_it_is_among_the_worst_though_others_are_a_little_worse() -> None:
    worst = WorstRanks()
    before = shown(snapshot_of(1000, HEALTHY, **less_waiting(*range(100, 116))), worst)
    swapped = less_waiting(*range(200, 210), *range(100, 116))
    assert shown(snapshot_of(1000, HEALTHY, **swapped), worst) == before


def test_a_rank_that_is_no_longer_among_the_worst_makes_room() -> None:
    worst = WorstRanks()
    shown(snapshot_of(1000, HEALTHY, **less_waiting(*range(100, 116))), worst)
    others = less_waiting(*range(200, 212)) | {f"rank{r}": {"waited_share": 0.9} for r in range(100, 116)}
    assert set(range(200, 212)) <= set(shown(snapshot_of(1000, HEALTHY, **others), worst))


@pytest.mark.parametrize(("n_worse", "stays"), [(31, True), (32, False)])
def test_a_rank_stays_while_it_is_among_twice_as_many_as_are_shown(n_worse: int, stays: bool) -> None:
    worst = WorstRanks()
    shown(snapshot_of(1000, HEALTHY, **less_waiting(*range(100, 116))), worst)
    worse = less_waiting(*range(200, 200 + n_worse), *range(100, 116))
    assert (100 in shown(snapshot_of(1000, HEALTHY, **worse), worst)) is stays


def test_a_named_rank_takes_the_place_of_one_that_was_shown() -> None:
    worst = WorstRanks()
    shown(snapshot_of(1000, HEALTHY, **less_waiting(*range(100, 116))), worst)
    assert 5 in shown(snapshot_of(1000, HANGS, **less_waiting(*range(100, 116))), worst)


def test_differences_below_a_percent_choose_nobody() -> None:
    noise = {f"rank{rank}": {"waited_share": 0.5 + 0.000_01 * (rank % 7)} for rank in range(1000)}
    assert shown(snapshot_of(1000, HEALTHY, **noise)) == list(range(MOST))
