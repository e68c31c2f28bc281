"""An axis has its values between its ends, and labels that are round numbers."""

from __future__ import annotations

import pytest

from timing_logger.report.html._comparison_charts import ChartAxis


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([10.0, 30.0, 20.0], (9.0, 31.0)),
        ([40.0, 40.0], (38.0, 42.0)),
        ([0.0], (-0.05, 0.05)),
        ([-40.0], (-42.0, -38.0)),
    ],
)
def test_some_space_is_left_free_at_both_ends(values: list[float], ends: tuple[float, float]) -> None:
    axis = ChartAxis.around(values)
    assert (axis.low, axis.high) == pytest.approx(ends)


@pytest.mark.parametrize(
    ("value", "place"), [(2.0, 10.0), (4.0, 20.0), (3.0, 15.0), (1.0, 10.0), (9.0, 20.0), (8 / 3, 13.333)]
)
def test_a_value_has_its_place_and_what_is_beyond_an_end_is_there(value: float, place: float) -> None:
    assert ChartAxis(2.0, 4.0, 10.0, 20.0).at(value) == place


def test_an_axis_without_length_begins_with_its_value() -> None:
    assert ChartAxis(2.0, 2.0).at(2.0) == 0.0


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.0, 100.0, ["0", "20", "40", "60", "80", "100"]),
        (0.0, 120.0, ["0", "20", "40", "60", "80", "100", "120"]),
        (0.0, 121.0, ["0", "50", "100"]),
        (-1.0, 1.0, ["-1", "-0.5", "0", "0.5", "1"]),
        (990.0, 1010.0, ["990", "995", "1,000", "1,005", "1,010"]),
    ],
)
def test_labels_are_round_numbers_and_few(low: float, high: float, labels: list[str]) -> None:
    ticks = ChartAxis(low, high).ticks()
    assert [tick.label for tick in ticks] == labels
    assert [tick.at for tick in ticks] == sorted(tick.at for tick in ticks)


def test_labels_of_differences_have_a_sign_but_for_zero() -> None:
    assert [tick.label for tick in ChartAxis(-1.0, 1.0).ticks(signed=True)] == [
        "-1",
        "-0.5",
        "0",
        "+0.5",
        "+1",
    ]
