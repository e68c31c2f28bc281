"""What is usual: medians over the peers of a node, and the own clocks that they are taken of."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from seeds import seeds

from timing_logger.analysis.accounting.nodes import ISSUE, WAIT
from timing_logger.analysis.accounting.replay import (
    OwnClock,
    _alike,
    _last_with_peers,
    _medians,
    _never_back,
    own_clocks,
)


def lower_median(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


@pytest.mark.parametrize("seed", seeds(3))
def test_the_median_is_the_lower_one_of_the_group_and_of_the_others_in_it(seed: int) -> None:
    rng = random.Random(seed)
    group = np.array([*range(7), *(rng.randrange(7) for _ in range(25))])
    values = np.array([rng.choice([1.0, 2.0, rng.random()]) for _ in group])
    median, others = _medians(values, group)
    for i, one in enumerate(group):
        of_others = [values[j] for j in range(len(group)) if group[j] == one and j != i]
        assert median[i] == lower_median([*of_others, values[i]])
        assert others[i] == (lower_median(of_others) if of_others else values[i])


def test_earlier_nodes_of_a_part_with_the_same_call_are_counted() -> None:
    part, call = np.array([0, 0, 0, 0, 1, 1, 2]), np.array([5, 3, 5, 5, 5, 3, 3])
    assert _alike(part, call).tolist() == [0, 0, 1, 2, 0, 0, 0]


def test_the_last_node_with_peers_is_of_the_same_part() -> None:
    part, n_peers = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 2, 0, 0, 0, 1])
    assert _last_with_peers(part, n_peers).tolist() == [0, 1, 1, 3, 4, 5]
    none = np.zeros(0, np.int64)
    assert len(_last_with_peers(none, none)) == 0


def test_a_clock_never_goes_back_within_its_part() -> None:
    found = _never_back(np.array([3.0, 1.0, 4.0, 2.0, 0.5, 3.0]), np.array([0, 0, 0, 1, 1, 1]))
    assert found == pytest.approx([3, 3, 4, 2, 2, 3])
    assert len(_never_back(np.zeros(0), np.zeros(0, np.int64))) == 0


# -- own clocks ------------------------------------------------------------------------------------------


def clocks(
    *lines_s: list[float],
    calls: list[list[int]] | None = None,
    kind: int = ISSUE,
    roles: list[int] | None = None,
) -> OwnClock:
    """Return the own clocks of lines in one step, on its own account so long before each node."""
    line = np.repeat(np.arange(len(lines_s)), [len(own_s) for own_s in lines_s])
    program: Any = SimpleNamespace(
        line=line, step=np.zeros(len(line), np.int64), own_s=np.concatenate(lines_s),
        kind=np.full(len(line), kind),
    )  # fmt: skip
    call = np.concatenate(calls or [range(len(own_s)) for own_s in lines_s]).astype(np.int64)
    return own_clocks(program, call, np.array(roles or [0] * len(lines_s)))


def test_the_own_clock_of_a_line_is_how_long_it_was_on_its_own_account_since_the_step_began() -> None:
    found = clocks([1.0, 2.0], [4.0, 1.0], [2.0, 7.0])
    assert found.since_s == pytest.approx([1, 3, 4, 5, 2, 9])
    assert found.usual_s == pytest.approx([2, 5, 2, 5, 2, 5])
    assert found.others_s == pytest.approx([2, 5, 1, 3, 1, 3])
    assert (found.n_peers.tolist(), found.part.tolist()) == ([2] * 6, [0, 0, 1, 1, 2, 2])


def test_lines_that_call_the_same_in_another_order_are_peers() -> None:
    found = clocks([1.0, 2.0], [4.0, 1.0], calls=[[0, 1], [1, 0]])
    assert found.n_peers.tolist() == [1, 1, 1, 1]
    assert found.others_s == pytest.approx([5, 4, 3, 1])


@pytest.mark.parametrize(
    ("calls", "roles"),
    [([[0, 1], [0, 2]], [0, 0]), ([[0, 1], [0, 1]], [0, 1]), ([[0, 0], [0, 1]], [0, 0])],
    ids=["other calls", "another role", "one call twice"],
)
def test_lines_that_do_something_else_have_no_peers(calls: list[list[int]], roles: list[int]) -> None:
    found = clocks([1.0, 2.0], [4.0, 1.0], calls=calls, roles=roles)
    assert found.n_peers.tolist() == [0, 0, 0, 0]
    assert found.others_s == pytest.approx(found.since_s)
    assert found.usual_s == pytest.approx(found.since_s)


def test_a_wait_that_another_line_does_not_have_makes_it_no_other() -> None:
    found = clocks([1.0, 2.0], [4.0], calls=[[0, 1], [0]], kind=WAIT)
    assert found.n_peers.tolist() == [1, 1, 1]
    assert found.since_s == pytest.approx([1, 3, 4])
    assert found.others_s == pytest.approx([4, 6, 1])  # the second goes on from what the first would be


def test_what_is_usual_may_leave_peers_out_of_whom_none_may_be_left() -> None:
    found = clocks([1.0], [2.0], [3.0], [9.0])
    assert found.others_without(np.zeros(4, np.bool_)) == pytest.approx([2, 2, 2, 2])
    assert found.others_without(np.array([True, False, False, False])) == pytest.approx([3] * 4)
    assert found.others_without(np.array([True, True, True, False])) == pytest.approx([9] * 4)
    assert found.others_without(np.ones(4, np.bool_)) == pytest.approx(found.others_s)


def test_without_some_of_its_peers_a_node_that_has_none_goes_on_from_the_last_that_has() -> None:
    found = clocks([1.0, 2.0], [4.0], calls=[[0, 1], [0]], kind=WAIT)
    assert found.others_without(np.array([True, False, False])) == pytest.approx([4, 6, 4])


def test_other_clocks_give_other_times_between_nodes_and_stand_still_where_they_would_go_back() -> None:
    found = clocks([1.0, 2.0, 1.0], [4.0, 1.0, 1.0])
    assert found.own_s(found.since_s) == pytest.approx([1, 2, 1, 4, 1, 1])
    assert found.own_s(np.array([2.0, 1.0, 5.0, 0.5, 3.0, 3.0])) == pytest.approx([2, 0, 3, 0.5, 2.5, 0])
