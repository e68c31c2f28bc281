"""What the times would be if ranks had as much to do: by how a time grows with the work."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hand_made_cases import POLICY, case_of, times_of

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.step_times.workload import Workload
from timing_logger.analysis.verdict.owner import (
    Assumption,
    _across_ranks,
    at_equal_work,
    equal_shares,
    growth_of,
    owner_by_part,
    times_as_long,
)
from timing_logger.results.policy import Policy


def varying(n_steps: int = 60, n_ranks: int = 3, by: float = 2.0) -> Floats:
    """Return work that each rank now has and then has so many times as much of."""
    return 100.0 * np.where(np.arange(n_steps) % 2, 1.0, by)[:, None] * np.ones(n_ranks)


def given(work: Floats) -> Workload:
    return Workload({"FORWARD": work}, None, {})


# -- how a time grows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_a_time_grows_with_the_work_by_the_exponent_that_the_run_shows(exponent: float) -> None:
    work = varying()
    found = growth_of(work, 3.0 * work**exponent * np.array([1.0, 2.0, 5.0]), POLICY)
    assert found == pytest.approx(exponent)


def test_a_growth_that_every_step_follows_is_known_without_error() -> None:
    work = np.linspace(50.0, 200.0, 60)[:, None] * np.ones(3)
    assert growth_of(work, 3.0 * work**2, Policy(max_growth_error=1e-9)) == pytest.approx(2.0)


def test_where_ranks_always_have_as_much_to_do_no_growth_is_told() -> None:
    even = np.full((60, 3), 100.0)
    assert growth_of(even, even, POLICY) is None


@pytest.mark.parametrize(("n_steps", "is_assumed"), [(30, False), (29, True)])
def test_a_growth_is_told_by_thirds_of_ten_steps(n_steps: int, is_assumed: bool) -> None:
    work = varying(n_steps, 1)
    assert (growth_of(work, work, POLICY) is None) is is_assumed


def test_steps_without_work_or_time_show_no_growth() -> None:
    work = varying(30, 1)
    for unusable in (0.0, math.nan):
        less, its_ms = work.copy(), work.copy()
        less[0], its_ms[1] = unusable, unusable
        assert growth_of(less, work, POLICY) is None
        assert growth_of(work, its_ms, POLICY) is None


@pytest.mark.parametrize(("by", "is_assumed"), [(math.exp(0.101), False), (math.exp(0.099), True)])
def test_work_that_hardly_varies_shows_no_growth(by: float, is_assumed: bool) -> None:
    work = varying(by=by)
    assert (growth_of(work, work, POLICY) is None) is is_assumed


def noisy(exponent: float, size: float) -> Floats:
    """Return times of one rank that grow with the work, beside which they are scattered evenly."""
    scattered = np.tile(np.repeat([-size, 0.0, size], 2), 10)
    return (varying(60, 1) ** exponent) * np.exp(scattered)[:, None]


def error_of(size: float) -> float:
    return math.hypot(*[1.2533 * 1.4826 * size / 20**0.5] * 2) / math.log(2)


def test_a_growth_is_told_if_it_is_known_to_within_the_errors_of_both_medians() -> None:
    work, its_ms = varying(60, 1), noisy(1.0, 0.2)
    error = error_of(0.2)
    assert growth_of(work, its_ms, Policy(max_growth_error=1.0001 * error)) == pytest.approx(1.0)
    assert growth_of(work, its_ms, Policy(max_growth_error=0.9999 * error)) is None


@pytest.mark.parametrize(("exponent", "found"), [(0.4, 0.4), (0.3, 0.0)])
def test_a_growth_of_less_than_two_errors_is_none(exponent: float, found: float) -> None:
    assert 0.3 < 2 * error_of(0.2) < 0.4
    assert growth_of(varying(60, 1), noisy(exponent, 0.2), POLICY) == pytest.approx(found)


# -- equal shares -------------------------------------------------------------------------------------------


def test_all_ranks_have_as_much_in_each_step_and_together_the_same() -> None:
    nan = math.nan
    found = equal_shares(np.array([[1.0, 3.0, 8.0], [2.0, nan, 4.0], [nan, nan, nan]]))
    assert found.tolist() == [
        [4.0, 4.0, 4.0], pytest.approx([3.0, nan, 3.0], nan_ok=True), pytest.approx([nan] * 3, nan_ok=True)
    ]  # fmt: skip


def test_times_are_scaled_by_what_ranks_should_have_to_do() -> None:
    work = varying()
    work[:, 2] *= 4.0
    case = case_of(work / 10, workload=given(work), gap_ms=work / 10 + 1.0)
    found = at_equal_work(case, equal_shares)
    assert found.self_ms == pytest.approx(np.repeat(2 * varying()[:, :1] / 10, 3, axis=1))
    assert found.operation_ms[0] == pytest.approx(found.self_ms)
    assert found.gap_ms == pytest.approx(found.self_ms + 1.0)


def test_time_between_rows_is_scaled_by_the_work_of_the_step() -> None:
    work = varying()
    work[:, 2] *= 4.0
    case = case_of(
        np.full((60, 3), 5.0), gap_ms=5.0 + work / 10, workload=Workload({"UNLOGGED": work}, None, {})
    )
    found = at_equal_work(case, equal_shares)
    assert found.self_ms == pytest.approx(np.full((60, 3), 5.0))
    assert found.gap_ms == pytest.approx(np.repeat(5.0 + 2 * varying()[:, :1] / 10, 3, axis=1))


def test_times_without_any_are_unknown_and_what_states_no_work_stays() -> None:
    self_ms = np.full((60, 3), 5.0)
    self_ms[3] = 0.0
    found = at_equal_work(case_of(self_ms), equal_shares).self_ms
    assert np.isnan(found[3]).all()
    assert found[4].tolist() == [5.0] * 3


def once(assumed: Assumption, work: list[float], its_ms: list[float]) -> list[float]:
    """Return the times of a step of which it is assumed how they grow with the work."""
    case = case_of(np.array([its_ms]), workload=given(np.array([work])))
    found: list[float] = at_equal_work(case, equal_shares, assumed=assumed).self_ms[0].tolist()
    return found


def test_more_work_than_the_peers_have_explains_what_a_rank_takes_beyond_them() -> None:
    assert once("beyond-peers", [10.0, 10.0, 20.0], [5.0, 5.0, 12.0]) == [5.0, 5.0, 6.0]
    assert once("beyond-peers", [10.0, 10.0, 40.0], [5.0, 5.0, 12.0]) == [5.0, 5.0, 5.0]
    assert once("beyond-peers", [10.0, 10.0, 20.0], [5.0, 5.0, 4.0]) == [5.0, 5.0, 4.0]


def test_less_work_than_the_peers_have_explains_nothing() -> None:
    assert once("beyond-peers", [10.0, 10.0, 5.0], [5.0, 5.0, 12.0]) == [5.0, 5.0, 12.0]


def test_ranks_with_more_work_may_take_what_their_peers_do() -> None:
    assert once("as-peers", [10.0, 10.0, 11.0], [5.0, 5.0, 12.0]) == [5.0, 5.0, 5.0]
    assert once("as-peers", [10.0, 10.0, 10.0], [5.0, 5.0, 12.0]) == [5.0, 5.0, 12.0]
    assert once("as-peers", [10.0, 10.0, 11.0], [5.0, 5.0, 4.0]) == [5.0, 5.0, 4.0]


def test_times_may_not_depend_on_the_work_or_as_they_do_from_rank_to_rank() -> None:
    work, its_ms = [10.0, 20.0, 30.0], [1.0, 2.0, 3.0]
    assert once("nothing", work, its_ms) == its_ms
    assert once("across-ranks", work, its_ms) == pytest.approx([2.0, 2.0, 2.0])


def test_each_role_is_scaled_by_itself() -> None:
    case = case_of(
        np.array([[1.0, 2.0, 10.0, 20.0]]), roles=["a", "a", "b", "b"],
        workload=given(np.array([[1.0, 2.0, 5.0, 10.0]])),
    )  # fmt: skip
    assert at_equal_work(case, equal_shares).self_ms[0].tolist() == [1.0, 1.0, 10.0, 10.0]


# -- from rank to rank --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("exponent", "found"), [(0.5, 0.5), (1.0, 1.0), (1.5, 1.0), (-0.5, 0.0)])
def test_what_grows_from_rank_to_rank_is_an_exponent_from_0_to_1(exponent: float, found: float) -> None:
    work = np.array([[1.0, 2.0, 7.0]] * 4)
    assert _across_ranks(work, 3 * work**exponent, POLICY) == pytest.approx(found)


@pytest.mark.parametrize(("apart", "found"), [(0.101, 1.0), (0.099, 0.0)])
def test_ranks_whose_work_hardly_differs_show_no_growth(apart: float, found: float) -> None:
    work = np.exp([[0.0, apart]])
    assert _across_ranks(work, work, POLICY) == pytest.approx(found)


def test_one_known_rank_shows_no_growth_and_two_do() -> None:
    nan = math.nan
    assert _across_ranks(np.array([[1.0, nan, 4.0]]), np.array([[1.0, 2.0, nan]]), POLICY) == 0.0
    assert _across_ranks(np.array([[1.0, nan, 4.0]]), np.array([[1.0, 2.0, 4.0]]), POLICY) == 1.0
    assert _across_ranks(np.array([[1.0, 4.0, 9.0]]), np.array([[1.0, 4.0, nan]]), POLICY) == 1.0


# -- what it explains ---------------------------------------------------------------------------------------


def test_a_rank_takes_longer_by_the_time_between_communication_or_by_its_own_if_that_is_unknown() -> None:
    nan = math.nan
    times = times_of(np.array([[6.0, 6.0, nan, 0.0]]), gap_ms=np.array([[8.0, nan, 9.0, 0.0]]))
    other = times_of(np.array([[3.0, 3.0, nan, 1.0]]), gap_ms=np.array([[2.0, nan, 3.0, 1.0]]))
    assert times_as_long(times, other).tolist() == [[4.0, 2.0, 3.0, 1.0]]
    assert times_as_long(other, times).tolist() == [[0.25, 0.5, pytest.approx(1 / 3), 1.0]]


@pytest.mark.parametrize(
    ("explained", "owner"), [(0.75, "work"), (0.74, "both"), (0.26, "both"), (0.25, "rank"), (0.0, "rank")]
)
def test_the_owner_is_told_by_the_part_that_more_work_explains(explained: float, owner: str) -> None:
    assert owner_by_part(explained, POLICY, otherwise="rank") == owner
