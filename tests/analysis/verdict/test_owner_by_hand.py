"""Whose a delay is, by hand: what a rank has to do against its peers, and which part of its time that is."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hand_made_cases import case_of, steps

from timing_logger.analysis.step_times.workload import Workload
from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.analysis.verdict.own_times import _outdoes
from timing_logger.analysis.verdict.owner import (
    _UNKNOWN,
    _Compared,
    _Excess,
    _told_by_rows,
    _told_by_work,
    owned,
)
from timing_logger.results.facts import MoreRows, WorkOfRank
from timing_logger.results.verdict import Verdict

TEN = np.arange(10)


def late_rank(ms: float = 20.0, **n_rows: Any) -> Case:
    """Return the case of four ranks of which rank 2 takes so long, and the others 10 ms, in ten steps."""
    self_ms = np.full((10, 4), 10.0)
    self_ms[:, 2] = ms
    return case_of(self_ms, workload=Workload({}, None, n_rows))


def excess(*recorded_ms: float, work: _Compared = _UNKNOWN) -> _Excess:
    recorded = np.array(recorded_ms)
    return _Excess(2, TEN, recorded, recorded / 5, work, 1.25)


# -- which judgement ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("as_recorded", "at_equal_work", "outdoes"),
    [
        ("healthy", "rank", True), ("diffuse", "suspect", True), ("suspect", "rank", True),
        ("rank", "suspect", False), ("rank", "rank", False), ("suspect", "suspect", False),
        ("suspect", "healthy", False), ("healthy", "diffuse", False),
    ],
)  # fmt: skip
def test_ranks_found_at_equal_work_count_if_they_are_found_or_certain_only_there(
    as_recorded: str, at_equal_work: str, outdoes: bool
) -> None:
    found, equal = (
        Judgement(late_rank(), Verdict(verdict=kind))  # type: ignore[arg-type]
        for kind in (as_recorded, at_equal_work)
    )
    assert _outdoes(equal, found) is outdoes


def test_a_slow_role_owns_its_delay_and_what_a_rank_stops_for_has_no_owner() -> None:
    case = late_rank()
    role = Judgement(case, Verdict(verdict="role"))
    assert owned(role, case.times, None).verdict.owner == "role"
    pause = Judgement(case, Verdict(verdict="rank", ranks=(2,), operation="GC"), slow={2: TEN})
    assert owned(pause, case.times, None) is pause
    nobody = Judgement(case, Verdict(verdict="healthy"))
    assert owned(nobody, case.times, None) is nobody


def test_where_neither_work_nor_more_rows_are_known_the_owner_is_unknown() -> None:
    case = late_rank()
    rank = Judgement(case, Verdict(verdict="rank", ranks=(2,), operation="FORWARD"), slow={2: TEN})
    found = owned(rank, case.times, None).verdict
    assert (found.owner, found.evidence) == ("unknown", ())


# -- against the peers -------------------------------------------------------------------------------------


def test_a_rank_is_compared_with_the_mean_of_those_of_its_peers_that_have_any() -> None:
    values = np.tile([0.0, 2.0, 9.0, 4.0], (10, 1))
    assert _Compared.of(late_rank(), values, 2, steps(1, 4)) == (3.0, 0.0)
    assert _Compared.of(late_rank(), np.tile([0.0, 0.0, 9.0, 0.0], (10, 1)), 2, TEN) is _UNKNOWN
    assert _Compared.of(late_rank(), values * math.nan, 2, TEN) is _UNKNOWN


@pytest.mark.parametrize(("error", "is_more"), [(0.12, True), (0.125, False), (0.2, False)])
def test_a_rank_has_more_if_that_is_beyond_two_standard_errors(error: float, is_more: bool) -> None:
    assert _Compared(1.25, error).is_more is is_more


def test_the_rank_with_most_beyond_its_peers_is_told_over_all_operations() -> None:
    operation_ms = np.full((2, 10, 5), 10.0)
    operation_ms[:, :, 1] += 6.0
    operation_ms[1, :, 3] += 8.0
    case = case_of(operation_ms.sum(axis=0), operations=["DATA", "FORWARD"], operation_ms=operation_ms)
    found = _Excess.of(case, {3: TEN, 1: TEN}, None)
    assert found.rank == 1
    assert found.recorded_ms.tolist() == [60.0, 140.0]
    assert found.work is _UNKNOWN


@pytest.mark.parametrize(("left_ms", "part"), [([4.0, -9.0], 0.6), ([0.0, 0.0], 1.0), ([12.0, 0.0], 0.0)])
def test_what_is_left_is_not_explained(left_ms: list[float], part: float) -> None:
    assert excess(10.0, -5.0).explained(np.array(left_ms)) == part
    assert excess(0.0, -5.0).explained(np.array(left_ms)) == 0.0


# -- by what is stated -------------------------------------------------------------------------------------


def test_work_that_a_rank_has_no_more_of_explains_nothing() -> None:
    more, equal = _Compared(1.5, 0.1), _Compared(1.1, 0.1)
    case = late_rank()
    assert _told_by_work(case, excess(10.0, work=more)) == ("work", WorkOfRank(2, 1.5, 0.8, 1.25))
    assert _told_by_work(case, excess(10.0, work=equal)) == ("machine", WorkOfRank(2, 1.1, 0.0, 1.25))


@pytest.mark.parametrize(("ms", "owner", "part"), [(20.0, "work", 1.0), (40.0, "both", 2 / 3)])
def test_an_operation_done_twice_as_often_explains_half_of_its_time(
    ms: float, owner: str, part: float
) -> None:
    case = late_rank(ms, FORWARD=np.tile([1, 1, 2, 1], (10, 1)))
    told = _told_by_rows(case, {2: TEN}, _Excess.of(case, {2: TEN}, None))
    assert told == (owner, MoreRows(2, "FORWARD", 2.0, pytest.approx(part)))


def test_an_operation_done_as_often_as_by_the_peers_explains_nothing() -> None:
    for case in (late_rank(FORWARD=np.ones((10, 4), np.int64)), late_rank(DATA=np.ones((10, 4), np.int64))):
        slow: Any = {2: TEN}
        assert _told_by_rows(case, slow, _Excess.of(case, slow, None)) == ("unknown", None)


def test_the_owner_is_kept_with_what_tells_it_after_the_evidence_that_is_there() -> None:
    case, first = late_rank(FORWARD=np.tile([1, 1, 2, 1], (10, 1))), SimpleNamespace()
    its: Any = Verdict(verdict="suspect", operation="FORWARD", evidence=(first,))  # type: ignore[arg-type]
    found = owned(Judgement(case, its, slow={2: TEN}), case.times, None).verdict
    assert found.owner == "work"
    assert found.evidence == (first, MoreRows(2, "FORWARD", 2.0, 1.0))
