"""The rows of one location of an OTF2 archive, from its events as they come."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.importing.imported import LeftOut
from timing_logger.importing.otf2_events import Group, Location, enum_name
from timing_logger.schema.record import Record

WORLD = Group("world", 4)
OUTSIDE = "an event of MPI outside of a call of MPI"
NOT_INNERMOST = "a region that is left without being the innermost"
NOT_LEFT = "a region that is not left before the archive ends"
NOT_COMPLETE = "a message that is not complete before the archive ends"
UNPAIRED = "an event of a request that was not seen to begin"


class Played:
    """A location that takes events one nanosecond after the other, from 1 on."""

    def __init__(self, stream: str = "") -> None:
        self.left_out = LeftOut()
        groups = {"world": WORLD, "pair": Group("pair", 2)}
        self._location = Location("Master thread", stream, groups.__getitem__, self.left_out)
        self._now_ns = 0
        self.rows: list[Record] = []

    def take(self, kind: str, **fields: Any) -> None:
        self._now_ns += 1
        event = SimpleNamespace(**{"communicator": "world", **fields})
        self.rows += [Record(*row) for row in self._location.take(kind, event, self._now_ns)]

    def enter(self, name: str) -> None:
        self.take("Enter", region=SimpleNamespace(name=name))

    def leave(self, name: str) -> None:
        self.take("Leave", region=SimpleNamespace(name=name))

    def call(self, name: str, *events: tuple[str, dict[str, Any]]) -> None:
        """Enter a function, take events in it, and leave it."""
        self.enter(name)
        for kind, fields in events:
            self.take(kind, **fields)
        self.leave(name)

    def end(self) -> None:
        self._location.end()

    @property
    def spans(self) -> Sequence[tuple[str, int, int | None]]:
        return [(row.operation, row.start_ns, row.end_ns) for row in self.rows]

    @property
    def numbers(self) -> Sequence[tuple[str, str, int | None, int | None, int | None]]:
        return [(row.operation, row.group, row.group_size, row.seq, row.peer) for row in self.rows]


def collective(operation: str = "CollectiveOp.ALLREDUCE", **fields: Any) -> tuple[str, dict[str, Any]]:
    return "MpiCollectiveEnd", {"collective_op": operation, "root": None, "size_sent": 64, **fields}


def test_a_region_of_the_program_is_a_row_from_its_begin_to_its_end() -> None:
    played = Played()
    played.enter("main")
    played.call("solve")
    played.leave("main")
    assert played.rows == [
        Record(None, None, "", name, "", None, *span, "host", "", None, None, None, "Master thread", "ok", "")
        for name, span in (("solve", (2, 3)), ("main", (1, 4)))
    ]
    played.end()
    assert not played.left_out


def test_rows_of_a_stream_are_by_the_clock_of_the_device() -> None:
    played = Played("stream 7")
    played.call("kernel")
    assert [(row.clock, row.stream) for row in played.rows] == [("device", "stream 7")]


def test_a_collective_lasts_as_long_as_its_call_and_is_numbered_in_its_group() -> None:
    played = Played()
    played.call("MPI_Allreduce", collective())
    played.call("MPI_Bcast", collective("CollectiveOp.BCAST", root=0, communicator="pair"))
    played.call("MPI_Reduce", collective("CollectiveOp.REDUCE", root=3, size_sent=0))
    assert played.spans == [("ALLREDUCE", 1, 3), ("BCAST", 4, 6), ("REDUCE", 7, 9)]
    assert played.numbers == [
        ("ALLREDUCE", "world", 4, 0, None), ("BCAST", "pair", 2, 0, 0), ("REDUCE", "world", 4, 1, 3),
    ]  # fmt: skip
    assert [row.message_size_bytes for row in played.rows] == [64, 64, 0]


@pytest.mark.parametrize("operation", ["CollectiveOp.CREATE_HANDLE", "CollectiveOp.DESTROY_HANDLE"])
def test_what_makes_or_frees_a_communicator_is_called_as_its_function(operation: str) -> None:
    played = Played()
    played.call("MPI_Comm_split", collective(operation))
    assert played.spans == [("COMM_SPLIT", 1, 3)]


@pytest.mark.parametrize(
    ("stated", "number"),
    [(0, 0), (2**62 - 1, 2**62 - 1), (2**62, None), (-1, None), (2**64 - 1, None), (True, None), (1.0, None)],
)
def test_numbers_stand_for_none_where_no_row_can_hold_them(stated: Any, number: int | None) -> None:
    played = Played()
    played.call("MPI_Bcast", collective(root=stated, size_sent=stated))
    assert (played.rows[0].message_size_bytes, played.rows[0].peer) == (number, number)


def test_messages_are_numbered_by_group_direction_and_other_rank() -> None:
    played = Played()
    for kind, other in (("MpiSend", 1), ("MpiSend", 1), ("MpiSend", 2), ("MpiRecv", 1)):
        field = "receiver" if kind == "MpiSend" else "sender"
        played.call("MPI_Sendrecv", (kind, {field: other, "msg_length": 8}))
    played.call("MPI_Send", ("MpiSend", {"receiver": 1, "msg_length": 9, "communicator": "pair"}))
    assert played.numbers == [
        ("SEND", "world", 4, 0, 1), ("SEND", "world", 4, 1, 1), ("SEND", "world", 4, 0, 2),
        ("RECV", "world", 4, 0, 1), ("SEND", "pair", 2, 0, 1),
    ]  # fmt: skip
    assert played.spans[0] == ("SEND", 1, 3)
    assert [row.message_size_bytes for row in played.rows] == [8, 8, 8, 8, 9]


def test_a_call_that_sends_and_receives_is_a_row_of_each() -> None:
    played = Played()
    sends, receives = ({"receiver": 1, "msg_length": 8}, {"sender": 2, "msg_length": 8})
    played.call("MPI_Sendrecv", ("MpiSend", sends), ("MpiRecv", receives))
    assert played.spans == [("SEND", 1, 4), ("RECV", 1, 4)]


def test_a_message_that_is_not_awaited_at_once_lasts_from_its_begin_to_its_end() -> None:
    played = Played()
    played.call("MPI_Irecv", ("MpiIrecvRequest", {"request_id": 7}))
    played.call("MPI_Isend", ("MpiIsend", {"request_id": 8, "receiver": 1, "msg_length": 16}))
    ends = (
        ("MpiIsendComplete", {"request_id": 8}),
        ("MpiIrecv", {"request_id": 7, "sender": 2, "msg_length": 32}),
    )
    played.call("MPI_Waitall", *ends)
    assert played.spans == [("ISEND", 4, 8), ("IRECV", 1, 9), ("WAIT", 7, 10), ("WAIT", 7, 10)]
    assert played.numbers == [
        ("ISEND", "world", 4, 0, 1), ("IRECV", "world", 4, 0, 2),
        ("WAIT", "world", 4, 0, 1), ("WAIT", "world", 4, 0, 2),
    ]  # fmt: skip
    assert [row.message_size_bytes for row in played.rows] == [16, 32, 16, 32]
    played.end()
    assert not played.left_out


def test_who_only_tests_for_a_message_does_not_wait() -> None:
    played = Played()
    played.call("MPI_Isend", ("MpiIsend", {"request_id": 8, "receiver": 1, "msg_length": 16}))
    played.call("MPI_Test")
    played.call("MPI_Test", ("MpiIsendComplete", {"request_id": 8}))
    assert played.spans == [("ISEND", 1, 7)]


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        ("MPI_Barrier", "BARRIER"), ("MPI_File_open", "FILE_OPEN"), ("MPI_Init", "MPI_INIT"),
        ("MPI_Init_thread", "MPI_INIT"), ("MPI_Probe", "PROBE"),
    ],
)  # fmt: skip
def test_a_function_that_says_no_more_is_a_row_of_its_name(function: str, operation: str) -> None:
    played = Played()
    played.call(function)
    assert played.spans == [(operation, 1, 2)]


@pytest.mark.parametrize(
    "function",
    [
        "MPI_Comm_rank", "MPI_Comm_size", "MPI_Wtime", "MPI_Wtick", "MPI_Finalize", "MPI_Initialized",
        "MPI_Finalized", "MPI_Wait", "MPI_Waitany", "MPI_Testsome", "MPI_Isend", "MPI_Iprobe",
    ],
)  # fmt: skip
def test_a_function_that_neither_waits_nor_works_is_no_row(function: str) -> None:
    played = Played()
    played.call(function)
    assert played.rows == []
    assert not played.left_out


@pytest.mark.parametrize("is_in_a_region", [False, True])
def test_an_event_of_mpi_outside_of_its_calls_is_counted(is_in_a_region: bool) -> None:
    played = Played()
    if is_in_a_region:
        played.enter("main")
    played.take("MpiSend", receiver=1, msg_length=8)
    played.take("ThreadFork")
    assert (played.rows, played.left_out) == ([], {OUTSIDE: 1})


def test_other_events_within_a_call_are_not_needed() -> None:
    played = Played()
    played.call("MPI_Barrier", ("ThreadFork", {}))
    assert played.spans == [("BARRIER", 1, 3)]
    assert not played.left_out


def test_a_region_that_is_left_out_of_order_is_counted_and_ends_nothing() -> None:
    played = Played()
    played.leave("main")
    played.enter("main")
    played.enter("solve")
    played.leave("main")
    assert played.left_out == {NOT_INNERMOST: 2}
    played.leave("solve")
    assert played.spans == [("solve", 3, 5)]


@pytest.mark.parametrize("kind", ["MpiIsendComplete", "MpiIrecv"])
def test_the_end_of_a_message_that_was_not_seen_to_begin_is_counted_also_of_one_that_ended(kind: str) -> None:
    played = Played()
    end = kind, {"request_id": 8, "sender": 1, "msg_length": 16}
    played.call("MPI_Isend", ("MpiIsend", {"request_id": 8, "receiver": 1, "msg_length": 16}), end)
    played.call("MPI_Test", end)
    assert len(played.rows) == 1
    assert played.left_out == {UNPAIRED: 1}


def test_what_is_open_at_the_end_is_counted() -> None:
    played = Played()
    played.enter("main")
    for number in (7, 8):
        played.call("MPI_Irecv", ("MpiIrecvRequest", {"request_id": number}))
    played.end()
    assert played.left_out == {NOT_LEFT: 1, NOT_COMPLETE: 2}


def test_values_of_enumerations_have_their_last_names() -> None:
    assert [enum_name(one) for one in ("CollectiveOp.BARRIER", "a.b.c", "GPU")] == ["BARRIER", "c", "GPU"]
