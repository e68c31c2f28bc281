"""A line of NCCL Inspector is an operation of a rank, or is counted as what it is instead."""

from __future__ import annotations

import json
from typing import Any

import pytest

from timing_logger.importing.imported import LeftOut
from timing_logger.importing.inspector_records import (
    OPERATIONS,
    ROOTED,
    Communicator,
    Operation,
    Process,
    Records,
)
from timing_logger.schema.timing_files import MAX_RANK

LATEST_US = 2**62 // 1000
IMPOSSIBLE = "a record with impossible numbers"
WRONG_TYPE = "a record of which a field lacks, or has another type"


def line(header: dict[str, Any] | None = None, pid: Any = 77, **parts: Any) -> str:
    return json.dumps(
        {
            "header": {"id": "0xab", "rank": 1, "n_ranks": 4, "comm_name": "dp", **(header or {})},
            "metadata": {"hostname": "node1", "pid": pid},
            **parts,
        }
    )


def collective(function: str = "AllReduce", **fields: Any) -> dict[str, Any]:
    plain = {"coll": function, "coll_sn": 5, "coll_msg_size_bytes": 100, "coll_exec_time_us": 30}
    return {"coll_perf": {**plain, **fields}}


def message(function: str = "Send", **fields: Any) -> dict[str, Any]:
    plain = {"p2p": function, "p2p_peer": 3, "p2p_msg_size_bytes": 100, "p2p_exec_time_us": 30}
    return {"p2p_perf": {**plain, **fields}}


def operation_of(said: str) -> Operation:
    found = Records(LeftOut()).of(said)
    assert found is not None
    return found[1]


def left_out_of(said: str) -> LeftOut:
    """Return what is counted of a line that says no operation."""
    left_out = LeftOut()
    assert Records(left_out).of(said) is None
    return left_out


def function(name: str) -> int:
    return list(OPERATIONS).index(name)


def test_a_collective_has_its_number_and_no_other_rank() -> None:
    records = Records(LeftOut())
    assert records.of(line(**collective())) == (
        Process("node1", 77), Operation(0, 1, function("AllReduce"), 5, 100, -1, 30, -1),
    )  # fmt: skip
    assert records.communicators == {Communicator("0xab", "dp", 4): 0}


def test_a_message_has_another_rank_and_no_number() -> None:
    found = operation_of(line(**message("Recv")))
    assert found == Operation(0, 1, function("Recv"), -1, 100, -1, 30, 3)
    assert found.nccl_function == "Recv"


def test_communicators_are_numbered_as_they_come() -> None:
    records = Records(LeftOut())
    for header in ({}, {"id": "0xcd"}, {"n_ranks": 8}, {"comm_name": ""}, {"id": "0xcd"}):
        records.of(line(header, **collective()))
    assert list(records.communicators.items()) == [
        (Communicator("0xab", "dp", 4), 0), (Communicator("0xcd", "dp", 4), 1),
        (Communicator("0xab", "dp", 8), 2), (Communicator("0xab", "", 4), 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "n_bytes"),
    [("AllReduce", 100), ("AllGather", 100), ("ReduceScatter", 400), ("All2All", 400), ("Broadcast", 100)],
)
def test_what_sends_a_piece_to_each_rank_sends_all_of_them(name: str, n_bytes: int) -> None:
    assert operation_of(line(**collective(name))).n_bytes == n_bytes


def test_only_what_has_a_root_is_rooted() -> None:
    assert {list(OPERATIONS)[at] for at in ROOTED} == {"Broadcast", "Reduce"}


@pytest.mark.parametrize(
    ("stamps", "start_us"),
    [
        ({"coll_start_ts": 50, "kernel_events": [{"kernel_start_ts": 70}, {"kernel_start_ts": 60}]}, 60),
        ({"coll_start_ts": 50, "kernel_events": [{"kernel_start_ts": 0}, {}]}, 50),
        ({"coll_start_ts": 50, "kernel_events": [{"kernel_start_ts": 1}, {}]}, 1),
        ({"coll_start_ts": 50}, 50),
        ({"p2p_start_ts": 40}, 40),
        ({"coll_start_ts": 50, "p2p_start_ts": 40}, 50),
        ({"coll_start_ts": -50}, -1),
        ({"coll_start_ts": LATEST_US}, -1),
        ({"coll_start_ts": LATEST_US - 1}, LATEST_US - 1),
        ({}, -1),
        (None, -1),
    ],
)  # fmt: skip
def test_an_operation_starts_with_its_first_kernel_or_else_when_it_was_issued(
    stamps: dict[str, Any] | None, start_us: int
) -> None:
    assert operation_of(line(**collective(event_trace_ts=stamps))).start_us == start_us
    assert operation_of(line(**message(event_trace_ts=stamps))).start_us == start_us


@pytest.mark.parametrize(
    "said",
    [
        line({"rank": 4}, **collective()),
        line({"rank": -1}, **collective()),
        line({"n_ranks": MAX_RANK + 1}, **collective()),
        line(**message(p2p_peer=4)),
        line(**message(p2p_peer=-2)),
        line(**collective(coll_sn=-1)),
        line(**collective(coll_sn=LATEST_US)),
        line(**collective(coll_msg_size_bytes=-1)),
        line(**collective(coll_exec_time_us=-1)),
        line(**collective(coll_exec_time_us=LATEST_US)),
        line(**message(p2p_msg_size_bytes=-1)),
        line(pid=-1, **collective()),
    ],
)
def test_a_record_with_numbers_that_cannot_be_is_counted(said: str) -> None:
    assert left_out_of(said) == {IMPOSSIBLE: 1}


@pytest.mark.parametrize(
    "said",
    [
        line({"rank": 3}, **collective(coll_sn=0)),
        line({"rank": 0, "n_ranks": MAX_RANK}, **collective(coll_msg_size_bytes=0)),
        line(pid=0, **message(p2p_peer=0, p2p_exec_time_us=0)),
        line(**message(p2p_peer=-1)),
        line(**collective(coll_exec_time_us=LATEST_US - 1)),
    ],
)
def test_numbers_at_the_edge_can_be(said: str) -> None:
    operation_of(said)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("no json", "a line that is no JSON"),
        ('{"more": ' + "[" * 5000, "a line that is no JSON"),
        ("{}", WRONG_TYPE),
        (line({"rank": "1"}, **collective()), WRONG_TYPE),
        (line(), "a record with neither a collective nor a message"),
        (line(**collective("Dance")), "an operation of an unknown kind"),
    ],
    ids=["text", "nested", "empty", "another type", "neither", "unknown"],
)
def test_a_line_that_says_no_operation_is_counted_as_what_it_is(said: str, why: str) -> None:
    assert left_out_of(said) == {why: 1}
