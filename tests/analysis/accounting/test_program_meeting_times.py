"""Meetings in the background come one after the other; how long one takes is what its rows show."""

from __future__ import annotations

import math

import pytest
from account_rows import Row, barrier, row, table
from played_runs import played


def in_background(
    seq: int, starts_ms: list[float], end_ms: float, waits_ms: float, **of: object
) -> list[Row]:
    """Return a collective that ranks begin at these times, and wait for later until it has ended."""
    its = {"group_size": len(starts_ms), "seq": seq, **of}
    begun = [row(rank, "IALLREDUCE", begin, end_ms, **its) for rank, begin in enumerate(starts_ms)]
    return begun + [row(rank, "WAIT", waits_ms, end_ms, **its) for rank in range(len(starts_ms))]


@pytest.mark.parametrize("group", ["another", "x"])
def test_a_collective_in_the_background_comes_after_the_one_before_it_in_its_group(group: str) -> None:
    other = in_background(0, [2.5, 2.5], 9, 8, group=group)
    rows = [*in_background(0, [1, 1], 5, 4), *other, *in_background(1, [2, 2], 7, 6)]
    done = played(table(*rows)).program.done
    world = [at for at, took_s in enumerate(done.took_s[:3]) if took_s == pytest.approx(0.004)]
    (first,) = world  # from 1 to 5 ms; the second had to wait for it, and took from 5 to 7
    assert sorted(done.before.tolist()) == [-1] * 5 + [first]
    second = done.before.tolist().index(first)
    assert done.took_s[second] == pytest.approx(0.002)
    assert done.at_s[second] == pytest.approx(0.007)


def test_collectives_that_block_their_lines_follow_each_other_by_these_alone() -> None:
    rows = [one for seq in range(3) for one in barrier([1 + 2 * seq, 1 + 2 * seq], 2 + 2 * seq, seq=seq)]
    assert played(table(*rows)).program.done.before.tolist() == [-1] * 6


def test_a_collective_takes_from_the_last_to_come_until_the_first_leaves() -> None:
    rows = [row(rank, "BARRIER", begin, end, group_size=2) for rank, begin, end in ((0, 1, 6), (1, 4, 9))]
    done = played(table(*rows)).program.done
    # the second is that of those who are held though they only give; here are none
    assert done.took_s == pytest.approx([0.002, 0.0])
    assert done.at_s == pytest.approx([0.006, -math.inf])
