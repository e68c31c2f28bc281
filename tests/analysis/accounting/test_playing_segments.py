"""A run played in segments, all at once, lasts as long as played from its beginning to its end."""

from __future__ import annotations

import numpy as np
import pytest
from account_rows import table
from hypothesis import given
from hypothesis import strategies as st
from played_runs import Meeting, lived, played, random_program
from seeds import few_examples
from simulated_runs import data_parallel, factors, pipeline

from timing_logger.analysis.accounting.nodes import Lists
from timing_logger.analysis.accounting.playing import Segments, segments_of
from timing_logger.analysis.accounting.program import Program
from timing_logger.analysis.accounting.replay import Replay
from timing_logger.analysis.rows.arrays import Floats


def cut(program: Program) -> Segments:
    is_free = program.own_s <= 0
    return segments_of(program.line, is_free, program.gives, program.needs, program.done.before)


def both_ways(program: Program, own_s: Floats) -> tuple[Floats, Floats]:
    at_once, one_by_one = (Replay(program, in_segments=how).ends_s(own_s.T) for how in (True, False))
    return at_once, one_by_one


@few_examples(3)
@given(st.integers(0, 100_000))
def test_a_run_lasts_as_long_in_segments_as_as_a_whole(seed: int) -> None:
    n, meetings, works_ms = random_program(seed)
    rng = np.random.default_rng(seed)
    for at in np.flatnonzero(rng.random(len(meetings)) < 0.5).tolist():
        meetings[at] = Meeting(tuple(range(n)), False, 1.0, (0.0,) * n)
    program = played(table(*lived(n, meetings, works_ms)[1])).program
    own_s = program.own_s[:, None] * rng.choice([0.0, 0.3, 1.0, 2.5], (len(program.line), 3))
    at_once, one_by_one = both_ways(program, own_s)
    assert at_once == pytest.approx(one_by_one)


def test_each_step_in_which_all_ranks_meet_is_a_segment() -> None:
    program = played(data_parallel(factors(50, 4, noise=0.1))).program
    segments = cut(program)
    assert len(segments.cuts) == 50
    assert segments.waits.shape == (50, 4)
    assert segments.of_node.max() == 50


def test_what_not_all_ranks_meet_in_is_no_end_of_a_segment() -> None:
    assert len(cut(played(pipeline(factors(10, 4), 4)[0]).program).cuts) == 0


def test_a_message_under_way_while_all_meet_keeps_both_sides_in_one_segment() -> None:
    everybody = [Meeting((0, 1, 2), False, 1.0, (0.0, 0.0, 0.0))] * 3
    works_ms = [[3.0, 2.0, 1.0]] * 4
    program = played(table(*lived(3, everybody, works_ms)[1])).program
    assert len(cut(program).cuts) == 3
    meeting = len(program.done.took_s)
    node = np.array([0, np.flatnonzero(program.line == 1)[3]])  # begun before the first meeting, needed after
    (giving, given), (needing, needed) = program.gives.pairs(), program.needs.pairs()
    gives = type(program.gives).by(np.append(giving, node[0]), np.append(given, meeting), len(program.line))
    needs = type(program.needs).by(np.append(needing, node[1]), np.append(needed, meeting), len(program.line))
    is_free, before = program.own_s <= 0, np.append(program.done.before, -1)
    assert len(segments_of(program.line, is_free, gives, needs, before).cuts) < 3


def test_a_line_that_would_come_late_by_itself_is_played_as_a_whole() -> None:
    program = played(data_parallel(factors(20, 4, noise=0.1))).program
    own_s = program.own_s[:, None].copy()
    own_s[cut(program).waits[7, 2]] = 0.5  # work between coming and waiting, which was none
    at_once, one_by_one = both_ways(program, own_s)
    assert at_once == pytest.approx(one_by_one)
    assert at_once[-1] > Replay(program).ends_s([program.own_s])[-1] + 0.4


def test_a_wait_that_does_not_follow_its_own_meeting_at_once_ends_no_segment() -> None:
    """Both lines begin meetings 0 and 1, and wait for 1 at once, or after something that gives nothing."""

    def n_cuts(needing: list[int], line: list[int], giving: list[int]) -> int:
        gives = Lists.by(np.array(giving), np.array([0, 1, 0, 1]), len(line))
        needs = Lists.by(np.array(needing), np.array([1, 1]), len(line))
        is_free, before = np.ones(len(line), np.bool_), np.array([-1, -1])
        return len(segments_of(np.array(line), is_free, gives, needs, before).cuts)

    assert n_cuts([2, 5], [0, 0, 0, 1, 1, 1], [0, 1, 3, 4]) == 1
    assert n_cuts([3, 7], [0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 4, 5]) == 0


def test_a_message_that_all_meet_once_on_the_way_keeps_both_sides_in_one_segment() -> None:
    """Line 0 sends it before meeting 0, and line 1 receives it after that, before meeting 1."""
    line = np.repeat([0, 1], 5)
    gives = Lists.by(np.array([0, 1, 3, 5, 8]), np.array([2, 0, 1, 0, 1]), 10)
    needs = Lists.by(np.array([2, 4, 6, 7, 9]), np.array([0, 1, 0, 2, 1]), 10)
    found = segments_of(line, np.ones(10, np.bool_), gives, needs, np.full(3, -1))
    assert (found.cuts.tolist(), found.waits.tolist(), found.of_node.tolist()) == ([1], [[4, 9]], [0] * 10)


def cut_by_hand(
    line: list[int], gives: list[tuple[int, int]], needs: list[tuple[int, int]], before: list[int]
) -> Segments:
    """Return the segments of nodes that give to these meetings and need those, on no line's own account."""
    given, needed = (Lists.by(*np.array(of).T, len(line)) for of in (gives, needs))
    return segments_of(np.array(line), np.ones(len(line), np.bool_), given, needed, np.array(before))


def test_a_wait_for_two_meetings_at_once_ends_no_segment() -> None:
    gives = [(0, 1), (1, 0), (3, 1), (4, 0)]
    one = cut_by_hand([0] * 3 + [1] * 3, gives, [(2, 0), (5, 0)], [-1, -1])
    both = cut_by_hand([0] * 3 + [1] * 3, gives, [(2, 0), (2, 1), (5, 0), (5, 1)], [-1, -1])
    assert (len(one.cuts), len(both.cuts)) == (1, 0)


def test_a_wait_after_what_gives_to_two_meetings_ends_no_segment() -> None:
    needs = [(1, 1), (3, 1)]
    assert len(cut_by_hand([0, 0, 1, 1], [(0, 1), (2, 1)], needs, [-1, -1]).cuts) == 1
    assert len(cut_by_hand([0, 0, 1, 1], [(0, 0), (0, 1), (2, 0), (2, 1)], needs, [-1, -1]).cuts) == 0


def test_a_meeting_to_which_nobody_comes_joins_no_segments() -> None:
    gives, needs = [(0, 0), (2, 1), (4, 0), (6, 1)], [(1, 0), (3, 1), (5, 0), (7, 1)]
    found = cut_by_hand([0] * 4 + [1] * 4, gives, needs, [-1, -1, 1])
    assert found.cuts.tolist() == [0, 1]


def test_what_was_begun_before_all_met_still_comes_after_that_meeting() -> None:
    """Both lines begin meeting 1 of the group, then 0, wait for 0, and for 1 at last."""
    gives, needs = [(0, 1), (1, 0), (4, 1), (5, 0)], [(2, 0), (3, 1), (6, 0), (7, 1)]
    found = cut_by_hand([0] * 4 + [1] * 4, gives, needs, [-1, 0])
    assert (found.cuts.tolist(), found.before.tolist()) == ([], [-1, 0])
