"""The table of operations of a summary."""

from __future__ import annotations

from typing import Any

from timing_logger.report.summary_text import _operations_table


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
