"""Ping-pongs over a process group of ``torch.distributed``."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist

from allreduce_instrumentation.clock_sync._direct import Connection, PeerListener, connect, own_addresses
from timing_logger.errors import ConfigurationError


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


_TAG = 0x436C6F63
"""The tag of all messages: receives of torch name a tag, even those from any rank, so none are mixed up."""


class GroupLink:
    """A :class:`~._links.MessageLink` over the host backend of a process group, below all that is timed.

    Raises:
        RuntimeError: the group has no backend for the host.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._backend: Any = group._get_backend(torch.device("cpu"))
        self.rank: int = group.rank()
        self.size: int = group.size()
        self._timeout_s = _timeout_s(self._backend)
        self._listener: PeerListener | None = None

    def send(self, content: bytearray, peer: int) -> None:
        self._backend.send([_tensor(content)], peer, _TAG).wait()

    def receive(self, content: bytearray, peer: int) -> None:
        self._backend.recv([_tensor(content)], peer, _TAG).wait()

    def rest_until_message(self, peer: int) -> None:
        """Do nothing: receiving from a backend of the host leaves the processor to others anyway."""

    @contextmanager
    def channel_to(self, peer: int) -> Iterator[PeerConnection]:
        """Return a channel to the reference ``peer``: a TCP connection if possible, else group messages."""
        connected = connect(receive_json(self, peer))
        with connected or nullcontext():
            send_json(self, peer, connected is not None)
            accepted = receive_json(self, peer)
            yield self._channel(connected if accepted else None, peer)

    @contextmanager
    def channel_from(self, peer: int) -> Iterator[PeerConnection]:
        """Return the reference's end of the channel that ``peer`` opens by :meth:`channel_to`.

        After one peer could not connect, no other one is invited to try.
        """
        self._listener = self._listener or PeerListener(own_addresses())
        send_json(self, peer, self._listener.invitation)
        connected = self._listener.accept() if receive_json(self, peer) else None
        with connected or nullcontext():
            send_json(self, peer, connected is not None)
            yield self._channel(connected, peer)
        if connected is None:
            self._listener.close()

    def _channel(self, connected: socket.socket | None, peer: int) -> PeerConnection:
        return LinkChannel(self, peer) if connected is None else Connection(connected, self._timeout_s)

    def close(self) -> None:
        """Close the listener of the reference, if there is one."""
        if self._listener is not None:
            self._listener.close()


def _timeout_s(backend: Any) -> float:
    """Return how long the group waits for a message, in s; torch's default if the backend does not say."""
    try:
        timeout: timedelta = backend.options._timeout
    except (RuntimeError, AttributeError):
        timeout = dist.constants.default_pg_timeout
    return timeout.total_seconds()


def _tensor(content: bytearray) -> torch.Tensor:
    return torch.frombuffer(content, dtype=torch.uint8)


@contextmanager
def group_link(group: dist.ProcessGroup) -> Iterator[GroupLink]:
    """Return a context manager that gives a link over the group's backend for the host.

    Raises:
        ConfigurationError: the group has no backend for the host.
    """
    try:
        link = GroupLink(group)
    except RuntimeError as error:
        raise ConfigurationError(
            "comm is a process group without a backend for the host's tensors: pass one of the same ranks, "
            'made once by torch.distributed.new_group(ranks, backend="gloo").'
        ) from error
    with closing(link):
        yield link
