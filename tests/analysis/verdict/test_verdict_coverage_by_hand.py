"""Of which ranks enough is known, and why a run is not called healthy, by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hand_made_cases import POLICY, case_of, waits_of

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.verdict import (
    inconclusive_ranks,
    why_inconclusive,
    why_untimed,
)
from timing_logger.analysis.verdict.who.pricing import BySteps
from timing_logger.results import facts

NAN = math.nan


def why(case: Case) -> facts.Reason | None:
    return why_inconclusive(case, BySteps(case.times, list(case.by_role.values())))


def waited(**waits: Floats) -> Case:
    return case_of(np.full((10, 3), 100.0), waits=waits_of((10, 3), **waits))


@pytest.mark.parametrize(("n_both", "ranks"), [(3, ()), (2, (0, 1))])
def test_a_rank_must_be_compared_with_a_peer_in_three_steps(n_both: int, ranks: tuple[int, ...]) -> None:
    self_ms = np.ones((8, 4))
    self_ms[n_both:, 1] = NAN
    assert inconclusive_ranks(case_of(self_ms, roles=["a", "a", "b", "b"])) == ranks


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (case_of(np.ones((5, 1))), facts.OneRank()),
        (case_of(np.ones((5, 2)), roles=["a", "b"]), facts.EachAlone()),
        (case_of(np.full((5, 2), NAN)), facts.NoSelfTime()),
        (case_of(np.ones((2, 2))), facts.FewCompared(POLICY.min_level_steps)),
        (case_of(np.zeros((0, 0))), facts.NoRows()),
        (case_of(np.ones((3, 2))), None),
    ],
)
def test_it_is_said_why_no_rank_could_be_compared(case: Case, reason: facts.Reason | None) -> None:
    assert why(case) == reason


@pytest.mark.parametrize(("own_ms", "is_hidden"), [(10.0, True), (9.9, False)])
@pytest.mark.parametrize("name", ["own_ms", "pending_ms"])
def test_on_a_device_waits_of_a_tenth_of_the_work_hide_who_is_slow(
    name: str, own_ms: float, is_hidden: bool
) -> None:
    waits_ms = np.zeros((10, 3))
    waits_ms[:, 1] = own_ms
    waits = waits_of((10, 3), **{name: waits_ms})
    found = why(case_of(np.full((10, 3), 100.0), waits=waits, on_device=True))
    assert found == (facts.DeviceClockHides(own_ms) if is_hidden else None)
    assert why(case_of(np.full((10, 3), 100.0), waits=waits)) is None


def test_on_a_device_nothing_is_hidden_where_no_wait_is_known() -> None:
    unknown = waits_of((10, 3), own_ms=np.full((10, 3), NAN), pending_ms=np.full((10, 3), NAN))
    assert why(case_of(np.full((10, 3), 100.0), waits=unknown, on_device=True)) is None


@pytest.mark.parametrize(("worked_ms", "may_wait"), [(4.9, True), (5.0, False)])
def test_roles_may_wait_for_each_other_where_rows_hold_less_than_half_of_the_time(
    worked_ms: float, may_wait: bool
) -> None:
    operation_ms = np.stack([np.full((5, 4), worked_ms), np.full((5, 4), 10.0 - worked_ms)])
    its: dict[str, Any] = {"operation_ms": operation_ms, "operations": ["WORK", "UNLOGGED"]}
    self_ms, roles = np.full((5, 4), 10.0), ["a", "a", "b", "b"]
    found = why(case_of(self_ms, roles=roles, from_gaps=True, **its))
    assert found == (facts.RolesMayWait() if may_wait else None)
    assert why(case_of(self_ms, from_gaps=True, **its)) is None
    assert why(case_of(self_ms, roles=roles, **its)) is None


def for_ranks(*of_ranks_ms: float) -> Floats:
    found = np.zeros((10, 3))
    found[4] = of_ranks_ms
    return found


@pytest.mark.parametrize(
    ("for_it_ms", "longest_ms", "is_told"),
    [
        ((60, 50, 0), 50.0, True), ((50, 50, 0), 50.0, False), ((60, 50, 0), 49.0, False),
        ((0, 0, 0), 50.0, False),
    ],
)  # fmt: skip
def test_the_rank_for_which_most_is_waited_visibly_is_told(
    for_it_ms: tuple[float, ...], longest_ms: float, is_told: bool
) -> None:
    transfer_ms = np.full((10, 3), NAN)
    found = why(
        waited(
            for_it_ms=for_ranks(*for_it_ms), longest_ms=for_ranks(longest_ms, 0, 0), transfer_ms=transfer_ms
        )
    )
    assert found == (facts.OneWaitedFor(0, 60 / 110, 0.05) if is_told else None)


@pytest.mark.parametrize(
    ("late_ms", "longest_ms", "is_told"), [(25.0, 50.0, True), (24.9, 50.0, False), (25.0, 49.0, False)]
)
def test_the_rank_that_leaves_late_is_told_if_that_is_half_of_the_visible_waiting_for_it(
    late_ms: float, longest_ms: float, is_told: bool
) -> None:
    transfer_ms, clock_ms = np.full((10, 3), NAN), np.full((10, 3), 0.5)
    transfer_ms[4], transfer_ms[5] = [2.0, 2.0, 3.0 + late_ms - 2], [2.0, 2.0, 5.0]
    found = why(waited(longest_ms=for_ranks(0, 0, longest_ms), transfer_ms=transfer_ms, clock_ms=clock_ms))
    assert found == (facts.LeavesLate(2, pytest.approx(late_ms / 2), 0.05) if is_told else None)


# -- what has no rows ----------------------------------------------------------------------------------------


def stated(rank: int, **sidecar: Any) -> Any:
    return {"rank": rank, "sidecar": sidecar}


def test_calls_that_are_not_timed_are_counted_over_all_files_the_most_frequent_first() -> None:
    files = [
        stated(0, untimed={"a": 2, "b": 3}),
        stated(1, untimed={"a": 4}),
        stated(2, untimed=None),
        {"rank": 3},
    ]
    assert why_untimed(files) == facts.UntimedCalls((facts.CallCount("a", 6), facts.CallCount("b", 3)))


def test_where_no_call_is_untimed_nothing_is_said() -> None:
    assert why_untimed([stated(0, untimed={"a": 0}), stated(1)]) is None
    assert why_untimed([]) is None


def test_an_import_without_communication_is_said_before_calls_that_are_not_timed() -> None:
    def imported(name: str) -> Any:
        return stated(0, imported={"kind": "kineto", "not_told": [name]}, untimed={"a": 1})

    assert why_untimed([imported("communication")]) == facts.CommunicationNotTold("kineto")
    assert why_untimed([imported("sizes")]) == facts.UntimedCalls((facts.CallCount("a", 1),))


# -- several roles -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("worked_ms", "roles", "may"), [(1.0, "aabb", True), (99.0, "aabb", False), (1.0, "aaaa", False)]
)
def test_roles_may_hold_each_other_up_in_time_of_which_little_is_logged_as_work(
    worked_ms: float, roles: str, may: bool
) -> None:
    gap_ms = np.full((10, 4), 100.0)
    logged_ms = np.full((10, 4), worked_ms)
    case = case_of(
        gap_ms, roles=list(roles), operations=["FORWARD", "UNLOGGED"], from_gaps=True,
        operation_ms=np.stack([logged_ms, gap_ms - logged_ms]),
    )  # fmt: skip
    assert why(case) == (facts.RolesMayWait() if may else None)
