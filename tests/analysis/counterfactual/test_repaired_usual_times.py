"""Times of a run without an operation, or with one that takes what is usual."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hand_made_cases import POLICY, case_of, times_of

from timing_logger.analysis.counterfactual.repaired import (
    _longer_together,
    is_slow_somewhere,
    operations_of,
    with_usual,
    without,
)
from timing_logger.analysis.rows.arrays import Floats
from timing_logger.results.plain import UNLOGGED

NAN = math.nan
DATA_MS = np.array([[2.0, 4.0], [1.0, NAN]])
FORWARD_MS = np.array([[5.0, 5.0], [6.0, NAN]])
GAP_MS = np.array([[10.0, 9.0], [8.0, NAN]])
TWO = times_of(
    DATA_MS + FORWARD_MS, operations=["DATA", "FORWARD"], operation_ms=np.stack([DATA_MS, FORWARD_MS]),
    gap_ms=GAP_MS, in_gaps_ms={"DATA": np.nan_to_num(DATA_MS), "FORWARD": np.nan_to_num(FORWARD_MS)},
)  # fmt: skip


def test_operations_come_the_longest_first_and_code_that_is_not_timed_is_one() -> None:
    assert operations_of(TWO) == ["FORWARD", "DATA", UNLOGGED]


def test_an_operation_that_takes_no_time_is_none() -> None:
    idle = times_of(
        GAP_MS, operations=["DATA", "FORWARD"], operation_ms=np.stack([0 * GAP_MS, GAP_MS]),
        gap_ms=GAP_MS, in_gaps_ms={"FORWARD": GAP_MS},
    )  # fmt: skip
    assert operations_of(idle) == ["FORWARD"]


def test_without_an_operation_a_rank_has_what_is_left() -> None:
    found = without(TWO, "DATA")
    np.testing.assert_allclose(found.self_ms, FORWARD_MS)
    np.testing.assert_allclose(found.gap_ms, [[8.0, 5.0], [7.0, NAN]])
    np.testing.assert_array_equal(found.operation_ms, [[[0.0, 0.0], [0.0, NAN]], FORWARD_MS])
    assert TWO.operation_ms[0, 0, 0] == 2.0  # which stays as it was


def test_without_code_that_is_not_timed_its_rows_stay() -> None:
    found = without(TWO, UNLOGGED)
    np.testing.assert_allclose(found.gap_ms, DATA_MS + FORWARD_MS)
    np.testing.assert_array_equal(found.operation_ms, TWO.operation_ms)
    np.testing.assert_array_equal(found.self_ms, TWO.self_ms)


def test_of_a_step_a_millionth_is_left_at_least() -> None:
    ms = np.full((2, 2), 4.0)
    found = without(times_of(ms, in_gaps_ms={"FORWARD": ms}), "FORWARD")
    assert found.self_ms.tolist() == [[4e-6] * 2] * 2
    assert found.gap_ms.tolist() == [[4e-6] * 2] * 2


def test_where_no_communication_is_recorded_an_operation_is_in_its_step() -> None:
    ms = np.full((3, 2), 4.0)
    times = times_of(ms, gap_ms=np.full((3, 2), NAN))
    assert operations_of(times) == ["FORWARD"]
    assert without(times, "FORWARD").self_ms == pytest.approx(4e-6)


# -- what is usual -----------------------------------------------------------------------------------------

NOISE = np.exp(np.random.default_rng(0).normal(0, 0.01, (60, 4)))


def usual_ms(forward_ms: Floats) -> Floats:
    """Return what an operation takes in a run in which it takes what is usual."""
    case = case_of(forward_ms, in_gaps_ms={"FORWARD": np.nan_to_num(forward_ms)})
    return with_usual(case, "FORWARD").operation_ms[0]


def test_a_rank_that_takes_longer_in_a_stretch_of_steps_takes_then_what_its_peers_do() -> None:
    slow = 10.0 * NOISE
    slow[20:, 2] *= 1.5
    assert usual_ms(slow) == pytest.approx(10.0 * NOISE, rel=0.05)


def test_a_rank_that_does_what_its_peers_do_without_takes_nothing() -> None:
    alone = np.zeros((60, 4))
    alone[10, 1] = 30.0
    assert usual_ms(alone).tolist() == np.zeros((60, 4)).tolist()


def test_a_step_in_which_all_take_far_longer_takes_what_others_do() -> None:
    slow = 10.0 * NOISE
    slow[33] *= 8.0
    assert usual_ms(slow) == pytest.approx(10.0 * NOISE, rel=0.05)


def test_an_operation_that_takes_what_is_usual_is_left_as_it_is() -> None:
    assert usual_ms(10.0 * NOISE) == pytest.approx(10.0 * NOISE)
    quicker = 10.0 * NOISE
    quicker[20:, 2] /= 1.5
    assert usual_ms(quicker) == pytest.approx(quicker, rel=0.05)


def test_slow_operations_are_told_the_longest_first() -> None:
    even, slow = 10.0 * NOISE, 20.0 * NOISE[:, ::-1]
    slow[20:, 2] *= 1.5
    late = 5.0 * NOISE[::-1]
    late[:, 0] *= 2.0
    case = case_of(
        even + slow + late, operations=["EVEN", "LATE", "SLOW"], operation_ms=np.stack([even, late, slow]),
        in_gaps_ms={"EVEN": even, "LATE": late, "SLOW": slow}, gap_ms=even + late + slow,
    )  # fmt: skip
    assert list(is_slow_somewhere(case)) == ["SLOW", "LATE"]
    assert list(is_slow_somewhere(case_of(even, in_gaps_ms={"FORWARD": even}))) == []


# -- longer together -----------------------------------------------------------------------------------------


def longer(typical_ms: Floats) -> Floats:
    return np.exp(_longer_together(typical_ms[:, None], POLICY))


def test_a_stretch_is_longer_by_as_much_as_it_is_above_the_quickest_one() -> None:
    typical_ms = 10.0 * NOISE[:, 0]
    typical_ms[20:40] *= 1.5
    found = longer(typical_ms)
    assert found[[*range(20), *range(40, 60)]].tolist() == [1.0] * 40
    assert found[20:40] == pytest.approx(1.5, rel=0.02)


def test_a_stretch_that_is_hardly_above_the_quickest_one_is_not_longer() -> None:
    slightly = 10.0 * np.exp(np.random.default_rng(0).normal(0, 1e-4, 60))
    slightly[30:] *= 1 + POLICY.min_score_gap / 2
    assert longer(slightly).tolist() == [1.0] * 60


def test_a_single_step_far_above_the_others_is_longer_than_they_are() -> None:
    typical_ms = 10.0 * NOISE[:, 0]
    typical_ms[7] *= 6.0
    found = longer(typical_ms)
    assert found[7] == pytest.approx(6.0, rel=0.05)
    assert np.delete(found, 7).tolist() == [1.0] * 59


def test_steps_without_the_operation_are_not_longer() -> None:
    assert longer(np.zeros(5)).tolist() == [1.0] * 5
    typical_ms = 10.0 * NOISE[:, 0]
    typical_ms[::10] = 0.0
    typical_ms[5] = 80.0
    assert np.flatnonzero(longer(typical_ms) > 1).tolist() == [5]
