"""What one sink takes, keeps, refuses and loses, and how it is counted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from misbehaving_sinks import FullDiskSink, PoisonedSink

from timing_logger.recording.clock import WallClock
from timing_logger.recording.cores.channel import Channel
from timing_logger.recording.delivery import Delivery, Destination
from timing_logger.schema.record import RawRecord, Record
from timing_logger.sinks import PartlyWritten
from timing_logger.sinks.memory import MemorySink


def records(*layers: str) -> list[RawRecord]:
    """Records of these layers, of which :class:`PoisonedSink` refuses ``poison``."""
    return [tuple(Record(0, 0, layer, "A", "", None, 0, 1, "host", "", None, None, None, "main", "ok"))
            for layer in layers]  # fmt: skip


def layers(sink: MemorySink) -> list[str]:
    return [record.layer_name for record in sink.records]


@pytest.fixture
def told() -> list[str]:
    return []


def destination(sink: MemorySink, told: list[str], most: int | None = None) -> Destination:
    return Destination(sink, "Mine", WallClock(), told.append, most)


def counts(one: Destination) -> tuple[int, int, int]:
    return one.written, one.failed, one.pending


def test_a_record_that_can_never_be_taken_is_counted_and_the_others_are_taken(told: list[str]) -> None:
    sink = PoisonedSink()
    one = destination(sink, told)
    one.queue(records("a", "poison", "b"))
    one.queue(records("poison"))
    one.offer()
    assert layers(sink) == ["a", "b"]
    assert counts(one) == (2, 2, 0)
    assert told == ["a record could not be written, and Mine lacks it: ValueError('poison')"] * 2


def test_a_batch_that_failed_waits_until_it_is_to_be_offered_again(told: list[str]) -> None:
    sink = FullDiskSink()
    one = destination(sink, told)
    one.queue(records("a"))
    one.offer()
    assert counts(one) == (0, 0, 1)
    sink.full = False
    one.queue(records("b"))
    one.offer()
    assert counts(one) == (0, 0, 2)
    one.offer(again=True)
    assert (layers(sink), counts(one)) == (["a", "b"], (2, 0, 0))
    assert len(told) == 1


class HalfSink(MemorySink):
    """Takes one record of a batch, then nothing for now; each time it is asked."""

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        super().write(batch[:1], wall_offset_ns)
        if len(batch) > 1:
            raise PartlyWritten(1, OSError(28, "full"))


def test_of_a_batch_that_was_written_in_part_only_the_rest_is_offered_again(told: list[str]) -> None:
    sink = HalfSink()
    one = destination(sink, told)
    one.queue(records("a", "b", "c"))
    one.offer()
    assert counts(one) == (1, 0, 2)
    one.offer(again=True)
    one.offer(again=True)
    assert (layers(sink), counts(one)) == (["a", "b", "c"], (3, 0, 0))


class FullAtBSink(PoisonedSink):
    """Refuses ``poison`` for ever, and ``b`` for now."""

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        super().write([], wall_offset_ns)
        if batch[0][2] == "b":
            raise OSError(28, "full")
        super().write(batch, wall_offset_ns)


def test_what_follows_a_record_that_must_wait_waits_with_it(told: list[str]) -> None:
    sink = FullAtBSink()
    one = destination(sink, told)
    one.queue(records("a", "b", "poison", "c"))
    one.offer()
    assert (layers(sink), counts(one)) == (["a"], (1, 0, 3))


def test_where_there_is_no_room_the_newest_count_as_failed(told: list[str]) -> None:
    sink = FullDiskSink()
    one = destination(sink, told, most=3)
    one.queue(records("a", "b"))
    one.queue(records("c", "d", "e"))
    one.queue(records("f"))
    assert counts(one) == (0, 3, 3)
    sink.full = False
    one.offer()
    assert layers(sink) == ["a", "b", "c"]
    assert told == ["Mine takes too few records, and lacks those for which there is no room"] * 2


def test_a_batch_for_which_nothing_waits_is_taken_however_long_it_is(told: list[str]) -> None:
    one = destination(MemorySink(), told, most=1)
    one.queue(records("a", "b", "c"))
    assert counts(one) == (0, 0, 3)


def test_what_is_given_up_counts_as_failed_once_and_is_told(told: list[str]) -> None:
    one = destination(FullDiskSink(), told)
    one.queue(records("a", "b"))
    assert [one.give_up(), one.give_up()] == [2, 0]
    assert counts(one) == (0, 2, 0)
    assert told == ["Mine closed without 2 records: they could not be written, and are lost"]


class Unsafe(FullDiskSink):
    """Cannot make safe what it took, as long as it is ``full``."""

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        self.extend(batch)

    def extend(self, batch: Sequence[RawRecord]) -> None:
        MemorySink.write(self, batch, 0)

    def sync(self) -> None:
        super().sync()
        if self.full:
            raise OSError(5, "Input/output error")


def test_it_is_synced_until_that_succeeds_and_not_again_before_new_records(told: list[str]) -> None:
    sink = Unsafe()
    one = destination(sink, told)
    assert one.sync()
    one.queue(records("a"))
    one.offer()
    assert not one.sync()
    sink.full = False
    assert [one.sync(), one.sync()] == [True, True]
    assert sink.syncs == 2
    assert told == ["sync of Mine failed: OSError(5, 'Input/output error')"]


class LossySink(MemorySink):
    """Finds that a record was removed."""

    lost = 1
    progress = 7

    def look_after(self) -> list[str]:
        return ["it was cut", "by somebody"]


def test_what_was_removed_counts_as_dropped_and_not_as_written(told: list[str]) -> None:
    one = destination(LossySink(), told)
    one.queue(records("a", "b"))
    one.offer()
    one.look_after()
    assert one.counters() == ("Mine", 1, 1, 0)
    assert one.progress == (2, 0, 7)
    assert told == ["it was cut", "by somebody"]


# -- several sinks ---------------------------------------------------------------------------------------


def test_one_that_takes_nothing_keeps_nothing_from_the_others(told: list[str]) -> None:
    full, other = FullDiskSink(), MemorySink()
    delivery = Delivery([full, other, MemorySink()], WallClock(), told.append, 2)
    delivery.hand_over([])
    delivery.hand_over(records("a", "b"))
    delivery.hand_over(records("c"))
    assert layers(other) == ["a", "b", "c"]
    assert [one[0] for one in delivery.counters_of_others()] == ["MemorySink", "MemorySink 2"]
    assert (delivery.is_done, len(delivery.in_hand)) == (False, 2)
    full.full = False
    delivery.offer_again()
    assert (delivery.is_done, len(delivery.in_hand)) == (True, 0)
    assert layers(full) == ["a", "b", "c"]
    assert delivery.progress == (3, 0, 0, 3, 0, 0, 3, 0, 0)


def test_all_are_synced_even_if_one_fails(told: list[str]) -> None:
    unsafe, other = Unsafe(), FullDiskSink()
    other.full = False
    delivery = Delivery([unsafe, other], WallClock(), told.append, 2)
    delivery.hand_over(records("a"))
    assert not delivery.sync()
    assert other.syncs == 1


def test_what_the_first_sink_loses_by_giving_up_is_told(told: list[str]) -> None:
    delivery = Delivery([FullDiskSink(), FullDiskSink()], WallClock(), told.append, 3)
    delivery.hand_over(records("a", "b"))
    assert delivery.give_up() == 2
    assert delivery.is_done


def test_a_forked_child_has_nothing_that_waits(told: list[str]) -> None:
    delivery = Delivery([FullDiskSink(), FullDiskSink()], WallClock(), told.append, 3)
    delivery.hand_over(records("a", "b"))
    parents = delivery.first.waiting
    delivery.abandon()
    assert (delivery.is_done, len(parents)) == (True, 1)


def test_rows_that_all_sinks_lost_are_added(told: list[str]) -> None:
    delivery = Delivery([LossySink(), LossySink()], WallClock(), told.append, 3)
    delivery.look_after()
    assert delivery.lost_by_all == 2


class FailsToClose(MemorySink):
    def close(self) -> None:
        raise SystemExit("mine")


def test_an_error_at_the_end_is_told_and_keeps_no_other_from_closing(told: list[str]) -> None:
    Delivery([FailsToClose(), FailsToClose()], WallClock(), told.append, 3).close()
    assert told == [
        "close of FailsToClose failed: SystemExit('mine')",
        "close of FailsToClose 2 failed: SystemExit('mine')",
    ]


def test_only_into_a_file_are_records_written_without_the_interpreter(told: list[str]) -> None:
    delivery = Delivery([MemorySink()], WallClock(), told.append, 3)
    channel = Channel(8)
    channel.put(records("a")[0])
    assert delivery.catch_up(channel) == (0, 0.0)
    assert len(channel) == 1


def test_after_a_first_batch_that_is_larger_than_the_room_none_of_the_next_is_kept(told: list[str]) -> None:
    sink = FullDiskSink()
    one = destination(sink, told, most=2)
    one.queue(records("a", "b", "c"))
    one.offer()
    one.queue(records("d", "e"))
    assert counts(one) == (0, 2, 3)
    sink.full = False
    one.offer(again=True)
    assert layers(sink) == ["a", "b", "c"]
