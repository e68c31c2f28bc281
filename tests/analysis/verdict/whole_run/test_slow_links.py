"""Slow links by hand: against their own past, against others of their kind, and what they cost."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hand_made_cases import POLICY, case_of, steps, transfers_of

from timing_logger.analysis.accounting.nodes import ISSUE, WAIT
from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.whole_run.slow_links import (
    SlowLink,
    _grown,
    _may_have_grown,
    _now_and_then,
    _ordinary_late_s,
    _persistently,
    _slower_than_before,
    _times_as_large,
    _usual_s,
    _with_untimed,
    as_usual,
    blocked_at_most,
    excess_ms,
    families,
    lost_ms,
    slow_links,
)

NAN = math.nan
PAIRS = [(0, 1), (2, 3), (4, 5), (6, 7)]


def linked(
    mean_ms: Floats,
    columns: list[tuple[int, ...]] | None = None,
    *,
    hosts: list[str] | None = None,
    **its: Any,
) -> Case:
    """Return a case of eight ranks with these transfers, over the pairs of ranks unless it is said."""
    transfers = transfers_of((columns or PAIRS)[: mean_ms.shape[1]], mean_ms, **its)
    blocked_ms = np.full((len(mean_ms), 8), 1000.0)
    return case_of(np.ones((len(mean_ms), 8)), transfers=transfers, blocked_ms=blocked_ms, hosts=hosts)


# -- against their own past ---------------------------------------------------------------------------------


def grown(series: Floats, *ends: int) -> list[tuple[list[int], float, str]]:
    spans = list(zip([0, *ends], [*ends, len(series)], strict=True))
    return [(at.tolist(), usual, than) for at, usual, than in _grown(series, spans, POLICY)]


@pytest.mark.parametrize(("times", "is_slow"), [(1.501, True), (1.499, False)])
def test_a_level_is_slow_that_is_half_as_much_again_as_the_least_one_before(
    times: float, is_slow: bool
) -> None:
    series = np.repeat([0.5, 0.0, math.log(times)], 10)
    assert grown(series, 10, 20) == ([(list(range(20, 30)), 0.0, "before")] if is_slow else [])


@pytest.mark.parametrize(("n_held", "is_slow"), [(10, True), (9, False)])
def test_a_level_counts_as_usual_if_it_was_held_for_long_enough(n_held: int, is_slow: bool) -> None:
    series = np.where(np.arange(30) < n_held, 0.0, 1.0)
    assert bool(grown(series, n_held)) is is_slow


@pytest.mark.parametrize(("n_steps", "n_long", "may"), [(13, 3, True), (12, 3, False), (13, 2, False)])
def test_a_link_may_have_grown_with_enough_steps_far_above_its_quickest(
    n_steps: int, n_long: int, may: bool
) -> None:
    series = np.where(np.arange(n_steps) < n_long, math.log(1.5), 0.0)
    assert _may_have_grown(series, POLICY) is may


@pytest.mark.parametrize(("n_quick", "may"), [(11, True), (10, False)])
def test_the_quickest_are_a_tenth_of_the_steps(n_quick: int, may: bool) -> None:
    series = np.where(np.arange(100) < n_quick, 0.0, math.log(2))
    assert _may_have_grown(series, POLICY) is may


def test_levels_are_told_apart_that_differ_by_more_than_a_tenth() -> None:
    series = np.log(np.repeat([0.875, 1.125, 1.9], [9, 9, 42]))
    ((at, _, _),) = _slower_than_before(series, POLICY)
    assert at.tolist() == list(range(18, 60))


def test_few_very_quick_steps_hide_no_growth() -> None:
    series = np.repeat([0.0, math.log(1.9)], [32, 28])
    series[8:32:8] = math.log(0.05)
    ((at, _, _),) = _slower_than_before(series, POLICY)
    assert at.tolist() == list(range(32, 60))


@pytest.mark.parametrize(("slow", "n_found"), [([5, 15], 1), ([5, 6], 0), ([5], 0), ([0, 9], 1)])
def test_single_slow_steps_count_from_two_bursts_on(slow: list[int], n_found: int) -> None:
    series = np.zeros(30)
    series[slow] = 1.0
    found = list(_now_and_then(series, POLICY))
    assert [(at.tolist(), usual, than) for at, usual, than in found] == [(slow, 0.0, "usual")] * n_found
    assert list(_now_and_then(np.zeros(0), POLICY)) == []


@pytest.mark.parametrize(("times", "is_found"), [(1.501, True), (1.499, False)])
def test_single_steps_are_slow_from_half_as_much_again_on(times: float, is_found: bool) -> None:
    series = np.zeros(30)
    series[[5, 15]] = math.log(times)
    assert bool(list(_now_and_then(series, POLICY))) is is_found


def test_a_link_that_grew_is_slow_from_then_on_by_its_own_past() -> None:
    mean_ms = np.full((40, 1), 2.0)
    mean_ms[25:] = 6.0
    found = [one for one in slow_links(linked(mean_ms)) if one.than == "before"]
    assert [(one.link, one.steps.tolist()) for one in found] == [(0, list(range(25, 40)))]
    assert found[0].usual_ms == pytest.approx(np.full(15, 2.0))


def test_a_link_with_more_to_transfer_may_take_longer() -> None:
    mean_ms, size = np.full((40, 1), 2.0), np.full((40, 1), 1000.0)
    mean_ms[25:], size[25:] = 6.0, 3000.0
    assert list(slow_links(linked(mean_ms, mean_bytes=size))) == []


def test_sizes_count_as_times_the_usual_one_and_smaller_ones_as_usual() -> None:
    sizes = np.array([[10.0, NAN, 0.5], [20.0, NAN, 0.5], [5.0, NAN, 3.0]])
    assert _times_as_large(sizes).tolist() == [[1.0, 1.0, 1.0], [2.0, 1.0, 1.0], [1.0, 1.0, 3.0]]


def test_steps_of_a_slow_stretch_without_a_known_time_are_slow_too() -> None:
    mean_ms = np.array([[NAN], [1.0], [5.0], [NAN], [5.0], [NAN]])
    n = np.array([[1], [1], [1], [1], [1], [0]])
    transfers = transfers_of(PAIRS[:1], mean_ms, n=n)
    found = _with_untimed(transfers, SlowLink(0, steps(2, 4), np.array([1.0, 3.0]), "before"))
    assert (found.steps.tolist(), found.usual_ms.tolist()) == ([2, 3, 4], [1.0, 2.0, 3.0])
    whole = _with_untimed(transfers, SlowLink(0, steps(1, 2, 4), np.array([1.0, 1.0, 3.0]), "before"))
    assert whole.steps.tolist() == [0, 1, 2, 3, 4]
    last = _with_untimed(transfers._replace(n=n + 1), SlowLink(0, steps(4), np.array([1.0]), "before"))
    assert last.steps.tolist() == [4, 5]
    middle = _with_untimed(transfers, SlowLink(0, steps(2), np.array([1.0]), "before"))
    assert middle.steps.tolist() == [2]


# -- against others of their kind ---------------------------------------------------------------------------


def one_slow(n_links: int, times: float = 3.0) -> Floats:
    mean_ms = np.full((40, n_links), 2.0)
    mean_ms[:, 0] *= times
    return mean_ms


@pytest.mark.parametrize(("n_links", "n_found"), [(3, 1), (2, 0)])
def test_of_three_links_one_may_be_slow_and_of_two_none(n_links: int, n_found: int) -> None:
    found = list(slow_links(linked(one_slow(n_links))))
    assert [(one.link, one.than, len(one.steps)) for one in found] == [(0, "others", 40)] * n_found
    assert [one.usual_ms.tolist() for one in found] == [[2.0] * 40] * n_found


@pytest.mark.parametrize(("times", "n_found"), [(1.501, 1), (1.499, 0)])
def test_a_link_is_slow_that_takes_half_as_much_again_as_its_peers(times: float, n_found: int) -> None:
    assert len(list(slow_links(linked(one_slow(4, times))))) == n_found


@pytest.mark.parametrize(("operation", "n_found"), [("ALLREDUCE", 0), ("SEND", 2)])
def test_half_of_the_groups_of_a_size_may_be_meant_to_be_slower_but_no_messages(
    operation: str, n_found: int
) -> None:
    mean_ms = np.tile([6.0, 6.0, 2.0, 2.0], (40, 1))
    found = list(slow_links(linked(mean_ms, operation=operation)))
    assert [one.link for one in found] == [0, 1][:n_found]


def test_links_of_one_family_do_the_same_on_equally_many_hosts() -> None:
    mean_ms = np.ones((3, 4))
    columns = [(0, 1), (2, 3), (3, 4), (4, 5, 6)]
    assert [its.tolist() for its in families(linked(mean_ms, columns))] == [[0, 1, 2], [3]]
    hosts = ["a"] * 4 + ["b"] * 4
    assert [its.tolist() for its in families(linked(mean_ms, columns, hosts=hosts))] == [[0, 1], [2], [3]]


# -- what they cost -----------------------------------------------------------------------------------------


def test_the_excess_is_what_a_transfer_takes_beyond_the_usual_in_its_slow_steps() -> None:
    times = linked(one_slow(2)).times
    links = [
        SlowLink(0, steps(1, 2), np.array([2.0, 5.0]), "before"),
        SlowLink(0, steps(2), np.array([3.0]), "others"),
    ]
    found = excess_ms(times, links)
    assert (found[1, 0], found[2, 0], found.sum()) == (4.0, 3.0, 7.0)
    assert lost_ms(times, links).sum() == 7.0


def test_no_more_is_lost_than_a_rank_was_blocked() -> None:
    case = linked(np.full((2, 2), 4.0), [(0, 1), (1, 2)])
    blocked_ms = np.array([[9.0, 5.0, 1.0, NAN, 0.0, 0.0, 0.0, 0.0], [9.0] * 8])
    times = case_of(np.ones((2, 8)), transfers=case.times.transfers, blocked_ms=blocked_ms).times
    assert blocked_at_most(times, np.full((2, 2), 4.0)).tolist() == [5.0, 8.0]


def test_the_usual_time_of_a_meeting_is_the_least_where_its_link_is_slow() -> None:
    transfers = transfers_of(
        PAIRS[:2], np.ones((3, 2)), link=np.array([0, 0, 1, -1]), step=np.array([0, 1, 1, 0])
    )
    links = [
        SlowLink(0, steps(1), np.array([4.0]), "before"),
        SlowLink(0, steps(1), np.array([2.0]), "usual"),
    ]
    assert _usual_s(transfers, links).tolist() == [math.inf, 0.002, math.inf, math.inf]


def test_what_is_ordinary_is_the_median_of_each_kind_where_it_is_not_slow() -> None:
    late_s, kind = np.array([1.0, 2.0, 9.0, 5.0, 7.0]), np.array([-2, -2, -2, 1, 1])
    found = _ordinary_late_s(late_s, kind, np.array([False, False, True, True, True]))
    assert found.tolist() == pytest.approx([1.5, 1.5, 1.5, NAN, NAN], nan_ok=True)


# -- a run that is played with usual transfers ---------------------------------------------------------------


def played_as_usual(slow: list[SlowLink]) -> tuple[list[float], list[float]]:
    """Play two meetings of a link, one of no link, and one of a line that joins.

    Two rows take part in each of the first two meetings, one of which needs the other; a node of another
    kind has the first row, too.
    """
    program = SimpleNamespace(
        done=SimpleNamespace(took_s=np.array([5.0, 1.0, 4.0, 9.0])),
        late_s=np.array([3.0, 0.5, 0.2, 0.4, 7.0, 6.0]),
        kind=np.array([WAIT] * 4 + [ISSUE, WAIT]), row=np.array([0, 1, 2, 3, 0, 4]),
    )  # fmt: skip
    ties = SimpleNamespace(
        row=np.array([0, 1, 2, 3, 4]), meeting=np.array([0, 0, 1, 1, 2]),
        needs=np.array([True, False, True, False, True]),
    )  # fmt: skip
    transfers = transfers_of(
        [(0, 1)], np.full((2, 1), 1.0), link=np.array([0, 0, -1]), step=np.array([0, 1, 0])
    )
    played: Any = SimpleNamespace(program=program, ties=ties)
    took_s, late_s = as_usual(played, transfers, slow)
    return took_s.tolist(), late_s.tolist()


def test_without_slow_links_transfers_are_as_they_were() -> None:
    assert played_as_usual([]) == ([5.0, 1.0, 4.0, 9.0], [3.0, 0.5, 0.2, 0.4, 7.0, 6.0])


def test_a_slow_transfer_takes_what_is_usual_and_who_waits_for_it_is_as_late_as_in_others() -> None:
    slow = SlowLink(0, steps(0), np.array([1000.0]), "before")
    assert played_as_usual([slow]) == ([1.0, 1.0, 4.0, 9.0], [0.2, 0.4, 0.2, 0.4, 7.0, 6.0])


def test_where_all_transfers_of_a_link_are_slow_nobody_is_later_than_one_usually_takes() -> None:
    slow = SlowLink(0, steps(0, 1), np.array([1000.0, 300.0]), "before")
    assert played_as_usual([slow]) == ([1.0, 0.3, 4.0, 9.0], [1.0, 0.5, 0.2, 0.3, 7.0, 6.0])


def test_of_two_usual_times_of_a_transfer_the_shorter_counts() -> None:
    slow = [SlowLink(0, steps(0), np.array([ms]), "before") for ms in (2000.0, 800.0, 1500.0)]
    assert played_as_usual(slow)[0] == [0.8, 1.0, 4.0, 9.0]


def test_a_link_that_is_slow_in_each_step_of_a_short_run_is_slow_often_enough() -> None:
    ratios = np.zeros((POLICY.min_costly_transfer_steps - 1, 4))
    ratios[:, 2] = math.log(3)
    assert [slow.column for slow in _persistently(ratios, POLICY)] == [2]
