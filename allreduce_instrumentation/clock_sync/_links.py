"""What carries the ping-pongs: messages between two ranks that are no rows and meet no others."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Channel(Protocol):
    """What one ping-pong after the other goes through, to one peer; each call is complete on return."""

    def send(self, content: bytearray) -> None:
        """Send the one byte of ``content``."""

    def receive(self, content: bytearray) -> None:
        """Overwrite the one byte of ``content``."""


class Link(Protocol):
    """Messages of bytes; each call is complete on return.

    Attributes:
        rank, size: this rank in the communicator, and how many there are.
    """

    rank: int
    size: int

    def send(self, content: bytearray, peer: int) -> None:
        """Send all of ``content``, which is not empty."""

    def receive(self, content: bytearray, peer: int) -> None:
        """Overwrite ``content`` with a message of the same length."""

    def rest_until_message(self, peer: int) -> None:
        """Wait until a message of ``peer`` is there to be received, and leave the processor to others."""

    def channel_to(self, peer: int) -> AbstractContextManager[Channel]:
        """The quickest way to ``peer``, the reference; which calls :meth:`channel_from` meanwhile."""

    def channel_from(self, peer: int) -> AbstractContextManager[Channel]:
        """On the reference: the other end."""


class LinkChannel:
    """A channel through the link's own messages."""

    def __init__(self, link: Link, peer: int) -> None:
        self._link = link
        self._peer = peer

    def send(self, content: bytearray) -> None:
        self._link.send(content, self._peer)

    def receive(self, content: bytearray) -> None:
        self._link.receive(content, self._peer)


_LENGTH_BYTES = 8


def send_json(link: Link, peer: int, value: Any) -> None:
    content = bytearray(json.dumps(value).encode())
    link.send(bytearray(len(content).to_bytes(_LENGTH_BYTES, "little")), peer)
    link.send(content, peer)


def receive_json(link: Link, peer: int) -> Any:
    length = bytearray(_LENGTH_BYTES)
    link.receive(length, peer)
    content = bytearray(int.from_bytes(length, "little"))
    link.receive(content, peer)
    return json.loads(content)
