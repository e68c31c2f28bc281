"""What all records of NCCL Inspector tell together: ranks of processes, and what groups are called by."""

from __future__ import annotations

from typing import Any

import pytest

from timing_logger.errors import NotImportableError
from timing_logger.importing.inspector_records import (
    OPERATIONS,
    Communicator,
    Facts,
    Naming,
    Operation,
    Process,
)

WORLD, PAIR = Communicator("0xab", "", 4), Communicator("0xcd", "", 2)
A, B, C = Process("node1", 10), Process("node1", 11), Process("node2", 5)
BEFORE_S = 1_000_000  # eleven days: operations of other hosts may be earlier than the first that is read
NAMES = list(OPERATIONS)
PLAIN = Naming([WORLD, PAIR], 0, {A: (0,), B: (1, 2)}, frozenset({1}), True, False, 0)


def operation(communicator: int = 0, rank: int = 0, function: str = "AllReduce", **fields: Any) -> Operation:
    plain = Operation(communicator, rank, NAMES.index(function), 0, 100, 5_000_000, 30, -1)
    return plain._replace(**fields)


def facts_of(
    *noted: tuple[Process, Operation], communicators: tuple[Communicator, ...] = (WORLD, PAIR)
) -> Facts:
    facts = Facts({one: at for at, one in enumerate(communicators)})
    for process, one in noted:
        facts.note(process, one)
    return facts


def test_ranks_are_those_in_the_largest_communicator_and_who_is_not_in_it_has_a_further_number() -> None:
    naming = facts_of(
        (C, operation(1, 0)), (B, operation(0, 3)), (A, operation(1, 1)), (A, operation(0, 2))
    ).naming()
    assert (naming.world, naming.world_size) == (0, 4)
    assert naming.ranks == {A: (2,), B: (3,), C: (4,)}


def test_further_numbers_are_in_the_order_of_processes() -> None:
    naming = facts_of((C, operation(1, 0)), (B, operation(1, 1)), (A, operation(0, 2))).naming()
    assert naming.ranks == {A: (2,), B: (4,), C: (5,)}


def test_a_communicator_that_no_operation_used_is_not_the_largest() -> None:
    assert facts_of((A, operation(1, 1))).naming().world == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_communicators_as_large_as_each_other_the_choice_does_not_depend_on_the_order(
    order: tuple[int, int],
) -> None:
    both = Communicator("0xab", "", 4), Communicator("0xcd", "", 4)
    naming = facts_of(
        *((A, operation(at)) for at in (0, 1)), communicators=(both[order[0]], both[order[1]])
    ).naming()
    assert naming.communicators[naming.world] == both[0]


def test_two_processes_cannot_be_one_rank() -> None:
    facts = facts_of((A, operation(rank=1)), (A, operation(rank=2)), (B, operation(rank=2)))
    with pytest.raises(NotImportableError, match="two processes are rank 2 of the largest communicator"):
        facts.naming()


def test_groups_have_several_kinds_if_they_have_several_collectives_and_messages_are_none() -> None:
    naming = facts_of(
        (A, operation(0)), (A, operation(0, function="AllGather")),
        (A, operation(1)), (A, operation(1, function="Send", peer=1)),
    ).naming()  # fmt: skip
    assert naming.has_several_kinds == {0}


@pytest.mark.parametrize(
    ("function", "has_roots"), [("Broadcast", True), ("Reduce", True), ("AllReduce", False)]
)
def test_what_has_a_root_does_not_tell_it(function: str, has_roots: bool) -> None:
    naming = facts_of((A, operation(function=function))).naming()
    assert naming.has_roots == has_roots
    assert naming.not_told == {"own work", "end", *(["peers"] if has_roots else [])}


def test_without_the_instants_of_all_operations_clocks_are_not_told_either() -> None:
    naming = facts_of((A, operation()), (A, operation(start_us=-1)), (A, operation())).naming()
    assert not naming.has_instants
    assert naming.not_told == {"own work", "end", "instants", "clocks"}
    assert naming.origin_ns == 0


def test_the_axis_begins_in_a_whole_second_long_before_the_first_operation() -> None:
    at_s = (1_900_000_003, 1_900_000_001, 1_900_000_002)
    noted = [(A, operation(start_us=at * 10**6 + 999_999)) for at in at_s]
    assert facts_of(*noted).naming().origin_ns == (1_900_000_001 - BEFORE_S) * 10**9
    assert facts_of((A, operation(start_us=1))).naming().origin_ns == 0


def test_it_is_told_how_often_something_was_learnt_that_may_change_names() -> None:
    facts = facts_of()
    changes = []
    for process, one in [
        (A, operation()), (A, operation(number=1)), (A, operation(function="AllGather")),
        (A, operation(rank=1)), (A, operation(function="Send", peer=1)),
        (A, operation(1, function="Send", peer=1)),
        (B, operation(rank=2)), (B, operation(rank=2, start_us=-1)), (B, operation(rank=2, start_us=-1)),
    ]:  # fmt: skip
        facts.note(process, one)
        changes.append(facts.changes)
    assert changes == [1, 1, 2, 3, 3, 4, 5, 6, 6]


def test_the_rank_of_an_operation_is_that_of_its_process_or_what_it_says_in_the_world() -> None:
    assert PLAIN.rank_of(A, operation(1, 3)) == 0
    assert PLAIN.rank_of(B, operation(0, 2)) == 2
    assert PLAIN.rank_of(B, operation(1, 0)) is None


@pytest.mark.parametrize(
    ("later", "holds"),
    [
        ({}, True), ({"world": 1}, False), ({"has_instants": False}, False), ({"has_roots": True}, True),
        ({"ranks": {A: (0,), B: (1, 2), C: (3,)}}, True), ({"ranks": {A: (3,), B: (1, 2)}}, False),
        ({"has_several_kinds": frozenset()}, False), ({"has_several_kinds": frozenset({0, 1})}, False),
        ({"has_several_kinds": frozenset({1, 2})}, True),
    ],
)  # fmt: skip
def test_names_hold_as_long_as_nothing_that_has_one_is_called_otherwise(
    later: dict[str, Any], holds: bool
) -> None:
    assert PLAIN.holds_for(PLAIN._replace(**later)) == holds
