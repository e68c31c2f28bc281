"""How likely events gather on one of several equal ranks by chance."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timing_logger.analysis.step_times import noise as chance


def chances(events: Bools) -> npt.NDArray[np.float64]:
    return chance.chances(events, np.ones_like(events), 2)


Bools = npt.NDArray[np.bool_]


def apart(*steps: int, rank: int, ranks: int, n_steps: int = 100) -> Bools:
    events = np.zeros((n_steps, ranks), np.bool_)
    events[list(steps), rank] = True
    return events


@pytest.mark.parametrize(("ranks", "k"), [(2, 11), (4, 6), (8, 5), (64, 3)])
def test_events_of_one_rank_alone_are_as_likely_as_that_all_others_are_drawn_equal(
    ranks: int, k: int
) -> None:
    """The first may be of any rank; each further one is of the same by 1 / ranks."""
    found = chances(apart(*range(0, 6 * k, 6), rank=1, ranks=ranks))
    assert found[1] == pytest.approx(ranks ** (1 - k))
    assert (np.delete(found, 1) == 1).all()


def test_one_event_says_nothing() -> None:
    assert (chances(apart(7, rank=1, ranks=8)) == 1).all()


def test_an_event_of_several_steps_is_one_event() -> None:
    once = chances(apart(*range(20, 40), rank=1, ranks=8))
    assert once[1] == 1


def test_events_that_all_ranks_have_say_nothing() -> None:
    events = apart(10, 30, rank=2, ranks=4)
    events[50:90:4] = True
    assert chances(events)[2] == pytest.approx(4**-1)


def test_a_rank_that_could_not_have_had_one_is_not_among_those_that_might() -> None:
    events = apart(10, 30, 50, rank=2, ranks=4)
    counts = np.ones_like(events)
    counts[:, 1] = False
    assert chance.chances(events, counts, 2)[2] == pytest.approx(4 * 3.0**-3)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31), ranks=st.integers(2, 6), often=st.floats(0.05, 0.5))
def test_it_is_no_less_than_what_drawing_the_ranks_again_shows(seed: int, ranks: int, often: float) -> None:
    """In each block ranks change places at random, as equal ranks might have."""
    rng = np.random.default_rng(seed)
    blocks = rng.random((40, ranks)) < often
    events = np.zeros((80, ranks), np.bool_)
    events[::2] = blocks
    drawn = rng.permuted(np.broadcast_to(blocks, (2000, *blocks.shape)), axis=2).sum(axis=1).max(axis=1)
    for found, count in zip(chances(events).tolist(), blocks.sum(axis=0).tolist(), strict=True):
        assert found >= np.mean(drawn >= count) - 0.04


def test_a_long_run_takes_blocks_of_more_steps() -> None:
    events = apart(*range(0, 100_000, 10_000), rank=0, ranks=4, n_steps=100_000)
    assert chances(events)[0] == pytest.approx(4**-9)


def test_a_rank_that_could_not_have_had_what_all_others_had_says_nothing() -> None:
    events = apart(10, 20, 30, rank=0, ranks=4)
    events[[50, 60], :3] = True
    counts = np.ones_like(events)
    counts[:, 3] = False
    assert chance.chances(events, counts, 2).tolist() == pytest.approx([4 * 3.0**-3, 1.0, 1.0, 1.0])


@pytest.mark.parametrize(("each", "likelihood"), [(-1.0, 0.0), (0.0, 0.0), (1.0, 1.0)])
def test_where_all_steps_are_alike_their_sum_is_certain(each: float, likelihood: float) -> None:
    assert chance.likelihood_above_0(np.full(9, each)) == likelihood


def test_the_number_of_independent_events_is_distributed_exactly() -> None:
    assert chance._at_least(np.array([0.5, 0.25])).tolist() == [1.0, 0.625, 0.125]
    assert chance._at_least(np.array([0.5, 0.25, 0.1])).tolist() == pytest.approx(
        [1.0, 0.6625, 0.175, 0.0125]
    )
    assert chance._at_least(np.zeros(0)).tolist() == [1.0]


def test_the_likelihood_is_that_of_all_ways_to_draw_stretches() -> None:
    """Nine steps are three stretches of three, which may lie around the end."""
    of_steps = np.random.default_rng(4).normal(0.05, 1.0, 9)
    around = [of_steps[[at, (at + 1) % 9, (at + 2) % 9]].sum() for at in range(9)]
    above = np.mean([sum(drawn) > 0 for drawn in product(around, repeat=3)])
    assert 0.1 < above < 0.9
    assert chance.likelihood_above_0(of_steps) == pytest.approx(above, abs=0.01)


def test_a_chance_is_as_many_standard_deviations_as_noise_exceeds_with_it() -> None:
    assert chance.z_of_chance(0.5) == pytest.approx(0.0)
    assert chance.z_of_chance(0.022750132) == pytest.approx(2.0)
    assert chance.z_of_chance(0.0) == chance.z_of_chance(1e-15) < 9
