"""The tables of a summary, and what is said of the rows that they leave out."""

from __future__ import annotations

from math import nan
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from timing_logger.report._account_figures import AccountFigures, operations_and_not_timed
from timing_logger.report._limits import MOST_LINES
from timing_logger.report.summary import (
    _files,
    _heading,
    _on_many_ranks,
    _on_operations_left_out,
    _on_rows_beside_others,
    _operations_table,
    _worst_first,
)


def of_rank(rank: int, operation: str = "load", **changed: Any) -> dict[str, Any]:
    known = {
        "operation": operation, "rank": rank, "incarnation": 1, "count": 7, "bytes": 2048, "p50_ms": 1.5,
        "p99_ms": 2.5, "total_ms": 10.0, "wall_share": 0.25,
    }  # fmt: skip
    return {**known, **changed}


def cells_of(*by_operation: list[dict[str, Any]]) -> list[list[str]]:
    table = _operations_table(by_operation, 10, everything=True)
    return [[str(cell) for cell in column.cells] for column in table.columns]


def test_the_name_of_an_operation_stands_beside_its_first_rank_only() -> None:
    names, ranks, *_ = cells_of([of_rank(0), of_rank(1)], [of_rank(0, "train"), of_rank(1, "train")])
    assert (names, ranks) == (["load", "", "train", ""], ["0", "1", "0", "1"])


def test_the_process_of_a_rank_is_told_where_there_are_several() -> None:
    _, ranks, processes, *_ = cells_of([of_rank(0), of_rank(0, incarnation=2)])
    assert (ranks, processes) == (["0", "0"], ["1", "2"])


def test_a_bar_is_as_long_as_its_part_of_the_longest_of_its_operation() -> None:
    *_, bars, _ = cells_of([of_rank(0), of_rank(1, total_ms=5.0)], [of_rank(0, "train", total_ms=1.0)])
    assert [len(cell.strip()) for cell in bars] == [10, 5, 10]


@pytest.mark.parametrize(("everything", "n_shown"), [(True, MOST_LINES + 1), (False, 5)])
def test_of_many_ranks_of_an_operation_five_are_shown(everything: bool, n_shown: int) -> None:
    rows = [of_rank(rank, total_ms=float(rank)) for rank in range(MOST_LINES + 1)]
    assert len(_operations_table([rows], 10, everything).rows) == n_shown


# -- the heading -----------------------------------------------------------------------------------------


def summary_of(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def file_at(path: str, rank: int = 0, rows: int = 700) -> dict[str, Any]:
    return {"path": path, "rank": rank, "rows": rows, "bytes": 2000}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([file_at("/a/b/x.csv", 0), file_at("/a/b/y.csv", 0)], "/a/b: 1,400 rows of 1 rank"),
        ([file_at("/a/b/x.csv", 0, 1), file_at("/a/c/y.csv", 3, 0)], "/a: 1 row of 2 ranks"),
    ],
)
def test_the_heading_names_the_folder_that_all_files_are_in(files: list[dict[str, Any]], said: str) -> None:
    assert _heading(summary_of(files=files)) == said


# -- the files -------------------------------------------------------------------------------------------


def files_text(n: int, everything: bool = False, **fields: Any) -> str:
    complete = {
        "rows": 5, "accepted": 5, "written": 5, "dropped": 0, "pending": 0, "closed": True, "agrees": True
    }  # fmt: skip
    counters = [{**complete, **fields, "file": f"f{i}.csv"} for i in range(n)]
    files = [file_at(f"/a/f{i}.csv", i) for i in range(n)]
    return _files(summary_of(files=files, counters=counters), 150, everything)


def test_of_complete_files_it_is_said_that_they_are_unless_all_are_asked_for() -> None:
    assert files_text(2) == "2 files: closed, every record written."
    assert files_text(2, everything=True).count(".csv") == 2
    assert files_text(0) == ""


@pytest.mark.parametrize(("n", "everything", "n_shown"), [(20, False, 20), (21, False, 20), (21, True, 21)])
def test_of_many_files_that_are_not_complete_the_first_are_shown(
    n: int, everything: bool, n_shown: int
) -> None:
    said = files_text(n, everything, dropped=1)
    assert said.count(".csv") == n_shown
    assert ("Of 21 files that are not complete these are the 20 that come first" in said) is (n_shown < n)


def test_what_is_not_known_of_a_file_is_told_as_such() -> None:
    row = files_text(1, written=None, accepted=None, pending=None, closed=None).splitlines()[-1]
    assert row.split() == ["f0.csv", "5", "2", "kB", "-", "-", "0", "-", "-"]


# -- sentences -------------------------------------------------------------------------------------------


def test_operations_that_are_left_out_are_counted_with_the_longest_of_their_times() -> None:
    left_out = [[of_rank(0, total_ms=1500.0), of_rank(1, total_ms=2500.0)], [of_rank(0, "train")]]
    assert _on_operations_left_out([]) == ""
    assert _on_operations_left_out(left_out) == (
        "2 operations more, with 2.50 s or less on a rank: --all shows them."
    )


@pytest.mark.parametrize("n_ranks", [20, 21])
def test_which_of_many_ranks_an_operation_shows_is_said_from_21_on(n_ranks: int) -> None:
    assert len(list(_on_many_ranks(n_ranks))) == (n_ranks == 21)


def test_rows_that_lie_beside_others_are_explained_where_there_are_any() -> None:
    (said,) = _on_rows_beside_others(summary_of(operations=pd.DataFrame({"operation": ["WAIT", "load"]})))
    assert said.startswith("WAIT: time blocked on an operation")
    assert not list(_on_rows_beside_others(summary_of(operations=pd.DataFrame({"operation": ["load"]}))))


# -- the ranks -------------------------------------------------------------------------------------------


def test_ranks_without_an_account_come_first_and_then_those_that_others_waited_for_longest() -> None:
    ranks = pd.DataFrame({"rank": [0, 1, 2, 3], "incarnation": 1})
    known = pd.DataFrame({"rank": [0, 1, 2], "incarnation": 1, "waiting_ms": [5.0, 9.0, 1.0]})
    waiting = pd.DataFrame({
        "rank": [0, 1, 0], "waited_for": [2, 2, 1], "ms": [5.0, 8.0, 1.0], "share": 0.1,
    })  # fmt: skip
    figures = AccountFigures(known, waiting, 0)
    assert figures.worst_first()["rank"].tolist() == [2, 1, 0]
    assert _worst_first(ranks, figures)["rank"].tolist() == [3, 2, 1, 0]


def test_for_whom_ranks_waited_is_summed_most_first_and_who_waited_counted() -> None:
    waiting = pd.DataFrame({
        "rank": [0, 0, 1, 1], "waited_for": [1.0, nan, 2.0, 2.0], "ms": [1.0, 2.0, 3.0, 4.0],
        "share": [0.1, 0.2, 0.3, 0.4],
    })  # fmt: skip
    found = AccountFigures(pd.DataFrame(), waiting, 0).by_whom()
    assert found["waited_for"].fillna(-1).tolist() == [2, -1, 1]
    assert found["ms"].tolist() == [7.0, 2.0, 1.0]
    assert found["share"].tolist() == pytest.approx([0.7, 0.2, 0.1])
    assert found["waiting"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(("share", "is_shown"), [(6e-6, True), (5e-6, False), (nan, False)])
def test_time_in_no_row_is_among_the_operations_where_a_share_would_show_it(
    share: float, is_shown: bool
) -> None:
    operations = pd.DataFrame([of_rank(0, total_ms=9.0), of_rank(0, "train", total_ms=5.0)])
    account = pd.DataFrame({
        "rank": [1, 0, 0, 0], "incarnation": 1, "is_main": [True, True, False, True], "count": 3,
        "what": ["not timed", "not timed", "not timed", "own work"], "ms": [4.0, 3.0, 50.0, 9.0],
        "share": [share, 0.0, 0.0, 1.0],
    })  # fmt: skip
    found = operations_and_not_timed(operations, account)
    names = ["load", "not timed", "not timed", "train"] if is_shown else ["load", "train"]
    assert found["operation"].tolist() == names
    untimed = found[found["operation"] == "not timed"]
    assert untimed["rank"].tolist() == ([0, 1] if is_shown else [])
    assert untimed["total_ms"].tolist() == ([3.0, 4.0] if is_shown else [])
