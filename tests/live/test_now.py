"""What a person asks of a run in progress is answered, however the run is, and however many ranks it has."""

from __future__ import annotations

from typing import Any

import pytest
from snapshots import BEGINS, ENDS, HANGS, HEALTHY, SLOW, snapshot_of

from timing_logger.analysis import RunEnd, Verdict
from timing_logger.live.now import MOST_CHANGES, State, now_of, snapshot_text, table_of_ranks, worst_first
from timing_logger.live.watcher import Snapshot
from timing_logger.results.facts import FewSteps
from timing_logger.results.run_end import RunState, StuckGroup

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


def test_a_rank_that_hangs_on_after_the_others_were_closed_is_silent_as_long_as_it_is() -> None:
    now = now_of(run_of("unknown", rank0={"silent_s": 5.0}, rank1={"closed": True, "silent_s": 0.1}))
    assert now[:2] == ("silent", "No sign of life for 5 s: 2 ranks, at iteration 100")


@pytest.mark.parametrize(
    ("silent_s", "headline"),
    [(4.9, "Running: 1 rank, 2.0 iterations/s"), (5.0, "Running, without a new row for 5 s: 1 rank, at")],
)
def test_from_five_seconds_on_it_is_said_that_no_row_comes(silent_s: float, headline: str) -> None:
    assert now_of(snapshot_of(1, rank0={"silent_s": silent_s})).headline.startswith(headline)


def test_an_import_of_which_no_end_is_known_has_ended() -> None:
    assert now_of(run_of("unknown", rank0=CLOSED, rank1=CLOSED)).headline.startswith("The import has ended: ")


@pytest.mark.parametrize(("rate", "told"), [(1.0, "1.0 iterations/s"), (0.25, "0.250 iterations/s")])
def test_a_rate_below_one_has_more_digits(rate: float, told: str) -> None:
    assert f" {told}," in now_of(snapshot_of(1, rank0={"iterations_per_s": rate})).headline


def test_a_rank_that_stands_still_does_not_count_in_the_speed() -> None:
    of_rank = {"rank0": {"iterations_per_s": 0.0}, "rank1": {"iterations_per_s": 4.0}}
    assert " 4.0 iterations/s," in now_of(snapshot_of(2, **of_rank)).headline


def test_the_first_epoch_is_named() -> None:
    assert now_of(snapshot_of(1, rank0={"epoch": 0})).headline.endswith("at iteration 100 of epoch 0")


def test_ranks_in_different_epochs_are_not_said_to_be_iterations_apart() -> None:
    of_rank = {"rank0": {"epoch": 2, "iteration": 3}, "rank1": {"epoch": 3, "iteration": 90}}
    assert now_of(snapshot_of(2, **of_rank)).headline.endswith(", at iteration 90 of epoch 3")


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.05, "Ranks waited for 5.0% of their time on average."),
        (0.049, "Nobody waits much: rank 0 most, for 4.9% of its time."),
    ],
)
def test_from_a_twentieth_on_a_rank_waits(share: float, said: str) -> None:
    assert now_of(snapshot_of(1, rank0={"waited_share": share})).waits == said


SENTENCES = ("one", "two", "three", "four", "five")


def open_for(since_s: float | None) -> StuckGroup:
    return StuckGroup(group="world", group_size=2, seq=9, operation="ALLREDUCE", since_s=since_s)


@pytest.mark.parametrize(
    ("end", "is_told"),
    [
        (RunEnd(state="running", sentences=SENTENCES, younger=(open_for(0.9),)), False),
        (RunEnd(state="running", sentences=SENTENCES, younger=(open_for(None), open_for(1.0))), True),
        (RunEnd(state="running", sentences=SENTENCES, gone=(1,)), True),
        (RunEnd(state="ended", sentences=SENTENCES, gone=(1,)), False),
        (RunEnd(state="unfinished", sentences=SENTENCES), True),
    ],
)
def test_what_may_be_about_to_hang_is_told_once_it_lasts(end: RunEnd, is_told: bool) -> None:
    now = now_of(snapshot_of(2, Verdict(verdict="healthy", end=end)))
    assert now.hangs == (SENTENCES[:4] if is_told else ())


def first_two(**of_rank: dict[str, Any]) -> list[int]:
    return sorted(now.rank for now in worst_first(snapshot_of(5, **of_rank), 2))


@pytest.mark.parametrize(
    ("of_rank", "chosen"),
    [
        ({"rank2": {"dropped": 1}, "rank4": {"iteration": 99}}, [2, 4]),
        ({"rank1": {"closed": True, "iteration": 1}, "rank4": {"silent_s": 9.0}}, [0, 4]),
        ({"rank3": {"iteration": None}, "rank4": {"iteration": 0}}, [3, 4]),
        ({"rank3": {"silent_s": 0.6}, "rank4": {"silent_s": 0.7}}, [3, 4]),
        (
            {f"rank{rank}": {"epoch": 1, "iteration": rank} for rank in range(4)} | {"rank4": {"epoch": 0}},
            [0, 4],
        ),
    ],
)
def test_ranks_that_lost_records_are_behind_or_are_silent_are_among_the_few_that_are_shown(
    of_rank: dict[str, Any], chosen: list[int]
) -> None:
    assert first_two(**of_rank) == chosen


def test_a_rank_of_which_no_waiting_is_known_comes_last_and_equals_come_by_their_number() -> None:
    snapshot = snapshot_of(4, rank0={"waited_share": float("nan")}, rank3={"waited_share": 0.4})
    assert [now.rank for now in worst_first(snapshot)] == [3, 1, 2, 0]
