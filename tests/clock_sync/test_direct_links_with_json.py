"""Values travel over a link as their length and their text, and a channel is a link to one peer."""

from __future__ import annotations

from typing import Any

import pytest

from allreduce_instrumentation.clock_sync._direct import LinkChannel, receive_json, send_json


class Loop:
    """A link whose messages come back to the one who sent them, by peer."""

    def __init__(self) -> None:
        self.messages: dict[int, list[bytes]] = {}

    def send(self, content: bytearray, peer: int) -> None:
        self.messages.setdefault(peer, []).append(bytes(content))

    def receive(self, content: bytearray, peer: int) -> None:
        message = self.messages[peer].pop(0)
        assert len(message) == len(content)
        content[:] = message


@pytest.fixture
def link() -> Any:
    return Loop()


@pytest.mark.parametrize("value", [None, 3, "ä", {"offset_ns": -5, "list": [1.5, True]}, "x" * 300])
def test_a_value_arrives_as_it_was_sent(value: object, link: Any) -> None:
    send_json(link, 2, value)
    assert receive_json(link, 2) == value
    assert link.messages == {2: []}


def test_the_length_travels_first_in_eight_bytes(link: Any) -> None:
    send_json(link, 1, 300)
    assert link.messages[1] == [b"\x03" + b"\0" * 7, b"300"]


def test_a_channel_sends_to_its_peer_and_receives_from_it(link: Any) -> None:
    channel = LinkChannel(link, 3)
    channel.send(bytearray(b"p"))
    assert link.messages == {3: [b"p"]}
    content = bytearray(1)
    channel.receive(content)
    assert content == b"p"
