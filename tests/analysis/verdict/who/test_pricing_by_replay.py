"""Prices of slow ranks in small runs whose lengths are told by hand: 4 ranks meet at the end of each step."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pytest
from account_rows import barrier, row, table
from hand_made_cases import case_of, times_of

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.step_times.step_times import step_times
from timing_logger.analysis.step_times.transfers import Played
from timing_logger.analysis.verdict.who.pricing import ByReplay, Repair, Slowed, _Parts, pricing_of

MEETING_MS = 1.0


@functools.cache
def played_of(n_steps: int, n_ranks: int) -> Played:
    """Return a run in which ranks work for 10 ms and then meet for 1 ms in each step."""
    rows, each_ms = [], 10.0 + MEETING_MS
    for step in range(n_steps):
        now = step * each_ms
        rows += [row(rank, "FORWARD", now, now + 10.0, iteration=step) for rank in range(n_ranks)]
        rows += barrier([now + 10.0] * n_ranks, now + each_ms, seq=step, iteration=step)
    played = step_times(table(*rows)).played
    assert played is not None
    return played


def prices_of(work_ms: Floats, *, min_alike: int = 3, roles: Sequence[int] | None = None) -> ByReplay:
    """Return the prices of such a run in which ranks work for so long, steps x ranks."""
    n_steps, n_ranks = work_ms.shape
    played = played_of(n_steps, n_ranks)
    program, column = played.program, played.column_of_line
    its_ms = work_ms[np.minimum(program.step, n_steps - 1), column[program.line]]
    own_s = np.where(program.own_s > 1e-3, 1e-3 * its_ms, program.own_s)
    role_of_line = np.array(roles if roles is not None else [0] * n_ranks)[column]
    return ByReplay(program._replace(own_s=own_s), played.call, column, role_of_line, min_alike)


def work(n_steps: int = 4, n_ranks: int = 4) -> Floats:
    return np.full((n_steps, n_ranks), 10.0)


def at(*positions: int) -> np.ndarray:
    return np.array(positions, np.int64)


def test_a_slow_rank_costs_what_the_run_is_shorter_with_it_like_its_peers() -> None:
    work_ms = work()
    work_ms[1:3, 2] = [15.0, 17.0]
    prices = prices_of(work_ms)
    saved = prices.saved_of_each_ms([[Slowed(2, at(1, 2))], [Slowed(2, at(1))], []])
    assert saved == pytest.approx([12.0, 12.0, 0.0])  # what follows step 1 is in the way of step 2


def test_the_part_after_the_slow_steps_counts_and_no_other() -> None:
    work_ms = work(6)
    work_ms[[1, 2, 3, 4], 2] += [1.0, 2.0, 4.0, 8.0]
    assert prices_of(work_ms).saved_of_each_ms([[Slowed(2, at(2))]]) == pytest.approx([6.0])


def test_of_several_slow_ranks_none_shows_what_is_usual_for_another() -> None:
    work_ms = work()
    work_ms[1, :3] = 20.0
    prices = prices_of(work_ms)
    three = [Slowed(0, at(1)), Slowed(1, at(1)), Slowed(2, at(1))]
    assert prices.saved_of_each_ms([three, three[:2]]) == pytest.approx([10.0, 0.0])


def test_of_one_slow_rank_another_that_is_as_slow_shows_what_is_usual() -> None:
    work_ms = work(n_ranks=4)
    work_ms[1] = [30.0, 20.0, 20.0, 10.0]
    prices = prices_of(work_ms)
    assert prices.saved_of_each_ms([[Slowed(0, at(1))]]) == pytest.approx([10.0])
    both = prices.saved_of_each_ms([[Slowed(0, at(1)), Slowed(0, at(2))]])
    assert both == pytest.approx([10.0])


def test_a_rank_without_peers_costs_nothing() -> None:
    work_ms = work(n_ranks=3)
    work_ms[1, 2] = 20.0
    assert prices_of(work_ms, roles=[0, 0, 1]).saved_of_each_ms([[Slowed(2, at(1))]]) == pytest.approx([0.0])


def test_the_harm_of_a_rank_is_told_though_another_is_as_slow() -> None:
    work_ms = work()
    work_ms[1, :2] = [20.0, 25.0]
    prices, ones = prices_of(work_ms), [Slowed(0, at(1)), Slowed(1, at(1)), Slowed(0, at(1))]
    assert prices.saved_of_each_ms([[ones[0]]]) == pytest.approx([0.0])
    assert prices.harm_ms(ones) == pytest.approx([10.0, 15.0, 10.0])


def test_a_run_played_again_as_it_was_has_no_error() -> None:
    assert prices_of(work()).error == pytest.approx(0.0, abs=1e-9)


def test_the_error_is_the_part_of_the_run_by_which_its_length_differs_or_that_is_unknown() -> None:
    prices = prices_of(work())
    program = prices._program
    prices._program = program._replace(unknown_s=program.unknown_s + 11e-3)
    assert prices.error == pytest.approx(0.25)
    prices._program = program._replace(end_s=program.end_s * 0.8)
    assert prices.error == pytest.approx(0.25)
    prices._program = program._replace(end_s=program.end_s * 0)
    assert prices.error == 0.0


@pytest.mark.parametrize(("unknown_s", "plays_again"), [(0.0, True), (0.8e-3, True), (1e-3, False)])
def test_a_run_is_played_again_if_no_more_than_a_fiftieth_of_it_is_unknown(
    unknown_s: float, plays_again: bool
) -> None:
    played = played_of(4, 4)  # of 44 ms
    program = played.program._replace(unknown_s=played.program.unknown_s + unknown_s)
    case = case_of(work(), played=played._replace(program=program))
    assert pricing_of(case).plays_again is plays_again


@pytest.mark.parametrize(("n_ranks", "are_enough"), [(3, True), (2, False)])
def test_three_ranks_show_what_is_chance_and_two_do_not(n_ranks: int, are_enough: bool) -> None:
    pricing = pricing_of(case_of(work(n_ranks=n_ranks), played=played_of(4, n_ranks)))
    assert isinstance(pricing, ByReplay)
    assert bool((~np.isnan(pricing._parts.by_chance)).any()) is are_enough


def test_all_steps_of_the_run_are_known() -> None:
    assert prices_of(work(6)).steps.tolist() == [0, 1, 2, 3, 4, 5]


def test_at_equal_work_a_rank_may_take_longer_for_what_it_has_to_do() -> None:
    work_ms, due = work(), np.ones((4, 4))
    work_ms[1:, 2], due[1:, 2] = 20.0, 1.5
    prices, slow = prices_of(work_ms, min_alike=9), [[Slowed(2, at(1, 2, 3))]]
    assert prices.saved_of_each_ms(slow) == pytest.approx([30.0])
    assert prices.at_equal_work(times_of(work_ms), due).saved_of_each_ms(slow) == pytest.approx([15.0])
    assert prices.saved_of_each_ms(slow) == pytest.approx([30.0])


def test_repairs_make_ranks_quicker_usual_or_like_their_peers() -> None:
    work_ms = work()
    work_ms[1, 2] = 20.0
    work_ms[2] = [30.0, 30.0, 30.0, 10.0]
    quicker = np.ones((4, 4))
    quicker[0] = 2.0
    none = np.ones((4, 4))
    ends_s = prices_of(work_ms).ends_s(
        [Repair(none), Repair(quicker), Repair(none, (Slowed(2, at(1)),)), Repair(none, all_usual=True)]
    )
    assert ends_s.shape == (4, 4)
    assert (1e3 * ends_s[-1]).tolist() == pytest.approx([74.0, 69.0, 64.0, 64.0])


def test_a_run_with_other_transfers_is_shorter_by_what_they_take_less() -> None:
    prices = prices_of(work())
    took_s, late_s = prices._program.done.took_s, prices._program.late_s
    assert prices.saved_by_transfers_ms(took_s, late_s) == pytest.approx(0.0, abs=1e-9)
    assert prices.saved_by_transfers_ms(0 * took_s, 0 * late_s) == pytest.approx(4 * MEETING_MS)
    quick = Repair(np.ones((4, 4)), transfers_s=(0 * took_s, 0 * late_s))
    assert 1e3 * prices.ends_s([quick])[-1, 0] == pytest.approx(40.0)


def test_all_own_times_are_divided_by_the_factor_of_their_step_and_rank() -> None:
    factor = np.ones((4, 4))
    factor[2] = 2.0
    factor[3, 0] = 2.0  # the others are as long as before
    assert prices_of(work()).saved_if_quicker_ms(factor) == pytest.approx(5.0)


def test_the_price_of_all_steps_of_a_rank_is_that_of_each_of_them() -> None:
    work_ms = work()
    work_ms[:3, 1] += [3.0, 4.0, 5.0]
    pricing = prices_of(work_ms)
    assert pricing.price_of_all_ms(1) == pytest.approx(12.0)


# -- how ranks differ from their peers ----------------------------------------------------------------------


def parts(column: Sequence[int], ratio: Sequence[float], by_chance: Sequence[float]) -> _Parts:
    return _Parts(np.array(column), np.array(ratio), np.array(by_chance))


def test_a_rank_like_its_peers_differs_as_much_as_others_did_in_the_same_order() -> None:
    found = parts([0, 0, 0, 0, 1, 1], [5.0, 1.0, 3.0, 9.0, 1.0, 1.0], [1, 1, 1, 1, 0.9, 1.2])
    fixed = np.array([True, True, True, True, False, False])
    assert found.factors(fixed).tolist() == [1.2, 0.9, 0.9, 1.2, 1.0, 1.0]


def test_where_nobody_else_shows_it_a_rank_keeps_how_it_differs_from_step_to_step() -> None:
    nan = float("nan")
    found = parts([0, 0, 0, 1], [2.0, 4.0, 6.0, 1.0], [nan, nan, nan, nan])
    assert found.factors(np.array([True, True, True, False])).tolist() == [0.5, 1.0, 1.5, 1.0]


def test_what_is_unknown_of_a_part_is_no_difference() -> None:
    found = parts([0, 0, 1], [float("nan"), 2.0, 1.0], [1.0, 1.0, 0.7])
    assert found.factors(np.array([True, True, False])).tolist() == [1.0, 0.7, 1.0]


@pytest.mark.parametrize(("min_alike", "are_enough"), [(4, True), (5, False)])
def test_as_many_ranks_as_are_asked_for_show_what_is_chance(min_alike: int, are_enough: bool) -> None:
    by_chance = prices_of(work(), min_alike=min_alike)._parts.by_chance
    assert (~np.isnan(by_chance)).any() == are_enough


def test_how_a_rank_differs_by_chance_is_relative_to_how_it_usually_does() -> None:
    work_ms = work(6)
    work_ms[:, 1] = 20.0
    work_ms[3, 1] = 30.0
    found = prices_of(work_ms)._parts
    its = found.column == 1
    known = ~np.isnan(found.ratio[its])
    assert found.ratio[its][known][:5] == pytest.approx([2.0, 2.0, 2.0, 3.0, 2.0])
    assert found.by_chance[its][known][:5] == pytest.approx([1.0, 1.0, 1.0, 1.5, 1.0])
