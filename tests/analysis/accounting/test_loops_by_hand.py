"""Loops of the account by hand: which interval has each instant, and when a program's nodes are left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from timing_logger.analysis.accounting.loops import (
    TRANSFER,
    UNKNOWN,
    Order,
    innermost,
    played_one_by_one,
    ranked,
)

Span = tuple[float, float]
Piece = tuple[float, float, int]


def pieces(*spans: Span, holding: Sequence[int] = ()) -> list[Piece]:
    """Return start, end and the number of the interval of each piece of a line, those that go on as one."""
    start_s, end_s = (np.array(column, np.float64) for column in zip(*spans, strict=True))
    holds = np.isin(np.arange(len(spans)), holding)
    found: list[Piece] = []
    for begin, end, owner in zip(
        *(column.tolist() for column in innermost(start_s, end_s, holds)), strict=True
    ):
        goes_on = found and found[-1][1:] == (begin, owner)
        found.append((found.pop()[0] if goes_on else begin, end, owner))
    return found


@pytest.mark.parametrize("spans", [[(0.0, 1.0)], [(0.0, 2.0), (2.0, 4.0)], [(0.0, 1.0), (3.0, 4.0)]])
def test_intervals_that_do_not_overlap_are_one_piece_each(spans: list[Span]) -> None:
    assert pieces(*spans) == [(*span, number) for number, span in enumerate(spans)]


def test_no_intervals_have_no_pieces() -> None:
    none = np.zeros(0)
    assert [len(column) for column in innermost(none, none, np.zeros(0, np.bool_))] == [0, 0, 0]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(0, 10), (2, 5)], [(0, 2, 0), (2, 5, 1), (5, 10, 0)]),
        ([(0, 10), (2, 8), (3, 4)], [(0, 2, 0), (2, 3, 1), (3, 4, 2), (4, 8, 1), (8, 10, 0)]),
        ([(0, 10), (2, 3), (3, 4)], [(0, 2, 0), (2, 3, 1), (3, 4, 2), (4, 10, 0)]),
        ([(0, 5), (2, 5)], [(0, 2, 0), (2, 5, 1)]),
        ([(0, 5), (0, 3)], [(0, 3, 1), (3, 5, 0)]),
        ([(0, 4), (2, 6)], [(0, 2, 0), (2, 6, 1)]),
        ([(0, 4), (2, 6), (5, 9)], [(0, 2, 0), (2, 5, 1), (5, 9, 2)]),
    ],
)
def test_an_instant_is_of_the_interval_that_began_last(spans: list[Span], expected: list[Piece]) -> None:
    assert pieces(*spans) == expected


def test_intervals_alone_stay_whole_among_those_that_overlap_and_gaps_are_of_none() -> None:
    found = pieces((0, 1), (2, 6), (3, 4), (7, 8), (10, 12), (11, 12))
    assert found == [(0, 1, 0), (2, 3, 1), (3, 4, 2), (4, 6, 1), (7, 8, 3), (10, 11, 4), (11, 12, 5)]


@pytest.mark.parametrize(
    ("spans", "holding", "expected"),
    [
        ([(4, 8), (5, 7)], [0], [(4, 8, 0)]),
        ([(4, 8), (5, 10)], [0], [(4, 8, 0), (8, 10, 1)]),
        ([(0, 10), (1, 5), (2, 7)], [1], [(0, 1, 0), (1, 5, 1), (5, 7, 2), (7, 10, 0)]),
        ([(0, 10), (1, 5), (2, 3)], [1], [(0, 1, 0), (1, 5, 1), (5, 10, 0)]),
        ([(0, 10), (1, 5), (5, 7)], [1], [(0, 1, 0), (1, 5, 1), (5, 7, 2), (7, 10, 0)]),
        ([(0, 10), (1, 5)], [1], [(0, 1, 0), (1, 5, 1), (5, 10, 0)]),
    ],
)
def test_what_holds_the_line_keeps_its_time(
    spans: list[Span], holding: list[int], expected: list[Piece]
) -> None:
    assert pieces(*spans, holding=holding) == expected


def test_what_stands_in_place_of_a_line_is_the_number_of_none() -> None:
    assert len({TRANSFER, UNKNOWN}) == 2
    assert max(TRANSFER, UNKNOWN) < 0


# -- a program that is played ------------------------------------------------------------------------------

Lists = list[list[int]]


def ragged(lists: Lists) -> tuple[list[int], list[int]]:
    ends = np.cumsum([0, *map(len, lists)]).tolist()
    return ends, [one for of_node in lists for one in of_node]


def played(
    turns: list[int],
    gives: Lists,
    needs: Lists,
    *,
    own_s: list[float],
    took_s: list[float],
    before: list[int] | None = None,
    late_s: list[float] | None = None,
    now_s: list[float] | None = None,
) -> tuple[list[float], list[float]]:
    """Play nodes of two lines, the even ones of the first; meetings in ``turns`` are counted from the end."""
    n = len(own_s)
    slot = [node % 2 for node in range(n)]
    order = Order(turns, slot, before or [-1] * len(took_s), ragged(gives), ragged(needs))
    return played_one_by_one(order, now_s or [0.0, 0.0], own_s, took_s, late_s or [0.0] * n)


def test_who_needs_a_meeting_leaves_when_the_last_that_gives_has_come_and_it_took_its_time() -> None:
    found = played(
        [0, 1, -1, 2, 3], [[0], [0], [], []], [[], [], [0], [0]], own_s=[3.0, 5.0, 1.0, 9.0], took_s=[2.0]
    )
    assert found == ([3.0, 5.0, 7.0, 14.0], [7.0])


def test_a_meeting_of_the_first_to_give_is_not_done_earlier_than_the_last() -> None:
    found = played([1, 0, -1], [[0], [0]], [[], []], own_s=[3.0, 5.0], took_s=[2.0])
    assert found == ([3.0, 5.0], [7.0])


def test_a_node_is_late_by_itself_after_all_that_it_needs() -> None:
    found = played(
        [0, -1, 1, 3], [[0], [], [], []], [[], [0], [], []],
        own_s=[3.0, 1.0, 0.0, 1.0], took_s=[2.0], late_s=[0.0, 0.5, 0.0, 0.25],
    )  # fmt: skip
    assert found == ([3.0, 5.5, 0.0, 6.75], [5.0])


def test_a_meeting_begins_when_the_one_before_it_is_done_if_that_is_later() -> None:
    turns: list[int] = [0, -2, 1, -1]
    gives: Lists = [[0], [1]]
    needs: Lists = [[], []]
    soon = played(turns, gives, needs, own_s=[3.0, 1.0], took_s=[2.0, 4.0], before=[-1, 0])
    assert soon == ([3.0, 1.0], [5.0, 9.0])
    later = played(turns, gives, needs, own_s=[3.0, 7.0], took_s=[2.0, 4.0], before=[-1, 0])
    assert later == ([3.0, 7.0], [5.0, 11.0])


def test_lines_go_on_from_where_they_are() -> None:
    now_s = [10.0, 20.0]
    found = played([0, 1], [[], []], [[], []], own_s=[1.0, 2.0], took_s=[], now_s=now_s)
    assert found == ([11.0, 22.0], [])
    assert now_s == [11.0, 22.0]


def test_where_lines_wait_for_each_other_one_goes_on_and_all_others_follow_what_they_need() -> None:
    """Line 5 had to wait for line 0, and gives to meeting 1 once; lines 3 and 4 wait for each other."""
    line = [0, 1, 1, 2, 3, 3, 3, 3, 3, 4, 4, 5, 5]
    gives: Lists = [[0], [], [4], [], [], [], [], [], [1, 3], [], [2], [], [1]]
    needs: Lists = [[], [1], [], [4], [2], [], [], [], [], [3], [], [0], []]
    end_s = [9.0, 4.0, 9.0, 3.0, 2.0, 9.0, 9.0, 9.0, 9.0, 5.0, 9.0, 1.0, 9.0]
    of_node, of_meeting = ranked(line, ragged(gives), ragged(needs), [-1] * 5, end_s)
    assert of_node == [1, 7, 8, 10, 1, 2, 3, 4, 5, 7, 8, 3, 4]
    assert of_meeting == [2, 6, 9, 6, 9]
