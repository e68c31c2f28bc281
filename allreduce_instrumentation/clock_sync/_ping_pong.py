"""Ping-pongs of every rank with the reference, one rank after the other.

The reference calls each rank when its turn comes, and all of them when the last one is done; until then
they sleep. Ranks that share processors would otherwise disturb each other's ping-pongs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from allreduce_instrumentation.clock_sync._estimate import Exchange
from allreduce_instrumentation.clock_sync._links import Link, receive_json, send_json

Identity: TypeAlias = tuple[int, str, str]
"""Whose clock the reference's is: its rank in its timing files, its host, and its boot id."""


def ask(
    link: Link, reference: int, exchanges: int, clock: Callable[[], int]
) -> tuple[list[Exchange], Identity]:
    """Exchange ping-pongs with the reference; called on every rank but the reference.

    Both sides do the same around each message, so that their own time causes no asymmetry. The reference's
    timestamps come in one message at the end.

    Args:
        link: messages between the ranks.
        reference: the reference's rank in ``link``.
        exchanges: the number of ping-pongs.
        clock: returns the current time in ns.

    Returns:
        The timestamps of each ping-pong, and the reference's ``identity`` as :func:`answer` was given it.
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


def answer(link: Link, exchanges: int, clock: Callable[[], int], identity: Identity) -> None:
    """Answer the pings of all other ranks, one rank after the other; called on the reference.

    Args:
        link: messages between the ranks.
        exchanges: the number of ping-pongs with each rank.
        clock: returns the current time in ns.
        identity: what every other rank is told of the reference, a value for JSON.
    """
    peers = [rank for rank in range(link.size) if rank != link.rank]
    for peer in peers:
        _call(link, peer)
        _answer_one(link, peer, exchanges, clock, identity)
    for peer in peers:
        _call(link, peer)


def _answer_one(link: Link, peer: int, exchanges: int, clock: Callable[[], int], identity: Identity) -> None:
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
