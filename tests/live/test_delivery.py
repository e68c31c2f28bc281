"""Events reach whoever is to be told in their order, and whoever hands them over waits for nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from http_receivers import LIMIT_S, closed_port, holds, in_turn, receiving, status

from timing_logger.live.delivery import (
    LONGEST_PAUSE_S,
    MOST_WAITING,
    Callback,
    EventDelivery,
    NotDelivered,
    Receiver,
    pause_s,
)
from timing_logger.live.events import Event
from timing_logger.live.webhook import Webhook

NO_PAUSE_S = 0.001


@contextmanager
def delivering(*receivers: Receiver) -> Iterator[tuple[EventDelivery, list[str]]]:
    """Yield a delivery without long pauses, and what it says."""
    said: list[str] = []
    delivery = EventDelivery(receivers, said.append, first_pause_s=NO_PAUSE_S)
    try:
        yield delivery, said
    finally:
        delivery.close(LIMIT_S)


def event(number: int) -> Event:
    return {"id": str(number)}


def ids(events: list[Event]) -> list[int]:
    return [int(one["id"]) for one in events]


class Refusing:
    """A receiver that takes nothing, until it is told to."""

    name, retries = "the one who refuses", 3

    def __init__(self, may_later: bool = True) -> None:
        self.may_later = may_later
        self.offered: list[Event] = []
        self.asked = threading.Semaphore(0)

    def receive(self, event: Event) -> None:
        self.offered.append(event)
        self.asked.release()
        raise NotDelivered("no", may_later=self.may_later)


def test_all_receivers_get_all_events_in_their_order() -> None:
    one: list[Event] = []
    two: list[Event] = []
    with delivering(Callback(one.append), Callback(two.append)) as (delivery, said):
        for number in range(50):
            delivery.deliver(event(number))
        assert delivery.close(LIMIT_S) == 0
    assert ids(one) == ids(two) == list(range(50))
    assert said == []


def test_a_thousand_events_are_handed_over_while_the_server_holds_the_first() -> None:
    with receiving(holds) as server, delivering(Webhook(server.url, timeout_s=LIMIT_S)) as (delivery, said):
        delivery.deliver(event(0))
        server.wait_for(1)
        for number in range(1, 1000):
            delivery.deliver(event(number))
        assert not server.release.is_set()
        assert delivery.waiting == MOST_WAITING + 1
        server.release.set()
        assert delivery.close(LIMIT_S) == 1000 - 1 - MOST_WAITING
    assert ids(server.bodies) == [0, *range(1000 - MOST_WAITING, 1000)]
    assert len(said) == 1


def test_of_a_thousand_events_for_a_dead_server_a_bounded_number_waits_and_all_are_counted() -> None:
    webhook = Webhook(f"http://127.0.0.1:{closed_port()}/a", retries=100)
    with delivering(webhook) as (delivery, said):
        for number in range(1000):
            delivery.deliver(event(number))
            assert delivery.waiting <= MOST_WAITING + 1
        assert delivery.close(LIMIT_S) == 1000
    assert said[-1] == f"1000 events were not delivered to {webhook.name}."


def test_one_that_answers_badly_at_first_gets_every_event_once_in_order() -> None:
    answers = in_turn(status(500), status(503, Retry_After="0"), status(200))
    with receiving(answers) as server, delivering(Webhook(server.url)) as (delivery, said):
        for number in range(3):
            delivery.deliver(event(number))
        server.wait_for(5)
        assert delivery.close(LIMIT_S) == 0
    assert ids(server.bodies) == [0, 0, 0, 1, 2]
    assert said == []


def test_an_event_is_offered_as_often_as_the_receiver_allows_and_the_first_failure_is_said_once() -> None:
    receiver = Refusing()
    with delivering(receiver) as (delivery, said):
        for number in range(2):
            delivery.deliver(event(number))
        for _ in range(2 * (1 + receiver.retries)):
            assert receiver.asked.acquire(timeout=LIMIT_S)
        assert delivery.close(LIMIT_S) == 2
    assert ids(receiver.offered) == [0] * 4 + [1] * 4
    assert said == [
        "the one who refuses does not take what it is told: no.",
        "2 events were not delivered to the one who refuses.",
    ]


def test_what_will_never_be_taken_is_offered_once() -> None:
    receiver = Refusing(may_later=False)
    with delivering(receiver) as (delivery, _):
        for number in range(2):
            delivery.deliver(event(number))
            assert receiver.asked.acquire(timeout=LIMIT_S)
        delivery.close(LIMIT_S)
    assert ids(receiver.offered) == [0, 1]


def test_pauses_double_up_to_the_longest_and_vary_by_chance() -> None:
    for retries in range(20):
        longest_s = min(2.0**retries, LONGEST_PAUSE_S)
        pauses_s = {pause_s(retries, 1.0, asked_s=0.0) for _ in range(50)}
        assert all(min(longest_s / 2, LONGEST_PAUSE_S) <= one <= longest_s for one in pauses_s)
        assert len(pauses_s) > 1 or retries > 6


def test_a_receiver_that_asks_for_a_longer_pause_gets_it_up_to_the_longest() -> None:
    assert (pause_s(0, 1.0, 7.0), pause_s(0, 1.0, 1e9), pause_s(10**9, 1.0, 0.0)) == (7.0, 60.0, 60.0)


def test_the_end_of_the_run_does_not_wait_for_a_pause() -> None:
    receiver = Refusing()
    said: list[str] = []
    delivery = EventDelivery([receiver], said.append, first_pause_s=3600.0)
    delivery.deliver(event(0))
    assert receiver.asked.acquire(timeout=LIMIT_S)
    assert delivery.close(LIMIT_S) == 1
    assert len(receiver.offered) == 2  # once more at the end


def test_one_that_never_answers_does_not_hold_up_the_end() -> None:
    with receiving(holds) as server:
        said: list[str] = []
        delivery = EventDelivery([Webhook(server.url, timeout_s=LIMIT_S)], said.append)
        delivery.deliver(event(0))
        server.wait_for(1)
        assert delivery.close(within_s=0.0) == 1
        assert not server.release.is_set()
    assert said == [f"1 event was not delivered to the webhook at {server.url}."]


def test_a_broken_receiver_costs_no_other_an_event() -> None:
    def fails(_: Event) -> None:
        raise ZeroDivisionError("by design")

    got: list[Event] = []
    with delivering(Callback(fails), Callback(got.append)) as (delivery, said):
        for number in range(3):
            delivery.deliver(event(number))
        assert delivery.close(LIMIT_S) == 3
    assert ids(got) == [0, 1, 2]
    assert "fails does not take what it is told: ZeroDivisionError: by design." in said[0]
    assert len(said) == 2


def test_what_a_function_does_to_an_event_no_other_sees() -> None:
    got: list[Event] = []
    with delivering(Callback(lambda event: event.clear()), Callback(got.append)) as (delivery, _):
        given = event(0)
        delivery.deliver(given)
        delivery.close(LIMIT_S)
    assert got == [event(0)] == [given]


def test_what_comes_after_the_end_is_counted_and_the_end_is_said_once() -> None:
    with delivering(Callback(print)) as (delivery, said):
        delivery.close(LIMIT_S)
        delivery.deliver(event(0))
        assert delivery.undelivered == delivery.close(LIMIT_S) == 1
    assert said == []


def test_that_nobody_can_be_told_of_a_failure_ends_no_delivery() -> None:
    def fails(_: str) -> None:
        raise OSError("stderr is closed")

    receiver = Refusing(may_later=False)
    delivery = EventDelivery([receiver], fails)
    for number in range(2):
        delivery.deliver(event(number))
    assert delivery.close(LIMIT_S) == 2
    assert ids(receiver.offered) == [0, 1]


def test_what_was_given_up_at_the_end_is_counted_and_said_once_though_a_receiver_comes_back_later() -> None:
    may_go_on, asked = threading.Event(), threading.Semaphore(0)
    offered: list[Event] = []

    def holds_up(event: Event) -> None:
        offered.append(event)
        asked.release()
        may_go_on.wait(LIMIT_S)
        raise ValueError("too late")

    said: list[str] = []
    delivery = EventDelivery([Callback(holds_up)], said.append)
    for number in range(2):
        delivery.deliver(event(number))
    assert asked.acquire(timeout=LIMIT_S)
    assert [delivery.close(within_s=0.0) for _ in range(2)] == [2, 2]
    assert delivery.waiting == 0
    may_go_on.set()
    delivery._couriers[0]._thread.join(LIMIT_S)
    assert (ids(offered), delivery.undelivered, len(said)) == ([0], 2, 1)
