"""Which rows the timeline draws, and where: on the axis that all ranks have, or on their own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from page_data import unpacked
from rank_tables import aligned
from rank_tables import quick_table as table
from slow import slow
from timing_files import record

from timing_logger.report.html import _timeline
from timing_logger.report.html._timeline import Timeline, TimelineData, kind_of, spans_of, timeline
from timing_logger.schema.record import LARGEST, Record


def rows_of(*elapsed_ms: float, first_s: float = 1.0) -> list[Record]:
    """Return rows one second apart, with these durations."""
    return [record("FORWARD", first_s + i, ms, iteration=i) for i, ms in enumerate(elapsed_ms)]


def kept_ms(timings: pd.DataFrame) -> list[list[int]]:
    """Return the durations of the rows that are kept of each rank, in ms."""
    rows = spans_of(timings).rows
    return [np.rint(1e3 * of.to_numpy()).tolist() for _, of in rows.groupby("rank")["duration_s"]]


def data_of(drawn: Timeline) -> TimelineData:
    assert drawn.data is not None
    return drawn.data


@pytest.mark.parametrize("most_spans", [2, slow(1, "the same rows are kept")])
def test_of_too_many_rows_the_longest_of_each_rank_are_kept(
    monkeypatch: pytest.MonkeyPatch, most_spans: int
) -> None:
    monkeypatch.setattr(_timeline, "MAX_SPANS", most_spans)
    monkeypatch.setattr(_timeline, "SPANS_OF_MANY", 2)
    run = table(rows_of(1, 1), rows_of(9, 2, 3), rows_of(4, 6, 5))
    assert kept_ms(aligned(run)) == kept_ms(run) == [[1, 1], [9, 3], [6, 5]]


def test_of_too_many_rows_the_longest_of_all_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_timeline, "MAX_SPANS", 3)
    monkeypatch.setattr(_timeline, "SPANS_OF_MANY", 1)
    assert kept_ms(table(rows_of(1, 2), rows_of(9, 7, 8))) == [[2], [9, 7, 8]]


def test_of_equally_long_rows_the_first_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_timeline, "MAX_SPANS", 3)
    drawn = timeline(table(rows_of(1, 5, 5, 5, 9)))
    assert unpacked(data_of(drawn)["iteration"]).tolist() == [1, 2, 4]
    assert (drawn.n_spans, drawn.left_out) == (3, 2)
    assert drawn.shortest_ms == pytest.approx(5)


def test_as_many_rows_as_are_drawn_at_most_are_all_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_timeline, "MAX_SPANS", 3)
    drawn = timeline(table(rows_of(1, 2), rows_of(3)))
    assert (drawn.n_spans, drawn.left_out, drawn.shortest_ms) == (3, 0, 0.0)


def test_rows_without_an_end_have_no_place() -> None:
    drawn = timeline(table([*rows_of(1, 2), record(start_s=4.0, elapsed_ms=None)]))
    assert (drawn.n_spans, drawn.without_instants) == (2, 1)
    nothing = timeline(table([record(elapsed_ms=None)]))
    assert (nothing.n_spans, nothing.without_instants, nothing.data) == (0, 1, None)


def test_on_a_common_axis_a_rank_that_begins_later_is_drawn_later() -> None:
    drawn = timeline(aligned(table(rows_of(500), rows_of(500, first_s=3.0))))
    data = data_of(drawn)
    assert (unpacked(data["begin"]) * data["tick_s"]).tolist() == pytest.approx([0.0, 2.0], abs=1e-8)
    assert drawn.origins_s == {(0, 1): 1.0, (1, 1): 1.0}
    assert drawn.length_s == pytest.approx(2.5)


def test_without_a_common_axis_each_rank_begins_with_its_first_row() -> None:
    drawn = timeline(table(rows_of(500), rows_of(500, first_s=3.0)))
    assert unpacked(data_of(drawn)["begin"]).tolist() == [0, 0]
    assert drawn.origins_s == {(0, 1): 1.0, (1, 1): 3.0}
    assert drawn.length_s == pytest.approx(0.5)


def test_ranks_of_which_one_is_not_aligned_have_no_common_axis() -> None:
    run = aligned(table(rows_of(1), rows_of(1)))
    assert timeline(run).is_common
    assert not timeline(run.assign(clock_uncertainty_s=[0.0, np.nan])).is_common


def test_a_lane_has_the_rows_of_a_thread_by_start_and_the_outer_of_two_first() -> None:
    rows = [
        record("FORWARD", 2.0, 100.0, iteration=0),
        record("FORWARD", 1.0, 100.0, iteration=1),
        record("FORWARD", 1.0, 900.0, iteration=2),
        record("FORWARD", 1.0, 100.0, iteration=3, thread="loader"),
        record("FORWARD", 1.0, 100.0, iteration=4, clock="device"),
    ]
    data = data_of(timeline(table(rows)))
    assert [lane["thread"] for lane in data["lanes"]] == ["MainThread", "MainThread (device)", "loader"]
    assert data["lane_starts"] == [0, 3, 4, 5]
    assert unpacked(data["iteration"]).tolist() == [2, 1, 0, 4, 3]


@pytest.mark.parametrize(
    ("iterations", "dtype", "drawn"),
    [
        ([0, None], "int32", [0, -1]),
        *(
            pytest.param(*case, marks=pytest.mark.slow("between others that are tried"))
            for case in (
                ([2**31 - 1, 5], "int32", [2**31 - 1, 5]),
                ([2**31, 5], "float64", [2**31, 5]),
            )
        ),
        ([LARGEST, LARGEST + 1], "float64", [LARGEST, -1]),
    ],
)
def test_iterations_are_as_they_are_counted_and_unknown_ones_are_minus_one(
    iterations: list[int | None], dtype: str, drawn: list[int]
) -> None:
    rows = [record("FORWARD", 1.0 + i, iteration=n) for i, n in enumerate(iterations)]
    packed = data_of(timeline(table(rows)))["iteration"]
    assert (packed["dtype"], unpacked(packed).tolist()) == (dtype, drawn)


def test_epochs_are_there_if_some_row_states_one() -> None:
    rows = rows_of(1, 1)
    blank = [row._replace(epoch=None) for row in rows]
    assert data_of(timeline(table(blank)))["epoch"] is None
    epoch = data_of(timeline(table([rows[0], blank[1]])))["epoch"]
    assert epoch is not None
    assert unpacked(epoch).tolist() == [0, -1]


def test_the_legend_names_kinds_in_an_order_of_its_own() -> None:
    kinds = {
        "any": "own work",
        "SEND": "communication",
        "WAIT": "waiting",
        "H2D": "copies",
        "NEW_GROUP": "others",
    }
    assert {name: kind_of(name) for name in kinds} == kinds
    drawn = timeline(table([record(name, 1.0 + i) for i, name in enumerate(reversed(kinds))]))
    assert drawn.kinds == list(kinds.values())
