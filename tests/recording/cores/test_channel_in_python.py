"""The queue of the Python core: how much it holds, what it counts, and what its end does to it."""

from __future__ import annotations

import threading

import pytest

from timing_logger.recording.cores.channel import CHUNK, AtomicCounter, Channel
from timing_logger.schema.record import RawRecord


def filled(capacity: int, n: int) -> Channel:
    """A channel into which ``n`` records were put, which are numbered."""
    channel = Channel(capacity)
    for number in range(n):
        channel.put(record(number))
    return channel


def record(number: int) -> RawRecord:
    return (number,)  # type: ignore[return-value]


def test_it_holds_as_many_as_it_may_and_discards_the_newest() -> None:
    channel = filled(3, 5)
    assert channel.take(9) == [(0,), (1,), (2,)]
    assert channel.counts() == (5, 2, 0, 0)


def test_what_is_taken_is_the_oldest_and_makes_room() -> None:
    channel = filled(3, 3)
    assert channel.oldest == (0,)
    assert channel.take(2) == [(0,), (1,)]
    assert (len(channel), channel.oldest) == (1, (2,))
    channel.put(record(7))
    assert channel.counts() == (4, 0, 2, 0)
    assert channel.take(0) == []
    assert channel.take(2) == [(2,), (7,)]
    assert (channel.take(1), channel.oldest) == ([], None)
    assert channel.counts() == (4, 0, 0, 0)


@pytest.mark.parametrize(("limit", "taken"), [(5, 5), (CHUNK, CHUNK), (CHUNK + 1, CHUNK)])
def test_to_be_formatted_are_at_most_1024_at_a_time(limit: int, taken: int) -> None:
    channel = filled(CHUNK + 2, CHUNK + 2)
    assert len(channel.take_packed(limit)) == taken == len(range(min(limit, 1024)))
    assert len(channel) == CHUNK + 2 - taken


def test_a_closed_channel_takes_nothing_more_and_gives_what_waits() -> None:
    channel = filled(3, 2)
    channel.close()
    channel.put(record(9))
    assert channel.counts() == (3, 1, 2, 0)
    assert channel.take(9) == [(0,), (1,)]


def test_an_abandoned_one_has_nothing_to_give() -> None:
    channel = filled(3, 2)
    channel.abandon()
    channel.put(record(9))
    assert (len(channel), channel.take(9)) == (0, [])
    assert channel.counts().overflowed == 1


def test_a_handler_that_interrupts_who_takes_gets_counts_and_leaves_the_lock_alone() -> None:
    channel = filled(3, 2)
    with channel._take_lock:
        assert channel.counts() == (2, 0, 2, 0)
        assert channel._take_lock.locked()
    assert channel.counts() == (2, 0, 2, 0)
    assert not channel._take_lock.locked()


def test_without_a_file_and_code_in_c_there_is_nothing_to_say_or_to_see() -> None:
    channel = filled(3, 1)
    channel.note_standing([], [], 1, 2)
    channel.write_calls_in_c("inflight")
    channel.forget_calls_in_c()
    channel.remove_file()
    channel.release()
    assert channel.calls_in_c() == ()
    assert channel.take(9) == [(0,)]


def test_what_threads_count_adds_up_also_when_they_are_gone() -> None:
    counter = AtomicCounter()
    assert counter.value == 0
    counter.increment()
    threads = [threading.Thread(target=lambda: [counter.increment() for _ in range(3)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counter.increment()
    assert counter.value == 8
    assert len(counter._all) == 3
