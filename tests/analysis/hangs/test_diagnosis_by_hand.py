"""How a run ended, and which calls of the set-up did not, of rows and last words that are made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from endings import END_S, ended, ending, ns, row, words

from timing_logger.analysis.hangs.diagnosis import _lives, _state, stuck_set_up

CLOSED, OPEN, KILLED, UNKNOWN = {"closed": True}, {"closed": False}, {"killed": True}, {"closed": None}


@pytest.mark.parametrize(
    ("ranks", "failed", "after_s", "state"),
    [
        ([CLOSED, CLOSED], False, None, "ended"), ([CLOSED, CLOSED], True, None, "failed"),
        ([CLOSED, UNKNOWN], False, None, "ended"), ([UNKNOWN, UNKNOWN], True, None, "unknown"),
        ([CLOSED, OPEN], True, None, "unfinished"), ([CLOSED, OPEN], True, 29.0, "running"),
        ([CLOSED, OPEN], True, 30.0, "unfinished"), ([CLOSED, KILLED], False, 0.0, "unfinished"),
        ([KILLED, OPEN], False, 0.0, "running"),
    ],
)  # fmt: skip
def test_how_a_run_ended_is_told_by_what_its_ranks_said_last(
    ranks: list[dict[str, Any]], failed: bool, after_s: float | None, state: str
) -> None:
    of = ending(said=tuple(words(rank, **one) for rank, one in enumerate(ranks)))
    now_unix_s = None if after_s is None else END_S + after_s
    assert _state(of, False, failed, now_unix_s) == state
    assert _state(of, True, failed, now_unix_s) == "hang"


def test_a_call_of_the_set_up_that_did_not_end_is_stuck_and_lacks_who_did_not_enter_it() -> None:
    of_set_up = {"group": "", "layer_name": "", "seq": 1.0}
    of = ending(
        row(0, "MPI_INIT", 100.0, **of_set_up), row(2, "MPI_INIT", 110.0, **of_set_up),
        ended(1, "MPI_INIT", 90.0, **{**of_set_up, "seq": 0.0}), ended(0), n_ranks=3,
    )  # fmt: skip
    (found,) = stuck_set_up(of, 4)
    assert (found.operation, found.seq, found.group_size, found.group) == ("MPI_INIT", 1, 4, "")
    assert (found.inside, found.missing, found.unread) == ((0, 2), (1,), (3,))
    assert (found.inside_s, found.since_s, found.hangs) == ({0: 100.0, 2: 90.0}, 100.0, True)


def test_who_is_in_a_later_call_of_the_set_up_has_passed_this_one() -> None:
    of_set_up = {"group": "", "layer_name": "", "group_size": 2.0}
    of = ending(
        row(0, "MPI_INIT", **of_set_up, seq=0.0), ended(1, "MPI_INIT", **{**of_set_up, "seq": 3.0}), n_ranks=2
    )
    (found,) = stuck_set_up(of, None)
    assert (found.seq, found.group_size, found.missing) == (None, 2, ())


def test_a_set_up_of_which_every_call_ended_is_not_stuck() -> None:
    assert list(stuck_set_up(ending(ended(0, "MPI_INIT"), row(1)), 2)) == []


@pytest.mark.parametrize(
    ("ranks", "after_s", "lives"),
    [
        ([CLOSED, OPEN], 29.0, True), ([CLOSED, OPEN], 30.0, False),
        ([CLOSED, OPEN], None, False), ([CLOSED, KILLED, UNKNOWN], 0.0, False), ([KILLED, OPEN], 0.0, True),
        ([{"updated_ns": ns(END_S - 50)}, OPEN], 0.0, True), ([{"updated_ns": ns(END_S - 50)}], 0.0, False),
    ],
)  # fmt: skip
def test_a_run_lives_while_a_process_that_neither_closed_nor_was_killed_was_seen_lately(
    ranks: list[dict[str, Any]], after_s: float | None, lives: bool
) -> None:
    of = ending(said=tuple(words(rank, **one) for rank, one in enumerate(ranks)))
    assert _lives(of, None if after_s is None else END_S + after_s) is lives
