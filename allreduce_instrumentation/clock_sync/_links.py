"""Protocols of the messages that carry ping-pongs: they make no rows and meet no other messages."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any, Protocol


class PeerConnection(Protocol):
    """The protocol of a connection to one peer, for ping-pongs; each call is complete on return."""

    def send(self, content: bytearray) -> None:
        """Send the one byte of ``content``."""

    def receive(self, content: bytearray) -> None:
        """Overwrite the one byte of ``content``."""


class MessageLink(Protocol):
    """The protocol of messages of bytes between the ranks of a communicator; calls are complete on return.

    Attributes:
        rank, size: this rank in the communicator, and the number of its ranks.
    """

    rank: int
    size: int

    def send(self, content: bytearray, peer: int) -> None:
        """Send all of ``content``, which is not empty."""

    def receive(self, content: bytearray, peer: int) -> None:
        """Overwrite ``content`` with a message of the same length from ``peer``."""

    def rest_until_message(self, peer: int) -> None:
        """Wait until a message of ``peer`` can be received, and leave the processor to others meanwhile."""

    def channel_to(self, peer: int) -> AbstractContextManager[PeerConnection]:
        """Open the fastest channel to ``peer``, the reference, which calls :meth:`channel_from` meanwhile."""

    def channel_from(self, peer: int) -> AbstractContextManager[PeerConnection]:
        """Open the reference's end of the channel that ``peer`` opens by :meth:`channel_to`."""


class LinkChannel:
    """A channel to ``peer`` through the messages of ``link``."""

    def __init__(self, link: MessageLink, peer: int) -> None:
        self._link = link
        self._peer = peer

    def send(self, content: bytearray) -> None:
        self._link.send(content, self._peer)

    def receive(self, content: bytearray) -> None:
        self._link.receive(content, self._peer)


_LENGTH_BYTES = 8


def send_json(link: MessageLink, peer: int, value: object) -> None:
    """Send ``value`` as JSON to ``peer``, which calls :func:`receive_json`."""
    content = bytearray(json.dumps(value).encode())
    link.send(bytearray(len(content).to_bytes(_LENGTH_BYTES, "little")), peer)
    link.send(content, peer)


def receive_json(link: MessageLink, peer: int) -> Any:
    """Return the value that ``peer`` sends by :func:`send_json`."""
    length = bytearray(_LENGTH_BYTES)
    link.receive(length, peer)
    content = bytearray(int.from_bytes(length, "little"))
    link.receive(content, peer)
    return json.loads(content)
