"""How far clocks are apart, as the rows of collectives and messages tell it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from account_rows import Row, row, table

from timing_logger.analysis.accounting.axis import _ahead, _by_messages, _by_pair
from timing_logger.analysis.accounting.part import map_communication
from timing_logger.analysis.accounting.run import joined_rows, met, tied_rows
from timing_logger.analysis.accounting.ties import OneAxis
from timing_logger.analysis.collectives.messages import Messages
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.arrays import processes_of
from timing_logger.analysis.rows.tables import opened

Way = tuple[int, int, float, float]
"""A message: the clocks of its sender and receiver, when it was sent, and when it had come."""


def by_messages(*messages: Way) -> list[tuple[int, int, float]]:
    sender, receiver, sent_s, came_s = (np.array(column) for column in zip(*messages, strict=True))
    n, unknown = len(messages), np.full(len(messages), math.nan)
    rows = Messages(np.arange(n), n + np.arange(n))
    start_s, end_s = np.append(sent_s, unknown), np.append(unknown, came_s)
    found = _by_messages(start_s, end_s, np.append(sender, receiver), rows)
    return [(*pair, ahead_s) for pair, ahead_s in found]


def test_messages_both_ways_tell_how_far_one_clock_is_ahead_of_the_other() -> None:
    assert by_messages((0, 1, 1.0, 11.5), (1, 0, 12.0, 2.5)) == [(0, 1, pytest.approx(10.0))]


def test_the_quickest_message_of_each_way_tells_it() -> None:
    slow = (0, 1, 3.0, 19.0), (1, 0, 30.0, 27.0)
    assert by_messages(*slow, (0, 1, 1.0, 11.5), (1, 0, 12.0, 2.5)) == [(0, 1, pytest.approx(10.0))]


def test_messages_one_way_or_of_one_clock_tell_nothing() -> None:
    assert by_messages((0, 1, 1.0, 11.5), (2, 0, 1.0, 3.0), (3, 3, 1.0, 2.0)) == []


def test_of_each_pair_of_clocks_all_counts_but_what_is_unknown() -> None:
    one, other = np.array([0, 0, 0, 1, 2, 0]), np.array([1, 1, 1, 2, 2, 1])
    seconds = np.array([1.0, 5.0, 2.0, 7.0, 9.0, math.nan])
    found = [(pair, its.tolist()) for pair, its in _by_pair(one, other, seconds)]
    assert found == [((0, 1), [1.0, 5.0, 2.0]), ((1, 2), [7.0])]
    assert list(_by_pair(one[:0], other[:0], seconds[:0])) == []


def test_clocks_are_compared_through_others_and_those_that_nothing_compares_stay_as_they_are() -> None:
    compared = {3: {1: 2.0}, 1: {3: -2.0, 0: -5.0}, 0: {1: 5.0}, 2: {4: 1.5}, 4: {2: -1.5}}
    ahead_s, clocks = _ahead(np.array([0, 1, 2, 3, 4, 5, 3]), compared)
    assert ahead_s == pytest.approx([0.0, 5.0, 0.0, 3.0, 1.5, 0.0, 3.0])
    assert clocks.tolist() == [0, 0, 2, 0, 2, 5, 0]


def on_axis(*rows: Row, uncertainty_s: float) -> OneAxis:
    frame = opened(table(*rows, uncertainty_s=uncertainty_s), COLUMNS_OF["account"])
    calls, lines = joined_rows([map_communication(frame, processes_of(frame), np.full(len(frame), -1))])
    return tied_rows(met(calls, lines, None, None)).axis


@pytest.mark.parametrize(("uncertainty_ms", "n_early", "is_contradicted"), [
    (1.4, 3, True), (1.6, 3, False), (1.4, 2, False), (math.nan, 0, True),
])  # fmt: skip
def test_a_clock_is_as_it_is_stated_unless_its_rank_mostly_left_before_another_had_come(
    uncertainty_ms: float, n_early: int, is_contradicted: bool
) -> None:
    """Of four calls rank 0 leaves so many 3 ms before rank 1 comes, by clocks that are both so uncertain."""
    rows = []
    for seq in range(4):
        of, at_ms = {"group_size": 2, "seq": seq}, 100.0 * seq
        rows.append(row(0, "ALLREDUCE", at_ms, at_ms + (7.0 if seq < n_early else 12.0), **of))
        rows.append(row(1, "ALLREDUCE", at_ms + 10.0, at_ms + 12.0, **of))
    assert on_axis(*rows, uncertainty_s=uncertainty_ms / 1e3).by_rows is is_contradicted


PAIR = {"group_size": 2}


@pytest.mark.parametrize(("came_ms", "is_contradicted"), [(10.0, False), (10.5, True)])
def test_a_rank_may_leave_at_the_very_instant_in_which_another_comes(
    came_ms: float, is_contradicted: bool
) -> None:
    rows = row(0, "ALLREDUCE", 0.0, 10.0, **PAIR), row(1, "ALLREDUCE", came_ms, 12.0, **PAIR)
    assert on_axis(*rows, uncertainty_s=0.0).by_rows is is_contradicted


def test_calls_that_let_some_go_before_others_come_do_not_speak_for_a_clock() -> None:
    rows = [row(0, "ALLREDUCE", 0.0, 7.0, **PAIR), row(1, "ALLREDUCE", 10.0, 12.0, **PAIR)]
    for seq in range(1, 4):
        rows += [
            row(rank, "BCAST", 20.0 * seq, 20.0 * seq + 1, peer=0, group_size=2, seq=seq) for rank in (0, 1)
        ]
    assert on_axis(*rows, uncertainty_s=0.0).by_rows


def test_clocks_that_were_not_measured_are_compared_by_the_ends_of_collectives_in_either_direction() -> None:
    """The clocks of ranks 1 and 2 are 5 s and 2 s ahead of that of rank 0, which has met rank 2 alone."""
    ahead_ms = {0: 0.0, 1: 5000.0, 2: 2000.0}
    calls = [("a", 0, 10.0), ("a", 2, 10.0), ("b", 1, 20.0), ("b", 2, 20.0)]
    rows = [
        row(
            rank, "ALLREDUCE", end_ms + ahead_ms[rank] - 1, end_ms + ahead_ms[rank], group=group, group_size=2
        )
        for group, rank, end_ms in calls
    ]
    found = on_axis(*rows, uncertainty_s=math.nan)
    assert found.frame["end_s"].to_list() == pytest.approx([0.01, 0.01, 0.02, 0.02])
    assert found.frame["start_s"].to_list() == pytest.approx([0.009, 0.009, 0.019, 0.019])
    assert found.frame["clock_uncertainty_s"].to_list() == [0.0] * 4
    assert len(set(found.clocks.tolist())) == 1


def test_without_collectives_messages_both_ways_compare_the_clocks() -> None:
    there = [row(0, "SEND", 1.0, 1.1, peer=1, **PAIR), row(1, "RECV", 5001.0, 5001.5, peer=0, **PAIR)]
    back = [row(1, "SEND", 5002.0, 5002.1, peer=0, **PAIR), row(0, "RECV", 2.0, 2.5, peer=1, **PAIR)]
    found = on_axis(*there, *back, uncertainty_s=math.nan)
    assert found.frame["start_s"].to_list() == pytest.approx([0.001, 0.001, 0.002, 0.002])
