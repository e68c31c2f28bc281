"""Who waits for whom where rows meet: the last that is needed, and senders that are held."""

from __future__ import annotations

import numpy as np
import pytest
from account_rows import row, table

from timing_logger.analysis.accounting.ties import NOBODY, Ties, needs_of, senders_are_held, ties_of
from timing_logger.analysis.collectives.matching import find_instances
from timing_logger.analysis.collectives.messages import Messages
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.tables import opened

Tie = tuple[int, int, bool, bool]
"""The row, the meeting, whether it gives, and whether it needs."""


def needs(ties: list[Tie], start_s: list[float]) -> list[tuple[float, int]]:
    """Until when each row waited, -1 if that is unknown, and for which row."""
    columns = [np.array(column, kind) for column, kind in zip(
        zip(*ties, strict=True) if ties else [()] * 4, (np.int64, np.int64, bool, bool), strict=True
    )]  # fmt: skip
    found = needs_of(Ties._make(columns), np.array(start_s))
    return list(zip(np.nan_to_num(found.until_s, nan=-1.0).tolist(), found.row.tolist(), strict=True))


def test_a_row_waits_until_the_last_has_come_that_gives() -> None:
    ties = [(0, 0, True, True), (1, 0, True, True), (2, 0, True, True), (3, 0, False, True)]
    assert needs(ties, [1.0, 4.0, 2.0, 6.0]) == [(4.0, 1)] * 4


def test_a_row_that_needs_nobody_goes_on_at_once_and_of_one_without_ties_nothing_is_known() -> None:
    ties = [(0, 0, True, False), (1, 0, False, True), (2, 1, False, True)]
    assert needs(ties, [5.0, 1.0, 3.0, 2.0]) == [(5.0, NOBODY), (5.0, 0), (3.0, NOBODY), (-1.0, NOBODY)]
    assert needs([], [5.0]) == [(-1.0, NOBODY)]


def test_a_row_of_several_meetings_waits_for_the_last_in_any_of_them() -> None:
    ties = [(0, 0, False, True), (0, 1, False, True), (1, 0, True, False), (2, 1, True, False)]
    assert needs(ties, [0.0, 9.0, 4.0])[0] == (9.0, 1)
    assert needs(ties, [0.0, 4.0, 9.0])[0] == (9.0, 2)


def held(*late_us: float, released: int | None = None, operations: tuple[str, ...] = ()) -> list[bool]:
    """Tell of messages, whose receivers come so much later than their senders, whether these are held.

    Senders leave when the receivers have come, but for as many of the last as are ``released`` at once.
    """
    rows, n = [], len(late_us)
    for i, us in enumerate(late_us):
        begin_ms, came_ms = 10.0 * i, 10.0 * i + us / 1e3
        is_free = released is not None and i >= n - released
        name = operations[i] if operations else "SEND"
        rows.append(row(0, name, begin_ms, begin_ms + 0.001 if is_free else came_ms + 1.0, peer=1))
        rows.append(row(1, "RECV", came_ms, came_ms + 1.0, peer=0))
    frame = opened(table(*rows), COLUMNS_OF["account"])
    start_s, end_s = (frame[name].to_numpy() for name in ("start_s", "end_s"))
    every = np.arange(n)
    return senders_are_held(frame, Messages(2 * every, 2 * every + 1), start_s, end_s).tolist()


@pytest.mark.parametrize(("late_us", "is_held"), [(51.0, True), (49.0, False), (-500.0, False)])
def test_a_receiver_shows_whether_its_sender_is_held_if_it_comes_50_us_later(
    late_us: float, is_held: bool
) -> None:
    assert held(late_us) == [is_held]


def test_a_sender_that_leaves_before_its_receiver_comes_is_free() -> None:
    assert held(1000.0, released=1) == [False]


@pytest.mark.parametrize(("n_free", "are_held"), [(1, True), (2, False), (3, False)])
def test_senders_of_a_pair_are_held_if_more_than_half_of_them_are_seen_to_be(
    n_free: int, are_held: bool
) -> None:
    assert held(*[1000.0] * 4, released=n_free) == [are_held] * 4


def test_a_sender_that_leaves_at_the_instant_in_which_its_receiver_comes_is_held() -> None:
    frame = opened(table(row(0, "SEND", 0, 5, peer=1), row(1, "RECV", 5, 6, peer=0)), COLUMNS_OF["account"])
    start_s, end_s = (frame[name].to_numpy() for name in ("start_s", "end_s"))
    assert senders_are_held(frame, Messages(np.array([0]), np.array([1])), start_s, end_s).tolist() == [True]


def test_what_one_message_shows_is_so_for_others_of_its_pair_and_operation() -> None:
    assert held(1000.0, -500.0) == [True, True]
    assert held(1000.0, -500.0, operations=("SEND", "BSEND")) == [True, False]


def test_no_messages_hold_nobody() -> None:
    frame = opened(table(row(0, "SEND", 0.0, 1.0)), COLUMNS_OF["account"])
    none = np.zeros(0, np.int64)
    assert len(senders_are_held(frame, Messages(none, none), np.zeros(1), np.ones(1))) == 0


def ties_beside_messages(operation: str, *spans_ms: tuple[float, float], root: int | None = 0) -> list[Tie]:
    """Return the ties of a rooted collective of ranks 0 to 2 beside three messages."""
    rows = [row(rank, operation, *span, group_size=3, peer=root) for rank, span in enumerate(spans_ms)]
    for i in range(3):
        rows += [row(1, "SEND", 50 + i, 51 + i, peer=2, seq=i), row(2, "RECV", 50 + i, 51 + i, peer=1, seq=i)]
    frame = opened(table(*rows), COLUMNS_OF["account"])
    sends = 3 + 2 * np.arange(3)
    ties = ties_of(frame, find_instances(frame), Messages(sends, sends + 1))
    found: list[Tie] = list(zip(*(column.tolist() for column in ties), strict=True))
    return [tie for tie in found if tie[0] < 3]


def test_who_is_held_in_a_collective_is_so_in_a_meeting_of_its_own_after_those_of_messages() -> None:
    gives, needs = (True, False), (False, True)
    # rank 1 leaves when the root has come, and before rank 2 comes: not everybody is held
    assert ties_beside_messages("GATHER", (20, 31), (10, 21), (30, 31)) == [
        (0, 0, *needs), (1, 0, *gives), (2, 0, *gives), (0, 4, *gives), (1, 4, *needs), (2, 4, *needs)
    ]  # fmt: skip


def test_who_leaves_at_the_instant_in_which_the_root_comes_was_held_by_it() -> None:
    assert (1, 4, False, True) in ties_beside_messages("GATHER", (20, 31), (10, 20), (30, 31))
    assert (1, 4, False, True) not in ties_beside_messages("GATHER", (20, 31), (10, 19.5), (30, 31))


def test_where_half_of_those_who_give_were_held_by_the_root_nobody_is_taken_to_be() -> None:
    ties = ties_beside_messages("GATHER", (20, 31), (10, 21), (10, 11))
    assert {meeting for _, meeting, _, _ in ties} == {0}


@pytest.mark.parametrize("operation", ["BCAST", "GATHER"])
@pytest.mark.parametrize("root", [None, 7], ids=["unknown", "without a row"])
def test_without_a_row_of_its_root_a_rooted_collective_does_not_tell_who_is_needed(
    operation: str, root: int | None
) -> None:
    assert ties_beside_messages(operation, (20, 20.5), (10, 11), (30, 31), root=root) == []


@pytest.mark.parametrize(("late_us", "everybody"), [(49.0, False), (51.0, True)])
def test_a_rooted_collective_holds_everybody_if_some_came_50_us_before_the_last_and_nobody_left_before(
    late_us: float, everybody: bool
) -> None:
    late_ms = late_us / 1e3
    ties = ties_beside_messages("GATHER", (10, 12), (10, 12), (10 + late_ms, 12))
    needing = {at for at, _, _, needs in ties if needs}
    assert needing == ({0, 1, 2} if everybody else {0})


def test_who_left_less_than_50_us_before_the_last_came_may_have_been_held_by_it() -> None:
    ties = ties_beside_messages("GATHER", (10, 12), (10, 11.96), (12, 13))
    assert {at for at, _, _, needs in ties if needs} == {0, 1, 2}


def test_a_wait_needs_what_its_operation_needs_and_lets_nobody_go() -> None:
    rows = [row(rank, "IALLREDUCE", rank, 9, group_size=2) for rank in (0, 1)]
    frame = opened(table(*rows, row(0, "WAIT", 2, 9, group_size=2)), COLUMNS_OF["account"])
    none = np.zeros(0, np.int64)
    ties = ties_of(frame, find_instances(frame), Messages(none, none))
    assert list(zip(*(column.tolist() for column in ties), strict=True)) == [
        (0, 0, True, True), (1, 0, True, True), (2, 0, False, True)
    ]  # fmt: skip
