"""Slow communication by hand: what is enough of it, what is said of it, and links of which none is usual."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hand_made_cases import POLICY, case_of, steps, transfers_of

from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.pricing import BySteps
from timing_logger.analysis.verdict.whole_run.communication import (
    _cost_enough,
    _in_common,
    _is_enough,
    _verdict,
    _window,
    mostly_transfers,
    slow_communication,
    transfer_of,
    why_unlike,
)
from timing_logger.analysis.verdict.whole_run.slow_links import SlowLink
from timing_logger.results import facts

PAIRS = [(0, 1), (2, 3), (4, 5), (6, 7)]


def linked(
    mean_ms: Floats, columns: list[tuple[int, ...]] | None = None, *, wall_ms: float = 1000.0,
    hosts: list[str] | None = None, n: Ints | None = None, mean_bytes: Floats | None = None,
    operation: str = "ALLREDUCE",
) -> Case:  # fmt: skip
    transfers = transfers_of((columns or PAIRS)[: mean_ms.shape[1]], mean_ms, operation=operation)
    n = transfers.n if n is None else n
    mean_bytes = transfers.mean_bytes if mean_bytes is None else mean_bytes
    return case_of(
        np.ones((len(mean_ms), 8)), transfers=transfers._replace(n=n, mean_bytes=mean_bytes),
        blocked_ms=np.full((len(mean_ms), 8), 1000.0), wall_ms=wall_ms, hosts=hosts,
    )  # fmt: skip


def by_steps(case: Case) -> BySteps:
    return BySteps(case.times, list(case.by_role.values()))


def slow(n_steps: int, usual_ms: float = 2.0) -> SlowLink:
    return SlowLink(0, np.arange(n_steps), np.full(n_steps, usual_ms), "before")


# -- what is enough -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_steps", "wall_ms", "is_enough"),
    [(10, 9999.0, True), (9, 9999.0, False), (3, 36.0, True), (3, 37.0, False), (2, 8.0, False)],
)
def test_fewer_slow_steps_are_enough_the_more_of_the_run_they_cost(
    n_steps: int, wall_ms: float, is_enough: bool
) -> None:
    case = linked(np.full((40, 1), 6.0), wall_ms=wall_ms)
    assert _is_enough(case, slow(n_steps)) is is_enough


@pytest.mark.parametrize(("n", "is_enough"), [(3, True), (2, False)])
def test_one_step_is_enough_if_no_more_is_known_and_it_has_three_transfers(n: int, is_enough: bool) -> None:
    mean_ms = np.full((4, 1), math.nan)
    mean_ms[0] = 6.0
    assert _is_enough(linked(mean_ms, n=np.full((4, 1), n)), slow(1)) is is_enough


@pytest.mark.parametrize(
    ("cost_ms", "wall_ms", "is_enough"),
    [(50.0, 1000.0, True), (49.0, 1000.0, False), (10.0, 100.0, True), (9.9, 100.0, False)],
)
def test_slow_transfers_must_cost_a_share_of_the_run_and_some_time(
    cost_ms: float, wall_ms: float, is_enough: bool
) -> None:
    assert _cost_enough(linked(np.ones((4, 1)), wall_ms=wall_ms), cost_ms) is is_enough


# -- the verdict --------------------------------------------------------------------------------------------


def test_the_costliest_link_is_told_with_what_it_took_and_what_is_usual() -> None:
    mean_ms = np.full((40, 4), 2.0)
    mean_ms[20:, 0] = 6.0
    mean_ms[20:, 1] = 4.0
    case = linked(mean_ms)
    found = slow_communication(case, by_steps(case))
    assert found is not None
    assert (found.verdict, found.operation, found.labels) == ("communication", "ALLREDUCE", "group 0")
    assert (found.window, found.slow_steps, found.first_iteration) == ("ongoing", 20, 20)
    assert (found.score, found.cost_ms) == (pytest.approx(1 / 3), 80.0)
    first = found.evidence[0]
    assert isinstance(first, facts.SlowTransfers)
    assert (first.took_ms, first.usual_ms, first.slow_steps) == (6.0, pytest.approx(2.0), 20)


@pytest.mark.parametrize(("cheap_ms", "told"), [(1.0, (4,)), (0.875, (0, 1, 4))])
def test_a_link_that_costs_a_fiftieth_of_the_costliest_counts_and_no_cheaper_one(
    cheap_ms: float, told: tuple[int, ...]
) -> None:
    case = linked(np.full((4, 3), 60.0), [(0, 1, 4), (4, 5), (6, 7)])
    slow = [
        SlowLink(link, steps(0), np.array([60.0 - ms]), "others") for link, ms in ((0, 50.0), (1, cheap_ms))
    ]
    assert facts.OnlyInAllSlow(told) in _verdict(case, slow, 51.0).evidence


def test_transfers_that_cost_too_little_are_no_verdict() -> None:
    mean_ms = np.full((40, 1), 2.0)
    mean_ms[20:] = 6.0
    case = linked(mean_ms, wall_ms=1601.0)
    assert slow_communication(case, by_steps(case)) is None
    case = linked(mean_ms, wall_ms=1599.0)
    assert slow_communication(case, by_steps(case)) is not None


@pytest.mark.parametrize(
    ("first", "last", "window"),
    [
        (0, 99, "persistent"), (5, 99, "persistent"), (6, 99, "ongoing"), (6, 94, "ongoing"),
        (0, 93, "bounded"),
    ],
)  # fmt: skip
def test_the_window_is_told_by_the_first_and_the_last_slow_step(first: int, last: int, window: str) -> None:
    assert _window(linked(np.ones((100, 1))), steps(first, last)) == window


@pytest.mark.parametrize(("wall_ms", "is_told"), [(80.0, True), (81.0, False)])
def test_a_run_that_spends_half_of_its_time_in_transfers_is_told(wall_ms: float, is_told: bool) -> None:
    case = linked(np.tile([1.0, 4.0], (10, 1)), wall_ms=wall_ms)
    found = mostly_transfers(case)
    assert (found is not None) == is_told
    if found is not None:
        assert (found.verdict, found.labels, found.gates[0].value) == ("communication", "group 1", 0.5)


@pytest.mark.parametrize(("ms", "is_told"), [(1.0, True), (0.99, False)])
def test_transfers_of_less_than_ten_ms_are_not_told(ms: float, is_told: bool) -> None:
    assert (mostly_transfers(linked(np.full((10, 1), ms), wall_ms=12.0)) is not None) == is_told
    assert mostly_transfers(case_of(np.ones((10, 2)))) is None


def test_a_message_is_told_with_its_sender_and_receiver_and_a_collective_with_its_group() -> None:
    times = linked(np.ones((2, 1)), [(3, 1)], operation="SEND").times
    link = times.transfers.links[0]
    assert transfer_of(times, link) == facts.Transfer("SEND", "group 0", 3, 1, 1024)
    collective = link._replace(operation="BCAST", size_class_bytes=0)
    assert transfer_of(times, collective) == facts.Transfer("BCAST", "group 0", None, None, 0)
    assert transfer_of(times, link._replace(size_class_bytes=-1)).up_to_bytes is None


# -- what slow links have in common --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ([(0, 1), (0, 2), (2, 3)], facts.OnlyInAllSlow((0,))),
        ([(0, 1), (0, 2), (0, 3)], facts.OthersInAllSlow((0,))),
        ([(0, 1), (2, 3), (4, 5)], facts.NobodyInAllSlow()),
        ([(0, 1, 2, 3), (4, 5, 6, 7), (0, 4, 1, 5)], facts.EveryRankInSlow()),
    ],
)
def test_it_is_told_who_is_in_all_slow_links_and_in_no_other(
    columns: list[tuple[int, ...]], told: facts.Fact
) -> None:
    assert list(_in_common(linked(np.ones((2, 3)), columns), [0, 1])) == [told]


def test_the_host_of_those_in_all_slow_links_is_told_if_it_is_one() -> None:
    one_host = linked(np.ones((2, 2)), PAIRS[:2], hosts=["a", "a", "b", "b", "c", "c", "c", "c"])
    assert list(_in_common(one_host, [0])) == [facts.OnlyInAllSlow((0, 1)), facts.OnHost("a")]
    two_hosts = linked(np.ones((2, 2)), PAIRS[:2], hosts=["a", "b", "a", "b", "c", "c", "c", "c"])
    assert list(_in_common(two_hosts, [0])) == [facts.OnlyInAllSlow((0, 1))]


# -- of which nothing is usual -------------------------------------------------------------------------------


def unlike(slow_ms: float = 6.0, n_slow: int = 2, n_steps: int = 40, **changed: object) -> Floats:
    mean_ms = np.full((n_steps, 4), 2.0)
    mean_ms[:, :n_slow] = slow_ms
    return mean_ms


def told(case: Case) -> facts.UnlikeLinks | None:
    return why_unlike(case, by_steps(case))


def test_half_of_the_links_that_take_longer_than_the_rest_are_told() -> None:
    found = told(linked(unlike()))
    assert found is not None
    assert [[one.group for one in its] for its in (found.slow, found.quick)] == [
        ["group 0", "group 1"], ["group 2", "group 3"]
    ]  # fmt: skip
    assert (found.times_as_long, found.run_share) == (3.0, 0.16)


@pytest.mark.parametrize(
    ("slow_ms", "n_slow", "n_steps", "is_told"),
    [
        (3.3, 2, 40, True), (2.99, 2, 40, False), (6.0, 1, 40, False), (6.0, 3, 40, True),
        (9.0, 2, 10, True), (9.0, 2, 9, False), (6.0, 4, 40, False), (3.2, 2, 40, False),
    ],
)  # fmt: skip
def test_they_are_told_if_they_are_half_and_slower_throughout_and_cost_enough(
    slow_ms: float, n_slow: int, n_steps: int, is_told: bool
) -> None:
    assert (told(linked(unlike(slow_ms, n_slow, n_steps))) is not None) == is_told


@pytest.mark.parametrize(("n_quick", "is_told"), [(10, True), (11, False)])
def test_they_must_be_slower_in_three_of_four_steps(n_quick: int, is_told: bool) -> None:
    mean_ms = unlike(9.0)
    mean_ms[:n_quick, 0] = 2.0
    assert (told(linked(mean_ms)) is not None) == is_told


@pytest.mark.parametrize(("size", "is_told"), [(1010.0, True), (1011.0, False)])
def test_their_messages_must_be_equally_large(size: float, is_told: bool) -> None:
    mean_bytes = np.full((40, 4), 1000.0)
    mean_bytes[:, 0] = size
    assert (told(linked(unlike(), mean_bytes=mean_bytes)) is not None) == is_told


def test_links_with_a_rank_in_common_may_be_meant_to_differ() -> None:
    assert told(linked(unlike(), [(0, 1), (2, 3), (3, 4), (5, 6)])) is None
    assert POLICY.min_transfer_cost_share == 0.05
