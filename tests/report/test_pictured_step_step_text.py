"""The picture of a step in ASCII: a lane for each rank, letters for what it did, and who waited."""

from __future__ import annotations

from math import nan
from typing import Any

import pandas as pd
import pytest

from timing_logger.report.pictured_step import PicturedStep, step_text
from timing_logger.results.plain import ShownStep

NO_WAITS = pd.DataFrame({"rank": [], "waited_for": [], "ms": []}, dtype=float)


def stretch(
    rank: int, operation: str, start_ms: float, end_ms: float, what: str = "own work", waited_for: Any = nan
) -> dict[str, Any]:
    return {
        "rank": rank, "operation": operation, "what": what, "start_ms": start_ms, "end_ms": end_ms,
        "waited_for": waited_for,
    }  # fmt: skip


def lines_of(*stretches: dict[str, Any], width: int = 28) -> list[str]:
    """Return the lines of a picture: by default there are 20 letters for a step of ranks below 10."""
    ranks = sorted({one["rank"] for one in stretches})
    step = ShownStep(7, nan, False, len(ranks), ranks, pd.DataFrame(list(stretches)), NO_WAITS)
    return step_text(step, width).splitlines()


def test_what_a_rank_did_has_the_place_and_the_length_that_it_had() -> None:
    title, lane, legend, *_ = lines_of(stretch(0, "load", 0, 5), stretch(0, "fwd", 7.5, 10))
    assert title == "A typical step: iteration 7, 10.0 ms"
    assert lane == "rank 0  llllllllll     fffff"
    assert legend == "l load, f fwd"


def test_lanes_begin_below_each_other_however_long_a_rank_is() -> None:
    _, first, second, *_ = lines_of(stretch(5, "a", 0, 10), stretch(12, "a", 0, 10), width=19)
    assert (first, second) == ("rank 5   aaaaaaaaaa", "rank 12  aaaaaaaaaa")


@pytest.mark.parametrize(
    ("what", "letter"), [("not timed", "."), ("transfer", "="), ("waiting", "/"), ("not matched", "?")]
)
def test_what_is_not_own_work_has_a_sign_and_a_word(what: str, letter: str) -> None:
    _, lane, legend, *_ = lines_of(stretch(0, "", 0, 5, what), stretch(0, "load", 5, 10))
    assert lane == f"rank 0  {letter * 10}llllllllll"
    assert legend == f"l load, {letter} {what}"


def test_an_operation_whose_letters_are_taken_is_other_work() -> None:
    work = [stretch(0, "ab", 0, 4), stretch(0, "_aba", 4, 7), stretch(0, "a_", 7, 9), stretch(0, "é", 9, 10)]
    _, lane, legend, *_ = lines_of(*work, width=48)
    assert lane == f"rank 0  {'a' * 16}{'b' * 12}{'+' * 12}"
    assert legend == "a ab, b _aba, + other own work"


def test_the_eight_operations_with_most_time_have_letters() -> None:
    work = [
        stretch(0, name, 10 * at, 10 * at + (5 if at == 0 else 10)) for at, name in enumerate("abcdefghi")
    ]
    _, lane, legend, *_ = lines_of(*work, width=99)
    assert legend == "b b, c c, d d, e e, f f, g g, h h, i i, + other own work"
    assert lane.startswith("rank 0  +++++ ")
    _, _, legend, *_ = lines_of(*work[1:], width=99)
    assert legend == "b b, c c, d d, e e, f f, g g, h h, i i"


def test_a_wait_says_how_long_and_for_whom_where_it_has_room() -> None:
    told = " 10.0 ms for rank 3 "  # 20 letters, and one on each side
    wide, narrow = (
        lines_of(stretch(0, "BARRIER", 0, 10, "waiting", 3), width=8 + width)[1] for width in (25, 21)
    )
    assert wide == f"rank 0  //{told}///"
    assert narrow == f"rank 0  {'/' * 21}"
    assert lines_of(stretch(0, "BARRIER", 0, 10, "waiting", 3), width=30)[1] == f"rank 0  /{told}/"


def test_a_wait_for_nobody_that_is_known_names_nobody() -> None:
    assert lines_of(stretch(0, "BARRIER", 0, 10, "waiting"), width=48)[1] == f"rank 0  {'/' * 40}"


def test_only_a_wait_says_for_whom_it_was() -> None:
    assert lines_of(stretch(0, "x", 0, 10, "transfer", 3), width=48)[1] == f"rank 0  {'=' * 40}"


def test_below_the_picture_it_is_said_who_waited() -> None:
    *_, last = lines_of(stretch(0, "load", 0, 10), width=99)
    assert last == "In this step no rank waited for another."


def told_of(
    waits: pd.DataFrame, *stretches: dict[str, Any], n_ranks: int = 2, epoch: float = nan
) -> list[str]:
    ranks = sorted({one["rank"] for one in stretches})
    picture = PicturedStep(7, nan, False, n_ranks, ranks, pd.DataFrame(list(stretches)), waits)
    return [*picture.sentences(), *picture.on_ranks_left_out()]


def waits_of(*waits: tuple[int, int, float]) -> pd.DataFrame:
    return pd.DataFrame(list(waits), columns=["rank", "waited_for", "ms"])


BOTH = stretch(0, "load", 0, 100), stretch(1, "load", 0, 100)


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (2.0, "Rank 0 waited 2.0 ms for rank 1."),
        (1.9, "In this step no rank waited more than 1.9 ms for another."),
    ],
)
def test_a_wait_of_a_fiftieth_of_the_step_is_told(ms: float, said: str) -> None:
    assert told_of(waits_of((0, 1, ms)), *BOTH) == [said]


@pytest.mark.parametrize(
    ("ms", "told"), [(20.0, ["Rank 1 spent 60.0 ms in load, the other 50.0 ms."]), (20.1, [])]
)
def test_what_lasted_longer_by_half_of_the_wait_explains_it(ms: float, told: list[str]) -> None:
    _, *why = told_of(waits_of((0, 1, ms)), stretch(0, "load", 0, 50), stretch(1, "load", 0, 60))
    assert why == told


def test_what_a_rank_that_is_not_drawn_did_meanwhile_is_not_told() -> None:
    assert told_of(waits_of((0, 7, 50.0)), *BOTH) == ["Rank 0 waited 50.0 ms for rank 7."]


def test_time_in_no_row_explains_a_wait_as_work_does() -> None:
    lanes = stretch(0, "", 0, 10, "not timed"), stretch(1, "", 0, 60, "not timed")
    assert told_of(waits_of((0, 1, 50.0)), *lanes) == [
        "Rank 0 waited 50.0 ms for rank 1.",
        "Rank 1 spent 60.0 ms in code that no row times, the other 10.0 ms.",
    ]


def test_ranks_that_are_not_drawn_and_did_not_wait_count_with_no_time() -> None:
    waits = waits_of((0, 1, 1.0), (5, 1, 1.5))
    assert told_of(waits, *BOTH, n_ranks=3)[-1].endswith("The other 1 waited 1.5 ms in this step.")
    assert told_of(waits, *BOTH, n_ranks=4)[-1].endswith("The other 2 waited 0.0 to 1.5 ms in this step.")


def test_the_epoch_of_a_step_is_told_where_there_is_one() -> None:
    step = ShownStep(7, 3.0, True, 1, [0], pd.DataFrame([BOTH[0]]), NO_WAITS)
    assert PicturedStep(*step).title == "A typical slow step: iteration 7 of epoch 3"
