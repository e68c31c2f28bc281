"""Operations of a group are counted from 0, messages for each pair and direction."""

from __future__ import annotations

from allreduce_instrumentation._operation_counts import OperationCounts


def test_a_group_has_its_name_size_and_rank() -> None:
    counts = OperationCounts("a group", 4, 1)
    assert (counts.name, counts.size, counts.rank) == ("a group", 4, 1)


def test_collectives_have_one_sequence_beside_those_of_messages() -> None:
    counts = OperationCounts("a group", 4, 1)
    counts.next_sent(0)
    assert [counts.next_collective(), counts.next_collective()] == [0, 1]


def test_messages_are_counted_for_each_peer_and_direction() -> None:
    counts = OperationCounts("a group", 4, 1)
    assert [counts.next_sent(0), counts.next_sent(0), counts.next_sent(2)] == [0, 1, 0]
    assert [counts.next_received(0), counts.next_received(0), counts.next_received(2)] == [0, 1, 0]
    assert (next(counts.sent[0]), next(counts.received[2])) == (2, 1)
