"""Nodes and meetings are ranked in waves as well as one by one: each after what it needs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from seeds import seeds

from timing_logger.analysis.accounting import loops
from timing_logger.analysis.accounting import replay as waves
from timing_logger.analysis.accounting.nodes import Lists

Ints = npt.NDArray[np.int64]
Random = tuple[Ints, Lists, Lists, Ints]


def random_program(seed: int, n_lines: int = 40, n_rounds: int = 30) -> Random:
    """Return lines, what their nodes give and need, and which meeting each comes after.

    In each round some lines begin a meeting, and most of them wait for it there or a while later. It comes
    after the meeting before it if that was of the same lines, as collectives of a group do.
    """
    rng = np.random.default_rng(seed)
    nodes: list[list[tuple[list[int], list[int]]]] = [[] for _ in range(n_lines)]
    before = []
    its = np.arange(n_lines)
    for meeting in range(n_rounds):
        follows = meeting > 0 and rng.random() < 0.5
        before.append(meeting - 1 if follows else -1)
        its = its if follows else rng.choice(n_lines, rng.integers(1, n_lines + 1), replace=False)
        for line in its:
            nodes[line].append(([meeting], []))
        for line in its[rng.random(len(its)) < 0.8]:
            nodes[line].append(([], [int(rng.integers(max(0, meeting - 3), meeting + 1))]))
    every = [(line, *node) for line, its in enumerate(nodes) for node in its]
    line = np.array([line for line, _, _ in every])
    lists = []
    for which in (1, 2):
        owner = [at for at, node in enumerate(every) for _ in node[which]]
        values = [meeting for node in every for meeting in node[which]]
        lists.append(Lists.by(np.array(owner, np.int64), np.array(values, np.int64), len(every)))
    return line, lists[0], lists[1], np.array(before)


def follow_what_they_need(program: Random, of_node: Ints, of_meeting: Ints) -> bool:
    line, gives, needs, _ = program
    later = np.diff(of_node)[np.diff(line) == 0] > 0
    giving, given = gives.pairs()
    needing, needed = needs.pairs()
    in_time = of_meeting[given] > of_node[giving]
    return bool(later.all() and in_time.all() and (of_node[needing] > of_meeting[needed]).all())


@pytest.mark.parametrize("seed", seeds(25, few=5))
def test_each_node_and_meeting_follows_what_it_needs(seed: int) -> None:
    program = line, gives, needs, before = random_program(seed)
    found = waves._Waves(line, gives, needs, before).ranks()
    assert found is not None
    assert follow_what_they_need(program, *found)
    ends_s = np.arange(len(line), dtype=np.float64)
    one_by_one = loops.ranked(line.tolist(), gives.ragged(), needs.ragged(), before.tolist(), ends_s.tolist())
    assert follow_what_they_need(program, *map(np.array, one_by_one))


def test_a_meeting_is_ranked_after_the_one_that_it_comes_after() -> None:
    line = np.arange(2)
    both = Lists(np.array([0, 2, 2]), np.array([0, 1]))
    none = Lists(np.zeros(3, np.int64), np.zeros(0, np.int64))
    found = waves._Waves(line, both, none, np.array([1, -1])).ranks()
    assert found is not None
    assert found[1].tolist() == [3, 1]


def test_of_rows_that_contradict_each_other_the_node_that_was_left_first_goes_first() -> None:
    line = np.array([0, 0, 1, 1])
    gives = Lists(np.array([0, 0, 1, 1, 2]), np.array([0, 1]))
    needs = Lists(np.array([0, 1, 1, 2, 2]), np.array([1, 0]))
    ends_s = np.array([1.0, 2.0, 3.0, 4.0])
    assert waves._Waves(line, gives, needs, np.array([-1, -1])).ranks() is None
    of_node, _ = waves.ranked(line, gives, needs, np.array([-1, -1]), ends_s)
    assert of_node.tolist()[:2] == [1, 2]


def test_lines_that_go_one_after_the_other_are_ranked_one_by_one() -> None:
    n = 4 * waves._FIRST_LOOK
    line = np.zeros(n, np.int64)
    none = Lists(np.zeros(n + 1, np.int64), np.zeros(0, np.int64))
    assert waves._Waves(line, none, none, np.zeros(0, np.int64)).ranks() is None
    of_node, _ = waves.ranked(line, none, none, np.zeros(0, np.int64), np.arange(n, dtype=np.float64))
    assert of_node.tolist() == list(range(1, n + 1))


def test_what_nobody_gives_to_holds_up_nobody() -> None:
    line = np.arange(2)
    none = Lists(np.zeros(3, np.int64), np.zeros(0, np.int64))
    needs = Lists(np.array([0, 1, 1]), np.array([0]))
    found = waves._Waves(line, none, needs, np.array([-1])).ranks()
    assert found is not None
    assert [ranks.tolist() for ranks in found] == [[0, 0], [0]]
