"""How far clocks are apart, as the rows of collectives and messages tell it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from timing_logger.analysis.accounting.axis import _ahead, _by_messages, _medians
from timing_logger.analysis.collectives.messages import Messages

Way = tuple[int, int, float, float]
"""A message: the clocks of its sender and receiver, when it was sent, and when it had come."""


def by_messages(*messages: Way) -> list[tuple[int, int, float]]:
    sender, receiver, sent_s, came_s = (np.array(column) for column in zip(*messages, strict=True))
    n, unknown = len(messages), np.full(len(messages), math.nan)
    rows = Messages(np.arange(n), n + np.arange(n))
    start_s, end_s = np.append(sent_s, unknown), np.append(unknown, came_s)
    return list(_by_messages(start_s, end_s, np.append(sender, receiver), rows))


def test_messages_both_ways_tell_how_far_one_clock_is_ahead_of_the_other() -> None:
    assert by_messages((0, 1, 1.0, 11.5), (1, 0, 12.0, 2.5)) == [(0, 1, pytest.approx(10.0))]


def test_the_quickest_message_of_each_way_tells_it() -> None:
    slow = (0, 1, 3.0, 19.0), (1, 0, 30.0, 27.0)
    assert by_messages(*slow, (0, 1, 1.0, 11.5), (1, 0, 12.0, 2.5)) == [(0, 1, pytest.approx(10.0))]


def test_messages_one_way_or_of_one_clock_tell_nothing() -> None:
    assert by_messages((0, 1, 1.0, 11.5), (2, 0, 1.0, 3.0), (3, 3, 1.0, 2.0)) == []


def test_the_median_of_each_pair_of_clocks_counts_without_what_is_unknown() -> None:
    one, other = np.array([0, 0, 0, 1, 2, 0]), np.array([1, 1, 1, 2, 2, 1])
    seconds = np.array([1.0, 5.0, 2.0, 7.0, 9.0, math.nan])
    assert list(_medians(one, other, seconds)) == [(0, 1, 2.0), (1, 2, 7.0)]
    assert list(_medians(one[:0], other[:0], seconds[:0])) == []


def test_clocks_are_compared_through_others_and_those_that_nothing_compares_stay_as_they_are() -> None:
    compared = {3: {1: 2.0}, 1: {3: -2.0, 0: -5.0}, 0: {1: 5.0}, 2: {4: 1.5}, 4: {2: -1.5}}
    ahead_s, clocks = _ahead(np.array([0, 1, 2, 3, 4, 5, 3]), compared)
    assert ahead_s == pytest.approx([0.0, 5.0, 0.0, 3.0, 1.5, 0.0, 3.0])
    assert clocks.tolist() == [0, 0, 2, 0, 2, 5, 0]
