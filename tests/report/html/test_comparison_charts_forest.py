"""The chart of differences: points and intervals are where their values are, and no noise hides the rest."""

from __future__ import annotations

import math

import pytest
from compared_runs import differing, quantity, summary

from timing_logger.analysis.comparison.compare import compare_runs
from timing_logger.report.html._comparison_charts import ChartAxis, Forest, ForestRow, forest


@pytest.fixture(scope="module")
def drawn() -> Forest:
    return forest(compare_runs(differing(5, 1, 1.5), differing(5, 2)))


def row(drawn: Forest, what: str) -> ForestRow:
    return next(one for one in drawn.rows if f"{one.what} {one.of}".strip() == what)


def test_the_step_comes_first_and_then_the_largest_difference(drawn: Forest) -> None:
    assert (drawn.rows[0].what, drawn.rows[0].of) == ("A step", "as a whole")
    assert [abs(float(one.value.split()[0])) for one in drawn.rows[1:]] == sorted(
        (abs(float(one.value.split()[0])) for one in drawn.rows[1:]), reverse=True
    )


def test_a_point_lies_in_its_interval_and_a_sure_one_beside_zero(drawn: Forest) -> None:
    for one in drawn.rows:
        assert one.begin <= one.at <= one.begin + one.width
        if one.is_sure:
            assert not one.begin <= drawn.zero <= one.begin + one.width
    assert {one.is_sure for one in drawn.rows} == {True, False}


def test_what_a_chart_shows_is_said_in_words_too(drawn: Forest) -> None:
    said = row(drawn, "not timed part of the step").says
    assert said.startswith("not timed, part of the step: +3.")
    assert ", between +" in said
    assert said.endswith(", sure")


def test_an_interval_that_is_all_noise_is_cut_and_leaves_room_for_the_others() -> None:
    def runs(more: float, noise: list[float]) -> list:
        return [
            summary(1.0 + 1e-4 * at, quantity("SURE", 10.0 + more + 1e-3 * at), quantity("WILD", ms))
            for at, ms in enumerate(noise)
        ]

    drawn = forest(compare_runs(runs(2.0, [5.0, 900.0, 60.0]), runs(0.0, [600.0, 3.0, 100.0])))
    assert row(drawn, "WILD").is_cut[1]
    sure = row(drawn, "SURE")
    assert not any(sure.is_cut)
    assert abs(sure.at - drawn.zero) > 1.0


@pytest.mark.parametrize(("low", "high"), [(0.0, 5.0), (-3.0, 0.1), (1e-7, 2e-7), (-1e9, 1e9), (0.0, 0.0)])
def test_an_axis_has_a_few_round_labels_in_order(low: float, high: float) -> None:
    axis = ChartAxis.around([low, high])
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 7
    assert [tick.at for tick in ticks] == sorted({tick.at for tick in ticks})
    assert all(
        math.isclose(axis.at(float(tick.label.replace(",", ""))), tick.at, abs_tol=0.01) for tick in ticks
    )


def test_what_lies_beyond_an_end_is_at_that_end() -> None:
    axis = ChartAxis(0.0, 10.0)
    assert (axis.at(-1.0), axis.at(5.0), axis.at(99.0)) == (0.0, 50.0, 100.0)
    assert ChartAxis(0.0, 10.0, 240.0, 12.0).at(10.0) == 12.0
