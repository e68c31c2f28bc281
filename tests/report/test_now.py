"""What a person asks of a run in progress is answered, however the run is, and however many ranks it has."""

from __future__ import annotations

from typing import Any

import pytest
from snapshots import BEGINS, ENDS, HANGS, HEALTHY, SLOW, snapshot_of

from timing_logger.analysis import RunEnd, Verdict
from timing_logger.analysis.hangs.result import RunState
from timing_logger.analysis.stragglers.rank_facts import FewSteps
from timing_logger.engine.live import Snapshot
from timing_logger.report import snapshot_text
from timing_logger.report.live import table_of_ranks
from timing_logger.report.now import MOST_CHANGES, State, now_of, worst_first

CLOSED = {"closed": True}


def run_of(state: RunState, **of_rank: dict[str, Any]) -> Snapshot:
    return snapshot_of(
        2, Verdict(verdict="healthy", end=RunEnd(state=state, sentences=("So it is.",))), **of_rank
    )


@pytest.mark.parametrize(
    ("snapshot", "state", "headline"),
    [
        (run_of("running"), "runs", "Running: 2 ranks, 2.0 iterations/s, at iteration 100"),
        (run_of("unknown"), "runs", "Running: 2 ranks, 2.0 iterations/s, at iteration 100"),
        (
            run_of("running", rank0={"silent_s": 8.0}, rank1={"silent_s": 7.0}), "runs",
            "Running, without a new row for 7 s: 2 ranks, at iteration 100",
        ),
        (run_of("hang"), "hangs", "It hangs: 2 ranks, at iteration 100"),
        (
            run_of("unfinished", rank0={"silent_s": 45.0}, rank1=CLOSED), "silent",
            "No sign of life for 45 s: 2 ranks, at iteration 100",
        ),
        (
            run_of("ended", rank0=CLOSED, rank1=CLOSED), "over",
            "The run ended: 2 ranks, 2.0 iterations/s, at iteration 100",
        ),
        (
            run_of("failed", rank0=CLOSED, rank1=CLOSED), "over",
            "The run ended after a collective had failed: 2 ranks, 2.0 iterations/s, at iteration 100",
        ),
    ],
)  # fmt: skip
def test_the_first_line_says_whether_it_runs_how_fast_and_where_it_is(
    snapshot: Snapshot, state: State, headline: str
) -> None:
    assert now_of(snapshot)[:2] == (state, headline)


@pytest.mark.parametrize(
    ("of_rank", "place"),
    [
        ({"rank0": {"iteration": 101}}, "at iteration 101"),  # a look comes between two ranks
        ({"rank0": {"iteration": 104}}, "at iterations 100 to 104"),
        ({"rank0": {"epoch": 3}, "rank1": {"epoch": 3}}, "at iteration 100 of epoch 3"),
        ({"rank0": {"epoch": 3, "iteration": 0}, "rank1": {"epoch": 2}}, "at iteration 0 of epoch 3"),
        ({"rank0": {"iteration": None}}, "at iteration 100"),
    ],
)
def test_ranks_that_are_apart_are_said_to_be(of_rank: dict[str, Any], place: str) -> None:
    assert now_of(snapshot_of(2, **of_rank)).headline.endswith(f", {place}")


def test_a_run_without_iterations_has_rows() -> None:
    none = {"iteration": None, "iterations_per_s": float("nan")}
    assert now_of(snapshot_of(2, rank0=none, rank1=none)).headline == "Running: 2 ranks, 50.0 rows/s on each"


def test_who_waits_least_and_most_is_named() -> None:
    snapshot = snapshot_of(3, rank1={"waited_share": 0.02}, rank2={"waited_share": 0.62})
    assert now_of(snapshot).waits == (
        "Ranks waited for 38.0% of their time on average, from 2.0% (rank 1) to 62.0% (rank 2)."
    )


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.01, "Nobody waits much: rank 0 most, for 1.0% of its time."), (float("nan"), "")],
)
def test_little_waiting_is_said_to_be_little(share: float, said: str) -> None:
    assert now_of(snapshot_of(1, rank0={"waited_share": share})).waits == said


def test_who_waits_in_a_hang_is_said_once() -> None:
    now = now_of(run_of("hang"))
    assert (now.hangs, now.waits) == (("So it is.",), "")


def test_the_ranks_that_are_named_come_first_and_then_those_that_waited_least() -> None:
    snapshot = snapshot_of(1000, SLOW, rank700={"waited_share": 0.01, "silent_s": 3.0})
    ranks = [now.rank for now in worst_first(snapshot)]
    assert ranks[:2] == [3, 700]
    assert len(ranks) == 20


def test_the_ranks_that_the_others_wait_for_in_a_hang_come_first() -> None:
    assert worst_first(snapshot_of(100, HANGS))[0].rank == 5


def test_the_table_ends_with_the_last_changes_and_their_times() -> None:
    changes = [BEGINS._replace(unix_s=BEGINS.unix_s + i) for i in range(MOST_CHANGES)]
    *_, before, last = snapshot_text(snapshot_of(2), 250, changes=[*changes, ENDS]).splitlines()
    assert "over: rank 3 costs this run" in last
    assert "over" not in before
    assert snapshot_text(snapshot_of(2), 250, changes=[*changes, ENDS]).count("rank 3 costs") == MOST_CHANGES


def test_without_a_change_the_table_speaks_of_none() -> None:
    assert "Changes" not in snapshot_text(snapshot_of(2, HEALTHY), 120)


@pytest.mark.parametrize(("facts", "is_said"), [((FewSteps(5, nobody_is_slow=True),), True), ((), False)])
def test_few_steps_are_said_beside_the_verdict(facts: tuple[FewSteps, ...], is_said: bool) -> None:
    told = now_of(snapshot_of(2, Verdict(verdict="healthy", evidence=facts))).verdict
    assert told.endswith(" Few steps so far.") is is_said


def test_each_figure_of_a_rank_has_as_many_digits_as_it_is_worth() -> None:
    its = {"silent_s": 7.0, "dropped": None, "iterations_per_s": 2.04, "rows_per_s": 50.4}
    heads, (row,) = table_of_ranks(found := snapshot_of(1, rank0=its), found.ranks)
    assert "epoch" not in heads
    assert row == ["0", "100", "2.0", "1000", "50", "75.0%", "50.0%", "1", "-", "7", ""]
