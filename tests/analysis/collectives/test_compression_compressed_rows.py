"""Which rows of compressed reductions send bytes, and how many reductions they are."""

from __future__ import annotations

import pytest
from rank_tables import only
from rank_tables import quick_table as table
from timing_files import record

from timing_logger.analysis import compression
from timing_logger.analysis.collectives.compression import sends
from timing_logger.analysis.collectives.waits import complete_instances
from timing_logger.analysis.rows.tables import opened
from timing_logger.schema.record import Record


def whether_sent(*ranks: list[Record]) -> list[bool]:
    frame = opened(table(*ranks))
    found: list[bool] = sends(frame, complete_instances(frame)).tolist()
    return found


def test_what_a_rank_moves_is_sent_unless_it_receives_it_or_copies_it() -> None:
    names = ("ALLREDUCE", "IALLGATHER", "SEND", "RECV", "IRECV", "H2D", "COMPRESS")
    assert whether_sent([record(name) for name in names]) == [True, True, True, False, False, False, False]


@pytest.mark.parametrize("operation", ["BCAST", "SCATTER", "IBCAST"])
@pytest.mark.parametrize("group_size", [2, 3], ids=["complete", "incomplete"])
def test_what_comes_from_a_root_is_sent_by_it_alone(operation: str, group_size: int) -> None:
    row = record(operation, seq=0, peer=1, group_size=group_size)
    assert whether_sent([row], [row]) == [False, True]


def test_the_root_of_a_complete_broadcast_is_a_number_of_its_group() -> None:
    """Its only ranks are 1 and 2, of which number 1 is rank 2; of what is incomplete it is rank 1."""
    whole, part = (record("BCAST", seq=0, peer=1, group=f"of {size}", group_size=size) for size in (2, 3))
    assert whether_sent([], [whole, part], [whole, part]) == [False, True, True, False]


@pytest.mark.parametrize(("n_done", "n_reductions"), [(0, 2), (1, 1), (2, 2), (3, 3)])
def test_reductions_are_counted_by_their_results_or_else_by_what_was_compressed(
    n_done: int, n_reductions: int
) -> None:
    begun = [record("COMPRESS", layer_name="fc", phase="sparse")] * 2
    done = [record("DECOMPRESS", layer_name="fc", phase="sparse")] * n_done
    assert only(compression(table([*begun, *done])))["count"] == n_reductions
