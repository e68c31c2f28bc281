"""How long ranks waited for each other: by the clock, and without one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_tables import aligned, as_polars, collective
from rank_tables import quick_table as table
from seeds import few_examples
from slow import slow
from timing_files import record

from timing_logger.analysis import waits
from timing_logger.analysis.collectives.matching import is_root, with_bytes
from timing_logger.analysis.collectives.waits import complete_instances
from timing_logger.analysis.rows.tables import opened

ARRIVALS_MS = [0.0, 4.0, 1.0, 9.0]
LEAVE_MS = 11.0


def judged(operation: str = "ALLREDUCE", **fields: Any) -> pd.DataFrame:
    """Ranks that arrive at ``ARRIVALS_MS`` and leave together, on one clock."""
    return waits(aligned(table(*collective(ARRIVALS_MS, LEAVE_MS, operation=operation, **fields))))


def values(frame: pd.DataFrame, name: str) -> Any:
    return pytest.approx(frame[name].astype(float).tolist(), abs=1e-6, nan_ok=True)


@pytest.mark.slow("test_group_members.py holds what such names list")
def test_the_root_is_the_rank_of_that_number_in_the_order_that_the_group_is_named_by() -> None:
    """A communicator whose ranks were split by keys that turn their order."""
    turned = judged("BCAST", peer=3, group="ranks 3,2,1,0")
    assert values(turned, "wait_ms") == judged("BCAST", peer=0)["wait_ms"].tolist()
    of_the_last = judged("BCAST", peer=1, group="ranks 1,3,0,2")
    assert values(of_the_last, "wait_ms") == [9, 5, 8, 0]


def test_by_how_long_the_issue_took_nobody_can_tell_who_waited() -> None:
    """Timed by hand, without a number: the operation goes on after the row."""
    found = judged("IALLREDUCE_TOPK", seq=None)
    for name in ("transfer_ms", "clock_free_wait_ms", "wait_ms"):
        assert found[name].isna().all()
    assert not found["clock_violation"].any()


# -- all need all ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "operation",
    [
        "ALLREDUCE",
        "ALLTOALLV",
        *(slow(other, "as these") for other in ("ALLGATHER", "ALLGATHERV", "BARRIER")),
    ],
)
def test_each_rank_waits_for_the_last(operation: str) -> None:
    found = judged(operation)
    assert values(found, "wait_ms") == [9, 5, 8, 0]
    assert values(found, "arrival_skew_ms") == [9] * 4
    assert found["last_arriver"].tolist() == [3] * 4


def test_the_last_to_arrive_shows_the_transfer_time() -> None:
    found = judged()
    assert values(found, "transfer_ms") == [2] * 4
    assert values(found, "clock_free_wait_ms") == [9, 5, 8, 0]


def test_nobody_waits_longer_than_it_is_in_the_operation() -> None:
    rows = collective(ARRIVALS_MS, LEAVE_MS)
    rows[0] = [record(start_s=1.0, elapsed_ms=3.0, seq=0)]
    assert waits(aligned(table(*rows)))["wait_ms"][0] == pytest.approx(3)


def test_leaving_before_the_last_has_arrived_is_a_clock_violation() -> None:
    rows = collective(ARRIVALS_MS, LEAVE_MS)
    rows[0] = [record(start_s=1.0, elapsed_ms=3.0, seq=0)]
    assert waits(aligned(table(*rows)))["clock_violation"].tolist() == [True, False, False, False]


def test_within_the_uncertainty_of_the_clocks_there_is_no_violation() -> None:
    rows = collective(ARRIVALS_MS, LEAVE_MS)
    rows[0] = [record(start_s=1.0, elapsed_ms=3.0, seq=0)]
    assert not waits(aligned(table(*rows), 3.1e-3))["clock_violation"].any()
    assert waits(aligned(table(*rows), 2.9e-3))["clock_violation"].any()


def test_the_uncertainty_is_that_of_both_clocks() -> None:
    df = aligned(table(*collective(ARRIVALS_MS, LEAVE_MS)))
    found = waits(df.assign(clock_uncertainty_s=[0.0, 1e-6, 3e-6, 2e-6]))
    assert values(found, "uncertainty_ms") == [0.003, 0.004, 0.006, 0.005]


def test_no_uncertainty_is_larger_than_the_rows_of_a_collective_allow() -> None:
    """Each was in it when the others were: rank 3, for 2 ms, at some time in the 11 ms of rank 0."""
    found = waits(aligned(table(*collective(ARRIVALS_MS, LEAVE_MS)), uncertainty_s=0.054))
    assert values(found, "uncertainty_ms") == [11, 11, 11, 11]


def test_what_the_rows_allow_is_told_of_the_ranks_that_take_part() -> None:
    rows = collective(ARRIVALS_MS, LEAVE_MS, operation="ALLTOALL")
    rows[0] = [rows[0][0]._replace(message_size_bytes=0)]
    found = waits(aligned(table(*rows), uncertainty_s=0.054))
    assert values(found, "uncertainty_ms") == [108, 10, 10, 10]


@pytest.mark.slow("of operations that bound it, it is quick at random")
def test_ranks_that_need_not_be_in_an_operation_together_bound_nothing() -> None:
    rows = collective(ARRIVALS_MS, LEAVE_MS, operation="BCAST", peer=1)
    assert values(waits(aligned(table(*rows), uncertainty_s=0.054)), "uncertainty_ms") == [108] * 4


def test_where_rows_contradict_the_clocks_the_uncertainty_is_that_of_the_rows() -> None:
    """A clock that is 200 ms behind and said to be exact to 2 us, as after a pause that nobody measured."""
    rows = collective(ARRIVALS_MS, LEAVE_MS)
    rows[1] = [rows[1][0]._replace(start_ns=rows[1][0].start_ns - 200_000_000,
                                   end_ns=rows[1][0].end_ns - 200_000_000)]  # fmt: skip
    found = waits(aligned(table(*rows), 2e-6))
    assert found["clock_violation"].tolist() == [False, True, False, False]
    assert (found["uncertainty_ms"] >= 200).tolist() == [True] * 4


parts_of_ms = st.tuples(st.floats(0, 50), st.floats(0, 20), st.floats(-300, 300), st.floats(0.0, 300))


@few_examples(2)
@given(st.lists(parts_of_ms, min_size=2, max_size=5))
def test_the_uncertainty_covers_what_clocks_are_off_where_they_say_so_or_the_rows_show_it(
    ranks: list[tuple[float, float, float, float]],
) -> None:
    """Of each rank when it arrives, how long it stays after the last, what its clock is off, and says."""
    last_ms = max(arrives for arrives, *_ in ranks)
    rows = [
        [record(start_s=1 + (arrives + off) / 1e3, elapsed_ms=last_ms + stays - arrives,
                group_size=len(ranks), seq=0)]
        for arrives, stays, off, _ in ranks
    ]  # fmt: skip
    found = waits(aligned(table(*rows)).assign(clock_uncertainty_s=[says / 1e3 for *_, says in ranks]))
    off_ms = np.array([off for _, _, off, _ in ranks])
    error_ms = abs(off_ms[:, None] - off_ms).max(axis=1)
    if all(abs(off) <= says for _, _, off, says in ranks) or found["clock_violation"].any():
        assert (error_ms <= found["uncertainty_ms"] + 1e-5).all()


def test_a_rank_without_bytes_takes_no_part() -> None:
    rows = collective(ARRIVALS_MS, LEAVE_MS, operation="ALLGATHERV")
    rows[3] = [rows[3][0]._replace(message_size_bytes=0)]
    found = waits(aligned(table(*rows)))
    assert values(found, "wait_ms") == [4, 0, 3, math.nan]
    assert found["last_arriver"].tolist() == [1] * 4
    assert values(found, "transfer_ms") == [7] * 4


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        ([0, 0, 0], [True] * 3), ([None, 0, 0], [True, False, False]), ([None, 1, 0], [True, True, False]),
        ([1, 0, 1], [True, False, True]), ([1, 1, 1], [True] * 3),
    ],
)  # fmt: skip
def test_a_rank_counts_that_may_have_bytes_and_every_rank_where_none_has(
    sizes: list[int | None], counts: list[bool]
) -> None:
    rows = [[record("ALLTOALL", seq=0, group_size=3, message_size_bytes=size)] for size in sizes]
    frame = opened(table(*rows))
    assert with_bytes(frame, complete_instances(frame)).tolist() == counts


@pytest.mark.slow("a rank without bytes is quick, and an operation of all")
def test_a_barrier_has_no_bytes_and_all_take_part() -> None:
    assert values(judged("BARRIER", message_size_bytes=0), "wait_ms") == [9, 5, 8, 0]


# -- rooted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["BCAST", slow("SCATTER", "as of a broadcast")])
def test_ranks_that_come_before_the_root_wait_for_it(operation: str) -> None:
    assert values(judged(operation, peer=1), "wait_ms") == [4, 0, 3, 0]


@pytest.mark.parametrize("operation", ["REDUCE", slow("GATHER", "as of a reduction")])
def test_a_root_that_comes_first_waits_for_the_first_of_the_others(operation: str) -> None:
    assert values(judged(operation, peer=0), "wait_ms") == [1, 0, 0, 0]
    assert values(judged(operation, peer=1), "wait_ms") == [0, 0, 0, 0]


def test_each_of_several_operations_has_its_own_root() -> None:
    roots = [0, 2, 1]
    rows = [record("BCAST", seq=seq, peer=peer, group_size=3) for seq, peer in enumerate(roots)]
    frame = opened(table(rows, rows, rows))
    found = is_root(frame, complete_instances(frame)).reshape(3, 3)
    assert found.tolist() == [[rank == root for rank in range(3)] for root in roots]


@pytest.mark.parametrize(("leaves_ms", "violates"), [(9.5, False), (8.5, True)])
def test_the_root_of_a_reduction_leaves_after_the_last_of_the_others_or_a_clock_is_wrong(
    leaves_ms: float, violates: bool
) -> None:
    rows = collective(ARRIVALS_MS, LEAVE_MS, operation="REDUCE", peer=0)
    rows[0] = [record("REDUCE", 1.0, leaves_ms, seq=0, peer=0)]
    assert waits(aligned(table(*rows)))["clock_violation"].tolist() == [violates, False, False, False]


def test_who_leaves_when_the_last_arrives_contradicts_no_clock() -> None:
    rows = [[record(start_s=start, elapsed_ms=500.0, seq=0, group_size=2)] for start in (1.0, 1.5)]
    assert not waits(aligned(table(*rows)))["clock_violation"].any()


def test_rooted_operations_have_no_clock_free_wait() -> None:
    assert judged("BCAST", peer=0)["clock_free_wait_ms"].isna().all()


def test_without_a_root_nobody_can_tell_who_waited() -> None:
    found = judged("BCAST", peer=None)
    assert found["wait_ms"].isna().all()
    assert not found["clock_violation"].any()


@pytest.mark.slow("a rarer violation; one of an operation of all is quick")
def test_a_root_that_leaves_first_violates_nothing_in_a_broadcast_but_does_in_a_reduction() -> None:
    rows = collective(ARRIVALS_MS, LEAVE_MS, operation="BCAST", peer=0)
    rows[0] = [record("BCAST", start_s=1.0, elapsed_ms=2.0, seq=0, peer=0)]
    assert not waits(aligned(table(*rows)))["clock_violation"].any()
    reduced = [[row._replace(operation="REDUCE")] for (row,) in rows]
    assert waits(aligned(table(*reduced)))["clock_violation"].tolist() == [True, False, False, False]


@pytest.mark.slow("which rank a number is, test_group_members.py holds")
def test_the_root_is_counted_among_the_members_of_its_group() -> None:
    df = aligned(table(*collective(ARRIVALS_MS, LEAVE_MS, operation="BCAST", peer=1)))
    assert values(waits(df.assign(rank=[10, 20, 30, 40])), "wait_ms") == [4, 0, 3, 0]


@pytest.mark.slow("a rarer operation")
def test_a_prefix_sum_has_a_skew_and_no_wait() -> None:
    found = judged("SCAN")
    assert values(found, "arrival_skew_ms") == [9] * 4
    assert found["wait_ms"].isna().all()


# -- in the background -----------------------------------------------------------------------------


def test_in_the_background_only_blocked_time_is_waiting() -> None:
    rows = collective(ARRIVALS_MS, LEAVE_MS, operation="IALLREDUCE")
    blocked = record("WAIT", start_s=1.006, elapsed_ms=5.0, seq=0)
    rows[0] = [*rows[0], blocked]
    found = waits(aligned(table(*rows)))
    assert values(found, "wait_ms") == [3, math.nan, math.nan, math.nan]
    assert values(found, "arrival_skew_ms") == [9] * 4
    assert values(found, "clock_free_wait_ms") == [9, 5, 8, 0]


@pytest.mark.slow("which wait is for which operation is quick, of messages")
def test_waits_of_another_operation_do_not_count() -> None:
    rows = collective(ARRIVALS_MS, LEAVE_MS, operation="IALLREDUCE")
    rows[0] = [*rows[0], record("WAIT", start_s=1.0, elapsed_ms=5.0, seq=1)]
    assert waits(aligned(table(*rows)))["wait_ms"].isna().all()


@pytest.mark.parametrize("place", [0, 3])
def test_waits_of_what_is_not_complete_or_not_known_are_for_no_other_operation(place: int) -> None:
    rows = collective(ARRIVALS_MS, LEAVE_MS, operation="IALLREDUCE")
    incomplete = record("IALLREDUCE", start_s=2.0, seq=1)
    others = [record("WAIT", start_s=1.0, elapsed_ms=5.0, seq=seq) for seq in (1, 9)]
    rows[place] = [*rows[place], incomplete, *others]
    assert waits(aligned(table(*rows)))["wait_ms"].isna().all()
    rows[0] = [*rows[0], record("WAIT", start_s=1.006, elapsed_ms=5.0, seq=0)]
    assert values(waits(aligned(table(*rows))), "wait_ms") == [3, math.nan, math.nan, math.nan]


# -- clocks that are not aligned -------------------------------------------------------------------


@pytest.mark.parametrize("uncertainty_s", [math.nan, [0.0, 0.0, math.nan, 0.0]])
def test_what_needs_a_common_clock_is_unknown_without_one(uncertainty_s: Any) -> None:
    df = aligned(table(*collective(ARRIVALS_MS, LEAVE_MS))).assign(clock_uncertainty_s=uncertainty_s)
    found = waits(df)
    assert found[["arrival_skew_ms", "wait_ms"]].isna().all(axis=None)
    assert found["uncertainty_ms"].isna().all()
    assert not found["clock_violation"].any()


def test_without_a_common_clock_the_least_time_tells_who_came_last() -> None:
    found = waits(table(*collective(ARRIVALS_MS, LEAVE_MS)))
    assert found["last_arriver"].tolist() == [3] * 4
    assert values(found, "clock_free_wait_ms") == [9, 5, 8, 0]
    assert waits(table(*collective(ARRIVALS_MS, LEAVE_MS, operation="BCAST")))["last_arriver"].isna().all()


def test_a_duration_that_is_unknown_leaves_the_transfer_time_unknown() -> None:
    rows = collective(ARRIVALS_MS, LEAVE_MS)
    rows[1] = [record(start_s=1.004, elapsed_ms=None, seq=0)]
    found = waits(aligned(table(*rows)))
    assert found["transfer_ms"].isna().all()
    assert values(found, "wait_ms") == [9, math.nan, 8, 0]


# -- which rows --------------------------------------------------------------------------------------


def test_only_complete_collectives_of_several_ranks_are_judged() -> None:
    alone = collective([0.0], 1.0, group="self")
    incomplete = collective([0.0, 1.0], 2.0, group="half", group_size=3)
    assert len(waits(aligned(table(*alone)))) == len(waits(aligned(table(*incomplete)))) == 0


def test_no_collectives_give_no_rows_of_the_same_types() -> None:
    assert waits(aligned(table([]))).dtypes.to_dict() == judged().dtypes.to_dict()


def test_instances_keep_the_numbers_of_the_match() -> None:
    rows = [[record(seq=0, group_size=2), record(seq=1, group_size=2)], [record(seq=1, group_size=2)]]
    assert waits(table(*rows))["instance"].tolist() == [1, 1]


def test_polars_gives_what_pandas_gives() -> None:
    pytest.importorskip("polars")
    df = aligned(table(*collective(ARRIVALS_MS, LEAVE_MS)), math.nan)
    mine, theirs = waits(df), waits(as_polars(df).with_columns(clock_uncertainty_s=math.nan))
    for name in ("last_arriver", "transfer_ms", "clock_free_wait_ms", "wait_ms"):
        assert values(mine, name) == [math.nan if v is None else v for v in theirs[name].to_list()]


@few_examples(2)
@given(
    st.lists(st.lists(st.floats(0, 50), min_size=3, max_size=3), min_size=1, max_size=6),
    st.floats(0.001, 10),
)
def test_clock_free_and_clocked_waits_agree_when_all_leave_together(
    arrivals_of_instances: list[list[float]], transfer_ms: float
) -> None:
    rows: list[list[Any]] = [[], [], []]
    for seq, arrivals in enumerate(arrivals_of_instances):
        leave_ms = max(arrivals) + transfer_ms
        for rank, part in enumerate(collective(arrivals, leave_ms, seq=seq)):
            rows[rank] += part
    found = waits(aligned(table(*rows)))
    # Rows hold nanoseconds, so each of the two may be off by as much.
    np.testing.assert_allclose(found["wait_ms"], found["clock_free_wait_ms"], atol=1e-5)
