"""The bar charts of the page: which bars there are, how long they are, and the words beside them."""

from __future__ import annotations

from math import nan
from typing import Any

import pandas as pd
import pytest

from timing_logger.report._limits import FEW_PROCESSES, MOST_LINES
from timing_logger.report.html._charts import (
    _farthest_above,
    _length,
    _on_bars,
    _operation_chart,
    compression_chart,
    overlap_chart,
    overlap_totals,
)
from timing_logger.report.html._crowd import Crowd

FEW = Crowd(2, (0, 1), 0, {})
MANY = Crowd(FEW_PROCESSES + 1, tuple(range(FEW_PROCESSES + 1)), 0, {})


# -- operations ------------------------------------------------------------------------------------------


def shares(*of_ranks: float) -> pd.DataFrame:
    return pd.DataFrame({"rank": range(len(of_ranks)), "incarnation": 1, "wall_share": of_ranks})


def test_bars_are_as_long_as_their_part_of_the_longest_of_all_operations() -> None:
    chart = _operation_chart("load\x1b", shares(0.1, nan, 0.2), 0.4, False)
    assert chart.operation == r"load\u001b"
    assert [(bar.label, bar.value, bar.lengths) for bar in chart.bars] == [
        ("rank 0", "10.0%", (25.0,)), ("rank 2", "20.0%", (50.0,)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("of_ranks", "said"),
    [
        ((0.3, 0.1, 0.2), "10.0% (rank\N{NO-BREAK SPACE}1) to 30.0% (rank\N{NO-BREAK SPACE}0)"),
        ((0.1, 0.1001), "10.0% on each rank"),
        ((0.1,), "10.0%"),
    ],
)
def test_the_ranks_with_least_and_most_are_named_where_they_differ(
    of_ranks: tuple[float, ...], said: str
) -> None:
    assert _operation_chart("load", shares(*of_ranks), 1.0, False).range == said


def test_bars_are_in_the_order_of_the_ranks_or_of_many_from_the_least_to_the_most() -> None:
    rows = shares(*(float(at % 7) for at in range(FEW_PROCESSES + 1)))[::-1]
    few = _operation_chart("load", rows, 6.0, False)
    assert [bar.label for bar in few.bars] == [f"rank {rank}" for rank in range(FEW_PROCESSES + 1)]
    many = _operation_chart("load", rows, 6.0, True)
    lengths = [bar.lengths[0] for bar in many.bars]
    assert len(many.bars) == FEW_PROCESSES
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (0.0, 100.0)


def test_it_is_said_which_ranks_have_bars() -> None:
    assert _on_bars(FEW) == "ranks from left to right"
    assert _on_bars(MANY).startswith(f"of {FEW_PROCESSES + 1} ranks {FEW_PROCESSES}, at equal distances")


def test_rows_are_sorted_by_how_far_they_are_above_what_is_usual_of_their_operation() -> None:
    rows = pd.DataFrame({"operation": [*"aaa", *"bbb"], "total_ms": [1.0, 2.0, 9.0, 100.0, 105.0, 101.0]})
    assert _farthest_above(rows)["total_ms"].tolist() == [9.0, 105.0, 2.0, 101.0, 1.0, 100.0]


def test_of_nothing_a_bar_has_no_length() -> None:
    assert [_length(1.0, most) for most in (0.0, nan, 3.0)] == [0.0, 0.0, 33.33]


# -- overlap ---------------------------------------------------------------------------------------------


def overlap(*ranks: tuple[int, float, float, float]) -> pd.DataFrame:
    """Return a table with a row for each step: the rank, and its ms of communication, exposed and hidden."""
    names = ["rank", "communication_ms", "exposed_ms", "hidden_ms"]
    table = pd.DataFrame(list(ranks), columns=names)
    return table.assign(incarnation=1, compute_ms=1.0, waited_ms=nan, step_ms=10.0)


def test_the_steps_of_a_process_are_summed_and_what_is_unknown_in_all_stays_so() -> None:
    totals = overlap_totals(overlap((0, 4.0, 3.0, 1.0), (0, 4.0, nan, 1.0), (1, 0.0, 0.0, 0.0)))
    assert totals["communication_ms"].tolist() == [8.0, 0.0]
    assert totals["exposed_ms"].tolist() == [3.0, 0.0]
    assert totals["step_ms"].tolist() == [20.0, 10.0]
    assert totals["waited_ms"].isna().all()
    assert totals["overlap"].tolist()[:1] == [0.25]
    assert totals["overlap"].isna().tolist() == [False, True]  # of no communication nothing is hidden


def test_bars_have_a_part_for_what_is_exposed_and_one_for_what_is_hidden() -> None:
    chart = overlap_chart(
        overlap((0, 4000.0, 3000.0, 1000.0), (1, 2000.0, nan, nan), (2, 0.0, 0.0, 0.0)), FEW
    )
    assert [(bar.label, bar.value, bar.lengths) for bar in chart.bars] == [
        ("rank 0", "3.00 s exposed, 1.00 s hidden (25.0%)", (75.0, 25.0)),
        ("rank 1", "2.00 s, not known whether exposed or hidden", (50.0,)),
    ]
    assert [row[0] for row in chart.table.rows] == ["0", "1", "2"]
    assert (chart.brief, chart.left_out) == ("", "")
    assert len(chart.diagnostics) == 1


def test_of_many_ranks_those_that_are_exposed_most_have_bars() -> None:
    n = len(MANY.worst_first)
    chart = overlap_chart(overlap(*((rank, 100.0, float(rank), 1.0) for rank in range(n))), MANY)
    assert [bar.label for bar in chart.bars] == [f"rank {n - 1 - at}" for at in range(MOST_LINES)]
    assert chart.left_out.startswith(f"Of {n} rows these are the {MOST_LINES} with most exposed")
    assert chart.left_out == chart.table.note


@pytest.mark.parametrize(
    ("ranks", "brief"),
    [
        ([(0, 0.0, 0.0, 0.0)], "No communication has instants."),
        ([(0, 1000.0, 1000.0, 0.0)], "All communication was exposed, 1.00 s on each rank: "),
        (
            [(0, 1000.0, 1000.0, 0.4), (1, 2000.0, 2000.0, 0.0)],
            "All communication was exposed, 1.00 s to 2.00 s on each rank: ",
        ),
        ([(0, 1000.0, 1000.0, 0.5)], ""),
        ([(0, 1000.0, 1000.0, 0.0), (1, 1000.0, nan, nan)], ""),
    ],
)
def test_where_nothing_is_hidden_a_sentence_says_so(
    ranks: list[tuple[int, float, float, float]], brief: str
) -> None:
    found = overlap_chart(overlap(*ranks), FEW).brief
    assert found.startswith(brief)
    assert bool(found) == bool(brief)


# -- compression -----------------------------------------------------------------------------------------


def test_a_layer_at_its_break_even_has_half_of_the_width_and_twice_that_has_all() -> None:
    columns = [
        "phase", "count", "compress_ms", "transfer_ms", "decompress_ms", "achieved_ms", "dense_estimate_ms",
        "extrapolated_by", "dense_bytes", "sent_bytes", "saved_bytes",
    ]  # fmt: skip
    layers: dict[str, Any] = {
        "layer_name": ["a", "", "c", "d"], "break_even": [1.0, 0.5, 3.0, nan],
        "pays": [False, True, None, True],
    }  # fmt: skip
    chart = compression_chart(pd.DataFrame({**layers, **dict.fromkeys(columns, 1.0)}))
    assert [(bar.label, bar.value, bar.lengths) for bar in chart.bars] == [
        ("a", "1.00, does not pay", (50.0,)), ("(no layer)", "0.50, pays", (25.0,)),
        ("c", "3.00, not known", (100.0,)),
    ]  # fmt: skip
    assert len(chart.table.rows) == 4
