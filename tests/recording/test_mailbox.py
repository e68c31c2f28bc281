"""What is put into a mailbox comes out once and in order, and nobody waits for longer than they ask."""

from __future__ import annotations

import threading

import pytest

from timing_logger.recording.mailbox import Mailbox


def test_all_that_was_put_is_taken_in_order_though_several_came_before_the_first_was_taken() -> None:
    mailbox: Mailbox[int] = Mailbox()
    for number in range(5):
        mailbox.put(number)
    assert [mailbox.take(0) for _ in range(5)] == list(range(5))


def test_an_empty_mailbox_times_out_each_time() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.put(1)
    assert mailbox.take(0) == 1
    for _ in range(2):
        with pytest.raises(TimeoutError):
            mailbox.take(0.01)


def test_who_waits_is_woken_for_each_of_many_from_several_threads() -> None:
    mailbox: Mailbox[int] = Mailbox()
    threads = [
        threading.Thread(target=lambda first=first: [mailbox.put(first + i) for i in range(500)])
        for first in (0, 1000, 2000)
    ]
    for thread in threads:
        thread.start()
    taken = [mailbox.take(30) for _ in range(1500)]
    for thread in threads:
        thread.join()
    assert sorted(taken) == [first + i for first in (0, 1000, 2000) for i in range(500)]
    assert [one for one in taken if one < 1000] == list(range(500))
