"""What reports say of one step, and which ranks they draw."""

from __future__ import annotations

import pandas as pd
import pytest
from account_rows import Row, barrier, row, table
from simulated_runs import data_parallel, factors

from timing_logger.analysis.verdict.typical_step import shown_in_table, typical_step
from timing_logger.analysis.verdict.verdict import map_judgement, reduce_judgement
from timing_logger.report.pictured_step import PicturedStep, step_text


def pictured(timings: pd.DataFrame, named: tuple[int, ...] = ()) -> PicturedStep:
    step = typical_step(reduce_judgement([map_judgement(timings)], with_blocked=True))
    assert step is not None
    return PicturedStep(*shown_in_table(step, named, timings))


def second_step(
    work: list[Row], arrive_ms: list[float], leave_ms: float, left_ms: list[float]
) -> PicturedStep:
    """Picture a step of ranks that left a collective, did some work, and met again."""
    first = [row(r, "BARRIER", 0, end, group_size=len(left_ms)) for r, end in enumerate(left_ms)]
    rows = [{**one, "iteration": 0} for one in first]
    rows += [{**one, "iteration": 1} for one in (*work, *barrier(arrive_ms, leave_ms, seq=1))]
    return pictured(table(*rows))


def test_it_is_said_who_waited_for_whom_and_what_that_one_did_meanwhile() -> None:
    work = [row(0, "load", 10, 12), row(1, "load", 10, 11), row(2, "load", 10, 30)]
    step = second_step(work, [12, 11, 30], 31, [10, 10, 10])
    assert list(step.sentences()) == [
        "Ranks 0 and 1 waited 18.0 to 19.0 ms each for rank 2.",
        "Rank 2 spent 20.0 ms in load, the others 1.0 to 2.0 ms.",
    ]


@pytest.mark.slow("a rarer case of who waited for whom, which is quick")
def test_work_that_no_row_times_is_said_to_be_that() -> None:
    step = second_step([], [11, 11, 30], 31, [10, 10, 10])
    assert list(step.sentences())[1] == "Rank 2 spent 20.0 ms in code that no row times, the others 1.0 ms."


@pytest.mark.slow("a wait for a transfer, below, tells it, too")
def test_who_left_the_communication_before_late_is_said_to_begin_late() -> None:
    work = [row(r, "load", begin, begin + 5) for r, begin in enumerate([10, 10, 30])]
    step = second_step(work, [15, 15, 35], 36, [10, 10, 30])
    assert (
        list(step.sentences())[1] == "Rank 2 began the step 20.0 ms after the first rank, the others 0.0 ms."
    )


@pytest.mark.slow("a rarer case of who waited for whom, which is quick")
def test_a_wait_that_no_operation_explains_is_not_explained() -> None:
    work = [row(r, name, at, at + 1) for r in (0, 1) for at, name in enumerate("abcd", 10)]
    longer = [row(2, name, 10 + 2 * at, 12 + 2 * at) for at, name in enumerate("abcd")]
    step = second_step([*work, *longer], [14, 14, 18], 19, [10] * 3)
    assert list(step.sentences()) == ["Ranks 0 and 1 waited 4.0 ms each for rank 2."]


def test_a_wait_for_a_rank_that_is_still_in_a_transfer_is_one_for_transfers() -> None:
    step = second_step([], [10, 20], 21, [10, 20])
    assert list(step.sentences()) == [
        "Rank 0 waited 10.0 ms for transfers between others.",
        "Rank 1 began the step 10.0 ms after the first rank, the other 0.0 ms.",
    ]


def test_where_nobody_waited_it_is_said_how_long_at_most() -> None:
    step = second_step([], [20, 20.1, 20.1], 30, [10, 10, 10])
    assert list(step.sentences()) == ["In this step no rank waited more than 0.1 ms for another."]


@pytest.mark.slow("a rarer case of a step in which nobody waited, which is quick")
def test_where_a_wait_is_too_short_to_be_shown_nobody_is_said_to_have_waited() -> None:
    step = second_step([], [20, 20.01, 20.01], 30, [10, 10, 10])
    assert list(step.sentences()) == ["In this step no rank waited for another."]


@pytest.mark.slow("whom the sentence names where some are named is quick")
def test_where_nobody_is_named_no_named_rank_is_said_to_be_drawn() -> None:
    (said,) = pictured(data_parallel(factors(20, 40, noise=0.02))).on_ranks_left_out()
    assert said.startswith("Of 40 ranks 3 are drawn: one that waited least")


def test_of_many_ranks_the_named_ones_are_drawn_and_three_others_and_the_rest_is_summed_up() -> None:
    factor = factors(20, 40, noise=0.02)
    factor[:, 7] *= 2
    step = pictured(data_parallel(factor), (7,))
    assert len(step.ranks) == 4
    assert 7 in step.ranks
    assert set(step.stretches["rank"]) == set(step.ranks)
    (said,) = step.on_ranks_left_out()
    assert said.startswith("Of 40 ranks 4 are drawn: those that the verdict names, and of the others one")
    waits = [float(word) for word in said.split("The other 36 waited ")[1].split() if word[0].isdigit()]
    assert 30 < waits[0] < waits[1] < 45


@pytest.fixture(scope="module")
def of_three_ranks() -> PicturedStep:
    work = [row(0, "load", 10, 12), row(1, "load", 10, 11), row(1, "look", 11, 13), row(2, "load", 10, 30)]
    return second_step(work, [12, 14, 30], 31, [10, 10, 10])


def test_the_text_has_a_letter_for_each_operation_and_says_for_whom_a_rank_waits(
    of_three_ranks: PicturedStep,
) -> None:
    text = step_text(of_three_ranks, 72)
    lines = text.splitlines()
    assert lines[0] == "A typical slow step: iteration 1, 21.0 ms"
    assert lines[1].startswith("rank 0  llllll//////")
    assert "/ 18.0 ms for rank 2 /" in lines[1]
    assert lines[2].startswith("rank 1  lllooo")
    assert lines[3].startswith("rank 2  llllllllllll")
    assert lines[4] == "l load, o look, . not timed, = transfer, / waiting"
    assert text.isascii()


def test_no_line_is_wider_than_the_terminal(of_three_ranks: PicturedStep) -> None:
    for width in (60, 100, 140):
        assert max(map(len, step_text(of_three_ranks, width).splitlines())) <= width


def test_what_takes_long_on_all_ranks_explains_no_wait() -> None:
    work = [row(rank, "load", 10, 60) for rank in range(3)]
    work += [row(0, "augment", 60, 62), row(1, "augment", 60, 61), row(2, "augment", 60, 80)]
    step = second_step(work, [62, 61, 80], 81, [10, 10, 10])
    assert list(step.sentences())[1] == "Rank 2 spent 20.0 ms in augment, the others 1.0 to 2.0 ms."
