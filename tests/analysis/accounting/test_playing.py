"""Played node by node, every node of a run is left when it is if played wave by wave."""

from __future__ import annotations

import numpy as np
import pytest
from account_rows import row, table
from hypothesis import given
from hypothesis import strategies as st
from played_runs import lived, played, random_program
from seeds import few_examples

from timing_logger.analysis.accounting.nodes import WAIT
from timing_logger.analysis.accounting.playing import InWaves, OneByOne
from timing_logger.analysis.accounting.replay import ranked


@few_examples(3)
@given(st.integers(0, 100_000))
def test_one_by_one_nodes_are_left_and_meetings_done_at_the_same_instants_as_in_waves(seed: int) -> None:
    program = played(table(*lived(*random_program(seed))[1])).program
    rng = np.random.default_rng(seed)
    before, n_lines, n_nodes = program.done.before.copy(), len(program.start_s), len(program.line)
    ranks = ranked(program.line, program.gives, program.needs, before, program.end_s)
    own_s = program.own_s[:, None] * rng.choice([0.0, 0.3, 1.0, 2.5], (n_nodes, 3))
    begins_s = np.repeat(program.start_s.reshape(n_lines, 1), 3, axis=1)
    in_waves, one_by_one = (
        player(program, program.line, before, *ranks).played(
            begins_s, own_s, program.done.took_s, program.late_s
        )
        for player in (InWaves, OneByOne)
    )
    for at_once, in_turn in zip(in_waves, one_by_one, strict=True):
        np.testing.assert_array_equal(at_once, in_turn)


@pytest.mark.parametrize("player", [InWaves, OneByOne])
def test_a_meeting_is_not_done_before_the_one_that_it_comes_after(player: type[InWaves | OneByOne]) -> None:
    """One line begins two in the background, of which the first takes longer, and waits for the second."""
    world = {"group_size": 2}
    rows = [
        row(rank, operation, begin, end, **world, seq=seq)
        for rank in range(2)
        for operation, begin, end, seq in (
            ("IALLREDUCE", 0, 5, 0),
            ("IALLREDUCE", 1, 7, 1),
            ("WAIT", 1, 7, 1),
        )
    ]
    program = played(table(*rows)).program
    before = program.done.before
    assert before.tolist() == [-1, 0, -1, -1]
    ranks = ranked(program.line, program.gives, program.needs, before, program.end_s)
    begins_s, took_s = np.zeros((2, 1)), np.where(np.arange(4) == 0, 0.5, 0.25)
    own_s, late_s = np.zeros((len(program.line), 1)), np.zeros(len(program.line))
    left_s, done_s = player(program, program.line, before, *ranks).played(begins_s, own_s, took_s, late_s)
    assert done_s[:2, 0].tolist() == [0.5, 0.75]
    assert left_s[program.kind == WAIT, 0].tolist() == [0.75, 0.75]
