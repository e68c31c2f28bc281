"""The rows of NCCL Inspector's operations: when each began, and how many the dumps lack."""

from __future__ import annotations

from typing import Any

import pytest

from timing_logger.importing.inspector import RowsOfRun
from timing_logger.importing.inspector_records import (
    BEFORE_S,
    OPERATIONS,
    Communicator,
    Naming,
    Operation,
    Process,
)
from timing_logger.schema.record import END, START, Record

ALLREDUCE, SEND = list(OPERATIONS).index("AllReduce"), list(OPERATIONS).index("Send")


def rows_of_run(**fields: Any) -> RowsOfRun:
    """Return what makes the rows of a run with one communicator, of two ranks; ``fields`` are others."""
    plain = Naming([Communicator("0xab", "", 2)], 0, {}, frozenset(), True, False, 5 * 10**9)
    return RowsOfRun(plain._replace(**fields))


def collective(number: int, start_us: int = 7_000_000, **fields: Any) -> Operation:
    return Operation(0, 0, ALLREDUCE, number, 4096, start_us, 30, -1)._replace(**fields)


def test_an_operation_begins_when_it_says_on_the_axis_of_all() -> None:
    row = rows_of_run().of(0, collective(3))
    assert (row[START], row[END]) == (2 * 10**9, 2 * 10**9 + 30_000)
    assert rows_of_run().of(0, collective(3, start_us=4_000_000))[START] == 0


def test_without_instants_an_operation_begins_where_the_last_of_its_rank_ended() -> None:
    rows = rows_of_run(has_instants=False)
    starts = [rows.of(rank, collective(i, -1))[START] for i, rank in enumerate((0, 0, 1))]
    assert starts == [BEFORE_S * 10**9, BEFORE_S * 10**9 + 30_000, BEFORE_S * 10**9]


def test_a_message_has_a_peer_and_no_number() -> None:
    rows = rows_of_run(has_several_kinds=frozenset({0}))
    message, other = (
        Record(*row) for row in (rows.of(0, collective(-1, function=SEND, peer=1)), rows.of(0, collective(0)))
    )
    assert (message.operation, message.seq, message.peer) == ("SEND", None, 1)
    assert (other.operation, other.seq, other.peer) == ("ALLREDUCE", 0, None)
    assert (message.group, other.group) == ("communicator 0xab", "communicator 0xab AllReduce")


@pytest.mark.parametrize(
    ("numbers", "missing"),
    [([0, 1, 2], 0), ([0, 2], 1), ([5, 6, 9], 2), ([2, 0], 1), ([3, 3], 0), ([-1, -1], 0)],
)
def test_numbers_that_lack_between_others_are_counted(numbers: list[int], missing: int) -> None:
    rows = rows_of_run()
    for number in numbers:
        rows.of(0, collective(number))
    said = [note.partition(" parts")[0] for note in rows.notes]
    assert said == ([f"By their numbers, {missing}"] if missing else [])


def test_ranks_are_counted_apart() -> None:
    rows = rows_of_run()
    for rank, number in ((0, 0), (1, 1), (1, 3)):
        rows.of(rank, collective(number))
    assert [note.partition(" parts")[0] for note in rows.notes] == ["By their numbers, 1"]


def test_names_that_are_learnt_later_do_not_move_the_axis() -> None:
    rows = rows_of_run()
    later = Naming([Communicator("0xab", "dp", 2)], 0, {}, frozenset(), True, False, 1 * 10**9)
    rows.go_on_with(later)
    row = Record(*rows.of(0, collective(3)))
    assert (row.start_ns, row.group) == (2 * 10**9, "dp 0xab")
    assert rows.process(Process("node1", 7), 0).wall_offset_ns == 5 * 10**9


@pytest.mark.parametrize(
    ("name", "group"), [("", "communicator 0xab"), ("unknown", "communicator 0xab"), ("dp", "dp 0xab")]
)
def test_a_communicator_without_a_name_is_called_one(name: str, group: str) -> None:
    rows = rows_of_run(communicators=[Communicator("0xab", name, 2)])
    row = Record(*rows.of(0, collective(3)))
    assert (row.group, row.thread, row.group_size) == (group, f"stream of {group}", 2)


@pytest.mark.parametrize(("has_instants", "clock"), [(True, "inspector node1"), (False, "")])
def test_ranks_of_a_host_share_a_clock_if_there_are_instants(has_instants: bool, clock: str) -> None:
    found = rows_of_run(has_instants=has_instants).process(Process("node1", 7), 3)
    assert found == (3, 2, "node1", clock, 5 * 10**9, 7)


def test_numbers_are_counted_for_each_kind_and_communicator_apart() -> None:
    rows = rows_of_run(communicators=[Communicator("0xab", "", 2), Communicator("0xcd", "", 2)])
    for one in (collective(0), collective(5, communicator=1), collective(9, function=SEND)):
        rows.of(0, one)
    assert rows.notes == []
