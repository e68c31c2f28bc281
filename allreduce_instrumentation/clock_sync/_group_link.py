"""Ping-pongs over a process group of ``torch.distributed``."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from allreduce_instrumentation.clock_sync._direct import (
    Connection,
    LinkChannel,
    PeerConnection,
    PeerListener,
    connect,
    own_addresses,
    receive_json,
    send_json,
)
from timing_logger.errors import ConfigurationError

_TAG = 0x436C6F63
"""The tag of all messages: receives of torch name a tag, even those from any rank, so none are mixed up."""


class GroupLink:
    """A :class:`~._direct.MessageLink` over the host backend of a process group, below all that is timed.

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
