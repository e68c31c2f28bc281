"""A line that joins a run waits in a meeting of its own for the last that came before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from timing_logger.analysis.accounting.nodes import ISSUE, JOIN, WAIT, Lists, Nodes
from timing_logger.analysis.accounting.program import Done, with_joins

Node = tuple[int, int, float, float]
"""The line, the kind, when it came and when it left."""

Joined = tuple[Nodes, Lists, Lists, Done, list[float]]


def joined(
    nodes: Sequence[Node], gives: dict[int, int], needs: dict[int, int], start_s: list[float]
) -> Joined:
    """Let lines join a run whose nodes give to one meeting each, or need one."""
    line, kind, begin_s, end_s = (np.array(column) for column in zip(*nodes, strict=True))
    n, n_meetings = len(nodes), max(gives.values()) + 1
    gives_of, needs_of = (
        Lists.by(np.array(list(of)), np.array(list(of.values())), n) for of in (gives, needs)
    )
    done = Done(np.full(n_meetings, 0.5), np.full(n_meetings, -1), np.full(n_meetings, 20.0))
    its = Nodes(line, kind, np.arange(n), begin_s, end_s)
    found = with_joins(its, gives_of, needs_of, done, np.array(start_s))
    return found[0], found[1], found[2], found[3], found[4].tolist()


def meets(line: int, begun_s: float, left_s: float) -> list[Node]:
    return [(line, ISSUE, begun_s, begun_s), (line, WAIT, begun_s, left_s)]


def elastic(start_s: float = 6.0) -> Joined:
    """Return a run of two lines that meet at 3 s and leave at 4 s and 5 s, and meet a third at 10 s."""
    nodes = [*meets(0, 1, 4), *meets(0, 9, 10), *meets(1, 3, 5), *meets(1, 9, 10), *meets(2, 8, 10)]
    gives, needs = {0: 0, 2: 1, 4: 0, 6: 1, 8: 1}, {1: 0, 3: 1, 5: 0, 7: 1, 9: 1}
    return joined(nodes, gives, needs, [0.0, 0.5, start_s])


def test_it_waits_from_the_beginning_of_the_run_until_it_began_itself() -> None:
    nodes, _, _, _, start_s = elastic()
    at = nodes.kind.tolist().index(JOIN)
    assert (at, len(nodes.line)) == (8, 11)
    assert [column[at] for column in nodes] == [2, JOIN, -1, 0.0, 6.0]
    assert nodes.line.tolist() == [0] * 4 + [1] * 4 + [2] * 3
    assert start_s == [0.0, 0.5, 0.0]


def test_its_meeting_is_given_to_by_the_last_that_left_before_it_began_and_takes_the_rest() -> None:
    _, gives, needs, done, _ = elastic()
    assert (done.took_s.tolist(), done.before.tolist(), done.at_s.tolist()) == (
        [0.5, 0.5, 1.0], [-1, -1, -1], [20.0, 20.0, 6.0],
    )  # fmt: skip
    assert list(zip(*(column.tolist() for column in gives.pairs()), strict=True)) == [
        (0, 0), (2, 1), (4, 0), (5, 2), (6, 1), (9, 1),
    ]  # fmt: skip
    assert list(zip(*(column.tolist() for column in needs.pairs()), strict=True)) == [
        (1, 0), (3, 1), (5, 0), (7, 1), (8, 2), (10, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("start_s", "node"), [(4.5, 1), (5.0, 5)])
def test_what_left_after_it_began_is_not_what_it_waited_for(start_s: float, node: int) -> None:
    _, gives, _, _, _ = elastic(start_s)
    assert [giving for giving, meeting in zip(*gives.pairs(), strict=True) if meeting == 2] == [node]


def test_a_line_that_began_before_the_others_had_left_any_meeting_joins_nothing() -> None:
    nodes, _, _, done, start_s = elastic(3.5)
    assert JOIN not in nodes.kind
    assert len(done.took_s) == 2
    assert start_s == [0.0, 0.5, 3.5]


def test_a_line_that_others_wait_for_before_they_have_met_anybody_joins_nothing() -> None:
    nodes = [*meets(0, 1, 7), *meets(1, 6, 7)]
    found, _, _, _, _ = joined(nodes, {0: 0, 2: 0}, {1: 0, 3: 0}, [0.0, 5.0])
    assert JOIN not in found.kind


def test_lines_that_join_together_wait_in_a_meeting_each() -> None:
    nodes = [*meets(0, 1, 4), *meets(0, 9, 10), *meets(1, 3, 5), *meets(1, 9, 10)]
    nodes += [*meets(2, 8, 10), *meets(3, 8, 10)]
    gives, needs = {0: 0, 2: 1, 4: 0, 6: 1, 8: 1, 10: 1}, {1: 0, 3: 1, 5: 0, 7: 1, 9: 1, 11: 1}
    found, _, needs_with, done, _ = joined(nodes, gives, needs, [0.0, 0.5, 6.0, 7.0])
    at = np.flatnonzero(found.kind == JOIN).tolist()
    assert at == [8, 11]
    assert found.line[at].tolist() == [2, 3]
    assert [needs_with.values[needs_with.at[node]] for node in at] == [2, 3]
    assert done.took_s[2:].tolist() == [1.0, 2.0]
