"""Who is blocked, and in what: messages beside collectives, autograd's thread, side streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rank_tables import only
from rank_tables import quick_table as table
from simulated_runs import TRANSFER_MS, _row, _table, data_parallel, factors
from slow import slow
from timing_files import record

from timing_logger.analysis import overlap, scores, stragglers, summarize_waits, waits
from timing_logger.analysis.rows.arrays import coded_text
from timing_logger.analysis.rows.intervals import _waited_for_elsewhere, waited_for
from timing_logger.analysis.rows.tables import opened
from timing_logger.schema.record import Record

N_RANKS = 4


def halo_exchange(group: str, *, steps: int = 60, work: str = "", late: int = 2) -> pd.DataFrame:
    """Messages to the next rank, 10 ms of work, and a blocking all-reduce of ``world``; one rank works 30 ms.

    All are numbered by the step: messages for each sender and receiver, as wrappers number them.

    Args:
        group: of the messages.
        work: the operation that the work is logged as; by default it is not.
    """
    ranks = np.arange(N_RANKS)
    rows: list[dict[str, Any]] = []
    now = np.zeros(N_RANKS)
    rng = np.random.default_rng(5)
    for step in range(steps):
        message = {"group": group, "group_size": N_RANKS, "seq": step, "peer": (ranks + 1) % N_RANKS}
        rows.append(_row("ISEND", step, now, np.full(N_RANKS, 0.5), **message))
        rows.append(_row("WAIT", step, now + 0.1, np.full(N_RANKS, 0.4), **message))
        now = now + 0.5
        works_ms = np.where(ranks == late, 30.0, 10.0) * np.exp(rng.normal(0, 0.02, N_RANKS))
        if work:
            rows.append(_row(work, step, now, works_ms))
        now = now + works_ms
        done = np.full(N_RANKS, now.max() + TRANSFER_MS)
        rows.append(_row("ALLREDUCE", step, now, done - now, group="world", group_size=N_RANKS, seq=step))
        now = done
    return _table(rows, None)


# -- messages beside collectives -------------------------------------------------------------------------


OTHERWISE = pytest.mark.slow("one name for both, and work that no row tells of, is the harder")


@pytest.mark.parametrize(
    ("group", "work"),
    [
        ("world", ""),
        pytest.param("halo", "", marks=OTHERWISE),
        pytest.param("world", "FORWARD", marks=OTHERWISE),
        pytest.param("halo", "FORWARD", marks=OTHERWISE),
    ],
)
def test_messages_of_the_same_number_hide_no_slow_rank(group: str, work: str) -> None:
    verdict = stragglers(halo_exchange(group, work=work))
    assert (verdict.verdict, verdict.ranks, verdict.operation) == ("rank", (2,), work or "UNLOGGED")


def test_a_wait_for_a_message_leaves_the_blocking_collective_of_that_number_blocking() -> None:
    rows = [
        record("FORWARD", 1.0, 40.0, seq=None),
        record("ISEND", 1.001, 5.0, seq=7, peer=3, group="world", group_size=4),
        record("WAIT", 1.002, 4.0, seq=7, peer=3, group="world", group_size=4),
        record("ALLREDUCE", 1.010, 20.0, seq=7, group="world", group_size=4),
    ]
    assert only(overlap(table(rows)))["compute_ms"] == pytest.approx(40 - 4 - 20)


def test_the_wait_for_a_message_to_a_root_is_not_one_for_its_broadcast() -> None:
    """Root and receiver are one rank, and both operations have one number."""
    rows = [
        record("FORWARD", 1.0, 40.0, seq=None),
        record("ISEND", 1.001, 5.0, seq=7, peer=0, group="world", group_size=4),
        record("WAIT", 1.002, 4.0, seq=7, peer=0, group="world", group_size=4),
        record("BCAST", 1.010, 20.0, seq=7, peer=0, group="world", group_size=4),
    ]
    assert only(overlap(table(rows)))["compute_ms"] == pytest.approx(40 - 4 - 20)


def test_a_bucket_that_another_thread_reduces_blocks_only_who_waits_for_it() -> None:
    """As of ``DistributedOptimizer``: blocking on its own thread, and a ``WAIT`` where training goes on."""
    bucket = {"seq": 7, "group": "optimizer", "group_size": 4}
    rows = [
        record("BACKWARD", 1.0, 40.0, seq=None),
        record("ALLREDUCE", 1.010, 40.0, thread="AllReducer", **bucket),
        record("WAIT", 1.040, 10.0, **bucket),
    ]
    found = only(overlap(table(rows)))
    assert (found["compute_ms"], found["hidden_ms"], found["exposed_ms"]) == pytest.approx((40, 30, 10))


# -- one matcher -------------------------------------------------------------------------------------------


def made_anew(timings: pd.DataFrame, at: int) -> pd.DataFrame:
    """The same run, whose group was destroyed and made again under its name: it counts from 0 again."""
    seq = timings["seq"]
    return timings.assign(seq=seq.mask(seq >= at, seq - at))


@pytest.mark.slow("that waits are where they are in such a group is quick")
@pytest.mark.parametrize("logged", [None, ["ALLREDUCE"]])
def test_a_group_made_anew_under_its_old_name_changes_no_verdict(logged: list[str] | None) -> None:
    factor = factors(60, 4, noise=0.05, seed=3)
    factor[:, 2] *= [1.5]
    timings = data_parallel(factor, noise=0.03, logged=logged)
    assert stragglers(made_anew(timings, 30)).as_dict() == stragglers(timings).as_dict()


@pytest.mark.slow("that waits are where they are in such a group is quick")
@pytest.mark.parametrize("logged", [None, ["ALLREDUCE"]])
def test_a_group_made_anew_under_its_old_name_makes_no_healthy_run_ill(logged: list[str] | None) -> None:
    healthy = data_parallel(factors(60, 4, noise=0.05, seed=3), noise=0.03, logged=logged)
    assert stragglers(made_anew(healthy, 30)).as_dict() == stragglers(healthy).as_dict()


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda timings: timings.assign(seq=pd.NA),
        lambda timings: made_anew(timings, 9),
        slow(lambda timings: timings, "as with a group that was made anew"),
        slow(lambda timings: timings.assign(group_size=pd.NA), "its ranks are those that were seen"),
    ],
    ids=["no number", "a group made anew", "as recorded", "no size"],
)
def test_the_verdict_waits_where_the_waits_are(spoilt: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Also where the size of the group is not stated, or rows have no number."""
    from timing_logger.analysis.step_times.step_times import step_times

    timings = spoilt(data_parallel(factors(20, 3, noise=0.2), noise=0.03))
    timings = timings.astype({"group_size": "Int64", "seq": "Int64"})
    expected = summarize_waits(waits(timings)).set_index("rank")["clock_free_wait_ms"]
    found = np.nansum(step_times(timings).waits.own_ms, axis=0)
    assert found == pytest.approx(expected.to_numpy())


# -- autograd's thread ---------------------------------------------------------------------------------------


def ddp_on_an_accelerator(slow: float, *, thread: str, steps: int = 60) -> pd.DataFrame:
    """DDP whose hooks and final callbacks ran on autograd's thread, while the main one is in ``BACKWARD``."""
    rng = np.random.default_rng(1)
    ranks = np.arange(N_RANKS)
    rows: list[dict[str, Any]] = []
    now = np.zeros(N_RANKS)
    for step in range(steps):
        noise = np.exp(rng.normal(0, 0.02, (2, N_RANKS)))
        forward, backward = 10.0 * noise[0], np.where(ranks == 1, 60.0 * slow, 60.0) * noise[1]
        rows.append(_row("FORWARD", step, now, forward))
        begun = now + forward
        done = np.full(N_RANKS, (begun + backward).max() + 5)
        bucket = {"group": "world", "group_size": N_RANKS, "seq": step, "thread": thread}
        issued = begun + backward - 2
        rows.append(_row("IALLREDUCE", step, issued, done - issued, **bucket))
        rows.append(_row("WAIT", step, begun + backward, done - begun - backward, **bucket))
        rows.append(_row("BACKWARD", step, begun, done - begun))
        now = done
    return _table(rows, None)


@pytest.mark.parametrize("thread", [slow("MainThread", "as if it were one thread"), "Dummy-1"])
def test_who_waits_on_autograd_s_thread_keeps_the_main_one_from_working(thread: str) -> None:
    timings = ddp_on_an_accelerator(1.3, thread=thread)
    verdict = stragglers(timings)
    assert (verdict.verdict, verdict.ranks, verdict.operation, verdict.judged) == (
        "rank",
        (1,),
        "BACKWARD",
        True,
    )
    steps = overlap(timings[timings["rank"] == 0])
    assert steps["overlap"].max() < 0.15  # 2 of about 25 ms


def on_device(name: str, start_ms: float, end_ms: float, stream: str) -> tuple[Record, str]:
    return record(name, 1 + start_ms / 1e3, end_ms - start_ms, clock="device"), stream


def with_streams(*rows: tuple[Record, str]) -> pd.DataFrame:
    return table([row for row, _ in rows]).assign(stream=[stream for _, stream in rows])


def test_a_collective_in_a_side_stream_leaves_the_work_of_another_stream_alone() -> None:
    """As of FSDP2: a synchronous call, inside a stream of its own, beside 60 ms of compute."""
    rows = on_device("FORWARD", 0, 60, "cuda:0/0"), on_device("ALLGATHER", 10, 50, "cuda:0/7")
    found = only(overlap(with_streams(*rows)))
    assert (found["compute_ms"], found["hidden_ms"], found["exposed_ms"]) == pytest.approx((60, 40, 0))


def test_a_collective_in_the_stream_of_the_work_keeps_it_from_working() -> None:
    rows = on_device("FORWARD", 0, 60, "cuda:0/0"), on_device("ALLGATHER", 10, 50, "cuda:0/0")
    found = only(overlap(with_streams(*rows)))
    assert (found["compute_ms"], found["hidden_ms"], found["exposed_ms"]) == pytest.approx((20, 0, 40))


def test_streams_of_two_devices_are_two() -> None:
    rows = on_device("FORWARD", 0, 60, "cuda:0/0"), on_device("ALLGATHER", 10, 50, "cuda:1/0")
    assert only(overlap(with_streams(*rows)))["hidden_ms"] == pytest.approx(40)


def test_files_without_streams_are_read_as_before() -> None:
    rows = on_device("FORWARD", 0, 60, ""), on_device("ALLGATHER", 10, 50, "")
    assert only(overlap(with_streams(*rows)))["exposed_ms"] == pytest.approx(40)


def test_self_time_in_a_stream_is_that_of_its_innermost_row() -> None:
    rows = on_device("FORWARD", 0, 60, "cuda:0/0"), on_device("ALLGATHER", 10, 50, "cuda:0/7")
    found = scores(with_streams(*rows)).set_index("operation")
    assert found.loc["FORWARD", "median_ms"] == pytest.approx(60)


@pytest.mark.parametrize(
    ("operation", "on", "waits_on", "is_elsewhere"),
    [
        ("ALLREDUCE", "a", ["b"], True), ("ALLREDUCE", "b", ["a"], True), ("ALLREDUCE", "a", ["a"], False),
        ("ALLREDUCE", "b", ["b", "b"], False), ("ALLREDUCE", "b", ["b", "a"], True),
        ("ALLREDUCE", "a", [], False), ("IALLREDUCE", "a", ["b"], False), ("FORWARD", "a", ["b"], False),
    ],
)  # fmt: skip
def test_what_another_thread_waits_for_blocks_only_that_one(
    operation: str, on: str, waits_on: list[str], is_elsewhere: bool
) -> None:
    rows = [record(operation, seq=0, thread=on), *(record("WAIT", seq=0, thread=one) for one in waits_on)]
    others = [record("WAIT", seq=1, thread="c"), record("WAIT", seq=None, thread="c")]
    frame = opened(table([*rows, *others]))
    named, (lane, _) = coded_text(frame, "operation"), coded_text(frame, "thread")
    found = _waited_for_elsewhere(frame, named, lane)
    assert found.tolist() == [is_elsewhere] + [False] * (len(frame) - 1)


def found_for(waits: list[Record], *operations: Record) -> list[int]:
    frame = opened(table([*operations, *waits]))
    n = len(operations)
    return waited_for(frame, np.arange(n), np.arange(n, n + len(waits))).tolist()


def test_a_wait_is_for_the_only_operation_of_its_number_whenever_that_began() -> None:
    one, other = (record("IALLREDUCE", 5.0, seq=seq) for seq in (3, 4))
    waits = [record("WAIT", at, seq=seq) for at, seq in ((1.0, 4), (9.0, 3), (9.0, 5))]
    assert found_for(waits, one, other) == [1, 0, -1]


def test_of_several_operations_of_its_number_a_wait_is_for_the_last_that_had_begun() -> None:
    operations = [record("IALLREDUCE", at, seq=3) for at in (6.0, 2.0, 4.0)]
    waits = [record("WAIT", at, seq=3) for at in (1.0, 2.0, 3.0, 5.0, 9.0)]
    assert found_for(waits, *operations) == [-1, 1, 1, 2, 0]


@pytest.mark.parametrize("other", [{"peer": 1}, {"group": "dp"}, {"group_size": 8}, {"seq": 4}])
def test_a_wait_is_for_no_operation_of_another_number_peer_or_group(other: dict[str, Any]) -> None:
    assert found_for([record("WAIT", 9.0, seq=3)], record("IALLREDUCE", seq=3)._replace(**other)) == [-1]


def test_without_operations_a_wait_is_for_none() -> None:
    assert found_for([record("WAIT", seq=3)]) == [-1]
    assert found_for([], record("IALLREDUCE", seq=3)) == []
