"""How a table of any library is opened for an analysis, and how columns of results are made."""

from __future__ import annotations

import math
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

from timing_logger.analysis.rows.tables import (
    like,
    new_columns,
    nullable,
    nullable_integers,
    opened,
    taken,
    text_column,
)
from timing_logger.errors import TableError

LIBRARIES = [pytest.param(pd.DataFrame, id="pandas"), pytest.param(pl.DataFrame, id="polars")]
LARGEST = 2**53 - 1


@pytest.mark.parametrize("made", LIBRARIES)
@pytest.mark.parametrize(
    "ranks", [[0, 1, 1], [0.0, 1.0, 1.0], np.array([0, 1, 1], np.int32)], ids=["integers", "floats", "small"]
)
def test_ranks_are_whole_numbers_whatever_they_came_as(made: Any, ranks: Any) -> None:
    frame = opened(made({"rank": ranks}), ["rank"])
    assert frame["rank"].dtype.is_integer()
    assert frame["rank"].to_list() == [0, 1, 1]


@pytest.mark.parametrize("made", LIBRARIES)
def test_a_table_without_incarnations_is_of_the_first(made: Any) -> None:
    assert opened(made({"rank": [0, 3]}), ["rank"])["incarnation"].to_list() == [1, 1]
    assert opened(made({"rank": [0, 3], "incarnation": [2.0, 1.0]}), ["rank"])["incarnation"].to_list() == [
        2,
        1,
    ]


@pytest.mark.parametrize("made", LIBRARIES)
@pytest.mark.parametrize("name", ["rank", "incarnation"])
@pytest.mark.parametrize("wrong", [1.5, None, math.nan])
def test_a_row_of_no_rank_is_refused_with_how_many_there_are(
    made: Any, name: str, wrong: float | None
) -> None:
    columns = {"rank": [0.0, 1.0, 2.0], "incarnation": [1.0, 1.0, 1.0]}
    columns[name][1] = wrong  # type: ignore[call-overload]
    with pytest.raises(TableError, match=rf"the column '{name}' is no whole number in 1 of 3 rows"):
        opened(made(columns), ["rank"])


def test_texts_are_no_ranks_unless_they_are_numbers() -> None:
    with pytest.raises(TableError, match="no whole number in 2 of 2 rows"):
        opened(pd.DataFrame({"rank": ["a", "b"]}), ["rank"])


def test_rows_that_say_no_rank_are_refused_and_messages_need_none() -> None:
    with pytest.raises(TableError, match="there is no column 'rank'"):
        opened(pd.DataFrame({"seq": [1]}), ["seq"])
    assert opened(pd.DataFrame({"seq": [1]}), ["seq"], by_rank=False)["seq"].to_list() == [1]


@pytest.mark.parametrize("made", LIBRARIES)
def test_columns_that_are_needed_and_lacking_are_blank_each_in_its_kind(made: Any) -> None:
    needed = ["rank", "seq", "elapsed_ms", "start_counter", "group", "clock", "status"]
    frame = opened(made({"rank": [0, 1]}), needed)
    assert set(frame.columns) == {*needed, "incarnation"}
    assert frame["seq"].null_count() == 2
    assert frame["seq"].dtype.is_integer()
    assert np.isnan(frame["elapsed_ms"].to_numpy()).all()
    assert np.isnan(frame["start_counter"].to_numpy()).all()
    assert frame["group"].to_list() == ["", ""]
    assert frame["clock"].to_list() == ["host", "host"]
    assert frame["status"].to_list() == ["ok", "ok"]


def test_columns_that_are_there_stay_as_they_are() -> None:
    frame = opened(pd.DataFrame({"rank": [0], "group": ["dp"], "mine": [7]}), ["group"])
    assert (frame["group"].to_list(), frame["mine"].to_list()) == (["dp"], [7])


@pytest.mark.parametrize("kind", ["int64", "Int64", "float64", "polars"])
@pytest.mark.parametrize(("value", "is_kept"), [(LARGEST, True), (-LARGEST, True), (LARGEST + 3, False),
                                                (-LARGEST - 3, False)])  # fmt: skip
def test_integers_that_no_float_holds_are_blank_unless_they_are_shown(
    kind: str, value: int, is_kept: bool
) -> None:
    columns = {"rank": [0, 0], "seq": [5, value]}
    table = pl.DataFrame(columns) if kind == "polars" else pd.DataFrame(columns).astype({"seq": kind})
    assert opened(table, ["seq"])["seq"].is_null().to_list() == [False, not is_kept]
    assert not opened(table, ["seq"], as_recorded=True)["seq"].null_count()


def test_a_lazy_table_is_collected() -> None:
    assert opened(pl.LazyFrame({"rank": [2]}), ["rank"])["rank"].to_list() == [2]


def test_the_sidecars_stay_with_the_callers_table() -> None:
    timings = pd.DataFrame({"rank": [0]})
    timings.attrs["files"] = []
    assert opened(timings, ["rank"]).to_native().attrs == {}
    assert timings.attrs == {"files": []}


def test_what_an_analysis_works_on_has_no_sidecars_that_each_column_would_copy() -> None:
    timings = pd.DataFrame({"rank": [0], "operation": ["A"]})
    timings.attrs["files"] = [{"rank": 0}]
    assert opened(timings, ("operation",)).to_native().attrs == {}


def test_of_a_source_that_tells_no_instants_only_the_order_of_rows_is_left() -> None:
    timings = pd.DataFrame(
        {"rank": [0, 1, 1], "start_counter": 1.0, "end_counter": 2.0, "start_s": 1.0, "end_s": 2.0}
    )
    source = {
        "path": "x",
        "rank": 1,
        "incarnation": 1,
        "rows": 2,
        "sidecar": {"imported": {"not_told": ["instants"]}},
    }
    timings.attrs["files"] = [source]
    frame = opened(timings, ["rank"])
    for name in ("end_counter", "start_s", "end_s"):
        assert np.isnan(frame[name].to_numpy()).tolist() == [False, True, True]
    assert frame["start_counter"].to_list() == [1.0] * 3
    assert opened(timings, ["rank"], as_laid_out=True)["end_s"].to_list() == [2.0] * 3


# -- columns of a result ---------------------------------------------------------------------------------


@pytest.mark.parametrize("made", LIBRARIES)
def test_columns_of_a_result_are_of_the_tables_library(made: Any) -> None:
    frame = nw.from_native(made({"rank": [0, 1]}), eager_only=True)
    both = new_columns(frame, {"a": np.array([1.0, 2.0]), "b": np.array([3, 4])})
    assert [(column.name, column.to_list()) for column in both] == [("a", [1.0, 2.0]), ("b", [3, 4])]
    numbered = nullable_integers(frame, "n", np.array([3.0, math.nan]))
    assert (numbered.is_null().to_list(), numbered[0]) == ([False, True], 3)
    told = nullable(frame, "t", np.array([True, True]), np.array([True, False]))
    assert (told.is_null().to_list(), told[1]) == ([True, False], True)
    assert text_column(frame, "x", ["b", "a"], np.array([1, 0])).to_list() == ["a", "b"]
    assert {column.implementation for column in (*both, numbered, told)} == {frame.implementation}


def test_text_is_categorical_where_the_operations_are_unless_a_text_comes_twice() -> None:
    kinds = {}
    for texts in (["a", "b"], ["a", "a"]):
        operations = pd.DataFrame({"operation": pd.Categorical(["SEND", "RECV"])})
        column = text_column(nw.from_native(operations, eager_only=True), "x", texts, np.array([1, 0]))
        kinds[texts[1]] = column.dtype
        assert [str(text) for text in column.to_list()] == [texts[1], texts[0]]
    assert kinds == {"b": nw.Categorical, "a": nw.String}


@pytest.mark.parametrize("made", LIBRARIES)
def test_rows_are_taken_by_position_with_the_columns_that_are_wanted(made: Any) -> None:
    frame = nw.from_native(made({"rank": [0, 1, 2], "seq": [7, 8, 9], "more": [0, 0, 0]}), eager_only=True)
    found = taken(frame, ["seq", "rank"], np.array([2, 0]))
    assert (found.columns, found["seq"].to_list(), found["rank"].to_list()) == (
        ["seq", "rank"],
        [9, 7],
        [2, 0],
    )


@pytest.mark.parametrize("made", LIBRARIES)
def test_a_table_of_few_rows_has_its_types_though_it_is_empty(made: Any) -> None:
    frame = nw.from_native(made({"rank": [0]}), eager_only=True)
    schema = {"rank": nw.Int64(), "share": nw.Float64()}
    assert nw.from_native(like(frame, schema, [(1, 0.5)])).rows() == [(1, 0.5)]
    empty = nw.from_native(like(frame, schema, []))
    assert dict(empty.schema) == schema
    assert not len(empty)
