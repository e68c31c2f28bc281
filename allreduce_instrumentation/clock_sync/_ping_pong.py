"""Ping-pongs of every rank with the reference, one rank after the other.

The reference calls a rank when its turn has come, and all of them when the last one is done; until then
they rest. Ranks that share processors would otherwise disturb each other's ping-pongs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allreduce_instrumentation.clock_sync._estimate import Exchange
from allreduce_instrumentation.clock_sync._links import Link, receive_json, send_json


def ask(link: Link, reference: int, exchanges: int, clock: Callable[[], int]) -> tuple[list[Exchange], Any]:
    """On every rank but the reference: the exchanges, and what the reference says of itself.

    Both sides do the same around each message, so that their own time is no asymmetry; the reference's
    stamps come in one message at the end.
    """
    ball = bytearray(1)
    _wait_for_call(link, reference)
    outer = []
    with link.channel_to(reference) as channel:
        for _ in range(exchanges):
            sent_ns = clock()
            channel.send(ball)
            channel.receive(ball)
            outer.append((sent_ns, clock()))
    inner, identity = receive_json(link, reference)
    _wait_for_call(link, reference)
    stamps = zip(outer, inner, strict=True)
    return [
        Exchange(sent, received, answered, back) for (sent, back), (received, answered) in stamps
    ], identity


def answer(link: Link, exchanges: int, clock: Callable[[], int], identity: Any) -> None:
    """On the reference: return every rank's pings in turn, then tell when, and who it is."""
    peers = [rank for rank in range(link.size) if rank != link.rank]
    for peer in peers:
        _call(link, peer)
        _answer_one(link, peer, exchanges, clock, identity)
    for peer in peers:
        _call(link, peer)


def _answer_one(link: Link, peer: int, exchanges: int, clock: Callable[[], int], identity: Any) -> None:
    ball = bytearray(1)
    inner = []
    with link.channel_from(peer) as channel:
        for _ in range(exchanges):
            channel.receive(ball)
            received_ns = clock()
            inner.append((received_ns, clock()))
            channel.send(ball)
    send_json(link, peer, (inner, identity))


def _call(link: Link, peer: int) -> None:
    link.send(bytearray(1), peer)


def _wait_for_call(link: Link, reference: int) -> None:
    link.rest_until_message(reference)
    link.receive(bytearray(1), reference)
